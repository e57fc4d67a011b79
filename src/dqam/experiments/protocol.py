"""One run of an experiment, and how it is measured. There are two protocols.

distinct  All mechanisms are compared with the same truth: the number of distinct trips that meet a rectangle, counted
          on the trips. Every publishable mechanism takes part; all answers are clipped to 0 .. the total of the
          histogram.
paper     The protocol of the paper, with its mechanisms as printed. Those that know only faces are compared with sums
          of faces, the others with faces minus edges of the exact histogram. None of this is private.

All noise is seeded, so nothing that these runs produce may be published.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dqam.experiments.metrics import cut, divergence, evenness, face_sums, mean_error
from dqam.experiments.printed import PRINTED, Exact
from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Bounds, Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.tally import spread_mass
from dqam.geometry.walks import Walks, walk
from dqam.mechanisms import MECHANISMS, make
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.sources import read
from dqam.statistics import CellShares, DistinctCounts

DISTINCT, PAPER = "distinct", "paper"
EXACT = "exact"  # the exact histogram under the distinct protocol: no noise, but trips that return count again
START = "uniform-start"  # trips spread evenly, with exact number and length: where the printed forms start
NO_NOISE = math.inf  # the epsilon of these two


@dataclass(frozen=True, order=True)
class Task:
    """One run of one mechanism.

    rounds  number of rounds T, or 0 if the mechanism chooses it
    alone   whether it is timed, so that nothing else may run at the same time
    """

    protocol: str
    data: str
    trips: int
    resolution: int
    queries: int
    epsilon: float
    mechanism: str
    rounds: int = 0
    run: int = 0
    alone: bool = False

    def key(self, stamp: str) -> str:
        """Tells this run from all others; `stamp` stands for code, data and seed."""
        return "/".join([*(str(getattr(self, field.name)) for field in fields(self)), stamp])


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    error, error_fresh  mean absolute error on the queries that the mechanism was given, and on as many others
    mean_answer         the mean true answer of the given queries
    kld                 divergence of its faces from the exact ones
    evenness            (largest - smallest face) / mean face
    total, visits       faces minus edges, and faces, over the whole grid
    seconds             of the mechanism alone, given the exact counts
    """

    error: float
    error_fresh: float
    mean_answer: float
    kld: float
    evenness: float
    total: float
    visits: float
    seconds: float


@dataclass(frozen=True)
class ResultRow:
    """A task and its result."""

    task: Task
    measured: RunResult
    seed: int
    key: str
    version: str

    def flat(self) -> dict[str, Any]:
        """All values by name, as in results.parquet."""
        return {
            **asdict(self.task),
            **asdict(self.measured),
            **{n: getattr(self, n) for n in ("seed", "key", "version")},
        }

    @classmethod
    def of(cls, flat: dict[str, Any]) -> ResultRow:
        """The inverse of `flat`."""
        task, measured = ({field.name: flat[field.name] for field in fields(kind)} for kind in (Task, RunResult))
        return cls(Task(**task), RunResult(**measured), flat["seed"], flat["key"], flat["version"])


def noise_seed(seed: int, run: int) -> int:
    """The seed of a run's noise: the same for all mechanisms."""
    return 1000 * seed + run


class Bench:
    """A data set on a grid, with exact counts that are made once for all runs."""

    def __init__(self, walks: Walks, seed: int) -> None:
        self.walks, self.grid, self.seed = walks, walks.grid, seed
        self.aggregates = Aggregates.of(walks)

    @cached_property
    def histogram(self) -> SpatialHistogram:
        """The exact histogram."""
        return SpatialHistogram.of(self.walks)

    @cached_property
    def exact(self) -> Exact:
        """The exact values that the printed forms look at."""
        return Exact(histogram=self.histogram, shares=spread_mass(self.walks), trips=self.walks.on_grid)

    def queries(self, count: int, fresh: bool) -> Integers:
        """The query set, or as many fresh rectangles that no mechanism is given; the same for every run."""
        return random_rectangles(self.grid, count, np.random.default_rng([self.seed, count, int(fresh)]))

    def run(self, task: Task) -> RunResult:
        """Run a task."""
        return self._distinct(task) if task.protocol == DISTINCT else self._as_printed(task)

    def _distinct(self, task: Task) -> RunResult:
        given, fresh = self.queries(task.queries, False), self.queries(task.queries, True)
        truth, truth_fresh = (self.aggregates.value(DistinctCounts(some)) for some in (given, fresh))
        self.aggregates.value(CellShares())  # counted before the clock starts
        began = time.perf_counter()
        if task.mechanism == EXACT:
            histogram = self.histogram
        else:
            mechanism: Any = make(task.mechanism)
            if task.rounds:
                mechanism = replace(mechanism, rounds=task.rounds)
            budget = Budget(task.epsilon)
            curator = Curator(self.aggregates, budget, SeededNoise(noise_seed(self.seed, task.run)))
            histogram = mechanism.synthesize(curator, given, budget).histogram
        seconds = time.perf_counter() - began
        return self._measured(
            histogram,
            mean_error(cut(histogram.answers(given), histogram.total), truth),
            mean_error(cut(histogram.answers(fresh), histogram.total), truth_fresh),
            float(truth.mean()),
            seconds,
        )

    def _as_printed(self, task: Task) -> RunResult:
        given, fresh = self.queries(task.queries, False), self.queries(task.queries, True)
        exact, faces_only = self.exact, False
        began = time.perf_counter()
        made: SpatialHistogram | None
        if task.mechanism == START:
            made = exact.evenly
            answers = made.answers(given)
        else:
            printed = PRINTED[task.mechanism]
            faces_only = printed.faces_only
            rng = np.random.default_rng(noise_seed(self.seed, task.run))
            answers, made = printed.run(exact, given, task.epsilon, task.rounds, rng)
        seconds = time.perf_counter() - began
        ask = face_sums if faces_only else SpatialHistogram.answers
        truth = ask(exact.histogram, given)
        error_fresh = math.nan if made is None else mean_error(ask(made, fresh), ask(exact.histogram, fresh))
        return self._measured(made, mean_error(answers, truth), error_fresh, float(truth.mean()), seconds)

    def _measured(
        self, made: SpatialHistogram | None, error: float, error_fresh: float, mean_answer: float, seconds: float
    ) -> RunResult:
        if made is None:
            return RunResult(error, error_fresh, mean_answer, math.nan, math.nan, math.nan, math.nan, seconds)
        return RunResult(
            error,
            error_fresh,
            mean_answer,
            divergence(self.histogram.faces, made.faces),
            evenness(made.faces),
            float(made.total),
            float(made.faces.sum()),
            seconds,
        )


@lru_cache(maxsize=1)
def bench(trips: Path, bounds: Bounds, resolution: int, seed: int) -> Bench:
    """The bench for a file of trips; each process keeps the last one."""
    return Bench(walk(read(trips).trips(), Grid.over(bounds, resolution)), seed)


def publishable() -> tuple[str, ...]:
    """The names of all mechanisms that may publish."""
    return tuple(name for name, known in MECHANISMS.items() if known.publishable)


def has_rounds(mechanism: str) -> bool:
    """Whether the number of rounds is a parameter of a mechanism."""
    made: Any = make(mechanism)
    return is_dataclass(made) and any(field.name == "rounds" for field in fields(made))
