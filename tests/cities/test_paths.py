"""Fastest routes against SciPy and against answers known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from dqam.cities.paths import find_routes, place_points


def random_graph(nodes: int, links: int, seed: int):
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, nodes * nodes, links))
    tails, heads = (pairs // nodes).astype(np.int32), (pairs % nodes).astype(np.int32)
    tails, heads = tails[tails != heads], heads[tails != heads]
    starts = np.searchsorted(tails, np.arange(nodes + 1)).astype(np.int64)
    seconds = rng.uniform(0.5, 20, len(tails))
    return starts, tails, heads, seconds, csr_matrix((seconds, heads, starts), shape=(nodes, nodes))


@pytest.mark.parametrize("seed", range(3))
def test_routes_are_as_short_as_scipy_finds(seed):
    starts, tails, heads, seconds, matrix = random_graph(150, 900, seed)
    best = dijkstra(matrix)
    origins, destinations = (ends.astype(np.int32) for ends in np.nonzero(np.isfinite(best)))
    # Every pair in random order within its origin, so that the search ends at different nodes.
    order = np.lexsort([np.random.default_rng(seed).random(len(origins)), origins])
    origins, destinations = origins[order], destinations[order]
    durations, offsets, links = find_routes(starts, tails, heads, seconds, origins, destinations)
    np.testing.assert_allclose(durations, best[origins, destinations], rtol=1e-12)
    sums = np.concatenate([[0], np.cumsum(seconds[links])])[offsets]
    np.testing.assert_allclose(np.diff(sums), durations, atol=1e-6)
    moves = np.diff(offsets) > 0
    assert (tails[links[offsets[:-1][moves]]] == origins[moves]).all()
    assert (heads[links[offsets[1:][moves] - 1]] == destinations[moves]).all()
    joints = np.setdiff1d(np.arange(1, len(links)), offsets)
    assert (tails[links[joints]] == heads[links[joints - 1]]).all()


def test_one_wanted_destination_gives_the_same_as_all():
    starts, tails, heads, seconds, matrix = random_graph(120, 800, 7)
    best = dijkstra(matrix, indices=[5])[0]
    for destination in np.flatnonzero(np.isfinite(best)):
        one = np.array([5], np.int32), np.array([destination], np.int32)
        assert find_routes(starts, tails, heads, seconds, *one)[0][0] == pytest.approx(best[destination])


def test_routes_longer_than_the_first_room():
    nodes = 3000
    starts, heads = np.arange(nodes + 1, dtype=np.int64), np.roll(np.arange(nodes, dtype=np.int32), -1)
    tails, seconds = np.arange(nodes, dtype=np.int32), np.ones(nodes)
    ends = np.array([0, 0, 1], np.int32), np.array([2999, 1, 0], np.int32)
    durations, offsets, links = find_routes(starts, tails, heads, seconds, *ends)
    assert durations.tolist() == [2999, 1, 2999]
    assert offsets.tolist() == [0, 2999, 3000, 5999]
    assert (links == np.concatenate([np.arange(2999), [0], np.arange(1, 3000)])).all()


@pytest.mark.parametrize(
    ("units", "expected", "times"),
    [
        (99, [(0, 0), (4, 0), (6, 2), (6, 6), (7, 6)], [100, 104, 108, 112, 115]),
        (3, [(0, 0), (4, 0), (6, 2), (6, 6)], [100, 104, 108, 112]),
        (4, [(0, 0), (4, 0), (6, 2), (6, 6), (7, 6)], [100, 104, 108, 112, 115]),
    ],
)
def test_points_follow_the_shape_of_links(units, expected, times):
    # Link 0 goes east for 6 and north for 6 in 12 s, link 1 goes east for 1 in 2.5 s: arrival at 14.5 s, seen at 15.
    shape = np.array([0, 3, 5]), np.array([0.0, 6, 6, 6, 7]), np.array([0.0, 0, 6, 6, 6])
    share = np.array([0, 0.5, 1, 0, 1])
    size = len(expected)
    lon, lat, time = np.full(size, np.nan), np.full(size, np.nan), np.zeros(size, np.int64)
    place_points(
        np.array([12.0, 2.5]),
        *shape,
        share,
        np.array([14.5]),
        np.array([0, 2]),
        np.array([0, 1], np.int32),
        np.array([0]),
        4.0,
        units,
        np.array([100_000_000]),
        np.array([0, size]),
        lon,
        lat,
        time,
    )
    np.testing.assert_allclose(np.column_stack([lon, lat]), expected, atol=1e-12)
    assert (time // 1_000_000).tolist() == times
