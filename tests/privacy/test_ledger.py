"""Never more than the total, however many spend at once and whenever they die."""

import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from dqam.errors import InputError
from dqam.privacy import ledger as module
from dqam.privacy.budget import BudgetError, Unit, parse_epsilon
from dqam.privacy.ledger import Account, Ledger, spell

TRIP = Unit.trip()
RACERS = 8
RANDOM = random.Random(9)


def run_sql(where: str, statement: str) -> list[tuple[object, ...]]:
    """What the database itself says; a list of rows."""
    if "://" in where:
        with psycopg.connect(where) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
    lite = sqlite3.connect(where)
    rows = lite.execute(statement).fetchall()
    lite.commit()
    lite.close()
    return rows


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new place for a ledger: a file, or a schema of the server."""
    if request.param == "sqlite":
        return str(tmp_path / "of the custodian" / "ledger.db")
    url = request.getfixturevalue("postgresql_url")
    schema = f"s{uuid.uuid4().hex}"
    run_sql(url, f"CREATE SCHEMA {schema}")
    return f"{url}&options=-csearch_path%3D{schema}"


@pytest.fixture
def ledger(where: str) -> Ledger:
    return Ledger.open(where)


def spend(ledger: Ledger, name: str, epsilon: object, total: object = None, unit: Unit = TRIP) -> module.Spent:
    return ledger.spend(name, epsilon, unit, "flux", "grid", total)  # type: ignore[arg-type]


def account(ledger: Ledger, name: str) -> Account:
    (only,) = ledger.history(name)
    return only


# what is noted


def test_everything_is_noted(where: str, ledger: Ledger) -> None:
    ledger.register("porto", "2.5", "person")
    first = ledger.spend("porto", 0.5, Unit.person(10), "flux", "256 x 256")
    second = ledger.spend("porto", "1/3", Unit.person(3), "privtree", "8 x 8", total=2.5)
    ledger.saved(second.id)
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
    assert unsaved.release is None
    times = [porto.registered, porto.totals[0].when, unsaved.when, saved.when, str(saved.release), porto.totals[1].when]
    assert times == sorted(times)
    assert all(time.endswith("+00:00") for time in times)
    assert run_sql(where, "SELECT epsilon FROM dqam_publications ORDER BY number") == [("1/2",), ("1/3",)]


def test_a_release_is_saved_once(ledger: Ledger) -> None:
    spent = spend(ledger, "porto", 1)
    ledger.saved(spent.id)
    when = account(ledger, "porto").publications[0].release
    time.sleep(0.002)
    ledger.saved(spent.id)
    assert account(ledger, "porto").publications[0].release == when
    with pytest.raises(InputError, match="has no publication 'nothing'"):
        ledger.saved("nothing")


def test_ten_tenths_are_one_and_the_eleventh_is_refused(ledger: Ledger) -> None:
    for _ in range(10):
        spend(ledger, "porto", 0.1, 1)
    with pytest.raises(BudgetError, match="0.1 of epsilon was asked and 0 of 1 is left"):
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
    with pytest.raises(InputError, match="porto: 0.5 of epsilon is spent .* can not be 0.4; give at least 0.5"):
        ledger.set_total("porto", 0.4)
    for total in (1, 0.5, 0.6):
        ledger.set_total("porto", total)
    assert [each.epsilon for each in account(ledger, "porto").totals] == [2, 1, Fraction(1, 2), Fraction(3, 5)]
    with pytest.raises(BudgetError):
        spend(ledger, "porto", 0.11)
    spend(ledger, "porto", 0.1)


# what is refused, and in which words


def test_refusals(ledger: Ledger) -> None:
    ledger.register("my town", 1, "trip")
    spend(ledger, "my town", "1/3")
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "my town", 0.7)
    assert str(refused.value) == (
        "my town: 0.7 of epsilon was asked and 2/3 of 1 is left; ask for less, or raise the total with "
        "`dqam ledger total 'my town' EPSILON`, which weakens the promise made to the people in the data."
    )
    with pytest.raises(InputError, match="total of 1 in the ledger and 2 was given; .*`dqam ledger total 'my town' 2`"):
        spend(ledger, "my town", 0.1, 2)
    with pytest.raises(InputError, match="in the ledger already, with a total of 1"):
        ledger.register("my town", 1, "trip")
    with pytest.raises(InputError, match="'trip' or 'person'; got 'family'"):
        ledger.register("faro", 1, "family")
    for unknown in (lambda: ledger.history("faro"), lambda: ledger.set_total("faro", 1)):
        with pytest.raises(InputError, match="faro is not in the ledger"):
            unknown()
    for bad in (0, -1, "much", float("nan")):
        with pytest.raises(InputError, match="above 0"):
            spend(ledger, "my town", bad)
    for long in ("1e-200", "1e200", Fraction(1, 3**300)):
        with pytest.raises(InputError, match="100 digits"):
            spend(ledger, "my town", long)
    assert account(ledger, "my town").left == Fraction(2, 3)


def test_units_do_not_mix(ledger: Ledger) -> None:
    ledger.register("trips", 5, "trip")
    ledger.register("persons", 5, "person")
    for name, unit in (("trips", Unit.person(1)), ("persons", TRIP)):
        with pytest.raises(InputError, match="bounds nothing for the unit") as refused:
            spend(ledger, name, 1, unit=unit)
        assert not isinstance(refused.value, BudgetError)
    for most in (1, 10):
        spend(ledger, "persons", 1, unit=Unit.person(most))
    assert account(ledger, "persons").spent == 2
    assert account(ledger, "trips").spent == 0


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", "a\x00b", "\x1b[2J", "a\udc80", "a\u2028b", None])
def test_bad_names(tmp_path: Path, name: str) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    with pytest.raises(InputError, match="The name of a data set"):
        spend(ledger, name, 1)
    assert ledger.history() == []


@pytest.mark.parametrize("name", ["x" * 200, "Évora", "город 7", "'; DROP TABLE dqam_totals; --", "%s :x ?"])
def test_good_names(ledger: Ledger, name: str) -> None:
    spend(ledger, f" {name}", 1, 3)
    spend(ledger, unicodedata.normalize("NFD", name), 1)  # the same name
    with pytest.raises(BudgetError):
        spend(ledger, f"{name.upper()}\u200b", 2)
    assert account(ledger, name).left == 1


def test_text_that_no_database_takes(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="can not be used"):
        ledger.spend("porto", 1, TRIP, "flux", "a\udc80")
    assert ledger.history() == []


def test_spelling() -> None:
    for text in ("0.1", "1e-07", "12345.678", "1/3", "100"):
        assert spell(parse_epsilon(text)) == text
    assert spell(sum((Fraction(1, 10**28 + k) for k in range(500)), Fraction(0))).startswith("about 5e-26")


# where it is


def test_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(os.environ["DQAM_LEDGER"]).name == "ledger.db"  # not the user's, in any test
    assert Path.home() not in Path(os.environ["DQAM_LEDGER"]).parents
    monkeypatch.chdir(tmp_path)
    for place in ("a.db", tmp_path / "b" / "c" / "a.db", f"sqlite:///{tmp_path}/d.db", "sqlite:///e.db", "50% ?#.db"):
        ledger = Ledger.open(place)
        monkeypatch.chdir("/")
        spend(ledger, "porto", 1)
        monkeypatch.chdir(tmp_path)
        assert len(Ledger.open(place).history()) == 1
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"a.db", "d.db", "e.db", "50% ?#.db"}
    monkeypatch.setenv("DQAM_LEDGER", str(tmp_path / "said.db"))
    assert repr(Ledger.open()) == f"Ledger({str(tmp_path / 'said.db')!r})"
    monkeypatch.delenv("DQAM_LEDGER")
    monkeypatch.setattr("click.get_app_dir", lambda name: str(tmp_path / name))
    assert repr(Ledger.open(None)) == f"Ledger({str(tmp_path / 'dqam' / 'ledger.db')!r})"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", "in memory"),
        (":memory:", "in memory"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("file::memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "nothing else"),
        ("sqlite:///x.db?timeout=0", "nothing else"),
        ("sqlite://x.db", "nothing else"),
        ("mysql://u:hush-hush@h/d", "SQLite or PostgreSQL; got a URL for 'mysql'"),
        ("postgresql://u:hush-hush/d", "can not be read"),
        ("postgresql:/u:hush-hush@h/d", "can not be read"),
        ("postgresql://u:p@hush-hush@h/d", "more than one @"),
        ("postgresql://u:hush-hush@127.0.0.1:1/d", r"postgresql://u:\*\*\*@127.0.0.1:1/d .*Connection refused"),
        ("postgres://127.0.0.1:1/d?password=hush-hush", "postgresql://127.0.0.1:1/d .*Connection refused"),
        ("postgresql+psycopg2://u:hush-hush@127.0.0.1:1/d", "Connection refused"),
        ("postgresql://u:hush-hush@127.0.0.1:1/d?hush=hush-hush", "invalid connection option"),
        ("postgresql://u:refused@127.0.0.1:1/d", r"\(OperationalError\)"),
        ("a\x00b", "choose another place"),
    ],
)
def test_bad_places_and_no_password(place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words) as refused:
        Ledger.open(place)
    assert "hush-hush" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_passwords_are_hidden(postgresql_url: str) -> None:
    assert "open-sesame" in postgresql_url
    ledger = Ledger.open(postgresql_url)
    assert repr(ledger).startswith("Ledger('postgresql://dqam:***@/postgres?host=")
    with pytest.raises(InputError, match="password authentication failed") as refused:
        Ledger.open(postgresql_url.replace("open-sesame", "hush-hush"))
    assert "hush-hush" not in str(refused.value)
    with pytest.raises(InputError, match='database "nowhere" does not exist') as refused:
        Ledger.open(postgresql_url.replace("/postgres?", "/nowhere?"))
    assert "open-sesame" not in str(refused.value)


def test_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"pip install 'dqam\[postgres\]'") as refused:
        Ledger.open("postgresql://u:hush-hush@h/d")
    assert "hush-hush" not in str(refused.value)


# failures of the database


def test_places_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is no database. " * 100)
    for place, words in (
        (tmp_path, "unable to open"),
        (tmp_path / "text", "not a database"),
        (tmp_path / "text" / "ledger.db", "folder of the ledger .* can not be made"),
        (Path("/dev/full"), "disk is full"),
    ):
        with pytest.raises(InputError, match=words):
            Ledger.open(place)
    assert (tmp_path / "text").read_text().startswith("This is no database.")


def test_a_full_disk_charges_nothing(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    spend(ledger, "porto", "0.1", 1)

    def fill(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are

    event.listen(ledger._engine, "connect", fill)
    with pytest.raises(InputError, match="database or disk is full"):
        ledger.spend("porto", "0.1", TRIP, "flux", "x" * 100_000)
    event.remove(ledger._engine, "connect", fill)
    assert account(ledger, "porto").left == Fraction(9, 10)


def test_a_ledger_that_can_only_be_read(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    spend(ledger, "porto", "0.1", 1)
    event.listen(ledger._engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON"))
    assert account(ledger, "porto").left == Fraction(9, 10)
    with pytest.raises(InputError, match="readonly"):
        spend(ledger, "porto", "0.1")


def test_a_busy_ledger(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT", 0.1)
    ledger = Ledger.open(where)
    ledger.register("porto", 1, "trip")
    with Ledger.open(where)._transaction():
        with pytest.raises(InputError, match="busy for more than"):
            spend(ledger, "porto", 1)
        assert account(ledger, "porto").left == 1  # reading goes on
    spend(ledger, "porto", 1)


def test_a_newer_ledger(where: str, ledger: Ledger) -> None:
    run_sql(where, "UPDATE dqam_ledger SET version = 2")
    for use in (lambda: Ledger.open(where), ledger.history, lambda: spend(ledger, "porto", 1)):
        with pytest.raises(InputError, match="has version 2 and this dqam knows version 1; install a newer dqam"):
            use()
    run_sql(where, "DELETE FROM dqam_ledger")
    with pytest.raises(InputError, match="damaged: it has no version"):
        Ledger.open(where)


@pytest.mark.parametrize("text", ["", "0.1", "-1/10", "0", "1/0", "1/10 ", "\u0661", "nan", "9" * 400])
@pytest.mark.parametrize("table", ["totals", "publications"])
def test_a_damaged_epsilon_stops_all_spending(tmp_path: Path, text: str, table: str) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    spend(ledger, "porto", "0.1", 1)
    run_sql(str(tmp_path / "ledger.db"), f"UPDATE dqam_{table} SET epsilon = '{text}'")
    for use in (ledger.history, lambda: spend(ledger, "porto", "0.1"), lambda: ledger.set_total("porto", 5)):
        with pytest.raises(InputError, match="is damaged: it has .* where an epsilon"):
            use()


def test_other_damage(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.db")
    ledger = Ledger.open(place)
    spend(ledger, "porto", "0.1", 1)
    run_sql(place, "UPDATE dqam_totals SET epsilon = x'ff'")
    with pytest.raises(InputError, match="damaged"):
        ledger.history()
    run_sql(place, "DELETE FROM dqam_totals")
    with pytest.raises(InputError, match="porto has no total"):
        spend(ledger, "porto", "0.1")
    whole = Path(place).read_bytes()
    Path(place).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(InputError, match="malformed"):
        spend(ledger, "porto", "0.1")
    Path(place).unlink()  # a ledger that is gone is not begun anew with all its budget
    with pytest.raises(InputError, match="no such table"):
        spend(ledger, "porto", "0.1")


def test_sqlite_is_durable(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    with ledger._transaction() as connection:
        asked = [connection.exec_driver_sql(f"PRAGMA {p}").scalar() for p in ("synchronous", "journal_mode")]
        assert asked == [3, "delete"]  # EXTRA
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_postgresql_is_durable(postgresql_url: str) -> None:
    ledger = Ledger.open(f"{postgresql_url}&options=-csynchronous_commit%3Doff")
    for write, setting in ((True, "on"), (False, "off")):
        with ledger._transaction(write) as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == setting
            assert connection.exec_driver_sql("SHOW fsync").scalar() == "on"


def test_no_connection_stays_open(postgresql_url: str) -> None:
    ledger = Ledger.open(postgresql_url)
    for _ in range(3):
        with pytest.raises(InputError):
            ledger.saved("nothing")
    rest = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    for _ in range(100):  # the server takes a moment to part
        if run_sql(postgresql_url, rest) == [(0,)]:
            return
        time.sleep(0.02)
    pytest.fail("a connection stays open")


# a model

AMOUNTS = st.sampled_from(["0.1", "0.25", "1/3", "0.7", "1", "2"])
NAMES = st.sampled_from(["a", "b"])
UNITS = st.sampled_from([TRIP, TRIP, Unit.person(2)])
STEPS = st.one_of(
    st.tuples(st.just("spend"), NAMES, AMOUNTS, UNITS, st.one_of(st.none(), st.none(), AMOUNTS)),
    st.tuples(st.just("register"), NAMES, AMOUNTS, UNITS, st.none()),
    st.tuples(st.just("set_total"), NAMES, AMOUNTS, UNITS, st.none()),
)
EXAMPLES = count()


class Model:
    """The ledger, plainly."""

    def __init__(self) -> None:
        self.units: dict[str, str] = {}
        self.totals: dict[str, list[Fraction]] = {}
        self.spent: dict[str, list[Fraction]] = {}

    def step(self, what: str, name: str, amount: Fraction, unit: str, total: Fraction | None) -> type | None:
        """The error that is due, if one is."""
        known = name in self.units
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
        if what == "spend":
            self.spent[name].append(amount)
        return None


@given(steps=st.lists(STEPS, min_size=4, max_size=15))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_ledger_does_as_its_model(ledger: Ledger, steps: list[tuple[str, str, str, Unit, str | None]]) -> None:
    model, prefix = Model(), f"{next(EXAMPLES)} "
    for what, name, amount, unit, total in steps:
        due = model.step(what, name, Fraction(amount), unit.name, None if total is None else Fraction(total))
        try:
            if what == "spend":
                spend(ledger, prefix + name, amount, total, unit)
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
    assert {name: [p.epsilon for p in each.publications] for name, each in accounts.items()} == model.spent
    assert all(each.left >= 0 for each in accounts.values())


# many at once


@pytest.fixture(scope="module")
def context() -> ForkServerContext:
    """Processes that share nothing with this one, and import everything only once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dqam.privacy.ledger", "hypothesis", "psycopg", "pytest", "sqlite3"])
    return context


