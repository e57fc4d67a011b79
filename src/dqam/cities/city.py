"""A made-up city in pure code: 10 km x 10 km of streets in the open Atlantic, where nobody can take it for a real one.

Streets follow a warped lattice that is finer around the centres and has parks and missing blocks. Arterials and a ring
road are faster, and only a few bridges cross the river. Trips concentrate around five centres. The network is always
the same; trips depend on the seed. Coordinates in this module are metres east and north of the middle of the city.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from dqam.cities.journeys import journeys
from dqam.cities.roads import RoadNetwork
from dqam.geometry.arrays import Floats, Integers, Integers32, Mask
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips

SIDE = 10_000.0
BOUNDS = Grid.square((-30.0, 45.0), side_km=SIDE / 1000).bounds

# x, y, radius of the fine streets, spread of demand and share of demand of each centre; the other demand is uniform
CENTRES = np.array(
    [
        (500.0, 700.0, 1500.0, 650.0, 0.44),
        (-2300.0, 2300.0, 800.0, 420.0, 0.16),
        (2900.0, -2300.0, 850.0, 450.0, 0.14),
        (-2100.0, -2900.0, 650.0, 380.0, 0.10),
        (3200.0, 3100.0, 550.0, 300.0, 0.06),
    ]
)
PARKS = np.array([(-1500.0, 600.0, 380.0, 600.0), (2500.0, 1300.0, 560.0, 360.0), (300.0, -2500.0, 650.0, 420.0)])

STEP = 100.0  # metres between the finest streets
LINES = 97  # of the lattice, each way; away from centres every second is missing, at the rim three in four
RIM = STEP * (LINES - 1) / 2
NORTHBOUND_ARTERIALS, EASTBOUND_ARTERIALS = (4, 24, 40, 56, 76, 92), (8, 24, 40, 56, 72, 88)
BRIDGES = (12, 28, 40, 56, 76)  # lattice lines that cross the river; the ring road also crosses it, twice
HALF_RIVER, QUAY = 75.0, 40.0
KMH_FINE, KMH_STREET, KMH_ROAD, KMH_ARTERIAL, KMH_RAMP, KMH_RING = 20.0, 27.0, 34.0, 46.0, 40.0, 78.0


def river(x: Floats) -> Floats:
    """The y of the middle of the river at x; it runs from west to east."""
    return -700.0 + 950.0 * np.sin((x + 1500.0) / 1900.0) * np.exp(-(((x - 800.0) / 6000.0) ** 2)) + 0.12 * x


def to_degrees(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Longitude and latitude of metres east and north of the middle."""
    west, south, east, north = BOUNDS
    return west + (x / SIDE + 0.5) * (east - west), south + (y / SIDE + 0.5) * (north - south)


def city_trips(n: int, seed: int, *, interval: float = 15.0, threads: int | None = None) -> Iterator[Trips]:
    """Generate n trips in the made-up city, with a point every `interval` seconds; all lie within `BOUNDS`."""
    network = made_up_city()
    shares = np.cumsum(CENTRES[:, 4])

    def draw(rng: np.random.Generator, size: int) -> tuple[Integers32, Integers32]:
        centre = np.searchsorted(shares, rng.random((2, size)), side="right")
        anywhere = centre == len(CENTRES)
        x0, y0, _, spread, _ = CENTRES[np.where(anywhere, 0, centre)].transpose(2, 0, 1)
        around, uniform = rng.standard_normal((2, 2, size)), rng.uniform(-RIM, RIM, (2, 2, size))
        x = np.where(anywhere, uniform[0], x0 + spread * around[0])
        y = np.where(anywhere, uniform[1], y0 + spread * around[1])
        origins, destinations = network.nearest(*to_degrees(x, y))
        return origins, destinations

    return journeys(network, draw, n, seed, interval=interval, threads=threads)


@cache
def made_up_city() -> RoadNetwork:
    """The road network of the city."""
    rng = np.random.default_rng(1)
    column, row, x, y = _crossings(rng)
    tails, heads, speeds = _streets(rng, column, row, x, y)
    ring_x, ring_y = _ring_road()
    ring = len(x) + np.arange(len(ring_x))
    x, y = np.concatenate([x, ring_x]), np.concatenate([y, ring_y])
    exits = ring[::6]
    onto = np.hypot(x[exits, None] - x[: ring[0]], y[exits, None] - y[: ring[0]]).argmin(axis=1)
    dry = ~_wet(x, y, exits, onto)
    tails = np.concatenate([tails, ring, exits[dry]])
    heads = np.concatenate([heads, np.roll(ring, -1), onto[dry]])
    speeds = np.concatenate([speeds, np.full(len(ring), KMH_RING), np.full(dry.sum(), KMH_RAMP)])
    seconds = np.hypot(x[heads] - x[tails], y[heads] - y[tails]) / (speeds / 3.6)
    lon, lat = to_degrees(x, y)
    return RoadNetwork.from_links(
        lon,
        lat,
        np.concatenate([tails, heads]).astype(np.int32),
        np.concatenate([heads, tails]).astype(np.int32),
        np.concatenate([seconds, seconds]),
    )


