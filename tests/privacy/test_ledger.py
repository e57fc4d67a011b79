"""Never more than the total, however many spend at once and whenever they die."""

import json
import multiprocessing
import os
import pickle
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

import click
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from dqam.errors import BudgetError, InputError
from dqam.privacy import ledger as module
from dqam.privacy.ledger import Account, Ledger, SameTripsError, canonical, spell
from dqam.privacy.sketch import Sketch, sketch_of
from dqam.values.guarantee import Unit, parse_epsilon
from tests.commands import run

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


def trips(ledger: Ledger, first: int, after: int) -> Sketch:
    """The sketch of some trips; trips with the same number are the same."""
    numbers = np.arange(first, after)
    sides = {side: numbers / (7.0 + i) for i, side in enumerate(("west", "south", "east", "north"))}
    return sketch_of(pa.table(sides | {"time": numbers}), ledger.sketch_key)


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


# what is refused, and in which words


def test_refusals(ledger: Ledger) -> None:
    ledger.register("my town", 1, "trip")
    spend(ledger, "my town", "1/3")
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "my town", 0.7)
    assert str(refused.value) == (
        "my town: epsilon 0.7 was requested and 2/3 of 1 is left; ask for less, or raise the total with "
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


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("taxis", "ta\u0445is"),  # with a Cyrillic letter
        ("taxis", "\u0442\u0430\u0445\u0456\u0455"),  # with nothing but Cyrillic letters
        ("taxis", "\u0422AXIS"),  # this looks like a T only in upper case
        ("taxis", "tax\ufe0fis"),  # with an invisible mark
        ("taxis", "\U0001d42d\U0001d41a\U0001d431\U0001d422\U0001d42c"),
        ("\u0442\u0430\u043a\u0441\u0438", "\u0422\u0410\u041a\u0421\u0418"),  # lower and upper case
        ("run1", "runl"),
        ("run1", "RUNI"),
        ("2010", "2o1O"),
        ("march", "rnarch"),
        ("a-b", "a\u2013b"),
    ],
)
def test_names_that_look_alike_are_one(tmp_path: Path, name: str, alike: str) -> None:
    for first, second in ((name, alike), (alike, name)):
        ledger = Ledger.open(tmp_path / f"{first == name}.db")
        spend(ledger, first, 1, 2)
        assert spend(ledger, second, 1).data_set == canonical(first)
        (only,) = ledger.history(second)
        assert only.left == 0
        with pytest.raises(BudgetError):
            spend(ledger, second, 1)
        with pytest.raises(BudgetError):
            ledger.check(second, 1, TRIP)
        with pytest.raises(InputError, match="in the ledger already"):
            ledger.register(second, 1, "trip")
        ledger.set_total(second, 3)
        assert [each.name for each in ledger.history()] == [canonical(first)]
        assert account(ledger, first).left == 1


def test_a_name_that_only_looks_like_another_is_told(ledger: Ledger) -> None:
    spend(ledger, "taxis", 1)
    with pytest.raises(
        BudgetError, match=r"^taxis \(which 'ta\u0445is' looks like\): epsilon 1 .*`dqam ledger total taxis EPSILON`"
    ):
        spend(ledger, "ta\u0445is", 1)


def test_ordinary_names_are_told_apart(ledger: Ledger) -> None:
    names = [
        "m",
        "n",
        "march",
        "april",
        "a-b",
        "a_b",
        "a b",
        "ab",
        "run 1",
        "run 2",
        "run 10",
        "2010",
        "2011",
        "e",
        "\xe9",
    ]
    names += [
        "mile",
        "mlle",
        "phase 2",
        "phase 3",
        "trips (1)",
        "trips [1]",
        "a.b",
        "a,b",
        "u",
        "v",
        "w",
        "vv",
        "d",
        "cl",
    ]
    for name in names:
        spend(ledger, name, 1)
    assert [each.name for each in ledger.history()] == names