def racer(orders: Connection, start: Barrier) -> None:
    """Do as told, all at the same moment; answer what became of it."""
    while (order := orders.recv()) is not None:
        where, method, arguments = order
        start.wait()
        try:
            getattr(Ledger.open(where), method)(*arguments)
            orders.send(None)
        except InputError as error:
            orders.send(error)


@pytest.fixture(scope="module")
def race(context: ForkServerContext) -> Iterator[Callable[..., list[InputError]]]:
    """Let eight processes call the same method at once; what those that lost were told."""
    start = context.Barrier(RACERS)
    pipes = [context.Pipe() for _ in range(RACERS)]
    racers = [context.Process(target=racer, args=(far, start), daemon=True) for _, far in pipes]
    for each in racers:
        each.start()

    def run(where: str, method: str, *arguments: object) -> list[InputError]:
        for near, _ in pipes:
            near.send((where, method, arguments))
        answers = []
        for near, _ in pipes:
            assert near.poll(60), "a racer does not answer"
            answers.append(near.recv())
        return [answer for answer in answers if answer is not None]

    yield run
    for near, _ in pipes:
        near.send(None)
    for each in racers:
        each.join(10)


def test_one_of_eight_gets_the_last_budget(where: str, race: Callable[..., list[InputError]]) -> None:
    ledger = Ledger.open(where)
    for turn in range(5):
        name = f"city {turn}"
        spend(ledger, name, 1, 2)
        lost = race(where, "spend", name, 1, TRIP, "flux", "grid")
        assert [type(error) for error in lost] == [BudgetError] * (RACERS - 1)
        assert account(ledger, name).left == 0