def _rank(line: Integers) -> Integers:
    """0 for lattice lines that run through the whole city, 1 for those of the town, 2 for those of the centres."""
    return np.where(line % 4 == 0, 0, np.where(line % 2 == 0, 1, 2))


def _crossings(rng: np.random.Generator) -> tuple[Integers, Integers, Floats, Floats]:
    """Lattice column and row of each crossing, and its x and y."""
    column, row = (lines.ravel() for lines in np.mgrid[:LINES, :LINES])
    x, y = column * STEP - RIM, row * STEP - RIM
    # a smooth warp bends the lattice and fades at the rim, so that the city stays within its bounds
    fade = (1 - (x / RIM) ** 2) * (1 - (y / RIM) ** 2)
    x, y = (
        x + fade * (420 * np.sin(y / 1500 + 0.4) + 190 * np.sin(x / 1100 + y / 1300)),
        y + fade * (400 * np.sin(x / 1600 + 1.1) + 200 * np.sin(y / 1200 - x / 1300)),
    )
    jitter = np.where(fade > 0, 0.16 * STEP, 0) * rng.standard_normal((2, len(x))).clip(-2, 2)
    x, y = x + jitter[0], y + jitter[1]
    nearness = (np.hypot(x[:, None] - CENTRES[:, 0], y[:, None] - CENTRES[:, 1]) / CENTRES[:, 2]).min(axis=1)
    finest = np.where(nearness < 1, 2, np.where(nearness < 2.6, 1, 0))
    rank = np.maximum(_rank(column), _rank(row))
    parks = [((x - px) / width) ** 2 + ((y - py) / height) ** 2 < 1 for px, py, width, height in PARKS]
    kept = (rank <= finest) & ~np.any(parks, axis=0) & (np.abs(y - river(x)) > HALF_RIVER + QUAY)
    kept &= (rng.random(len(x)) > 0.07) | (rank == 0)
    angle = np.arctan2(y, x)
    kept &= np.hypot(x, y) < 5400 * (1 + 0.07 * np.sin(3 * angle + 2) + 0.05 * np.sin(5 * angle))  # beyond are fields
    return column[kept], row[kept], x[kept], y[kept]


def _streets(
    rng: np.random.Generator, column: Integers, row: Integers, x: Floats, y: Floats
) -> tuple[Integers, Integers, Floats]:
    """Tails and heads of the streets between neighbours on a lattice line, each once, and their speeds in km/h."""
    tails, heads, speeds = [], [], []
    for line, place, arterials, bridges in (
        (column, row, NORTHBOUND_ARTERIALS, BRIDGES),
        (row, column, EASTBOUND_ARTERIALS, ()),
    ):
        order = np.lexsort([place, line])
        tail, head = order[:-1], order[1:]
        gap = np.where(line[tail] == line[head], place[head] - place[tail], LINES)
        wet = _wet(x, y, tail, head)
        arterial = np.isin(line[tail], arterials)
        built = np.where(wet, np.isin(line[tail], bridges) & (gap <= 12), gap <= 4)
        built &= arterial | wet | (rng.random(len(tail)) > 0.06)
        tails.append(tail[built])
        heads.append(head[built])
        speed = np.array([KMH_ROAD, KMH_STREET, KMH_FINE])[_rank(line[tail])]
        speeds.append(np.where(arterial | wet, KMH_ARTERIAL, speed)[built])
    return np.concatenate(tails), np.concatenate(heads), np.concatenate(speeds)


def _ring_road() -> tuple[Floats, Floats]:
    angle = np.linspace(0, 2 * np.pi, 144, endpoint=False)
    radius = 3500 * (1 + 0.07 * np.sin(3 * angle + 1) + 0.03 * np.cos(5 * angle))
    return 100 + radius * np.cos(angle), 150 + radius * np.sin(angle)


def _wet(x: Floats, y: Floats, tail: Integers, head: Integers) -> Mask:
    """Whether each straight link touches the river, checked at every tenth of its length, as blocks are short."""
    along = np.linspace(0, 1, 11)[:, None]
    over_x, over_y = x[tail] + along * (x[head] - x[tail]), y[tail] + along * (y[head] - y[tail])
    off = over_y - river(over_x)
    return (np.abs(off) < HALF_RIVER).any(axis=0) | (np.sign(off[0]) != np.sign(off[-1]))
