"""What a release says of how it was made."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dqam.errors import InputError
from dqam.release.provenance import check_crs, check_mechanism
from dqam.values.guarantee import PaidQuestion, Unit
from tests.release.cases import seeded, with_delta


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
    scaled = replace(person, factor=1.5, scaled_up_to=28)
    assert scaled.counted == "scaled up to all trips from at most 3 trips of each person"
    for wrong in ({"factor": 0.9}, {"scaled_up_to": 2}, {"factor": float("nan")}, {"unit": Unit.trip()}):
        with pytest.raises(InputError, match="does not fit"):
            replace(scaled, **wrong)  # type: ignore[arg-type]


def test_the_promise_says_which_delta() -> None:
    provenance = replace(with_delta(seeded()).provenance, private=True)
    assert provenance.promise == "Differentially private for one trip, epsilon = 1, delta = 1e-8."
    assert "epsilon = 1, delta = 2.5e-7." in replace(provenance, delta=Fraction(25, 10**8)).promise
    person = replace(provenance, unit=Unit.person(3))
    assert person.promise == "Differentially private for one person (at most 3 trips), epsilon = 1, delta = 1e-8."


def test_rhos_that_are_more_than_the_promise_are_refused() -> None:
    provenance = with_delta(seeded()).provenance
    *rest, last = provenance.paid
    assert last.rho is not None
    enough = Fraction(1, 10**15)
    replace(provenance, paid=(*rest, replace(last, rho=last.rho - enough)))  # less is no lie
    with pytest.raises(InputError, match="rhos of its questions add up to 0.0172053, more than epsilon = 1, delta = 1"):
        replace(provenance, paid=(*rest, replace(last, rho=last.rho + enough)))
    with pytest.raises(InputError, match="more than epsilon = 1, delta = 1e-9"):
        replace(provenance, delta=Fraction(1, 10**9))
    for delta in (Fraction(-1, 10**8), Fraction(1, 50), Fraction(1, 10**31)):
        with pytest.raises(InputError, match="Delta must be a small probability"):
            replace(provenance, delta=delta)
    with pytest.raises(InputError, match="With a delta, epsilon must be"):
        replace(provenance, epsilon=Fraction(2000))


def test_questions_are_paid_in_the_currency_of_the_release() -> None:
    pure, mixed = seeded().provenance, with_delta(seeded()).provenance
    with pytest.raises(InputError, match="is not paid in epsilon"):
        replace(mixed, delta=Fraction(0))
    with pytest.raises(InputError, match="is not paid in rho"):
        replace(pure, delta=Fraction(1, 10**8))
    with pytest.raises(InputError, match="is not paid in epsilon"):
        replace(pure, paid=(replace(pure.paid[0], epsilon=None), *pure.paid[1:]))
    with pytest.raises(InputError, match="is not paid in epsilon"):
        replace(pure, paid=(replace(pure.paid[0], rho=Fraction(1, 100)), *pure.paid[1:]))


@pytest.mark.parametrize(("index", "kind", "part"), [(0, "measure", 2), (0, "partition", 2), (1, "select", 8)])
def test_rho_covers_the_epsilon_of_its_question(index: int, kind: str, part: int) -> None:
    provenance = with_delta(seeded()).provenance
    entry = provenance.paid[index]
    assert entry.epsilon is not None
    least = entry.epsilon**2 / part
    others = provenance.paid[2:]
    replace(provenance, paid=(replace(entry, kind=kind, rho=least), *others))
    with pytest.raises(InputError, match="too little rho"):
        replace(provenance, paid=(replace(entry, kind=kind, rho=least - Fraction(1, 10**15)), *others))


@pytest.mark.parametrize("kind", ["select", "partition"])
def test_only_numbers_can_have_gaussian_noise(kind: str) -> None:
    provenance = with_delta(seeded()).provenance
    *rest, last = provenance.paid
    with pytest.raises(InputError, match="only measured numbers"):
        replace(provenance, paid=(*rest, replace(last, kind=kind)))


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
def test_the_probabilities_that_noise_does_not_fit_add_up(deltas: list[str], sum_is_at_most: str) -> None:
    paid = tuple(PaidQuestion("partition", "buckets", 1, Fraction(1), Fraction(1), delta=delta) for delta in deltas)
    assert replace(seeded().provenance, paid=paid, epsilon=Fraction(len(paid))).overflow == sum_is_at_most


def test_what_may_be_compared() -> None:
    trips = seeded().provenance
    few, more = (replace(trips, unit=Unit.person(most)) for most in (5, 9))
    scaled, others = (replace(each, factor=1.5, scaled_up_to=20) for each in (few, more))
    assert scaled.compared_as == others.compared_as  # both estimate all trips
    assert len({each.compared_as for each in (trips, few, more, scaled)}) == 4
