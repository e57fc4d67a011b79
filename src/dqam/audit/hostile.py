"""Adversarial files: a random file, and neighbours of it that each have all rows of one more unit.

Rows are split, scattered, broken or in the wrong place, ids look alike, points are off the earth, and some files hold
nothing but invalid rows. A unit is defined by its key: (person, trip id), as text without the white space around it. A
row without a trip id belongs to no unit and must count as nothing; but if there are no ids at all, every row is a trip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dqam.audit.bad_values import IDS, NO_IDS, SPACES, bad_value
from dqam.audit.formats import FORMATS, Format, Points, TripRow
from dqam.geometry.grid import Grid
from dqam.sources import BATCH
from dqam.values.guarantee import Unit

GRID = Grid((10.0, 50.0, 10.96, 50.64), 8, 12)
GRIDS = (GRID, Grid((571_000.0, 5_538_000.0, 640_000.0, 5_612_000.0), 8, 12, "EPSG:32632"))  # about the same place
START = 1_372_636_800  # seconds since 1970
NEIGHBOURS = 6  # of one base


def _path(rng: np.random.Generator, most: int) -> Points:
    """The points of a random trip."""
    west, south, east, north = GRID.bounds
    wide, high = east - west, north - south

    def placed(u: Any, v: Any) -> Points:
        return [
            (float(x), float(y)) for x, y in zip(west + wide * np.asarray(u), south + high * np.asarray(v), strict=True)
        ]

    count = int(rng.integers(1, 25))
    match int(rng.integers(11)):
        case 0:
            return placed([rng.uniform()], [rng.uniform()])
        case 1:  # through every cell
            rows = (np.arange(GRID.rows) + 0.5) / GRID.rows
            ends = np.array([[0.01, 0.99], [0.99, 0.01]])[np.arange(GRID.rows) % 2]
            return placed(ends.ravel(), np.repeat(rows, 2))
        case 2:  # across the map, with no point inside
            return placed([-0.2, 1.3], rng.uniform(0, 1, 2))
        case 3:  # in and out, a piece each time
            times = int(rng.choice([20, most], p=[0.8, 0.2]))
            return placed(np.tile([0.05, -0.05], times), np.linspace(0.02, 0.98, 2 * times))
        case 4:  # huge jumps
            return placed(rng.uniform(-3, 4, count), rng.uniform(-3, 4, count))
        case 5:  # on lines and corners
            return placed(rng.integers(-1, 14, count) / 12, rng.integers(-1, 10, count) / 8)
        case 6:  # partly in impossible places
            bad = [(200.0, 95.0), (np.nan, 50.3), (10.3, np.inf), (1e308, -1e308), (180.0, 90.0), (-180.0, -90.0)]
            inside = placed(rng.uniform(0, 1, count), rng.uniform(0, 1, count))
            return [bad[rng.integers(len(bad))] if rng.uniform() < 0.4 else point for point in inside]
        case 7:
            return placed([rng.uniform()] * 50, [rng.uniform()] * 50)
        case 8:
            return []
        case _:
            steps = rng.normal(0, 0.15, (count, 2)).cumsum(axis=0) + rng.uniform(0, 1, 2)
            return placed(*steps.T)


def _times(rng: np.random.Generator, count: int) -> list[int]:
    """When the points or pieces of a trip were recorded."""
    times = START + int(rng.integers(10**6)) + int(rng.choice([0, 15, 15, 100])) * np.arange(count)
    return [int(time) for time in (rng.permutation(times) if rng.uniform() < 0.3 else times)]


def _rows(rng: np.random.Generator, form: Format, person: str | None, trip: str | None, most: int) -> list[TripRow]:
    """One trip in random pieces, a row each; in a format by points, each row is a point."""
    points = _path(rng, most)
    if form.by_point:
        return [TripRow(person, trip, time, [at]) for at, time in zip(points, _times(rng, len(points)), strict=True)]
    parts = 1 if form.no_ids else int(rng.choice([1, 1, 2, 5, 20, most], p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05]))
    if form.no_ids or rng.uniform() < 0.5:
        cuts = np.linspace(0, len(points), parts + 1).astype(int)
        pieces = [points[a:b] for a, b in pairwise(cuts)]
    else:  # the same row again and again
        pieces = [points] * parts if len(points) < 200 else [points]
    return [TripRow(person, trip, time, piece) for piece, time in zip(pieces, _times(rng, len(pieces)), strict=True)]


def _spoiled(rng: np.random.Generator, form: Format, rows: list[TripRow], share: float, iso: bool) -> list[TripRow]:
    """The rows with a bad value in a `share` of them, white space around some ids, and times as ISO text if `iso`."""
    spoiled = []
    texts = [role for role in form.columns if form.kinds.get(role, pa.string()) == pa.string()]
    for row in rows:
        overrides = dict(row.overrides)
        if iso and "time" in texts:
            overrides["time"] = str(np.datetime64(row.time, "s"))
        for role in form.keys:
            name = getattr(row, role)
            if role in texts and role not in overrides and name is not None and rng.uniform() < 0.15:
                overrides[role] = SPACES[rng.integers(len(SPACES))].format(name)
        if rng.uniform() < share:
            roles = [*form.replaceable, "line"] if form.csv else form.replaceable
            role = roles[rng.integers(len(roles))]
            overrides[role] = bad_value(rng, form, role)
        spoiled.append(replace(row, overrides=overrides))
    return spoiled


def _without_id(rng: np.random.Generator, form: Format, rows: list[TripRow]) -> list[TripRow]:
    """The first of the rows, if there is one, without one of its ids."""
    role = form.keys[rng.integers(len(form.keys))]
    values = NO_IDS[form.kinds.get(role, pa.string())]
    value = values[int(rng.integers(len(values)))]
    return [replace(row, overrides={role: value}) for row in rows[:1]]


@dataclass(frozen=True)
class Neighbourhood:
    """A file and some neighbours of it. Each neighbour adds all rows of the same unit, but each adds other rows.

    gap         the gap at which trips are split, if any
    salt        decides which trips of a person are kept
    batch       number of points read at a time: few, so that small files have many batches
    wary        whether the curator is wary, as for a publication without `sure`
    base        the rows of the file itself
    neighbours  the rows of each neighbour, each with whether it belongs to the unit
    """

    format: str
    unit: Unit
    grid: Grid
    gap: str | None
    salt: str
    batch: int
    wary: bool
    base: list[TripRow]
    neighbours: list[list[tuple[bool, TripRow]]]


def random_neighbourhood(
    rng: np.random.Generator, name: str, unit: Unit, size: int = NEIGHBOURS, most: int = 60
) -> Neighbourhood:
    """A base and `size` neighbours in the format `name`; no trip has more than about `most` rows or pieces."""
    form = FORMATS[name]
    people, names = (
        IDS[form.kinds.get(role, pa.string())] if role in form.columns else [None] for role in ("person", "trip")
    )
    person, trip = people[rng.integers(len(people))], names[rng.integers(len(names))]
    keys = [
        (who, which)
        for who in people
        for which in names
        if form.no_ids or (who != person if unit.name == "person" else (who, which) != (person, trip))
    ]
    near = [key for key in keys if person is not None and trip is not None and (key[0] == person or key[1] == trip)]
    invalid, iso = float(rng.choice([0.0, 0.15, 1.0], p=[0.5, 0.35, 0.15])), rng.uniform() < 0.5
    base: list[TripRow] = []
    for _ in range(int(rng.integers(0, 8))):
        candidates = near if near and rng.uniform() < 0.5 else keys
        who, which = candidates[rng.integers(len(candidates))]
        rows = _rows(rng, form, who, which, most=20)
        if form.keys and rng.uniform() < 0.1 and (which is None or which != trip):  # else (None, trip) may be the unit
            rows = _without_id(rng, form, rows)
        base += _spoiled(rng, form, rows, invalid, iso)
    base = [base[i] for i in rng.permutation(len(base))] if rng.uniform() < 0.5 else base
    neighbours = []
    for _ in range(size):
        trips = [trip] if unit.name == "trip" else [names[i] for i in rng.permutation(len(names))[: rng.integers(1, 7)]]
        mine = [row for each in trips for row in _rows(rng, form, person, each, most)]
        if form.keys and rng.uniform() < 0.1:
            mine = _without_id(rng, form, mine)
        share = float(rng.choice([0.0, 0.1, 0.5, 1.0], p=[0.35, 0.25, 0.25, 0.15]))
        neighbours.append(_mixed(rng, base, _spoiled(rng, form, mine, share, iso != (rng.uniform() < 0.3))))
    gap = None if rng.uniform() < 0.5 else "60s" if "time" in form.columns and rng.uniform() < 0.5 else "5km"
    batch, wary = int(rng.choice([5, 40, BATCH], p=[0.2, 0.3, 0.5])), bool(rng.integers(2))
    grid, salt = GRIDS[rng.integers(len(GRIDS))], rng.bytes(8).hex()
    return Neighbourhood(name, unit, grid, gap, salt, batch, wary, base, neighbours)


def _mixed(rng: np.random.Generator, base: list[TripRow], mine: list[TripRow]) -> list[tuple[bool, TripRow]]:
    """A unit's rows before, after, within or among those of others, whose order is kept.

    Each row comes with whether it belongs to the unit.
    """
    own = np.zeros(len(base) + len(mine), np.bool_)
    cut = int(rng.integers(len(base) + 1))
    places = (
        np.arange(len(mine)),
        np.arange(len(base), len(own)),
        np.arange(cut, cut + len(mine)),
        rng.permutation(len(own))[: len(mine)],
    )
    own[places[rng.integers(len(places))]] = True
    theirs, ours = iter(base), iter([mine[i] for i in rng.permutation(len(mine))] if rng.uniform() < 0.3 else mine)
    return [(bool(each), next(ours if each else theirs)) for each in own]
