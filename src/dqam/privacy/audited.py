"""What `dqam audit` can be run on: each question of the curator by itself, and mechanisms that are broken on purpose.

The broken ones are there so that the audit shows what it can see: it has to catch every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dqam.grid import Grid
from dqam.histogram import SpatialHistogram
from dqam.partition.privtree import PrivTree
from dqam.partition.quadtree import grow_quadtree
from dqam.partition.regions import Partition
from dqam.privacy.audit import GRID, Mechanism, laid
from dqam.privacy.budget import Budget, Unit
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.statistics import (
    FLUX,
    MASS,
    CellShares,
    DistinctCounts,
    Endpoints,
    Flux,
    LengthQuantile,
    QueryErrors,
    Records,
    TripCount,
    UniformityCosts,
    region_costs,
)
from dqam.trips import Trips

QUARTERS = Partition(8, 8, np.array([[0, 0, 4, 4], [4, 0, 8, 4], [0, 4, 4, 8], [4, 4, 8, 8]]))
RECTANGLES = np.array([[0, 0, 8, 8], [2, 2, 3, 3], [4, 0, 8, 8], [1, 1, 7, 4], [0, 6, 8, 8]])
CAP = 6


@dataclass(frozen=True)
class Audited:
    """A mechanism to audit: what it is, and how to make it for some eps."""

    about: str
    make: Callable[[Fraction], Mechanism]
    sound: bool = True
    pairs: Mapping[str, tuple[Trips, Trips]] | None = None  # its own neighbours, where the usual ones do not hurt it


def _asks(question: Callable[[Curator, Budget], Any]) -> Callable[[Fraction], Mechanism]:
    """A mechanism that asks a curator one question."""

    def make(epsilon: Fraction) -> Mechanism:
        def run(trips: Trips, rng: np.random.Generator) -> Any:
            budget = Budget(epsilon)
            return question(Curator(laid(trips), budget, SeededNoise(rng)), budget)

        return run

    return make


def _peeks(question: Callable[[Records, SeededNoise, Fraction], Any]) -> Callable[[Fraction], Mechanism]:
    """A broken mechanism, which looks at the records itself."""

    def make(epsilon: Fraction) -> Mechanism:
        def run(trips: Trips, rng: np.random.Generator) -> Any:
            return question(Records(laid(trips)), SeededNoise(rng), epsilon)

        return run

    return make


def _select_and_measure(curator: Curator, budget: Budget) -> Any:
    choosing, counting = budget.split(choosing=1, counting=1)
    chosen = curator.select(QueryErrors(RECTANGLES, np.zeros(len(RECTANGLES))), choosing)
    return {"chosen": str(chosen), "count": curator.measure(DistinctCounts(RECTANGLES[[chosen]]), counting)}


def _lengths(curator: Curator, budget: Budget) -> str:
    return str(curator.select(LengthQuantile(np.array([0, 2, 4, 8, 16, 32, 63]), Fraction(3, 4)), budget))


def _by_person(epsilon: Fraction) -> Mechanism:
    """The first twelve trips are one person's, the rest another's."""

    def run(trips: Trips, rng: np.random.Generator) -> Any:
        persons = (np.arange(len(trips)) >= 12).tolist()
        curator = Curator(laid(trips), Budget(epsilon), SeededNoise(rng), Unit.person(2), persons)
        return curator.measure(TripCount(), curator.budget)

    return run


def _crowds(x: float, one: int, other: int) -> tuple[Trips, Trips]:
    """Data sets of so many trips in one cell."""
    return Trips.from_lists([[(x, x)]] * one), Trips.from_lists([[(x, x)]] * other)


PERSONS = {"a person with three trips": _crowds(2.5, 12, 15)}

FINE = Grid(GRID.bounds, 256, 256)  # the more levels, the more it tells
PRINTED_THRESHOLD = 4.0  # delta = 4 / eps1^2 at eps1 = 1
TWO = {"two trips in one cell + another": _crowds(0.01, 2, 3)}


def _printed_quadtree(epsilon: Fraction) -> Mechanism:
    """The paper's partition as printed: noise for eps1 at every level, drawn anew for parent and child."""

    def run(trips: Trips, rng: np.random.Generator) -> Any:
        shares = Records(laid(trips, FINE)).shares()
        leaves: list[tuple[int, int, int]] = []

        def split(west: int, south: int, side: int) -> None:
            half = side // 2
            parent = np.array([[west, south, west + side, south + side]])
            corners = [(west, south), (west + half, south), (west, south + half), (west + half, south + half)]
            below = np.array([[x, y, x + half, y + half] for x, y in corners])
            costs = region_costs(shares, np.concatenate([parent, below])) / MASS + rng.laplace(0, 2 / float(epsilon), 5)
            if costs[0] - costs[1:].mean() <= PRINTED_THRESHOLD:
                leaves.append((west, south, side))
            elif half == 1:
                leaves.extend((x, y, 1) for x, y in corners)
            else:
                for x, y in corners:
                    split(x, y, half)

        split(0, 0, FINE.rows)
        return {"side of the region in the corner": min(leaves)[2], "number of regions": len(leaves)}

    return run