def test_an_exact_name_goes_before_one_that_looks_alike(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:  # as in ledgers of version 1
        before.setattr(module, "_looks", lambda name: frozenset([name]))
        for name in ("runl", "run1"):
            spend(ledger, name, 1, 2)
    assert spend(ledger, "run1", 1).data_set == "run1"
    assert spend(ledger, "run|", 1).data_set == "runl"  # the oldest
    assert [each.left for each in ledger.history()] == [0, 0]


def test_text_that_no_database_takes(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="cannot be used"):
        ledger.spend("porto", 1, TRIP, "flux", "a\udc80")
    assert ledger.history() == []


# the same trips


def test_a_renamed_copy_is_refused(ledger: Ledger) -> None:
    first = ledger.spend("taxis", 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, 0, 1_000))
    for use in (
        lambda **how: ledger.spend("copy", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000), **how),
        lambda **how: ledger.check_same("copy", TRIP, trips(ledger, 0, 1_000), **how),
    ):
        with pytest.raises(SameTripsError) as refused:
            use()
        assert str(refused.value) == (
            "copy has many trips in common with 'taxis'; publish with dataset='taxis', or with sure=True if they are "
            "different trips."
        )
        assert isinstance(refused.value, BudgetError)  # exit code 3
        again = pickle.loads(pickle.dumps(refused.value))
        assert (str(again), again.other, again.unit) == (str(refused.value), "taxis", None)
        assert str(again).startswith(again.found)
        assert [each.name for each in ledger.history()] == ["taxis"]
        assert account(ledger, "taxis").publications[0].id == first.id
    ledger.check_same("TAXIS", TRIP, trips(ledger, 0, 1_000))
    ledger.check_same("ta\u0445is", TRIP, trips(ledger, 0, 1_000))
    ledger.check_same("copy", TRIP, trips(ledger, 0, 1_000), sure=True)
    ledger.spend("ta\u0445is", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    ledger.spend("copy", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000), sure=True)
    assert [each.spent for each in ledger.history()] == [2, 1]
    with pytest.raises(SameTripsError):  # now it is in both
        ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))


def test_what_is_too_much_in_common(ledger: Ledger) -> None:
    ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    for first, after, same in (
        (1_000, 2_000, False),
        (750, 1_750, False),  # a quarter
        (749, 1_749, True),
        (990, 1_000, True),  # a part of it
        (-50_000, 50_000, True),  # it is a part of this
        (999, 1_000, True),
        (1_000, 1_001, False),
    ):
        sketch = trips(ledger, first, after)
        if same:
            with pytest.raises(SameTripsError):
                ledger.check_same("buses", TRIP, sketch)
        else:
            ledger.check_same("buses", TRIP, sketch)


def test_each_publication_is_recognised(ledger: Ledger) -> None:
    for part in range(4):
        ledger.spend("taxis", 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, 1_000 * part, 1_000 * (part + 1)))
        with pytest.raises(SameTripsError):
            ledger.check_same("buses", TRIP, trips(ledger, 1_000 * part + 500, 1_000 * part + 600))


def test_the_same_trips_are_sketched_once(where: str, ledger: Ledger) -> None:
    for name, first in (("taxis", 0), ("taxis", 0), ("taxis", 500), ("buses", 0)):
        ledger.spend(name, 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, first, 1_000), sure=True)
    spend(ledger, "taxis", 1)
    found = run_sql(where, "SELECT data_set FROM dqam_sketches ORDER BY number")
    assert found == [("taxis",), ("taxis",), ("buses",)]


def test_units_of_the_same_trips_do_not_mix(ledger: Ledger) -> None:
    ledger.spend("taxis", 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, 0, 1_000))
    with pytest.raises(SameTripsError) as refused:
        ledger.check_same("drivers", Unit.person(2), trips(ledger, 0, 1_000))
    assert str(refused.value) == (
        "drivers has many trips in common with 'taxis', whose budget is for the unit 'trip' and cannot be added to one "
        "for 'person'; publish with dataset='taxis' and unit='trip', or with sure=True if they are different "
        "trips."
    )
    assert refused.value.unit == "trip"


