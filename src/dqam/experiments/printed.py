"""The mechanisms as printed in the paper, to reproduce its figures. NOT private; nothing is published with them.

They look at the exact histogram and use the exact number of trips; they assume that a query has sensitivity 1, which a
trip that returns exceeds; LM, MWEM and DAWA see only faces, to which a trip adds one for every visit. DQAM's tree
spends eps1 again at every level. Where the paper is silent, it is read in its favour: costs and densities are of the
mass of trips spread over their visits, densities are clipped to [0, 1], and after an update everything is scaled back
to the exact number of trips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dqam.consistency.pairwise import is_consistent, make_consistent
from dqam.experiments.printed_dawa import printed_dawa
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.regions import Partition, children, node_bounds, places, quadtree_depth
from dqam.mechanisms.dqam import meets
from dqam.mechanisms.mwem import CellWeights
from dqam.mechanisms.prish import FacesAndEdges
from dqam.mechanisms.rounds import Oracle, run_rounds
from dqam.mechanisms.spreading import lift, scaled_to, stretch
from dqam.statistics import MASS
from dqam.statistics.uniformity import region_costs

Result = tuple[Floats, SpatialHistogram | None]


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact values that printed forms look at. NOT private.

    shares  float64[rows, columns]: mass 1 for each trip, spread over its visits
    """

    histogram: SpatialHistogram
    shares: Floats
    trips: int

    @property
    def evenly(self) -> SpatialHistogram:
        """The start of the synthesis: all faces equal and all edges equal, with the sums of the exact histogram."""
        edges = float(self.histogram.vertical.sum() + self.histogram.horizontal.sum())
        ones = lift(self.histogram.grid, np.ones(self.histogram.grid.shape))
        return stretch(ones, self.trips, edges / max(self.trips, 1))


@dataclass(frozen=True)
class Printed:
    """A printed form.

    faces_only  whether its answers are sums of faces, and are compared with such; otherwise with F - E of the exact
                histogram
    by_rounds   whether the paper tries several numbers of rounds and reports the best
    """

    run: Callable[[Exact, Integers, float, int, np.random.Generator], Result]
    faces_only: bool = False
    by_rounds: bool = False


def _faces_only(histogram: SpatialHistogram) -> SpatialHistogram:
    faces, vertical, horizontal = histogram.faces, histogram.vertical, histogram.horizontal
    return SpatialHistogram(histogram.grid, faces, np.zeros(vertical.shape), np.zeros(horizontal.shape))


def _oracle(truth: Floats, choosing: float, counting: float, rng: np.random.Generator) -> Oracle:
    """The exponential mechanism and Laplace noise, with these epsilons in each round and a sensitivity of 1."""
    return Oracle(
        choose=lambda estimates: int(np.argmax(np.abs(truth - estimates) * choosing / 2 + rng.gumbel(size=len(truth)))),
        count=lambda chosen: float(truth[chosen]) + rng.laplace(0, 1 / counting),
    )


def _laplace(exact: Exact, queries: Integers, epsilon: float, rounds: int, rng: np.random.Generator) -> Result:
    truth = _faces_only(exact.histogram).answers(queries)
    return truth + rng.laplace(0, len(queries) / epsilon, len(queries)), None


def _mwem(exact: Exact, queries: Integers, epsilon: float, rounds: int, rng: np.random.Generator) -> Result:
    faces = _faces_only(exact.histogram)
    total = float(faces.faces.sum())

    def visits(weights: Floats) -> SpatialHistogram:
        return _faces_only(lift(faces.grid, weights * (total / weights.sum())))

    oracle = _oracle(faces.answers(queries), epsilon / 2 / rounds, epsilon / 2 / rounds, rng)
    made = run_rounds(CellWeights(faces.grid, visits, replay=False), queries, rounds, oracle, total)
    return made.answers(queries), made


def _dawa(exact: Exact, queries: Integers, epsilon: float, rounds: int, rng: np.random.Generator) -> Result:
    faces = printed_dawa(exact.histogram.faces.astype(np.float64), queries, epsilon, rng)
    made = _faces_only(lift(exact.histogram.grid, faces))
    return made.answers(queries), made


