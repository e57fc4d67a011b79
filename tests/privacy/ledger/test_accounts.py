"""Requests that an account does not cover are refused, with the values and a way out."""

from fractions import Fraction

import pytest

from dqam.errors import BudgetError, InputError
from dqam.privacy.ledger import Ledger
from dqam.values.guarantee import Unit, parse_epsilon, spell
from tests.ledgers import TRIP, account, spend


def test_refusals(ledger: Ledger) -> None:
    ledger.register("my town", 1, "trip")
    spend(ledger, "my town", "1/3")
    with pytest.raises(BudgetError) as refused:
        spend(ledger, "my town", 0.7)
    assert str(refused.value) == (
        "my town: epsilon 0.7 was requested and 2/3 of 1 is left; ask for less, or raise the total with "
        "`Ledger.set_total('my town', EPSILON)`, which weakens the guarantee given to the people in the data."
    )
    with pytest.raises(InputError, match=r"but total=2 was given; .*`Ledger.set_total\('my town', 2\)`"):
        spend(ledger, "my town", 0.1, 2)
    with pytest.raises(InputError, match="in the ledger already, with a total of 1"):
        ledger.register("my town", 1, "trip")
    with pytest.raises(InputError, match="'trip' or 'person'; got 'family'"):
        ledger.register("faro", 1, "family")
    for unknown in (lambda: ledger.history("faro"), lambda: ledger.set_total("faro", 1)):
        with pytest.raises(InputError, match="faro is not in the ledger"):
            unknown()
    for bad in (0, -1, "much", float("nan")):
        with pytest.raises(InputError, match="positive number"):
            spend(ledger, "my town", bad)
    for long in ("1e-200", "1e200", Fraction(1, 3**300)):
        with pytest.raises(InputError, match="100 digits"):
            spend(ledger, "my town", long)
    assert account(ledger, "my town").left == Fraction(2, 3)


def test_units_do_not_mix(ledger: Ledger) -> None:
    ledger.register("trips", 5, "trip")
    ledger.register("persons", 5, "person")
    for name, unit in (("trips", Unit.person(1)), ("persons", TRIP)):
        with pytest.raises(InputError, match="cannot be added; publish with unit='(trip|person)'") as refused:
            spend(ledger, name, 1, unit=unit)
        assert not isinstance(refused.value, BudgetError)
    for most in (1, 10):
        spend(ledger, "persons", 1, unit=Unit.person(most))
    assert account(ledger, "persons").spent == 2
    assert account(ledger, "trips").spent == 0


def test_spelling() -> None:
    for text in ("0.1", "1e-07", "12345.678", "1/3", "100"):
        assert spell(parse_epsilon(text)) == text
    assert spell(sum((Fraction(1, 10**28 + k) for k in range(500)), Fraction(0))).startswith("about 5e-26")
