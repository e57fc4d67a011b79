"""What every mechanism that may be published has to do, whatever it is given."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.geometry.histogram import SpatialHistogram
from dqam.mechanisms import Mechanism
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import OpenDPNoise, SeededNoise
from dqam.values.guarantee import Unit
from tests.mechanisms.cases import (
    ALL,
    PUBLISHABLE,
    city,
    each,
    parts,
    run,
    some_queries,
    strolls,
    unit_square,
)

CITY = city()
QUERIES = some_queries(CITY.engine.walks.grid)


def check(histogram: SpatialHistogram, curator: Curator) -> None:
    """A finite histogram on the curator's grid, for all of the budget and no more."""
    assert histogram.grid == curator.grid
    assert np.isfinite(parts(histogram)).all()
    assert np.isfinite(histogram.total)
    assert curator.spent == sum(entry.epsilon for entry in curator.paid) == curator.budget.amount
    assert curator.paid
    assert all(entry.epsilon > 0 for entry in curator.paid)


def test_every_publishable_mechanism_is_tried() -> None:
    assert {"uniform", "laplace", "mwem", "dawa", "prish", "dqam"} <= PUBLISHABLE.keys() <= ALL.keys()


@each
@pytest.mark.parametrize("epsilon", ["0.01", "1", "30"])
def test_a_finite_histogram_for_the_whole_budget(mechanism: Mechanism, epsilon: str) -> None:
    check(*run(mechanism, CITY, QUERIES, epsilon))


@each
def test_only_the_budget_that_is_handed_over_is_spent(mechanism: Mechanism) -> None:
    curator = Curator(CITY, Budget(2), SeededNoise(0))
    mine, other = curator.budget.split(mine=1, other=2)
    mechanism.synthesize(curator, QUERIES, mine)
    assert curator.spent == Fraction(2, 3)
    assert other.left == Fraction(4, 3)


@each
def test_what_was_spent_before_is_not_spent_again(mechanism: Mechanism) -> None:
    curator = Curator(CITY, Budget(2), SeededNoise(0))
    curator.budget.spend("1.5")
    mechanism.synthesize(curator, QUERIES, curator.budget)
    assert curator.spent == Fraction(1, 2)


@each
def test_the_same_seed_gives_the_same_histogram_and_another_does_not(mechanism: Mechanism) -> None:
    first, again, other = (parts(run(mechanism, CITY, QUERIES, 1, seed)[0]) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@each
def test_nothing_but_the_curator_knows_the_data(mechanism: Mechanism) -> None:
    """A mechanism keeps nothing between two calls, so that no data set can be seen in what is made of the next."""
    before = parts(run(mechanism, CITY, QUERIES, 1)[0])
    run(mechanism, strolls(50, unit_square(7, 3)), np.array([[0, 0, 2, 2]]), 5)
    np.testing.assert_array_equal(before, parts(run(mechanism, CITY, QUERIES, 1)[0]))


@each
def test_queries_are_left_as_they_are(mechanism: Mechanism) -> None:
    queries = QUERIES.copy()
    queries.flags.writeable = False
    check(*run(mechanism, CITY, queries, 2))
    np.testing.assert_array_equal(queries, QUERIES)


@each
@pytest.mark.parametrize("trips", [0, 1])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "1000"])
def test_next_to_no_trips(mechanism: Mechanism, trips: int, epsilon: str) -> None:
    for seed in range(3):
        grid = unit_square(9, 9)
        histogram, curator = run(mechanism, strolls(trips, grid), some_queries(grid), epsilon, seed)
        check(histogram, curator)
        if epsilon == "1000" and trips:
            assert histogram.total == pytest.approx(1, abs=0.5)


SHAPES = [(1, 1), (1, 2), (1, 7), (7, 1), (2, 2), (3, 5), (13, 6)]