def test_one_of_eight_gets_a_data_set_nobody_knew(where: str, race: Callable[..., list[InputError]]) -> None:
    for turn in range(5):  # in the first nobody has made the tables either
        lost = race(where, "spend", f"city {turn}", "0.3", TRIP, "flux", "grid", "0.5")
        assert [type(error) for error in lost] == [BudgetError] * (RACERS - 1)
        lost = race(where, "register", f"town {turn}", 1, "trip")
        assert len(lost) == RACERS - 1
        assert all("in the ledger already" in str(error) for error in lost)
    assert len(Ledger.open(where).history()) == 10
    for each in Ledger.open(where).history():
        assert (len(each.totals), each.spent) == ((1, Fraction(3, 10)) if each.name.startswith("city") else (1, 0))


def test_all_of_eight_where_there_is_enough(where: str, race: Callable[..., list[InputError]]) -> None:
    assert race(where, "spend", "porto", "1/8", TRIP, "flux", "grid", 1) == []
    assert account(Ledger.open(where), "porto").left == 0


@pytest.mark.parametrize("isolation", ["repeatable%20read", "serializable"])
def test_a_server_with_another_isolation(
    isolation: str, postgresql_url: str, race: Callable[..., list[InputError]]
) -> None:
    where = f"{postgresql_url}&options=-cdefault_transaction_isolation%3D{isolation.replace('%20', '%5C%20')}"
    for turn in range(3):
        lost = race(where, "spend", f"{isolation} {turn}", 1, TRIP, "flux", "grid")
        assert [type(error) for error in lost] == [BudgetError] * (RACERS - 1)


