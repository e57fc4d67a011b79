"""What `dqam audit` can be run on: mechanisms, each question of the curator, and deliberate faults.

The faults show what the audit can see: it must catch every one of them. Among them is each question with half the noise
that it was charged for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from dqam.audit.estimate import GRID, Mechanism, Sampler, laid, neighbours, repeat
from dqam.experiments.printed import PRINTED, Exact, printed_partition
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, spread_mass
from dqam.geometry.lattice import Lattice
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks
from dqam.mechanisms import MECHANISMS, flux
from dqam.mechanisms import Mechanism as Synthesizer
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.mwem import Mwem
from dqam.mechanisms.prish import Prish
from dqam.mechanisms.quadtree import grow_quadtree
from dqam.mechanisms.uniform import Uniform
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import Keep
from dqam.privacy.curator import Curator
from dqam.privacy.noise import Noise, SeededNoise
from dqam.statistics.buckets import L1Buckets
from dqam.statistics.privtree import PrivTree
from dqam.statistics.questions import (
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
from dqam.statistics.records import MASS, SHADOW, Records
from dqam.values.guarantee import Number, Unit

QUARTERS = Partition(8, 8, np.array([[0, 0, 4, 4], [4, 0, 8, 4], [0, 4, 4, 8], [4, 4, 8, 8]]))
RECTANGLES = np.array([[0, 0, 8, 8], [2, 2, 3, 3], [4, 0, 8, 8], [1, 1, 7, 4], [0, 6, 8, 8]])
CAP = 6


Pairs = Mapping[str, tuple[Trips, Trips]]


@dataclass(frozen=True)
class Audited:
    """A mechanism to audit: what it is, and how to make it for some eps."""

    about: str
    make: Callable[[Fraction], Mechanism | Sampler]
    sound: bool = True
    pairs: Pairs | None = None  # its own neighbours, if the usual ones do not reach its sensitivity
    runs: int = 10_000  # on each side, for the table in docs/promise.md


class _LessNoise(SeededNoise):
    """Noise of half the requested scale."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        return super().laplace(values, scale / 2)

    def noisy_max(self, scores: Integers, scale: Fraction) -> int:
        return super().noisy_max(scores, scale / 2)


class _AtOnce:
    """The noise of many runs of one question: its values are repeated, and noise is added in one call."""

    private = False

    def __init__(self, noise: SeededNoise, runs: int) -> None:
        self._noise, self._runs = noise, runs

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        """int64[runs, values]."""
        return self._noise.laplace(np.tile(values, self._runs), scale).reshape(self._runs, -1)

    def noisy_max(self, scores: Integers, scale: Fraction) -> Any:
        """int64[runs]."""
        return np.array([self._noise.noisy_max(scores, scale) for _ in range(self._runs)])

    def generator(self) -> np.random.Generator:
        """See `Noise.generator`."""
        return self._noise.generator()


class _Overheard(Curator):
    """A curator that notes its answers, and how much likelier they are on the second data set of a pair.

    The output of a mechanism is a function of the answers, and tells no more than they do. The noise of a measurement
    is discrete Laplace of the scale that was charged, so an answer y has the log-likelihood ratio
    sum of (|y - a| - |y - b|) / scale for the exact vectors a and b; a selection has that of `noisy_max_chances`. The
    same question is asked on both sides, because it depends only on earlier answers
    (`tests/mechanisms/test_replay.py`). A partition is noted but adds nothing to the ratio: the noise behind it is not
    published.
    """

    def __init__(
        self,
        source: Walks | Records,
        pair: tuple[Records, Records],
        budget: Budget,
        noise: Noise,
        unit: Unit,
        persons: list[bool] | None,
    ) -> None:
        super().__init__(source, budget, noise, unit, persons)
        self._pair = pair
        self.heard: dict[str, Any] = {}
        self.ratio: Any = 0.0  # a number, or one for each of many runs at once

    def measure(self, statistic: Statistic, budget: Budget, epsilon: Number | None = None) -> Integers:
        answer = super().measure(statistic, budget, epsilon)
        one, other = (statistic.of(records) for records in self._pair)
        self.ratio += (np.abs(answer - one) - np.abs(answer - other)).sum(axis=-1) / float(self.ledger[-1].scale)
        return self._note(type(statistic).__name__, answer)

    def select(self, scores: Scores, budget: Budget, epsilon: Number | None = None) -> int:
        answer = super().select(scores, budget, epsilon)
        one, other = (noisy_max_chances(scores.of(records), self.ledger[-1].scale) for records in self._pair)
        self.ratio += np.log(other[answer] / one[answer])
        return self._note(type(scores).__name__, answer)

    def partition(self, tree: Any, budget: Budget, epsilon: Number | None = None) -> Any:
        return self._note(type(tree).__name__, super().partition(tree, budget, epsilon))

    def _note(self, name: str, answer: Any) -> Any:
        times = sum(known.startswith(name) for known in self.heard)
        self.heard[f"{name} {times}"] = answer
        return answer