def test_what_is_refused_for_its_trips_charges_nothing(ledger: Ledger) -> None:
    ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    spend(ledger, "buses", 1, 5)
    with pytest.raises(SameTripsError):
        ledger.spend("buses", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    assert account(ledger, "buses").left == 4
    ledger.check_same("cars", TRIP, trips(ledger, 5_000, 6_000))  # the refused sketch was not kept either


def test_a_damaged_sketch_stops_spending(where: str, ledger: Ledger) -> None:
    ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    run_sql(where, "UPDATE dqam_sketches SET sketch = '123'")
    with pytest.raises(InputError, match="not a sketch"):
        ledger.spend("buses", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    assert len(ledger.history()) == 1


def test_the_key_of_sketches(where: str, ledger: Ledger, tmp_path: Path) -> None:
    key = ledger.sketch_key
    assert len(key) == 32
    assert Ledger.open(where).sketch_key == key
    assert Ledger.open(tmp_path / "another.db").sketch_key != key
    assert key not in repr(ledger) + repr(vars(ledger))
    run_sql(where, "DELETE FROM dqam_secrets")
    with pytest.raises(InputError, match="damaged: it has no key"):
        _ = ledger.sketch_key


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


# what ended early


def test_what_ended_early_is_settled_once(where: str, ledger: Ledger) -> None:
    spent = spend(ledger, "taxis", 1, 2)
    ledger.settle(spent.id, Fraction(1, 20))
    for used in (Fraction(1, 20), Fraction(1, 30), Fraction(1)):
        with pytest.raises(InputError, match=f"{spent.id} was already settled, at 0.05"):
            ledger.settle(spent.id, used)
    with pytest.raises(InputError, match="ended early, so it has no release"):
        ledger.saved(spent.id)
    (one,) = account(Ledger.open(where), "taxis").publications
    assert (one.epsilon, one.settled, one.cost, one.release) == (1, Fraction(1, 20), Fraction(1, 20), None)
    assert account(ledger, "taxis").left == Fraction(39, 20)
    with pytest.raises(BudgetError):
        spend(ledger, "taxis", 2)
    assert spend(ledger, "taxis", "1.95").left == 0


def test_what_can_not_be_settled(ledger: Ledger) -> None:
    spent, saved = spend(ledger, "taxis", 1, 2), spend(ledger, "taxis", 1)
    ledger.saved(saved.id)
    for id, used, words in (
        (saved.id, "0.5", "was saved, so all of its epsilon 1 is spent"),
        (spent.id, "1.5", "was charged epsilon 1 and cannot have used 1.5"),
        (spent.id, "0", "above 0"),
        (spent.id, "-1", "above 0"),
        ("nothing", "0.5", "has no publication 'nothing'"),
    ):
        with pytest.raises(InputError, match=words):
            ledger.settle(id, Fraction(used))
    assert account(ledger, "taxis").left == 0
    assert [one.settled for one in account(ledger, "taxis").publications] == [None, None]
    ledger.settle(spent.id, Fraction(1))  # all of it was used, and nothing was released
    assert account(ledger, "taxis").left == 0


def test_a_damaged_settlement_stops_all_spending(where: str, ledger: Ledger) -> None:
    ledger.settle(spend(ledger, "taxis", 1, 2).id, Fraction(1, 2))
    run_sql(where, "UPDATE dqam_publications SET settled = '-5'")
    with pytest.raises(InputError, match="is damaged: it has '-5' where an epsilon"):
        spend(ledger, "taxis", 1)


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
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert repr(Ledger.open(None)) == f"Ledger({str(tmp_path / 'dqam' / 'ledger.db')!r})"


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("said", [False, True])
def test_the_users_folder_is_that_of_commands(platform: str, said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
        if said:
            monkeypatch.setenv(name, f"/home/of/{name}")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("click.utils.WIN", platform == "win32")
    assert str(module._folder()) == click.get_app_dir("dqam")


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
        ("postgresql://u:hush-hush/d", "cannot be read"),
        ("postgresql:/u:hush-hush@h/d", "cannot be read"),
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
        (tmp_path / "text" / "ledger.db", "folder of the ledger .* cannot be made"),
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
    run_sql(where, "UPDATE dqam_ledger SET version = 3")
    for use in (lambda: Ledger.open(where), ledger.history, lambda: spend(ledger, "porto", 1)):
        with pytest.raises(InputError, match="has version 3 and this dqam knows version 2; install a newer dqam"):
            use()
    run_sql(where, "DELETE FROM dqam_ledger")
    with pytest.raises(InputError, match="damaged: it has no version"):
        Ledger.open(where)


OLD = """
CREATE TABLE dqam_ledger (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE dqam_data_sets (name TEXT NOT NULL, unit TEXT NOT NULL CHECK (unit IN ('trip', 'person')),
    registered TEXT NOT NULL, PRIMARY KEY (name));
CREATE TABLE dqam_totals (number {serial}, data_set TEXT NOT NULL REFERENCES dqam_data_sets (name),
    epsilon TEXT NOT NULL, noted TEXT NOT NULL, PRIMARY KEY (number));
CREATE TABLE dqam_publications (number {serial}, id TEXT NOT NULL UNIQUE,
    data_set TEXT NOT NULL REFERENCES dqam_data_sets (name), epsilon TEXT NOT NULL, unit TEXT NOT NULL,
    max_trips INTEGER NOT NULL, mechanism TEXT NOT NULL, grid TEXT NOT NULL, noted TEXT NOT NULL, release TEXT,
    PRIMARY KEY (number));
CREATE INDEX ix_dqam_totals_data_set ON dqam_totals (data_set);
CREATE INDEX ix_dqam_publications_data_set ON dqam_publications (data_set);
INSERT INTO dqam_ledger VALUES (1);
INSERT INTO dqam_data_sets VALUES ('taxis', 'trip', '2026-01-01T00:00:00.000+00:00');
INSERT INTO dqam_totals (data_set, epsilon, noted) VALUES ('taxis', '3', '2026-01-01T00:00:00.000+00:00');
INSERT INTO dqam_publications (id, data_set, epsilon, unit, max_trips, mechanism, grid, noted, release) VALUES
    ('one', 'taxis', '1/2', 'trip', 1, 'flux', 'grid', '2026-01-01T00:00:00.000+00:00', NULL)
"""


@pytest.fixture
def old(where: str) -> str:
    """A ledger of version 1, with 1/2 of 3 spent."""
    if "://" not in where:
        Path(where).parent.mkdir()
    for statement in OLD.format(serial="SERIAL" if "://" in where else "INTEGER NOT NULL").split(";"):
        run_sql(where, statement)
    return where


def test_an_old_ledger_is_upgraded(old: str) -> None:
    ledger = Ledger.open(old)
    assert run_sql(old, "SELECT version FROM dqam_ledger") == [(2,)]
    (taxis,) = ledger.history()
    assert (taxis.name, taxis.left, taxis.publications[0].settled) == ("taxis", Fraction(5, 2), None)
    ledger.settle("one", Fraction(1, 4))
    spent = ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 100))
    assert (spent.left, spent.new_ledger, spent.new_data_set) == (Fraction(7, 4), False, False)
    with pytest.raises(SameTripsError):
        Ledger.open(old).check_same("copy", TRIP, trips(ledger, 0, 100))


def test_an_upgrade_is_whole_or_not_at_all(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size: int) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("secrets.token_hex", fail)
        with pytest.raises(KeyboardInterrupt):
            Ledger.open(old)
    assert run_sql(old, "SELECT version FROM dqam_ledger") == [(1,)]
    for new in ("SELECT * FROM dqam_secrets", "SELECT settled FROM dqam_publications"):
        with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)):
            run_sql(old, new)
    test_an_old_ledger_is_upgraded(old)


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
    st.tuples(st.just("settle"), NAMES, AMOUNTS, UNITS, st.none()),
)
EXAMPLES = count()


