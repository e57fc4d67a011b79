"""The mechanisms as the paper has them: that they are what is printed, and do what that does."""

from functools import cache

import numpy as np
import pytest

from dqam import cities
from dqam.consistency.pairwise import is_consistent
from dqam.experiments.printed import PRINTED, Exact, PrintedRegions, printed_partition
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.regions import Partition
from dqam.geometry.tally import spread_mass
from dqam.geometry.walks import walk
from dqam.mechanisms import MECHANISMS
from dqam.mechanisms.dqam import meets


@cache
def exact(n: int = 1000, resolution: int = 6, seed: int = 1) -> Exact:
    """Trips of the made-up city."""
    (trips,) = cities.city_trips(n, seed)
    walks = walk(trips, Grid.over(cities.BOUNDS, resolution))
    return Exact(SpatialHistogram.of(walks), spread_mass(walks), walks.on_grid)


def queries(of: Exact, count: int = 200) -> np.ndarray:
    return random_rectangles(of.histogram.grid, count, np.random.default_rng(3))


def parts(of: SpatialHistogram) -> np.ndarray:
    return np.concatenate([of.faces.ravel(), of.vertical.ravel(), of.horizontal.ravel()])


def made(
    name: str, of: Exact, epsilon: float, rounds: int = 10, seed: int = 0, count: int = 200
) -> tuple[np.ndarray, SpatialHistogram]:
    answers, histogram = PRINTED[name].run(of, queries(of, count), epsilon, rounds, np.random.default_rng(seed))
    assert histogram is not None
    np.testing.assert_allclose(answers, histogram.answers(queries(of, count)))
    return answers, histogram


def test_printed_forms_are_those_that_can_not_be_published() -> None:
    assert PRINTED.keys() == {name for name, row in MECHANISMS.items() if not row.publishable}
    assert all(name.endswith("-printed") for name in PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_the_same_seed_gives_the_same_and_another_does_not(name: str) -> None:
    of = exact(300, 5)
    first, again, other = (
        PRINTED[name].run(of, queries(of), 5.0, 3, np.random.default_rng(seed))[0] for seed in (0, 0, 1)
    )
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_start_is_even_with_the_sums_of_the_data() -> None:
    of = exact()
    start = of.evenly
    assert np.ptp(start.faces) == 0
    assert start.faces.sum() == pytest.approx(of.histogram.faces.sum())
    assert start.total == pytest.approx(of.trips)
    edges = np.concatenate([start.vertical.ravel(), start.horizontal.ravel()])
    assert np.ptp(edges) == 0
    assert edges.sum() == pytest.approx(of.histogram.vertical.sum() + of.histogram.horizontal.sum())


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1])
@pytest.mark.parametrize(("resolution", "seeds"), [(6, range(5)), (8, range(2))], ids=["64 x 64", "256 x 256"])
def test_dqam_as_printed_is_the_even_histogram_for_1000_trips(epsilon: float, resolution: int, seeds: range) -> None:
    """delta = 4 / eps1^2 >= 6,400 is more than any cost (2n = 2,000) and its noise: no split, one region, no change."""
    of = exact(1000, resolution)
    assert of.trips == 1000
    for seed in seeds:
        _, histogram = made("dqam-printed", of, epsilon, seed=seed)
        np.testing.assert_allclose(parts(histogram), parts(of.evenly), rtol=1e-9)
        assert np.ptp(histogram.faces) <= 1e-9 * histogram.faces.max()
        assert np.ptp(histogram.vertical) <= 1e-9 * histogram.vertical.max()
        assert histogram.total == pytest.approx(1000, rel=1e-9)
        assert len(printed_partition(of.shares, epsilon / 4, np.random.default_rng(seed))) == 1


def test_dqam_as_printed_does_learn_from_a_large_epsilon() -> None:
    of = exact()
    truth = of.histogram.answers(queries(of))
    _, histogram = made("dqam-printed", of, 100.0, rounds=20)
    assert np.ptp(histogram.faces) > 0.5 * histogram.faces.mean()
    even = np.abs(of.evenly.answers(queries(of)) - truth).mean()
    assert np.abs(histogram.answers(queries(of)) - truth).mean() < 0.98 * even  # little: densities are far below 1


def test_the_tree_as_printed_splits_what_is_concentrated() -> None:
    shares = np.zeros((16, 16))
    shares[3, 5] = 100_000.0
    for seed in range(5):
        partition = printed_partition(shares, 0.2, np.random.default_rng(seed))  # delta is ten times the noise
        assert [5, 3, 6, 4] in partition.regions.tolist()
        assert len(partition) == 1 + 3 * 4  # of each of four splits, three parts are left as they are
        assert len(printed_partition(np.full((16, 16), 400.0), 0.2, np.random.default_rng(seed))) == 1


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (5, 12)])
def test_the_tree_as_printed_covers_grids_of_any_shape(shape: tuple[int, int]) -> None:
    shares = np.random.default_rng(0).pareto(0.5, shape) * 100
    for epsilon in (0.1, 3.0, 1000.0):
        partition = printed_partition(shares, epsilon, np.random.default_rng(1))  # which checks itself
        assert partition.labels.shape == shape


def test_noise_of_the_tree_is_drawn_anew_at_every_level() -> None:
    """On no data at all it still splits now and then, if delta is not above the noise."""
    found = {len(printed_partition(np.zeros((8, 8)), 30.0, np.random.default_rng(seed))) for seed in range(40)}
    assert len(found) > 1