# sudden death


def spender(where: str, name: str, told: Connection) -> None:
    """Spend, and tell of it, until death."""
    ledger = Ledger.open(where)
    while True:
        told.send(ledger.spend(name, "1/10000", TRIP, "flux", "x" * 5000, 1).id)
        time.sleep(0.005)  # SQLite knows no queue, and who never rests lets nobody in


def test_what_was_told_is_noted_even_after_kill_9(where: str, context: ForkServerContext) -> None:
    ids: set[str] = set()
    for turn in range(3):
        ears, spenders = [], []
        for i in range(4):
            ear, mouth = context.Pipe(duplex=False)
            spenders.append(context.Process(target=spender, args=(where, f"city {i % 2}", mouth), daemon=True))
            spenders[-1].start()
            mouth.close()
            ears.append(ear)
        ids |= {ear.recv() for ear in ears}  # they are at work
        for each in spenders:
            time.sleep(RANDOM.uniform(0, 0.1))
            each.kill()
        for each, ear in zip(spenders, ears, strict=True):
            with suppress(EOFError, OSError):  # all that it told
                while True:
                    ids.add(ear.recv())
            each.join()
            assert each.exitcode == -signal.SIGKILL
        ledger = Ledger.open(where)
        ledger.saved(min(ids))  # waits for a server that still commits what the dead had asked
        noted = {publication.id for each in ledger.history() for publication in each.publications}
        assert ids <= noted
        assert len(noted - ids) <= 4 * (turn + 1)  # charged, and nobody was told
        if "://" not in where:
            assert run_sql(where, "PRAGMA integrity_check") == [("ok",)]
    for city in ledger.history():
        assert city.spent == Fraction(len(city.publications), 10_000)
        spend(ledger, city.name, city.left)
        with pytest.raises(BudgetError):
            spend(ledger, city.name, "1/10000")
