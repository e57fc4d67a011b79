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
from dqam.statistics.distinct import DistinctTrips
from dqam.values.guarantee import Promise, Unit
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
    assert curator.spent == sum(entry.cost for entry in curator.paid) == curator.budget.amount
    assert curator.paid
    assert all(entry.cost > 0 for entry in curator.paid)


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


PROMISES = [Promise.of("0.01", 1e-8), Promise.of(1, 1e-8), Promise.of(30, 1e-4)]


@each
@pytest.mark.parametrize("exchange", [False, True], ids=["Gaussian", "exchange"])
@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_a_budget_with_a_delta_is_spent_and_no_more(mechanism: Mechanism, promise: Promise, exchange: bool) -> None:
    """In rho, or after an exchange in epsilon; and the same seed gives the same histogram."""
    histogram, curator = run(mechanism, CITY, QUERIES, promise, exchange=exchange)
    check(histogram, curator)
    assert curator.spent == (promise.rho if curator.concentrated else promise.epsilon)
    if curator.concentrated:
        assert all(entry.rho == entry.cost for entry in curator.paid)
        assert any(entry.epsilon is None for entry in curator.paid)
    else:
        assert exchange
        assert all(entry.rho is None and entry.epsilon == entry.cost for entry in curator.paid)
    assert not curator.concentrated or not exchange or mechanism.name == "flux"  # only flux may prefer Gaussian noise
    again, _ = run(mechanism, CITY, QUERIES, promise, exchange=exchange)
    np.testing.assert_array_equal(parts(again), parts(histogram))


@each
def test_an_exchange_at_once_is_the_same_as_no_delta(mechanism: Mechanism) -> None:
    if mechanism.name != "flux":
        made, _ = run(mechanism, CITY, QUERIES, Promise.of(1, 1e-8))
        plain, _ = run(mechanism, CITY, QUERIES, 1)
        np.testing.assert_array_equal(parts(made), parts(plain))


@each
def test_a_person_of_two_trips_doubles_all_noise_under_a_delta(mechanism: Mechanism) -> None:
    """Four times the rho for a unit of two trips is the same noise, and all that follows from it is the same."""
    rho = Fraction(1, 3)
    noise = SeededNoise(5)
    noise.generator().bytes(16)
    trip = Curator(CITY, Budget(rho, concentrated=True), noise)
    people = list(range(len(CITY.engine.walks)))
    person = Curator(CITY, Budget(4 * rho, concentrated=True), SeededNoise(5), Unit.person(2), people)
    plain, made = (mechanism.synthesize(curator, QUERIES, curator.budget).histogram for curator in (trip, person))
    assert [entry.name for entry in person.paid] == [entry.name for entry in trip.paid]
    for two, one in zip(person.paid, trip.paid, strict=True):
        assert two.rho == 4 * one.rho
        assert float(two.scale) == pytest.approx(float(one.scale), rel=1e-12)
    np.testing.assert_allclose(parts(made), parts(plain), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PUBLISHABLE)
def test_gaussian_noise_of_the_same_scale_is_about_as_good_as_laplace_noise(name: str) -> None:
    """It is narrower; so mechanisms that know how wide their noise is do at least about as well."""
    kept, promise = city(2000), Promise.of(4, 1e-6)
    queries, fresh = some_queries(kept.grid, 200), some_queries(kept.grid, 300, 9)
    truth, errors = kept.total(DistinctTrips(fresh)), []
    for budget in (promise, repr(Budget.of(promise).precision())):
        errors.append(
            np.mean(
                [
                    np.abs(run(ALL[name], kept, queries, budget, seed, False)[0].answers(fresh) - truth).mean()
                    for seed in range(3)
                ]
            )
        )
    assert errors[0] < 1.1 * errors[1]
    assert name == "uniform" or errors[0] < 0.1 * 2000


@each
def test_the_noise_of_releases_under_a_delta(mechanism: Mechanism) -> None:
    grid = unit_square(4, 5)
    promise = Promise.of(8, 1e-6)
    histogram, curator = run(mechanism, strolls(40, grid), some_queries(grid, 10), promise, OpenDPNoise(), False)
    check(histogram, curator)
    assert curator.private
    assert curator.concentrated