class Model:
    """The ledger, plainly."""

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
    model, prefix = Model(), f"{next(EXAMPLES)} "
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


# many at once


@pytest.fixture(scope="module")
def context() -> ForkServerContext:
    """Processes that share nothing with this one, and import everything only once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["dqam.privacy.sketch", "dqam.privacy.ledger", "hypothesis", "psycopg", "pytest", "sqlite3"]
    )
    return context


def racer(orders: Connection, start: Barrier) -> None:
    """Do as told, all at the same moment; answer what became of it."""
    while (order := orders.recv()) is not None:
        where, method, arguments, named = order
        start.wait()
        try:
            getattr(Ledger.open(where), method)(*arguments, **named)
            orders.send(None)
        except InputError as error:
            orders.send(error)


@pytest.fixture(scope="module")
def race(context: ForkServerContext) -> Iterator[Callable[..., list[InputError]]]:
    """Let eight processes call the same method at once; return the errors of those that lost.

    In texts, `{racer}` is replaced by the number of the process.
    """
    start = context.Barrier(RACERS)
    pipes = [context.Pipe() for _ in range(RACERS)]
    racers = [context.Process(target=racer, args=(far, start), daemon=True) for _, far in pipes]
    for each in racers:
        each.start()

    def start_all(where: str, method: str, *arguments: object, **named: object) -> list[InputError]:
        for racer, (near, _) in enumerate(pipes):
            own = [each.format(racer=racer) if isinstance(each, str) else each for each in arguments]
            near.send((where, method, own, named))
        answers = []
        for near, _ in pipes:
            assert near.poll(60), "a racer does not answer"
            answers.append(near.recv())
        return [answer for answer in answers if answer is not None]

    yield start_all
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


def test_one_of_eight_names_gets_the_same_trips(where: str, race: Callable[..., list[InputError]]) -> None:
    ledger = Ledger.open(where)
    for turn in range(3):
        sketch = trips(ledger, 1_000 * turn, 1_000 * (turn + 1))
        lost = race(where, "spend", f"city {turn} of {{racer}}", 1, TRIP, "flux", "grid", sketch=sketch)
        assert [type(error) for error in lost] == [SameTripsError] * (RACERS - 1)
        assert len(ledger.history()) == turn + 1
        (winner,) = {error.other for error in lost if isinstance(error, SameTripsError)}
        assert account(ledger, winner).spent == 1


def test_one_of_eight_settles(where: str, race: Callable[..., list[InputError]]) -> None:
    ledger = Ledger.open(where)
    spent = spend(ledger, "porto", 1)
    assert len(race(where, "settle", spent.id, Fraction(1, 3))) == RACERS - 1
    assert account(ledger, "porto").left == Fraction(2, 3)


def test_eight_upgrade_at_once(old: str, race: Callable[..., list[InputError]]) -> None:
    assert race(old, "spend", "taxis", "1/8", TRIP, "flux", "grid") == []
    assert run_sql(old, "SELECT count(*) FROM dqam_secrets") == [(1,)]
    assert account(Ledger.open(old), "taxis").left == Fraction(3, 2)


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


# the command


def test_a_total_is_raised_only_if_the_custodian_is_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "ledger.db"
    ledger = Ledger.open(where)
    spend(ledger, "taxis", "0.5", 2)
    for total in ("1", "1", "0.5"):  # no confirmation is needed
        assert run("ledger", "--ledger", where, "total", "taxis", total).returncode == 0
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    refused = run("ledger", "--ledger", where, "total", "TAXIS", "0.7")
    assert refused.returncode == 2
    assert " ".join(refused.stderr.split()) == (
        "Error: Raising the total of taxis from 0.5 to 0.7 weakens the promise made to the people in the data; add "
        "--sure if that is what you want."
    )
    assert account(ledger, "taxis").total == Fraction(1, 2)
    asked: list[str] = []

    def answer(yes: bool) -> Callable[..., bool]:
        return lambda question, **_: bool(asked.append(question)) or yes

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for yes, code, total in ((False, 2, "1/2"), (True, 0, "7/10")):
        monkeypatch.setattr("click.confirm", answer(yes))
        done = run("ledger", "--ledger", where, "total", "taxis", "0.7")
        assert (done.returncode, account(ledger, "taxis").total) == (code, Fraction(total))
    assert asked[0].endswith("to the people in the data. Raise it?")
    assert len(asked) == 2
    assert "0.5 of 1 left" in run("ledger", "--ledger", where, "total", "taxis", "1", "--sure").stdout
    assert len(asked) == 2
    assert run("ledger", "--ledger", where, "total", "buses", "1").returncode == 2
    assert run("ledger", "--ledger", where, "total", "taxis", "much").returncode == 2


def test_what_ended_early_is_shown(tmp_path: Path) -> None:
    where = tmp_path / "ledger.db"
    ledger = Ledger.open(where)
    ledger.settle(spend(ledger, "taxis", 1, 2).id, Fraction(1, 20))
    spend(ledger, "taxis", 1)
    shown = " ".join(run("ledger", "--ledger", where).stdout.split())
    assert "ended early: 0.05 of 1 spent" in shown
    assert "never saved: spent all the same" in shown
    assert "0.95 of 2" in shown
    (taxis,) = json.loads(run("ledger", "--ledger", where, "--json").stdout)["datasets"]
    assert [(one["epsilon"], one["settled"]) for one in taxis["publications"]] == [(1, 0.05), (1, None)]
    assert (taxis["spent"], taxis["left"]) == (1.05, 0.95)
