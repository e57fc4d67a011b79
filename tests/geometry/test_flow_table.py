"""Tables of flows answer as if trips were shared out cell by cell."""

import numpy as np
import pytest
import shapely

from dqam.geometry.flow_table import Ends, FlowSlices, FlowTable
from dqam.geometry.lattice import Lattice

TILES = Lattice(np.array([0, 4, 6]), np.array([0, 2, 8]))
CELLS = Lattice(np.array([0, 1, 4, 6]), np.array([0, 2, 5, 8]))
TILE_OF = TILES.within(CELLS).labels.ravel()


def ends(rng: np.random.Generator, noise: float = 0.0) -> Ends:
    """Random shares that add up to 1 in each tile."""
    shares = rng.uniform(0.1, 1, CELLS.cells)
    return Ends(shares / np.bincount(TILE_OF, shares)[TILE_OF], np.full(CELLS.cells, noise))


def table(noise: float = 0.0, alike: float = 0.0) -> FlowTable:
    """A small table with random numbers."""
    rng = np.random.default_rng(1)
    trips = rng.uniform(0, 50, (TILES.cells, TILES.cells))
    return FlowTable(TILES, CELLS, trips, noise * trips, ends(rng, noise / 100), ends(rng, noise / 100), alike)


def by_grid_cell(one: FlowTable) -> np.ndarray:
    """float64[48, 48]: trips between all cells of the grid, where trips are even within the cells of the lattice."""
    cell_of, areas = CELLS.labels.ravel(), CELLS.areas.ravel()
    out, into = ((end.shares / areas)[cell_of] for end in (one.origins, one.destinations))
    tile_of = TILES.labels.ravel()
    return one.trips[np.ix_(tile_of, tile_of)] * out[:, None] * into


def asked(one: FlowTable, first: shapely.Geometry, second: shapely.Geometry) -> tuple[float, float]:
    """Trips and their variance from one area to another."""
    value, variance = one.between(one.leaving(np.array([first])), one.arriving(np.array([second])))
    return float(value[0, 0]), float(variance[0, 0])


@pytest.mark.parametrize("first", [(0, 0, 6, 8), (0, 0, 1, 1), (2, 1, 5, 7), (4, 2, 6, 8)])
@pytest.mark.parametrize("second", [(0, 0, 6, 8), (3, 3, 4, 4), (0, 5, 6, 8)])
def test_rectangles_are_answered_as_by_single_cells(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    one = table()
    rows, columns = np.divmod(np.arange(48), 6)

    def inside(box: tuple[int, ...]) -> np.ndarray:
        return (columns >= box[0]) & (columns < box[2]) & (rows >= box[1]) & (rows < box[3])

    expected = by_grid_cell(one)[np.ix_(inside(first), inside(second))].sum()
    assert asked(one, shapely.box(*first), shapely.box(*second))[0] == pytest.approx(expected)


def test_polygons_count_cells_by_the_part_they_cover() -> None:
    one, triangle = table(), shapely.Polygon([(0, 0), (6, 0), (0, 8)])
    cells = np.array([shapely.box(x, y, x + 1, y + 1) for y in range(8) for x in range(6)])
    covered = shapely.area(shapely.intersection(triangle, cells))
    expected = covered @ by_grid_cell(one).sum(axis=1)
    assert asked(one, triangle, shapely.box(0, 0, 6, 8))[0] == pytest.approx(expected)


def test_disjoint_areas_add_up_and_the_whole_map_has_all_trips() -> None:
    one = table(noise=1, alike=0.2)
    whole, parts = shapely.box(0, 0, 6, 8), [shapely.box(0, 0, 3, 8), shapely.box(3, 0, 6, 8)]
    assert asked(one, whole, whole)[0] == pytest.approx(one.total)
    assert sum(asked(one, part, whole)[0] for part in parts) == pytest.approx(one.total)
    value, _ = one.between(one.leaving(np.array(parts)), one.arriving(np.array(parts)))
    assert value.sum() == pytest.approx(one.total)


def test_areas_that_lie_nowhere_have_no_trips() -> None:
    one = table(noise=1)
    value, variance = one.between(one.leaving(np.array([None])), one.arriving(np.array([shapely.box(0, 0, 6, 8)])))
    assert value[0, 0] == variance[0, 0] == 0
    empty, _ = one.between(one.leaving(np.zeros(0, object)), one.arriving(np.array([shapely.box(0, 0, 6, 8)])))
    assert empty.shape == (0, 1)


def test_whole_tiles_are_as_uncertain_as_the_table() -> None:
    one = table(noise=2, alike=0.5)
    tile = shapely.box(0, 0, 4, 2)
    assert asked(one, tile, tile)[1] == pytest.approx(one.variance[0, 0])
    whole = shapely.box(0, 0, 6, 8)
    assert asked(one, whole, whole)[1] == pytest.approx(one.variance.sum())


def test_the_variance_of_parts_of_tiles_is_that_of_simulated_trips() -> None:
    """Trips choose their cells on their own (`alike` 0), and shares are known (no noise) and even within cells."""
    one = table()
    first, second = shapely.box(0, 0, 1, 2), shapely.box(4, 2, 6, 5)
    out, into = one.leaving(np.array([first])), one.arriving(np.array([second]))
    share = out.shares.toarray()[0][:, None] * into.shares.toarray()[0]
    assert asked(one, first, second)[1] == pytest.approx((one.trips * share * (1 - share)).sum())


def test_cells_that_are_cut_make_answers_uncertain() -> None:
    one, whole = table(), shapely.box(0, 0, 6, 8)
    along, across = (asked(one, shapely.box(0, 0, x, 8), whole)[1] for x in (1, 2.5))
    assert across > along > 0


def test_noise_in_shares_cancels_where_a_tile_is_covered() -> None:
    quiet, loud = table(), table(noise=1)
    loud = FlowTable(TILES, CELLS, quiet.trips, quiet.variance, loud.origins, loud.destinations, 0.0)
    tile, part, whole = shapely.box(0, 0, 4, 2), shapely.box(0, 0, 1, 2), shapely.box(0, 0, 6, 8)
    assert asked(loud, tile, whole)[1] == pytest.approx(asked(quiet, tile, whole)[1], abs=1e-9)
    assert asked(loud, part, whole)[1] > asked(quiet, part, whole)[1]


def test_a_factor_scales_answers_and_adds_its_uncertainty() -> None:
    one = table(noise=1)
    scaled, whole = one.scaled(3.0, 0.5), shapely.box(0, 0, 6, 8)
    assert scaled.total == pytest.approx(3 * one.total)
    assert asked(scaled, whole, whole)[1] > 9 * asked(one, whole, whole)[1]


def test_slices_add_up() -> None:
    rng, coarse = np.random.default_rng(2), Lattice(np.array([0, 6]), np.array([0, 2, 8]))
    shares = rng.uniform(0.1, 1, (3, 2, 2))
    sliced = FlowSlices(("a", "b", "c"), coarse, shares / shares.sum(axis=0), np.full((3, 2, 2), 0.01))
    one = table(noise=1)
    parts = [sliced.of(one, [name]) for name in sliced.names]
    assert np.allclose(sum(part.trips for part in parts), one.trips)
    assert np.allclose(sliced.of(one, ["a", "c"]).trips, parts[0].trips + parts[2].trips)
    tiles_of = np.array([0, 0, 1, 1])
    assert np.allclose(parts[1].trips, one.trips * sliced.shares[1][np.ix_(tiles_of, tiles_of)])