@each
@pytest.mark.parametrize("shape", SHAPES, ids=[f"{rows} x {columns}" for rows, columns in SHAPES])
def test_grids_of_any_shape_and_queries_of_any_kind(mechanism: Mechanism, shape: tuple[int, int]) -> None:
    rows, columns = shape
    grid = unit_square(rows, columns)
    kept = strolls(400, grid)
    whole = np.array([[0, 0, columns, rows]])
    corner = np.array([[columns - 1, rows - 1, columns, rows]])
    cells = np.array([[column, row, column + 1, row + 1] for row in range(rows) for column in range(columns)])
    for queries in (whole, corner, cells, np.repeat(whole, 5, axis=0), some_queries(grid)):
        for epsilon in ("0.05", "20"):
            check(*run(mechanism, kept, queries, epsilon))


@each
def test_the_whole_grid_holds_about_all_trips(mechanism: Mechanism) -> None:
    for shape, seed in product(((1, 6), (6, 1), (6, 5)), range(4)):
        grid = unit_square(*shape)
        histogram, _ = run(mechanism, strolls(500, grid, wide=0.3), some_queries(grid), 50, seed)
        assert histogram.total == pytest.approx(500, rel=0.05), (shape, seed)


@each
def test_so_it_does_where_trips_have_no_crossings(mechanism: Mechanism) -> None:
    """Noise makes their number 0 or a little more: for every seed the total is that of the trips."""
    for shape, seed in product(((1, 1), (1, 6), (6, 5)), range(6)):
        grid = unit_square(*shape)
        histogram, _ = run(mechanism, strolls(500, grid, wide=0), some_queries(grid), 50, seed)
        assert histogram.total == pytest.approx(500, rel=0.05), (shape, seed)


@each
def test_a_person_of_two_trips_doubles_all_noise(mechanism: Mechanism) -> None:
    """Twice the eps for a unit of two trips is the same noise, and all that follows from it is the same."""
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        noise = SeededNoise(5)
        noise.generator().bytes(16)  # as is drawn for the salt that chooses a person's trips
        plain, trip = run(mechanism, CITY, QUERIES, epsilon, noise)
        person = Curator(CITY, Budget(2 * epsilon), SeededNoise(5), Unit.person(2), list(range(len(CITY.engine.walks))))
        made = mechanism.synthesize(person, QUERIES, person.budget).histogram
        assert [entry.name for entry in person.paid] == [entry.name for entry in trip.paid]
        for two, one in zip(person.paid, trip.paid, strict=True):
            assert two.sensitivity == 2 * one.sensitivity
            assert two.scale * two.epsilon == 2 * one.scale * one.epsilon
        np.testing.assert_allclose(parts(made), parts(plain), rtol=1e-9, atol=1e-9)


@each
def test_of_a_person_only_some_trips_count(mechanism: Mechanism) -> None:
    persons = np.arange(300) // 30  # 10 persons
    curator = Curator(CITY, Budget(200), SeededNoise(0), Unit.person(2), persons)
    assert mechanism.synthesize(curator, QUERIES, curator.budget).histogram.total == pytest.approx(20, abs=3)


@each
def test_the_noise_of_releases(mechanism: Mechanism) -> None:
    grid = unit_square(4, 5)
    histogram, curator = run(mechanism, strolls(40, grid), some_queries(grid, 10), 8, OpenDPNoise())
    check(histogram, curator)
    assert curator.private


@each
def test_an_empty_query_set_is_refused_before_anything_is_spent(mechanism: Mechanism) -> None:
    curator = Curator(CITY, Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="quer"):
        mechanism.synthesize(curator, np.zeros((0, 4), np.int64), curator.budget)
    assert not curator.paid


@each
def test_queries_beyond_the_grid_are_refused_before_anything_is_spent(mechanism: Mechanism) -> None:
    curator = Curator(CITY, Budget(1), SeededNoise(0))
    with pytest.raises(InputError, match="grid"):
        mechanism.synthesize(curator, np.array([[0, 0, 3, 3], [30, 30, 33, 33]]), curator.budget)
    assert not curator.paid