def _prish(exact: Exact, queries: Integers, epsilon: float, rounds: int, rng: np.random.Generator) -> Result:
    oracle = _oracle(exact.histogram.answers(queries), epsilon / 2 / rounds, epsilon / 2 / rounds, rng)
    made = run_rounds(FacesAndEdges(exact.evenly, replay=False), queries, rounds, oracle, np.inf)
    return made.answers(queries), made


def printed_partition(shares: Floats, epsilon: float, rng: np.random.Generator) -> Partition:
    """The quadtree as printed: noise for eps1 at every level, drawn anew for parent and child; delta = 4 / eps1^2."""
    rows, columns = shares.shape
    whole = np.rint(shares * MASS).astype(np.int64)

    def noisy(bounds: Integers) -> Floats:
        return region_costs(whole, bounds) / MASS + rng.laplace(0, 2 / epsilon, len(bounds))

    nodes, leaves = np.zeros((1, 2), np.int64), []
    for depth in range(quadtree_depth(rows, columns)):
        bounds, below = node_bounds(depth, nodes, rows, columns), children(nodes, depth, rows, columns)
        parent = places(below >> 1, nodes)
        costs = noisy(node_bounds(depth + 1, below, rows, columns))
        mean = np.bincount(parent, costs, len(nodes)) / np.bincount(parent, minlength=len(nodes))
        single = (bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1]) == 1
        split = (noisy(bounds) - mean > 4 / epsilon**2) & ~single
        leaves.append(bounds[~split])
        nodes = below[split[parent]]
        if not len(nodes):
            break
    else:
        leaves.append(node_bounds(quadtree_depth(rows, columns), nodes, rows, columns))
    return Partition(rows, columns, np.concatenate(leaves))


class PrintedRegions:
    """Faces and edges; those in regions that a query meets are rescaled by the density of their region."""

    def __init__(self, start: SpatialHistogram, partition: Partition, densities: Floats, trips: int) -> None:
        self._now, self._partition, self._densities, self._trips = start, partition, densities, trips

    def histogram(self) -> SpatialHistogram:
        """The current estimate."""
        return self._now

    def learn(self, rectangles: Integers, counts: Floats) -> None:
        """Scale by exp(error * density / 2n); an edge between two regions by the mean exponent, if both are met."""
        now, labels = self._now, self._partition.labels
        error = counts[-1] - float(now.answers(rectangles[-1:])[0])
        met = meets(self._partition, rectangles[-1])[labels]
        power = error * self._densities[labels] / (2 * max(self._trips, 1))

        def factor(one: tuple[slice, slice], other: tuple[slice, slice]) -> Floats:
            return np.exp(np.where(met[one] & met[other], (power[one] + power[other]) / 2, 0.0))

        all_, first, last = slice(None), slice(None, -1), slice(1, None)
        made = SpatialHistogram(
            now.grid,
            now.faces * factor((all_, all_), (all_, all_)),
            now.vertical * factor((all_, first), (all_, last)),
            now.horizontal * factor((first, all_), (last, all_)),
        )
        made = scaled_to(made, self._trips)
        self._now = make_consistent(made) if error < 0 and not is_consistent(made) else made


def _dqam(exact: Exact, queries: Integers, epsilon: float, rounds: int, rng: np.random.Generator) -> Result:
    part = epsilon / 4
    partition = printed_partition(exact.shares, part, rng)
    masses = np.bincount(partition.labels.ravel(), exact.shares.ravel(), len(partition))
    densities = np.clip(masses / max(exact.trips, 1) + rng.laplace(0, 1 / part, len(partition)), 0, 1)
    oracle = _oracle(exact.histogram.answers(queries), part / rounds, part / rounds, rng)
    model = PrintedRegions(exact.evenly, partition, densities, exact.trips)
    made = run_rounds(model, queries, rounds, oracle, np.inf)
    return made.answers(queries), made


PRINTED = {
    "laplace-printed": Printed(_laplace, faces_only=True),
    "mwem-printed": Printed(_mwem, faces_only=True, by_rounds=True),
    "dawa-printed": Printed(_dawa, faces_only=True),
    "prish-printed": Printed(_prish, by_rounds=True),
    "dqam-printed": Printed(_dqam, by_rounds=True),
}
