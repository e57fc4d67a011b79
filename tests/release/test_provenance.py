"""What a release says of how it was made."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dqam.errors import InputError
from dqam.release.provenance import check_crs, check_mechanism
from dqam.values.guarantee import PaidQuestion, Unit
from tests.release.cases import seeded


def test_a_ledger_that_does_not_add_up_is_refused() -> None:
    provenance = seeded().provenance
    with pytest.raises(InputError, match="add up to 2"):
        replace(provenance, epsilon=Fraction(1))


def test_the_promise_says_for_whom_and_how_much() -> None:
    provenance = replace(seeded().provenance, private=True)
    assert provenance.promise == "Differentially private for one trip, epsilon = 2."
    assert provenance.counted == ""
    row = replace(provenance, row_is_trip=True)
    assert "one row, which is a trip" in row.promise
    person = replace(provenance, unit=Unit.person(3))
    assert "one person (at most 3 trips)" in person.promise
    assert person.counted == "from at most 3 trips of each person"


@pytest.mark.parametrize("name", ["dqam-printed", "a b", "", "../x", 7])
def test_no_other_word_is_a_mechanism(name: object) -> None:
    with pytest.raises(InputError, match="cannot be the mechanism"):
        check_mechanism(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("crs", ["+proj=ortho", "file:///x", "", "WGS 84", None])
def test_a_crs_is_a_code(crs: object) -> None:
    check_crs("EPSG:28355")
    with pytest.raises(InputError, match="must be a code such as"):
        check_crs(crs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("deltas", "sum_is_at_most"),
    [
        ([""], ""),
        (["10^-47"], "10^-47"),
        (["10^-47", "", "10^-47"], "10^-46"),
        (["10^-47"] * 10, "10^-46"),
        (["10^-47"] * 40, "10^-45"),
        (["10^-50", "10^-47"], "10^-46"),
        (["10^-1"] * 1_000, "10^-0"),
    ],
)
def test_the_deltas_of_all_questions_add_up(deltas: list[str], sum_is_at_most: str) -> None:
    paid = tuple(PaidQuestion("partition", "buckets", 1, Fraction(1), Fraction(1), delta=delta) for delta in deltas)
    assert replace(seeded().provenance, paid=paid, epsilon=Fraction(len(paid))).delta == sum_is_at_most
