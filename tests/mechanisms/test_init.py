"""The table of mechanisms, and that it does not say too much."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqam.errors import InputError
from dqam.mechanisms import MECHANISMS, Dawa, Dqam, Flux, Laplace, Mechanism, Mwem, Prish, Uniform, make
from tests.mechanisms.cases import FORCED, PUBLISHABLE, city, excess, parts, run, some_queries, strolls, unit_square

CONSISTENT = [name for name in PUBLISHABLE if MECHANISMS[name].consistent]


def test_an_unknown_name_is_refused_with_the_names_that_are_known() -> None:
    with pytest.raises(InputError) as caught:
        make("magic")
    said = str(caught.value)
    assert "no mechanism 'magic'" in said
    assert all(name in said for name in PUBLISHABLE)
    assert "printed" not in said


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name.endswith("-printed")])
def test_what_is_not_private_can_not_be_made(name: str) -> None:
    assert not MECHANISMS[name].publishable
    with pytest.raises(InputError, match=f"{name} is not private and exists only to reproduce the paper"):
        make(name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("flux", Flux),
        ("uniform", Uniform),
        ("laplace", Laplace),
        ("mwem", Mwem),
        ("dawa", Dawa),
        ("prish", Prish),
        ("dqam", Dqam),
    ],
)
def test_a_name_makes_its_mechanism_with_default_parameters(name: str, kind: type) -> None:
    assert MECHANISMS[name].publishable
    assert make(name) == kind()


@pytest.mark.parametrize("name", PUBLISHABLE)
def test_query_aware_mechanisms_depend_on_the_queries(name: str) -> None:
    mechanism, kept = FORCED.get(name, make(name)), city(300)
    one, other = (parts(run(mechanism, kept, some_queries(kept.grid, 60, seed), 20)[0]) for seed in (1, 2))
    assert MECHANISMS[name].query_aware == (one != other).any()


@pytest.mark.parametrize("name", PUBLISHABLE)
def test_data_aware_mechanisms_ask_which_cells_are_alike(name: str) -> None:
    _, curator = run(FORCED.get(name, make(name)), city(300), some_queries(city(300).grid), 20)
    asked = any(entry.kind == "partition" or entry.name.startswith("Unevenness") for entry in curator.paid)
    assert MECHANISMS[name].data_aware == asked


@given(
    st.integers(0, 10**6),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([0, 3, 300]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from(["0.01", "1", "100"]),
)
@settings(max_examples=80, deadline=None)
def test_consistent_mechanisms_are(seed: int, rows: int, columns: int, n: int, wide: float, epsilon: str) -> None:
    grid = unit_square(rows, columns)
    kept, queries = strolls(n, grid, seed, wide), some_queries(grid, 1 + seed % 20, seed)
    for name in CONSISTENT:
        mechanisms: list[Mechanism] = [make(name), FORCED.get(name, make(name))]
        for mechanism in mechanisms:
            assert excess(run(mechanism, kept, queries, epsilon, seed)[0]) <= 1e-9, name


@pytest.mark.parametrize("name", CONSISTENT)
@pytest.mark.parametrize("epsilon", ["0.1", "3", "1000"])
def test_consistent_mechanisms_are_on_a_city(name: str, epsilon: str) -> None:
    for seed in range(3):
        kept = city(300, seed)
        queries = some_queries(kept.grid, 100, seed)
        for mechanism in (make(name), FORCED.get(name, make(name)), Dqam(depth=9, rounds=12, least=0)):
            made, _ = run(mechanism, kept, queries, epsilon, seed)
            assert excess(made) <= 1e-9
            assert parts(made).min() >= 0


def test_the_others_are_not() -> None:
    """So that the test above could fail."""
    kept = city(300)
    queries = some_queries(kept.grid)
    for name in ("laplace", "dawa"):
        assert not MECHANISMS[name].consistent
        assert max(excess(run(FORCED[name], kept, queries, 1000, seed)[0]) for seed in range(3)) > 0.01


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: Mwem(rounds=4_001), "from 1 to 4,000"),
        (lambda: Prish(rounds=2.5), "whole number"),
        (lambda: Dqam(rounds=-1), "from 0 to 4,000"),
        (lambda: Dqam(depth=2.5), "whole number"),
        (lambda: Dqam(share=2), "between 0 and 1"),
        (lambda: Dawa(width=-1), "at least 0"),
        (lambda: Dawa(grain=float("nan")), "at least 0"),
    ],
)
def test_parameters_that_cannot_work_are_refused_by_the_constructor(made: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        made()


def test_the_share_of_the_rounds_is_exact() -> None:
    assert Dqam(share=0.1).share == Fraction(1, 10)  # type: ignore[arg-type]
