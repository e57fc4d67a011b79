"""Compiled kernels for fastest routes on a road network, and for points along them.

A network is in compressed rows: the links that leave node v are starts[v] to starts[v + 1], link e ends at heads[e] and
takes seconds[e] > 0. The kernels release the interpreter lock, so chunks of origins run in threads. They draw nothing
at random, so the number of threads cannot change the result.

The search is not SciPy's, which gives neither the links of a route nor a way to stop early. It finds all routes of
1,000 trips in half the time, and of 100,000 trips in three quarters of the time, that `scipy.sparse.csgraph.dijkstra`
takes for the trees alone (networks of 2,575 to 5,165 nodes).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dqam.geometry.arrays import Floats, Integers, Integers32, Mask


@njit(nogil=True, cache=True)
def _push(keys: Floats, items: Integers32, size: int, key: float, item: int) -> None:
    """Add an item to a binary heap of `size` items."""
    hole = size
    while hole > 0:
        above = (hole - 1) // 2
        if keys[above] <= key:
            break
        keys[hole], items[hole] = keys[above], items[above]
        hole = above
    keys[hole], items[hole] = key, item


@njit(nogil=True, cache=True)
def _drop_first(keys: Floats, items: Integers32, size: int) -> None:
    """Remove the smallest item from a binary heap of `size` items."""
    last = size - 1
    key, item = keys[last], items[last]
    hole = 0
    while True:
        below = 2 * hole + 1
        if below >= last:
            break
        if below + 1 < last and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[hole], items[hole] = keys[below], items[below]
        hole = below
    keys[hole], items[hole] = key, item


@njit(nogil=True, cache=True)
def grow_tree(
    starts: Integers,
    heads: Integers32,
    seconds: Floats,
    origin: int,
    wanted: Mask,
    pending: int,
    reached: Floats,
    through: Integers32,
    keys: Floats,
    items: Integers32,
) -> None:
    """Grow Dijkstra's tree from `origin`: fill reached[v], in seconds, and through[v], the link that leads to v.

    Stop as soon as the `pending` nodes marked in `wanted` are settled; nodes further away are then unfinished. `keys`
    and `items` are space for a heap of links + 1 items, because nodes are pushed again rather than moved.
    """
    reached[:] = np.inf
    through[:] = -1
    reached[origin] = 0.0
    keys[0], items[0] = 0.0, origin
    size = 1
    while size > 0 and pending > 0:
        key, node = keys[0], items[0]
        _drop_first(keys, items, size)
        size -= 1
        if key > reached[node]:
            continue
        if wanted[node]:
            pending -= 1
        for link in range(starts[node], starts[node + 1]):
            arrival = key + seconds[link]
            head = heads[link]
            if arrival < reached[head]:
                reached[head] = arrival
                through[head] = link
                _push(keys, items, size, arrival, head)
                size += 1


@njit(nogil=True, cache=True)
def find_routes(
    starts: Integers,
    tails: Integers32,
    heads: Integers32,
    seconds: Floats,
    origins: Integers32,
    destinations: Integers32,
) -> tuple[Floats, Integers, Integers32]:
    """The fastest routes of trips that are sorted by origin; trips with the same origin share one tree.

    Returns durations, float64[trips] in seconds, offsets, int64[trips + 1], and links: route j takes the links
    links[offsets[j] : offsets[j + 1]] in travel order.
    """
    trips, nodes = len(origins), len(starts) - 1
    wanted = np.zeros(nodes, np.bool_)
    reached, through = np.empty(nodes, np.float64), np.empty(nodes, np.int32)
    keys, items = np.empty(len(heads) + 1, np.float64), np.empty(len(heads) + 1, np.int32)
    durations = np.empty(trips, np.float64)
    offsets = np.zeros(trips + 1, np.int64)
    links = np.empty(64 * trips, np.int32)
    first = 0
    while first < trips:
        origin = origins[first]
        last = first
        pending = 0
        while last < trips and origins[last] == origin:
            if not wanted[destinations[last]]:
                wanted[destinations[last]] = True
                pending += 1
            last += 1
        grow_tree(starts, heads, seconds, origin, wanted, pending, reached, through, keys, items)
        for trip in range(first, last):
            node = destinations[trip]
            wanted[node] = False
            durations[trip] = reached[node]
            steps = 0
            while node != origin:
                node = tails[through[node]]
                steps += 1
            end = offsets[trip] + steps
            offsets[trip + 1] = end
            if end > len(links):
                roomier = np.empty(max(2 * len(links), end), np.int32)
                roomier[: offsets[trip]] = links[: offsets[trip]]
                links = roomier
            node = destinations[trip]
            while node != origin:
                end -= 1
                links[end] = through[node]
                node = tails[through[node]]
        first = last
    return durations, offsets, links[: offsets[trips]].copy()


@njit(nogil=True, cache=True)
def place_points(
    seconds: Floats,
    shape_starts: Integers,
    shape_lon: Floats,
    shape_lat: Floats,
    shape_share: Floats,
    durations: Floats,
    route_offsets: Integers,
    route_links: Integers32,
    trips: Integers,
    interval: float,
    units: int,
    departures: Integers,
    offsets: Integers,
    lon: Floats,
    lat: Floats,
    time: Integers,
) -> None:
    """Write the position of each of `trips` at every interval and on arrival into its part of lon, lat and time.

    Route j belongs to trip trips[j], whose points are offsets[trips[j]] to offsets[trips[j] + 1]. Times are in
    microseconds. Arrivals are rounded up to the next full second, so that none follows the previous point at once.
    """
    for j, trip in enumerate(trips):
        base = offsets[trip]
        size = offsets[trip + 1] - base
        arrives = np.ceil(durations[j] / interval) <= units
        regular = size - 1 if arrives else size
        point = 0
        elapsed = 0.0
        for link in route_links[route_offsets[j] : route_offsets[j + 1]]:
            end = elapsed + seconds[link]
            corner = shape_starts[link]
            while point < regular and point * interval < end:
                share = (point * interval - elapsed) / seconds[link]
                while corner < shape_starts[link + 1] - 2 and shape_share[corner + 1] <= share:
                    corner += 1
                piece = shape_share[corner + 1] - shape_share[corner]
                along = (share - shape_share[corner]) / piece if piece > 0 else 0.0
                lon[base + point] = shape_lon[corner] + along * (shape_lon[corner + 1] - shape_lon[corner])
                lat[base + point] = shape_lat[corner] + along * (shape_lat[corner + 1] - shape_lat[corner])
                time[base + point] = departures[trip] + np.int64(np.round(point * interval * 1e6))
                point += 1
            if point == size:
                break
            elapsed = end
        if arrives:
            final = shape_starts[route_links[route_offsets[j + 1] - 1] + 1] - 1
            lon[base + size - 1] = shape_lon[final]
            lat[base + size - 1] = shape_lat[final]
            time[base + size - 1] = departures[trip] + np.int64(np.ceil(durations[j])) * 1_000_000