def _bare_singletons(records: Records, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Region masses with noise, but for regions of one cell."""
    tree = PrivTree().grow(records, noise, epsilon / 2, 1)
    masses = np.bincount(tree.labels.ravel(), records.shares().ravel().astype(float))
    noisy = noise.laplace(masses.astype(np.int64), MASS / (epsilon / 2)) / MASS
    values = np.where(tree.sizes == 1, masses / MASS, noisy)
    return values[tree.labels]


def _exact_total(records: Records, noise: SeededNoise, epsilon: Fraction) -> Any:
    """Noisy cell shares, scaled so that they add up to the exact number of trips."""
    noisy = np.maximum(noise.laplace(records.shares().ravel(), MASS / epsilon), 0).astype(float)
    return noisy / max(noisy.sum(), 1.0) * TripCount().of(records)[0]


def _visits_as_distinct(records: Records, noise: SeededNoise, epsilon: Fraction) -> Any:
    answers = SpatialHistogram.of(records.walks).answers(np.array([[4, 0, 8, 8]]))
    return noise.laplace(answers, 1 / epsilon)


def _uncapped(records: Records, noise: SeededNoise, epsilon: Fraction) -> Any:
    return noise.laplace(Flux(QUARTERS, 2**20).of(records), CAP * FLUX / epsilon)


AUDITED: dict[str, Audited] = {
    "laplace": Audited(
        "the number of trips with discrete Laplace noise", _asks(lambda c, b: c.measure(TripCount(), b))
    ),
    "endpoints": Audited("endpoints by quarter", _asks(lambda c, b: c.measure(Endpoints(QUARTERS), b))),
    "flux": Audited("flux by quarter, capped", _asks(lambda c, b: c.measure(Flux(QUARTERS, CAP), b))),
    "shares": Audited("cell shares", _asks(lambda c, b: c.measure(CellShares(), b))),
    "costs": Audited("uniformity costs", _asks(lambda c, b: c.measure(UniformityCosts(QUARTERS.regions), b))),
    "distinct": Audited("a rectangle selected by its error and counted", _asks(_select_and_measure)),
    "quantile": Audited("a quantile of walk lengths", _asks(_lengths)),
    "person": Audited("the number of trips, two a person", _by_person, pairs=PERSONS),
    "privtree": Audited("PrivTree on cell shares", _asks(lambda c, b: c.partition(PrivTree(), b))),
    "quadtree": Audited("the paper's quadtree, levels composed", _asks(lambda c, b: grow_quadtree(c, b, 1.0))),
    "fault-half-noise": Audited(
        "half the noise", _peeks(lambda r, n, e: n.laplace(TripCount().of(r), 1 / (2 * e))), sound=False
    ),
    "fault-no-cap": Audited("flux without its cap", _peeks(_uncapped), sound=False),
    "fault-exact-n": Audited("the exact number of trips used", _peeks(_exact_total), sound=False),
    "fault-printed-quadtree": Audited(
        "the quadtree as printed, eps1 at every level", _printed_quadtree, sound=False, pairs=TWO
    ),
    "fault-visits": Audited("F - E taken for a distinct count", _peeks(_visits_as_distinct), sound=False),
    "fault-singletons": Audited("regions of one cell without noise", _peeks(_bare_singletons), sound=False),
}