def test_mwem_as_printed_has_faces_only_and_keeps_their_sum() -> None:
    of = exact()
    for epsilon in (0.01, 100.0):
        _, histogram = made("mwem-printed", of, epsilon)
        assert not histogram.vertical.any()
        assert not histogram.horizontal.any()
        assert histogram.faces.sum() == pytest.approx(of.histogram.faces.sum())
        assert histogram.faces.min() > 0


@pytest.mark.parametrize("name", ["mwem-printed", "prish-printed", "dqam-printed"])
def test_rounds_are_as_many_as_asked(name: str) -> None:
    of = exact(300, 5)
    by_rounds = [made(name, of, 1000.0, rounds)[0] for rounds in (1, 2, 10)]
    assert (by_rounds[0] != by_rounds[1]).any()
    truth = of.histogram.answers(queries(of))
    if name == "mwem-printed":
        bare = SpatialHistogram(
            of.histogram.grid, of.histogram.faces, of.histogram.vertical * 0, of.histogram.horizontal * 0
        )
        truth = bare.answers(queries(of))
    errors = [np.abs(answers - truth).mean() for answers in by_rounds]
    assert errors[2] < errors[0]


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_lm_as_printed_has_noise_as_wide_as_there_are_queries(epsilon: float) -> None:
    of = exact(300, 5)
    bare = SpatialHistogram(
        of.histogram.grid, of.histogram.faces, of.histogram.vertical * 0, of.histogram.horizontal * 0
    )
    for count in (50, 800):
        asked = queries(of, count)
        noise = np.concatenate(
            [
                PRINTED["laplace-printed"].run(of, asked, epsilon, 0, np.random.default_rng(seed))[0]
                - bare.answers(asked)
                for seed in range(20)
            ]
        )
        assert np.abs(noise).mean() == pytest.approx(count / epsilon, rel=0.15)  # E|Laplace| is its scale
        assert abs(noise.mean()) < 0.15 * count / epsilon
    assert PRINTED["laplace-printed"].run(of, queries(of), epsilon, 0, np.random.default_rng(0))[1] is None


@pytest.mark.parametrize("name", ["prish-printed", "dqam-printed"])
@pytest.mark.parametrize("epsilon", [0.1, 10.0, 1000.0])
def test_prish_as_printed_is_consistent_with_the_exact_number_of_trips(name: str, epsilon: float) -> None:
    of = exact(300, 5)
    for seed in range(3):
        _, histogram = made(name, of, epsilon, seed=seed)
        assert histogram.faces.min() >= 0
        if name == "prish-printed":
            assert is_consistent(histogram)
            assert histogram.total == pytest.approx(of.trips)


def test_an_update_as_printed() -> None:
    """Faces of regions that the query meets by exp(error * density / 2n); edges between two such by the mean."""
    grid = Grid((0.0, 0.0, 1.0, 1.0), 4, 4)
    partition = Partition(4, 4, np.array([[0, 0, 2, 2], [2, 0, 4, 2], [0, 2, 2, 4], [2, 2, 4, 4]]))
    densities = np.array([0.4, 0.1, 0.3, 0.2])
    start = SpatialHistogram(grid, np.full((4, 4), 10.0), np.full((4, 3), 4.0), np.full((3, 4), 4.0))
    query = np.array([[1, 0, 3, 1]])
    assert meets(partition, query[0]).tolist() == [True, True, False, False]
    model = PrintedRegions(start, partition, densities, int(start.total))
    error = 30.0
    model.learn(query, start.answers(query) + error)
    made, power = model.histogram(), error * densities / (2 * start.total)
    scale = made.faces[3, 3] / 10  # nothing there but the scaling to the total
    np.testing.assert_allclose(made.faces[:2, :2], 10 * scale * np.exp(power[0]))
    np.testing.assert_allclose(made.faces[:2, 2:], 10 * scale * np.exp(power[1]))
    np.testing.assert_allclose(made.faces[2:], 10 * scale)
    np.testing.assert_allclose(made.vertical[:2, 0], 4 * scale * np.exp(power[0]))
    np.testing.assert_allclose(made.vertical[:2, 1], 4 * scale * np.exp((power[0] + power[1]) / 2))
    np.testing.assert_allclose(made.horizontal[0, :2], 4 * scale * np.exp(power[0]))
    np.testing.assert_allclose(made.horizontal[1:], 4 * scale)  # on the border of a region that is met, or beyond
    assert made.total == pytest.approx(start.total)


def test_what_an_update_as_printed_breaks_is_mended() -> None:
    """Lowering a region leaves the edges on its border above its faces."""
    grid = Grid((0.0, 0.0, 1.0, 1.0), 4, 4)
    partition = Partition(4, 4, np.array([[0, 0, 2, 2], [2, 0, 4, 2], [0, 2, 2, 4], [2, 2, 4, 4]]))
    start = SpatialHistogram(grid, np.full((4, 4), 10.0), np.full((4, 3), 6.5), np.full((3, 4), 6.5))
    model = PrintedRegions(start, partition, np.ones(4), int(start.total))
    model.learn(np.array([[0, 0, 1, 1]]), np.array([-4.0 * start.total]))
    assert is_consistent(model.histogram())
