"""What is charged, saved and settled is recorded, and never adds up to more than the total."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dqam.errors import BudgetError, InputError
from dqam.privacy.ledger import Ledger
from dqam.values.conversion import epsilon_of, order_of, rho_of
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


DELTA = Fraction(1, 10**8)


def test_a_budget_with_a_delta_is_recorded(where: str, ledger: Ledger) -> None:
    ledger.register("porto", 3, "person", "1e-8")
    person, one, total = Unit.person(10), rho_of(Fraction(1), DELTA), rho_of(Fraction(3), DELTA)
    first = ledger.spend("porto", 1, person, "flux", "256 x 256", 3, delta=1e-8)
    assert (first.epsilon, first.delta, first.rho, first.total) == (1, DELTA, one, 3)
    pure = ledger.spend("porto", "1/100", person, "flux", "8 x 8")
    assert (pure.epsilon, pure.delta, pure.rho, pure.total) == (Fraction(1, 100), 0, None, 3)
    (porto,) = Ledger.open(where).history()
    assert (porto.delta, porto.total, porto.left) == (DELTA, 3, pure.left)
    assert porto.left_rho == total - one - Fraction(1, 20_000)
    assert porto.spent == epsilon_of(one + Fraction(1, 20_000), DELTA)
    assert [(p.rho, p.cost, p.exchanged) for p in porto.publications] == [
        (one, one, None),
        (None, Fraction(1, 100), None),
    ]
    assert run_sql(where, "SELECT delta FROM dqam_data_sets") == [("1/100000000",)]
    assert run_sql(where, "SELECT rho FROM dqam_publications ORDER BY number") == [(str(one),), (None,)]
    assert ledger.spend("porto", porto.left, person, "flux", "grid", delta=DELTA).left < Fraction(1, 100)


def test_seven_publications_of_1_fit_in_3(ledger: Ledger) -> None:
    for _ in range(7):
        spend(ledger, "porto", 1, 3, delta=1e-8)
    with pytest.raises(BudgetError, match="0.966596 of 3 is left"):
        spend(ledger, "porto", 1, delta=1e-8)
    porto = account(ledger, "porto")
    assert porto.left_rho == rho_of(Fraction(3), DELTA) - 7 * rho_of(Fraction(1), DELTA)
    spend(ledger, "porto", porto.left, delta=1e-8)
    with pytest.raises(BudgetError):
        spend(ledger, "porto", "0.01", delta=1e-8)
    with pytest.raises(BudgetError):
        spend(ledger, "porto", "0.001")


def test_an_unknown_data_set_gets_the_delta_of_its_first_publication(ledger: Ledger) -> None:
    assert spend(ledger, "porto", "1/3", delta=1e-8).left == 0
    assert 0.9 < spend(ledger, "lisbon", "1/3", 1, delta=1e-8).left < 1
    assert spend(ledger, "faro", "1/3", 1, delta=0).left == Fraction(2, 3)
    deltas = {each.name: (each.delta, each.total) for each in ledger.history()}
    assert deltas == {"porto": (DELTA, Fraction(1, 3)), "lisbon": (DELTA, 1), "faro": (0, 1)}


def test_totals_with_a_delta_cover_what_is_spent(ledger: Ledger) -> None:
    for _ in range(4):
        spend(ledger, "porto", 1, 3, delta=1e-8)
    with pytest.raises(InputError, match=r"epsilon 2.0\d* at delta 1e-8 is spent .* cannot be 2; give") as refused:
        ledger.set_total("porto", 2)
    least = Fraction(str(refused.value).rstrip(".").rpartition(" ")[2])
    with pytest.raises(InputError, match="cannot be taken back"):
        ledger.set_total("porto", least - Fraction(1, 10**5))
    ledger.set_total("porto", least)
    with pytest.raises(BudgetError):
        spend(ledger, "porto", "0.1", delta=1e-8)
    ledger.set_total("porto", 5)
    spend(ledger, "porto", 4, delta=1e-8)
    assert [each.epsilon for each in account(ledger, "porto").totals] == [3, least, 5]


def test_what_ended_early_is_settled_in_rho(where: str, ledger: Ledger) -> None:
    first = spend(ledger, "taxis", 1, 3, delta=1e-8)
    assert first.rho is not None
    with pytest.raises(InputError, match="was charged rho 0.0172053180382643 and cannot have used 0.5"):
        ledger.settle(first.id, Fraction(1, 2))
    ledger.settle(first.id, first.rho / 3)
    assert account(ledger, "taxis").left_rho == rho_of(Fraction(3), DELTA) - first.rho / 3
    second, pure = spend(ledger, "taxis", 1, delta=1e-8), spend(ledger, "taxis", "0.01")
    assert second.rho is not None
    long = second.rho / 7 + Fraction(1, 3**300)  # more digits than the ledger stores
    ledger.settle(second.id, long)
    ledger.settle(pure.id, Fraction(1, 3**300))
    publications = account(Ledger.open(where), "taxis").publications
    assert [one.rho for one in publications] == [first.rho, second.rho, None]
    assert publications[0].settled == first.rho / 3
    for one, used in zip(publications[1:], (long, Fraction(1, 3**300)), strict=True):
        assert one.settled is not None
        assert used < one.settled <= used + Fraction(1, 10**50)


def test_a_publication_is_exchanged_for_a_pure_one(where: str, ledger: Ledger) -> None:
    charge = spend(ledger, "taxis", 1, delta=1e-8)
    assert ledger.exchange(charge.id) is True
    assert ledger.exchange(charge.id) is False
    taxis = account(Ledger.open(where), "taxis")
    (one,) = taxis.publications
    assert (one.epsilon, one.rho, one.exchanged, one.cost) == (1, None, charge.rho, 1)
    assert (taxis.spent, taxis.left, taxis.left_rho) == (1, 0, 0)
    for delta in (None, 1e-8):
        with pytest.raises(BudgetError):
            spend(ledger, "taxis", "0.001", delta=delta)
    ledger.settle(charge.id, Fraction(1, 20))  # its currency is epsilon now
    assert account(ledger, "taxis").publications[0].cost == Fraction(1, 20)
    assert account(ledger, "taxis").left_rho == rho_of(Fraction(1), DELTA) - Fraction(1, 800)  # the square, halved


def test_what_was_used_is_settled_in_the_currency_of_the_charge(ledger: Ledger) -> None:
    """A curator that does not know of an exchange cannot settle its rho as an epsilon."""
    charge = spend(ledger, "taxis", 1, delta=1e-8)
    assert ledger.exchange(charge.id)
    with pytest.raises(InputError, match="was charged epsilon, not rho; all of the charge stays spent"):
        ledger.settle(charge.id, Fraction(1, 100), "rho")
    assert account(ledger, "taxis").spent == 1
    ledger.settle(charge.id, Fraction(1, 100), "epsilon")
    assert account(ledger, "taxis").publications[0].cost == Fraction(1, 100)


def test_what_cannot_be_exchanged(where: str, ledger: Ledger) -> None:
    part = spend(ledger, "part of the budget", 1, 3, delta=1e-8)
    delivered, settled = (spend(ledger, name, 1, delta=1e-8) for name in ("delivered", "settled"))
    pure, old = spend(ledger, "pure", 1, 1), spend(ledger, "pure beside", "0.1", 1)
    ledger.register("mixed", 1, "trip", 1e-8)
    mixed = spend(ledger, "mixed", "0.5")
    ledger.delivered(delivered.id)
    assert settled.rho is not None
    ledger.settle(settled.id, settled.rho)  # all of it was used
    before = run_sql(where, "SELECT * FROM dqam_publications ORDER BY number")
    for charge in (part, delivered, settled, pure, old, mixed):
        assert ledger.exchange(charge.id) is False
    assert run_sql(where, "SELECT * FROM dqam_publications ORDER BY number") == before
    with pytest.raises(InputError, match="has no publication 'nothing'"):
        ledger.exchange("nothing")


def test_an_exchange_never_leaves_less(ledger: Ledger) -> None:
    possible = 0
    for i, (delta, total, epsilon) in enumerate(
        (delta, total, epsilon)
        for delta in ("0.01", "1e-8")
        for total in ("0.02", "1")
        for epsilon in ("0.01", "0.02", "1")
        if Fraction(epsilon) <= Fraction(total)
    ):
        name = f"{i} taxis"
        charge, before = spend(ledger, name, epsilon, total, delta=delta), account(ledger, name)
        exchanged = ledger.exchange(charge.id)
        after = account(ledger, name)
        limit, squared = rho_of(Fraction(total), Fraction(delta)), Fraction(epsilon) ** 2 / 2
        rest = Fraction(total) - Fraction(epsilon)
        as_pure = max(limit - squared, rho_of(rest, Fraction(delta)))
        assert exchanged == (before.left_rho is not None and as_pure >= before.left_rho)
        assert after.left_rho == (as_pure if exchanged else before.left_rho)
        possible += exchanged
    assert 3 <= possible <= 8


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


WITH_DELTA = st.lists(
    st.tuples(
        st.sampled_from(["spend", "spend", "pure", "exchange", "settle", "set_total"]),
        st.sampled_from(["0.05", "0.1", "1", "3"]),
    ),
    min_size=4,
    max_size=10,
)


@given(steps=WITH_DELTA)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_ledger_with_a_delta_does_as_its_model(ledger: Ledger, steps: list[tuple[str, str]]) -> None:
    """The state is always covered by its total, and a step is refused exactly if it would not be."""
    name = f"city {len(ledger.history())}"
    ledger.register(name, 3, "trip", DELTA)
    total, kinds, amounts, ids, settled = Fraction(3), list[str](), list[Fraction](), list[str](), list[bool]()

    def left(total: Fraction, kinds: list[str], amounts: list[Fraction]) -> Fraction:
        pairs = list(zip(kinds, amounts, strict=True))
        rho = sum((amount for kind, amount in pairs if kind == "rho"), Fraction(0))
        pure = [amount for kind, amount in pairs if kind == "pure"]
        order = order_of(total, DELTA)
        left = rho_of(total, DELTA) - rho - sum((min(each**2 / 2, each / order) for each in pure), Fraction(0))
        return max(left, Fraction(0)) if len(pure) == len(kinds) and sum(pure) <= total else left

    for what, text in steps:
        amount = Fraction(text)
        if what in ("spend", "pure"):
            kind, cost = ("rho", rho_of(amount, DELTA)) if what == "spend" else ("pure", amount)
            if left(total, [*kinds, kind], [*amounts, cost]) < 0:
                with pytest.raises(BudgetError):
                    spend(ledger, name, text, delta=DELTA if what == "spend" else None)
            else:
                ids.append(spend(ledger, name, text, delta=DELTA if what == "spend" else None).id)
                kinds, amounts, settled = [*kinds, kind], [*amounts, cost], [*settled, False]
        elif what == "exchange" and ids:
            pure = [*kinds[:-1], "pure"], [*amounts[:-1], account(ledger, name).publications[-1].epsilon]
            due = kinds[-1] == "rho" and not settled[-1] and left(total, *pure) >= left(total, kinds, amounts)
            assert ledger.exchange(ids[-1]) == due
            kinds, amounts = pure if due else (kinds, amounts)
        elif what == "settle" and ids and not settled[-1]:
            amounts[-1], settled[-1] = amounts[-1] / 3, True
            ledger.settle(ids[-1], amounts[-1])
        elif what == "set_total":
            if left(amount, kinds, amounts) < 0:
                with pytest.raises(InputError, match="cannot be taken back"):
                    ledger.set_total(name, amount)
            else:
                ledger.set_total(name, amount)
                total = amount
        found = account(ledger, name)
        assert (found.total, found.left_rho) == (total, left(total, kinds, amounts))
        assert found.is_covered
