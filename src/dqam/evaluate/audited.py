"""What `dqam audit` can be run on: mechanisms, each question of the curator, and what is broken on purpose.

The broken ones are there so that the audit shows what it can see: it has to catch every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqam.evaluate.printed import PRINTED, Exact, printed_partition
from dqam.grid import Grid
from dqam.histogram import SpatialHistogram, spread_mass
from dqam.mechanisms import MECHANISMS, flux
from dqam.mechanisms import Mechanism as Synthesizer
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.mwem import Mwem
from dqam.mechanisms.prish import Prish
from dqam.mechanisms.uniform import Uniform
from dqam.partition.buckets import L1Buckets
from dqam.partition.hilbert import hilbert_order
from dqam.partition.lattice import Lattice
from dqam.partition.privtree import PrivTree
from dqam.partition.quadtree import grow_quadtree
from dqam.partition.regions import Partition
from dqam.privacy.audit import GRID, Mechanism, laid, neighbours
from dqam.privacy.budget import Budget, Number, Unit
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.records import MASS, SHADOW, Records
from dqam.statistics import (
    FLUX,
    CellShares,
    DistinctCounts,
    Endpoints,
    Flux,
    GroupShares,
    LengthQuantile,
    QueryErrors,
    QueryTotals,
    Scores,
    ShadowQuantile,
    ShadowSums,
    Statistic,
    TripCount,
    UniformityCosts,
)
from dqam.trips import Trips
from dqam.walks import Walks

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


def _buckets(curator: Curator, budget: Budget) -> Any:
    order = hilbert_order(*curator.grid.shape)
    starts = curator.partition(L1Buckets(order, penalty=1.0), budget)
    return {"buckets": len(starts) - 1, "cell begins a bucket": np.isin(np.arange(len(order)), starts).astype(np.int64)}


def _lengths(curator: Curator, budget: Budget) -> str:
    return str(curator.select(LengthQuantile(np.array([0, 2, 4, 8, 16, 32, 63]), Fraction(3, 4)), budget))


def _shadow_sizes(curator: Curator, budget: Budget) -> str:
    return str(curator.select(ShadowQuantile(np.array([1, 2, 4, 8, 16, 32]), Fraction(3, 4), LATTICE, 3), budget))


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


WHOLE = {  # for whole mechanisms, which take longer to run
    name: neighbours()[name]
    for name in (
        "no trips + longest walk",
        "few trips + zig-zag",
        "few trips + out and back",
        "a crowd in one cell + one cell",
    )
}
PERSONS = {"a person with three trips": _crowds(2.5, 12, 15)}

LATTICE = Lattice.even(GRID, 4)
FINE = Grid(GRID.bounds, 256, 256)  # the more levels, the more it tells
TWO = {"two trips in one cell + another": _crowds(0.01, 2, 3)}


def _printed_quadtree(epsilon: Fraction) -> Mechanism:
    """The paper's partition as printed: noise for eps1 at every level, drawn anew for parent and child."""

    def run(trips: Trips, rng: np.random.Generator) -> Any:
        partition = printed_partition(_exact(trips, FINE).shares, float(epsilon), rng)
        corner = partition.regions[(partition.regions[:, :2] == 0).all(axis=1)][0]
        return {"side of the region in the corner": int(corner[2]), "number of regions": len(partition)}

    return run


def _printed_dqam(epsilon: Fraction) -> Mechanism:
    def run(trips: Trips, rng: np.random.Generator) -> Any:
        exact = _exact(trips, GRID)
        return _told(PRINTED["dqam-printed"].run(exact, RECTANGLES, float(epsilon), 10, rng)[1])

    return run


@lru_cache(maxsize=256)
def _exact(trips: Trips, grid: Grid) -> Exact:
    walks = laid(trips, grid)
    return Exact(SpatialHistogram.of(walks), spread_mass(walks), walks.on_grid)


def _told(histogram: SpatialHistogram | None) -> Any:
    """All that a histogram tells."""
    assert histogram is not None
    return {
        "face": histogram.faces,
        "face share": histogram.faces / max(float(histogram.faces.sum()), 1e-9),
        "vertical edge": histogram.vertical,
        "horizontal edge": histogram.horizontal,
        "total": float(histogram.total),
        "answer": histogram.answers(RECTANGLES),
    }


class _Overheard(Curator):
    """A curator whose answers are noted: the histogram is a function of them, and tells no more than they do."""

    def __init__(self, walks: Walks, budget: Budget, noise: SeededNoise) -> None:
        super().__init__(walks, budget, noise)
        self.heard: dict[str, Any] = {}

    def measure(self, statistic: Statistic, budget: Budget, epsilon: Number | None = None) -> NDArray[np.int64]:
        return self._note(type(statistic).__name__, super().measure(statistic, budget, epsilon))

    def select(self, scores: Scores, budget: Budget, epsilon: Number | None = None) -> int:
        return self._note(type(scores).__name__, super().select(scores, budget, epsilon))

    def partition(self, tree: Any, budget: Budget, epsilon: Number | None = None) -> Any:
        return self._note(type(tree).__name__, super().partition(tree, budget, epsilon))

    def _note(self, name: str, answer: Any) -> Any:
        times = sum(known.startswith(name) for known in self.heard)
        self.heard[f"{name} {times}"] = answer
        return answer