def noisy_max_chances(scores: Integers, scale: Fraction) -> Floats:
    """The probability that each index has the largest score plus exponential noise of mean `scale`.

    With w = exp((score - largest score) / scale) it is w_i times the integral over t from 0 to 1 of the product over
    j != i of (1 - t w_j): t is what is left of the probability that noise exceeds what i needs to be the first. The
    integrand is a polynomial, for which Gauss-Legendre quadrature is exact.

    >>> noisy_max_chances(np.array([0, 0]), Fraction(1)).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((scores - scores.max()) / float(scale))
    nodes, parts = _quadrature(len(scores) // 2 + 1)
    terms = 1 - (nodes[:, None] + 1) / 2 * weights
    return np.asarray(weights * (parts / 2 @ (terms.prod(axis=1, keepdims=True) / terms)))


_quadrature = lru_cache(leggauss)


@dataclass(frozen=True)
class _Asked:
    """Asks a curator one question, or all questions of a mechanism.

    at_once  whether the runs differ only in their noise, so that all can be drawn in one call
    """

    ask: Callable[[Curator, Budget], Any]
    epsilon: Fraction
    noise: Callable[[np.random.Generator], SeededNoise] = SeededNoise
    at_once: bool = False
    grid: Grid = GRID
    unit: Unit = field(default_factory=Unit.trip)

    def draw(
        self, pair: tuple[Trips, Trips], side: int, runs: int, rng: np.random.Generator, step: Callable[[int], None]
    ) -> list[Any] | dict[str, NDArray[Any]]:
        """See `Sampler.draw`."""
        records = self._kept(pair[0], rng), self._kept(pair[1], rng)

        def run(noise: Noise) -> dict[str, Any]:
            budget = Budget(self.epsilon)
            source = records[side] if self.unit.name == "trip" else laid(pair[side], self.grid)
            curator = _Overheard(source, records, budget, noise, self.unit, _persons(pair[side]))
            told = self.ask(curator, budget)
            return {**curator.heard, **(told if isinstance(told, dict) else {}), "log-likelihood ratio": curator.ratio}

        if self.at_once:
            return run(_AtOnce(self.noise(rng), runs))
        return repeat(lambda: run(self.noise(rng)), runs, step)

    def _kept(self, trips: Trips, rng: np.random.Generator) -> Records:
        walks = laid(trips, self.grid)
        if self.unit.name == "trip":
            return Records(walks)
        return Records(walks, Keep.of(self.unit, rng).mask(_persons(trips)), self.unit)


def _persons(trips: Trips) -> list[bool]:
    """If the unit is a person, the first twelve trips belong to one person, and the rest to another."""
    return (np.arange(len(trips)) >= 12).tolist()


def _peeks(question: Callable[[Records, SeededNoise, Fraction], Any]) -> Callable[[Fraction], Mechanism]:
    """A broken mechanism, which looks at the records itself."""

    def make(epsilon: Fraction) -> Mechanism:
        def run(trips: Trips, rng: np.random.Generator) -> Any:
            return question(Records(laid(trips)), SeededNoise(rng), epsilon)

        return run

    return make


def _select_and_measure(curator: Curator, budget: Budget) -> None:
    """Estimates such that a trip in both rectangles makes one error smaller and the other larger."""
    choosing, counting = budget.split(choosing=1, counting=1)
    chosen = curator.select(QueryErrors(RECTANGLES[:2], np.array([1.0, -1.0])), choosing)
    curator.measure(DistinctCounts(RECTANGLES[[chosen]]), counting)


def _buckets(curator: Curator, budget: Budget) -> dict[str, Any]:
    """Few buckets, so that the cell in the middle joins the cells to its west or those to its east."""
    starts = curator.partition(L1Buckets(np.arange(7), penalty=10.0), budget)
    return {"buckets": tuple(starts.tolist())}


def _crowds(x: float, one: int, other: int) -> tuple[Trips, Trips]:
    """Two data sets, of `one` and of `other` trips in one cell."""
    return Trips.from_lists([[(x, x)]] * one), Trips.from_lists([[(x, x)]] * other)


def _snakes(*crossings: int) -> Trips:
    """Trips along the longest walk, with the given number of crossings each."""
    snake = neighbours()["no trips + longest walk"][1]
    points = list(zip(snake.x.tolist(), snake.y.tolist(), strict=True))
    return Trips.from_lists([points[: count + 1] for count in crossings])


def _in_a_row(*trips: int) -> Trips:
    """The given number of trips in each cell of a row."""
    return Trips.from_lists([[(cell + 0.5, 0.5)] for cell, count in enumerate(trips) for _ in range(count)])


WHOLE = {  # for whole mechanisms, which take longer to run
    name: neighbours()[name]
    for name in (
        "no trips + longest walk",
        "few trips + zig-zag",
        "few trips + out and back",
        "a crowd in one cell + one cell",
    )
}
ALONE = {name: neighbours()[name] for name in ("no trips + one cell", "no trips + longest walk")}
PERSONS = {"a person with three trips": _crowds(2.5, 12, 15)}
# two equal scores; a long trip lowers one and raises the other by as much as any trip can
QUANTILES = {
    **neighbours(),
    "two short and two middling walks + a long one": (_snakes(0, 0, 8, 8), _snakes(0, 0, 8, 8, 40)),
}
# one more trip in the middle cell makes it resemble the full cells instead of the empty ones
LEFT_OR_RIGHT = {
    "a row of 0, 12 and 20 + one": (_in_a_row(0, 0, 0, 12, 20, 20, 20), _in_a_row(0, 0, 0, 13, 20, 20, 20))
}

LATTICE = Lattice.even(GRID, 4)
ROW = Grid((0.0, 0.0, 7.0, 1.0), 1, 7)
COARSE = Grid(GRID.bounds, 4, 4)
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


class _Careless(SeededNoise):
    """Forgets the noise of vectors."""

    def laplace(self, values: Integers, scale: Fraction) -> Integers:
        return values if len(values) > 1 else super().laplace(values, scale)


def _asks(ask: Callable[[Curator, Budget], Any], **options: Any) -> Callable[[Fraction], _Asked]:
    return lambda epsilon: _Asked(ask, epsilon, **options)


def _measures(statistic: Statistic) -> Callable[[Fraction], _Asked]:
    return _asks(lambda curator, budget: curator.measure(statistic, budget), at_once=True)


def _selects(scores: Scores) -> Callable[[Fraction], _Asked]:
    return _asks(lambda curator, budget: curator.select(scores, budget), at_once=True)


def _synthesizes(mechanism: Synthesizer, **options: Any) -> Callable[[Fraction], _Asked]:
    """A whole mechanism, from walks to histogram, with everything that it was told on the way."""
    return _asks(lambda curator, budget: _told(mechanism.synthesize(curator, RECTANGLES, budget)), **options)


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
QUESTIONS: dict[str, Audited] = {
    "count": Audited("the number of trips", _measures(TripCount())),
    "endpoints": Audited("endpoints by quarter", _measures(Endpoints(QUARTERS))),
    "crossings": Audited("crossings by quarter, capped", _measures(Flux(QUARTERS, CAP))),
    "shadows": Audited("shadows on a lattice, capped", _measures(ShadowSums(LATTICE, CAP, CAP))),
    "shadow-sizes": Audited(
        "a quantile of the sizes of shadows",
        _selects(ShadowQuantile(np.array([4, 7]), Fraction(3, 4), LATTICE, 3)),
        pairs=QUANTILES,
    ),
    "shares": Audited("cell shares", _measures(CellShares())),
    "costs": Audited("uniformity costs", _measures(UniformityCosts(QUARTERS.regions))),
    "groups": Audited("cell shares by quarter", _measures(GroupShares(QUARTERS.labels))),
    "buckets": Audited("DAWA's buckets", _asks(_buckets, grid=ROW), pairs=LEFT_OR_RIGHT, runs=100_000),
    "answers": Audited("rectangles met and missed", _measures(QueryTotals(RECTANGLES))),
    "distinct": Audited("a rectangle selected by its error and counted", _asks(_select_and_measure), pairs=ALONE),
    "quantile": Audited(
        "a quantile of walk lengths", _selects(LengthQuantile(np.array([4, 16]), Fraction(3, 4))), pairs=QUANTILES
    ),
    "person": Audited(
        "the number of trips, two a person",
        _asks(lambda curator, budget: curator.measure(TripCount(), budget), at_once=True, unit=Unit.person(2)),
        pairs=PERSONS,
    ),
    "privtree": Audited(
        "PrivTree on cell shares",
        _asks(lambda curator, budget: curator.partition(PrivTree(), budget), grid=COARSE),
        pairs={"no trips + one cell": ALONE["no trips + one cell"]},
        runs=100_000,
    ),
    "quadtree": Audited(
        "the paper's quadtree, levels composed",
        _asks(lambda curator, budget: grow_quadtree(curator, budget, threshold=-10.0)),
        pairs=ALONE,
    ),
}


def _halved(audited: Audited) -> Audited:
    """The same question with half the noise."""
    make: Any = audited.make
    return replace(
        audited,
        about=f"{audited.about}: half the noise",
        make=lambda epsilon: replace(make(epsilon), noise=_LessNoise),
        sound=False,
    )


HALVED = {f"fault-half-{name}": _halved(audited) for name, audited in QUESTIONS.items()}
AUDITED: dict[str, Audited] = {
    **{
        name: Audited(MECHANISMS[name].about, _synthesizes(mechanism), pairs=WHOLE, runs=1_000)
        for name, mechanism in WHOLE_MECHANISMS.items()
    },
    **QUESTIONS,
    **HALVED,
    "fault-no-cap": Audited("crossings without their cap", _peeks(_uncapped), sound=False, runs=2_000),
    "fault-no-shadow-cap": Audited("shadows without their cap", _peeks(_uncapped_shadows), sound=False, runs=2_000),
    "fault-exact-n": Audited("the exact number of trips used", _peeks(_exact_total), sound=False, runs=2_000),
    "fault-printed-quadtree": Audited(
        "the quadtree as printed, eps1 at every level", _printed_quadtree, sound=False, pairs=TWO
    ),
    "fault-quiet-vectors": Audited(
        "dqam that forgets the noise of costs and densities",
        _synthesizes(WHOLE_MECHANISMS["dqam"], noise=_Careless),
        sound=False,
        pairs=WHOLE,
        runs=1_000,
    ),
    "dqam-printed": Audited("DQAM as printed", _printed_dqam, sound=False, pairs=WHOLE, runs=1_000),
    "fault-visits": Audited("F - E taken for a distinct count", _peeks(_visits_as_distinct), sound=False, runs=2_000),
    "fault-singletons": Audited("regions of one cell without noise", _peeks(_bare_singletons), sound=False, runs=2_000),
}
