"""Trips that were published under one name get no second budget under another."""

import pickle
from pathlib import Path

import pytest

from dqam.errors import BudgetError, InputError
from dqam.privacy.ledger import Ledger, SameTripsError
from dqam.values.guarantee import Unit
from tests.ledgers import TRIP, account, check_same, run_sql, spend, trips


def test_a_renamed_copy_is_refused(ledger: Ledger) -> None:
    first = ledger.spend("taxis", 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, 0, 1_000))
    with pytest.raises(SameTripsError) as refused:
        ledger.spend("copy", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    assert str(refused.value) == (
        "copy has many trips in common with 'taxis'; publish with dataset='taxis', or with sure=True if they are "
        "different trips."
    )
    assert isinstance(refused.value, BudgetError)  # exit code 3
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.other) == (str(refused.value), "taxis")
    assert [each.name for each in ledger.history()] == ["taxis"]
    assert account(ledger, "taxis").publications[0].id == first.id
    ledger.spend("TAXIS", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    ledger.spend("ta\u0445is", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    ledger.spend("copy", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000), sure=True)
    assert [each.spent for each in ledger.history()] == [3, 1]
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
                check_same(ledger, "buses", TRIP, sketch)
        else:
            check_same(ledger, "buses", TRIP, sketch)


def test_each_publication_is_recognised(ledger: Ledger) -> None:
    for part in range(4):
        ledger.spend("taxis", 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, 1_000 * part, 1_000 * (part + 1)))
        with pytest.raises(SameTripsError):
            check_same(ledger, "buses", TRIP, trips(ledger, 1_000 * part + 500, 1_000 * part + 600))


def test_the_same_trips_are_sketched_once(where: str, ledger: Ledger) -> None:
    for name, first in (("taxis", 0), ("taxis", 0), ("taxis", 500), ("buses", 0)):
        ledger.spend(name, 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, first, 1_000), sure=True)
    spend(ledger, "taxis", 1)
    found = run_sql(where, "SELECT data_set FROM dqam_sketches ORDER BY number")
    assert found == [("taxis",), ("taxis",), ("buses",)]


def test_units_of_the_same_trips_do_not_mix(ledger: Ledger) -> None:
    ledger.spend("taxis", 1, TRIP, "flux", "grid", 9, sketch=trips(ledger, 0, 1_000))
    with pytest.raises(SameTripsError) as refused:
        check_same(ledger, "drivers", Unit.person(2), trips(ledger, 0, 1_000))
    assert str(refused.value) == (
        "drivers has many trips in common with 'taxis', whose budget is for the unit 'trip' and cannot be added to one "
        "for 'person'; publish with dataset='taxis' and unit='trip', or with sure=True if they are different "
        "trips."
    )


def test_what_is_refused_for_its_trips_charges_nothing(ledger: Ledger) -> None:
    ledger.spend("taxis", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    spend(ledger, "buses", 1, 5)
    with pytest.raises(SameTripsError):
        ledger.spend("buses", 1, TRIP, "flux", "grid", sketch=trips(ledger, 0, 1_000))
    assert account(ledger, "buses").left == 4
    check_same(ledger, "cars", TRIP, trips(ledger, 5_000, 6_000))  # the refused sketch was not kept either


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