class _Careless(SeededNoise):
    """Forgets the noise of vectors."""

    def laplace(self, values: NDArray[np.int64], scale: Fraction) -> NDArray[np.int64]:
        return values if len(values) > 1 else super().laplace(values, scale)


def _synthesizes(
    mechanism: Synthesizer, noise: Callable[[np.random.Generator], SeededNoise] = SeededNoise
) -> Callable[[Fraction], Mechanism]:
    """A whole mechanism, from trips to histogram, with all that it was told on the way."""

    def make(epsilon: Fraction) -> Mechanism:
        def run(trips: Trips, rng: np.random.Generator) -> Any:
            budget = Budget(epsilon)
            curator = _Overheard(laid(trips), budget, noise(rng))
            return {**_told(mechanism.synthesize(curator, RECTANGLES, budget)), **curator.heard}

        return run

    return make


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
    assert isinstance(records.walks, Walks)
    answers = SpatialHistogram.of(records.walks).answers(np.array([[4, 0, 8, 8]]))
    return noise.laplace(answers, 1 / epsilon)


def _uncapped(records: Records, noise: SeededNoise, epsilon: Fraction) -> Any:
    return noise.laplace(Flux(QUARTERS, 2**15).of(records), CAP * FLUX / epsilon)


def _uncapped_shadows(records: Records, noise: SeededNoise, epsilon: Fraction) -> Any:
    return noise.laplace(ShadowSums(LATTICE, 2**15, 3).of(records), SHADOW / epsilon)  # as for a cap of 1


# with rounds and trees even for the few trips of an audit, where they would spread trips evenly of their own accord
WHOLE_MECHANISMS: dict[str, Synthesizer] = {
    "flux": flux.Flux(side=3, least=0, known=0, rich=0),
    "uniform": Uniform(),
    "laplace": Laplace(least=0),
    "mwem": Mwem(rounds=3, least=0),
    "dawa": Dawa(width=0, grain=0, least=0),
    "prish": Prish(rounds=3, least=0),
    "dqam": Dqam(depth=2, rounds=2, least=0),
}
AUDITED: dict[str, Audited] = {
    name: Audited(MECHANISMS[name].about, _synthesizes(mechanism), pairs=WHOLE)
    for name, mechanism in WHOLE_MECHANISMS.items()
} | {
    "count": Audited("the number of trips with discrete Laplace noise", _asks(lambda c, b: c.measure(TripCount(), b))),
    "endpoints": Audited("endpoints by quarter", _asks(lambda c, b: c.measure(Endpoints(QUARTERS), b))),
    "crossings": Audited("crossings by quarter, capped", _asks(lambda c, b: c.measure(Flux(QUARTERS, CAP), b))),
    "shadows": Audited("shadows on a lattice, capped", _asks(lambda c, b: c.measure(ShadowSums(LATTICE, CAP, 3), b))),
    "shadow-sizes": Audited("a quantile of the sizes of shadows", _asks(_shadow_sizes)),
    "shares": Audited("cell shares", _asks(lambda c, b: c.measure(CellShares(), b))),
    "costs": Audited("uniformity costs", _asks(lambda c, b: c.measure(UniformityCosts(QUARTERS.regions), b))),
    "groups": Audited("cell shares by quarter", _asks(lambda c, b: c.measure(GroupShares(QUARTERS.labels), b))),
    "buckets": Audited("DAWA's buckets", _asks(_buckets)),
    "answers": Audited("rectangles met and missed", _asks(lambda c, b: c.measure(QueryTotals(RECTANGLES), b))),
    "distinct": Audited("a rectangle selected by its error and counted", _asks(_select_and_measure)),
    "quantile": Audited("a quantile of walk lengths", _asks(_lengths)),
    "person": Audited("the number of trips, two a person", _by_person, pairs=PERSONS),
    "privtree": Audited("PrivTree on cell shares", _asks(lambda c, b: c.partition(PrivTree(), b))),
    "quadtree": Audited("the paper's quadtree, levels composed", _asks(lambda c, b: grow_quadtree(c, b, 1.0))),
    "fault-half-noise": Audited(
        "half the noise", _peeks(lambda r, n, e: n.laplace(TripCount().of(r), 1 / (2 * e))), sound=False
    ),
    "fault-no-cap": Audited("crossings without their cap", _peeks(_uncapped), sound=False),
    "fault-no-shadow-cap": Audited("shadows without their cap", _peeks(_uncapped_shadows), sound=False),
    "fault-exact-n": Audited("the exact number of trips used", _peeks(_exact_total), sound=False),
    "fault-printed-quadtree": Audited(
        "the quadtree as printed, eps1 at every level", _printed_quadtree, sound=False, pairs=TWO
    ),
    "fault-quiet-vectors": Audited(
        "dqam that forgets the noise of costs and densities",
        _synthesizes(WHOLE_MECHANISMS["dqam"], _Careless),
        sound=False,
        pairs=WHOLE,
    ),
    "dqam-printed": Audited("DQAM as printed", _printed_dqam, sound=False, pairs=WHOLE),
    "fault-visits": Audited("F - E taken for a distinct count", _peeks(_visits_as_distinct), sound=False),
    "fault-singletons": Audited("regions of one cell without noise", _peeks(_bare_singletons), sound=False),
}
