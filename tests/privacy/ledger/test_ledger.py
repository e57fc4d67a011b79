"""What is charged, saved and settled is recorded, and never adds up to more than the total."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dqam.errors import BudgetError, InputError
from dqam.privacy.ledger import Ledger
from dqam.values.guarantee import Unit
from tests.ledgers import TRIP, account, run_sql, spend


def test_everything_is_recorded(where: str, ledger: Ledger) -> None:
    ledger.register("porto", "2.5", "person")
    first = ledger.spend("porto", 0.5, Unit.person(10), "flux", "256 x 256")
    second = ledger.spend("porto", "1/3", Unit.person(3), "privtree", "8 x 8", total=2.5)
    ledger.delivered(second.id)
    ledger.set_total("porto", 3)
    assert (second.epsilon, second.total, second.left) == (Fraction(1, 3), Fraction(5, 2), Fraction(5, 3))
    (porto,) = Ledger.open(where).history()
    assert (porto.name, porto.unit_name) == ("porto", "person")
    assert (porto.total, porto.spent, porto.left) == (Fraction(3), Fraction(5, 6), Fraction(13, 6))
    assert [total.epsilon for total in porto.totals] == [Fraction(5, 2), 3]
    assert [p.id for p in porto.publications] == [first.id, second.id]
    assert [(p.unit, p.mechanism, p.grid) for p in porto.publications] == [
        (Unit.person(10), "flux", "256 x 256"),
        (Unit.person(3), "privtree", "8 x 8"),
    ]
    unsaved, saved = porto.publications
    assert unsaved.delivered is None
    times = [
        porto.registered,
        porto.totals[0].when,
        unsaved.when,
        saved.when,
        str(saved.delivered),
        porto.totals[1].when,
    ]
    assert times == sorted(times)
    assert all(time.endswith("+00:00") for time in times)
    assert run_sql(where, "SELECT epsilon FROM dqam_publications ORDER BY number") == [("1/2",), ("1/3",)]


def test_a_release_is_saved_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = spend(ledger, "porto", 1)
    ledger.delivered(spent.id)
    when = account(ledger, "porto").publications[0].delivered
    monkeypatch.setattr("dqam.privacy.ledger.rows.now", lambda: "later")
    ledger.delivered(spent.id)
    assert account(ledger, "porto").publications[0].delivered == when
    with pytest.raises(InputError, match="has no publication 'nothing'"):
        ledger.delivered("nothing")


def test_ten_tenths_are_one_and_the_eleventh_is_refused(ledger: Ledger) -> None:
    for _ in range(10):
        spend(ledger, "porto", 0.1, 1)
    with pytest.raises(BudgetError, match="epsilon 0.1 was requested and 0 of 1 is left"):
        spend(ledger, "porto", 0.1)
    with pytest.raises(BudgetError):
        spend(ledger, "porto", Fraction(1, 10**90))
    assert account(ledger, "porto").left == 0


def test_an_unknown_data_set_gets_this_epsilon_as_its_total(ledger: Ledger) -> None:
    assert spend(ledger, "porto", "1/3").left == 0
    assert spend(ledger, "lisbon", "1/3", 1).left == Fraction(2, 3)
    with pytest.raises(BudgetError):
        spend(ledger, "faro", 2, 1)
    assert [each.name for each in ledger.history()] == ["porto", "lisbon"]


def test_totals_never_go_below_what_is_spent(ledger: Ledger) -> None:
    spend(ledger, "porto", 0.5, 2)
    with pytest.raises(InputError, match="porto: epsilon 0.5 is spent .* cannot be 0.4; give at least 0.5"):
        ledger.set_total("porto", 0.4)
    for total in (1, 0.5, 0.6):
        ledger.set_total("porto", total)
    assert [each.epsilon for each in account(ledger, "porto").totals] == [2, 1, Fraction(1, 2), Fraction(3, 5)]
    with pytest.raises(BudgetError):
        spend(ledger, "porto", 0.11)
    spend(ledger, "porto", 0.1)


def test_what_is_new_is_told(ledger: Ledger) -> None:
    first = spend(ledger, "taxis", 1, 3)
    assert (first.new_ledger, first.new_data_set, first.others) == (True, True, ())
    second = spend(ledger, "Taxis", 1)
    assert (second.new_ledger, second.new_data_set, second.others) == (False, False, ())
    ledger.register("buses", 3, "trip")
    for new in (True, False):
        bus = spend(ledger, "buses", 1)
        assert (bus.new_ledger, bus.new_data_set, bus.others) == (False, new, ("taxis",))
    with pytest.raises(BudgetError):
        spend(ledger, "cars", 2, 1)
    assert spend(ledger, "cars", 1).others == ("taxis", "buses")


def test_what_ended_early_is_settled_once(where: str, ledger: Ledger) -> None:
    spent = spend(ledger, "taxis", 1, 2)
    ledger.settle(spent.id, Fraction(1, 20))
    for used in (Fraction(1, 20), Fraction(1, 30), Fraction(1)):
        with pytest.raises(InputError, match=f"{spent.id} was already settled, at 0.05"):
            ledger.settle(spent.id, used)
    with pytest.raises(InputError, match="ended early, so it has no release"):
        ledger.delivered(spent.id)
    (one,) = account(Ledger.open(where), "taxis").publications
    assert (one.epsilon, one.settled, one.cost, one.delivered) == (1, Fraction(1, 20), Fraction(1, 20), None)
    assert account(ledger, "taxis").left == Fraction(39, 20)
    with pytest.raises(BudgetError):
        spend(ledger, "taxis", 2)
    assert spend(ledger, "taxis", "1.95").left == 0


def test_what_cannot_be_settled(ledger: Ledger) -> None:
    spent, saved = spend(ledger, "taxis", 1, 2), spend(ledger, "taxis", 1)
    ledger.delivered(saved.id)
    for id, used, words in (
        (saved.id, "0.5", "was delivered, so all of its epsilon 1 is spent"),
        (spent.id, "1.5", "was charged epsilon 1 and cannot have used 1.5"),
        (spent.id, "0", "positive number"),
        (spent.id, "-1", "positive number"),
        ("nothing", "0.5", "has no publication 'nothing'"),
    ):
        with pytest.raises(InputError, match=words):
            ledger.settle(id, Fraction(used))
    assert account(ledger, "taxis").left == 0
    assert [one.settled for one in account(ledger, "taxis").publications] == [None, None]
    ledger.settle(spent.id, Fraction(1))  # all of it was used, and nothing was released
    assert account(ledger, "taxis").left == 0


AMOUNTS = st.sampled_from(["0.1", "0.25", "1/3", "0.7", "1", "2"])
NAMES = st.sampled_from(["a", "b"])
UNITS = st.sampled_from([TRIP, TRIP, Unit.person(2)])
STEPS = st.one_of(
    st.tuples(st.just("spend"), NAMES, AMOUNTS, UNITS, st.one_of(st.none(), st.none(), AMOUNTS)),
    st.tuples(st.just("register"), NAMES, AMOUNTS, UNITS, st.none()),
    st.tuples(st.just("set_total"), NAMES, AMOUNTS, UNITS, st.none()),
    st.tuples(st.just("settle"), NAMES, AMOUNTS, UNITS, st.none()),
)


class Model:
    """The rules of the ledger, in memory."""

    def __init__(self) -> None:
        self.units: dict[str, str] = {}
        self.totals: dict[str, list[Fraction]] = {}
        self.spent: dict[str, list[Fraction]] = {}
        self.settled: dict[str, set[int]] = {}  # which publications ended early

    def step(self, what: str, name: str, amount: Fraction, unit: str, total: Fraction | None) -> type | None:
        """The error that is due, if one is."""
        known = name in self.units
        if what == "settle":  # the last publication
            if not self.spent.get(name) or len(self.spent[name]) in self.settled[name] or amount > self.spent[name][-1]:
                return InputError
            self.spent[name][-1] = amount
            self.settled[name].add(len(self.spent[name]))
            return None
        if what == "set_total":
            if not known or amount < sum(self.spent[name]):
                return InputError
            self.totals[name].append(amount)
            return None
        if what == "register":
            if known:
                return InputError
        elif known:
            if unit != self.units[name] or total not in (None, self.totals[name][-1]):
                return InputError
            if sum(self.spent[name]) + amount > self.totals[name][-1]:
                return BudgetError
        elif amount > (total or amount):
            return BudgetError
        if not known:
            self.units[name], self.totals[name], self.spent[name] = unit, [total or amount], []
            self.settled[name] = set()
        if what == "spend":
            self.spent[name].append(amount)
        return None


@given(steps=st.lists(STEPS, min_size=4, max_size=15))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_ledger_does_as_its_model(ledger: Ledger, steps: list[tuple[str, str, str, Unit, str | None]]) -> None:
    model, prefix = Model(), f"{len(ledger.history())} "
    last: dict[str, str] = {}
    for what, name, amount, unit, total in steps:
        due = model.step(what, name, Fraction(amount), unit.name, None if total is None else Fraction(total))
        try:
            if what == "spend":
                last[name] = spend(ledger, prefix + name, amount, total, unit).id
            elif what == "settle":
                ledger.settle(last.get(name, "nothing"), Fraction(amount))
            elif what == "register":
                ledger.register(prefix + name, amount, unit.name)
            else:
                ledger.set_total(prefix + name, amount)
            got = None
        except InputError as error:
            got = type(error)
        assert got is due
    accounts = {each.name[len(prefix) :]: each for each in ledger.history() if each.name.startswith(prefix)}
    assert {name: each.unit_name for name, each in accounts.items()} == model.units
    assert {name: [t.epsilon for t in each.totals] for name, each in accounts.items()} == model.totals
    assert {name: [p.cost for p in each.publications] for name, each in accounts.items()} == model.spent
    assert all(each.left >= 0 for each in accounts.values())
