"""The rows of all runs, and their summaries: means, spreads and the best T."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dqam.experiments.plan import Spot
from dqam.experiments.protocol import NO_NOISE, PAPER, ResultRow
from dqam.runtime.files import replacing


@dataclass(frozen=True)
class Point:
    """One measure of one mechanism at one spot and epsilon, over its runs."""

    mean: float
    deviation: float  # sample standard deviation; NaN for a single run
    low: float
    high: float
    runs: int
    rounds: int = 0  # the best T, if several were tried

    @classmethod
    def of(cls, values: Sequence[float], rounds: int = 0) -> Point:
        """The summary of some values."""
        array = np.asarray(values, np.float64)
        spread = float(array.std(ddof=1)) if len(array) > 1 else math.nan
        return cls(float(array.mean()), spread, float(array.min()), float(array.max()), len(array), rounds)


class Results:
    """Rows, found by what was run."""

    def __init__(self, rows: Iterable[ResultRow]) -> None:
        self.rows = sorted(rows, key=lambda row: row.task)
        self._found: dict[tuple[object, ...], dict[int, list[ResultRow]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rows:
            task = row.task
            spot = Spot(task.data, task.trips, task.resolution, task.queries)
            where = task.protocol, spot, task.mechanism, task.epsilon, task.alone
            self._found[where][task.rounds].append(row)

    def runs(
        self, protocol: str, spot: Spot, mechanism: str, epsilon: float = NO_NOISE, alone: bool = False
    ) -> dict[int, list[ResultRow]]:
        """The rows by T; 0 if the mechanism chose it."""
        return self._found.get((protocol, spot, mechanism, epsilon, alone), {})

    def point(
        self,
        protocol: str,
        spot: Spot,
        mechanism: str,
        epsilon: float = NO_NOISE,
        measure: str = "error",
        hindsight: bool = False,
        alone: bool = False,
    ) -> Point | None:
        """The summary over runs; None if there are none.

        Under the paper's protocol, and in hindsight, it is that of the T with the lowest mean.
        """
        by_rounds = self.runs(protocol, spot, mechanism, epsilon, alone)
        choose = hindsight or protocol == PAPER
        points = [
            Point.of([getattr(row.measured, measure) for row in rows], rounds)
            for rounds, rows in by_rounds.items()
            if choose or rounds == 0
        ]
        points = [point for point in points if not math.isnan(point.mean)]
        if hindsight and not any(point.rounds for point in points):
            return None
        return min(points, key=lambda point: point.mean) if points else None

    def save(self, path: Path) -> None:
        """All rows as one Parquet table."""
        with replacing(path) as temporary:
            pq.write_table(pa.Table.from_pylist([row.flat() for row in self.rows]), temporary)


def save_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table with a header."""
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([["" if cell != cell else cell for cell in row] for row in rows])  # NaN becomes empty
