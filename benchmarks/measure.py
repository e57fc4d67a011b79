"""Timing, ratios and the generated data that benchmarks share."""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dqam import cities
from dqam.privacy.curator import Curator


def options(about: str | None) -> argparse.ArgumentParser:
    """The options of a benchmark; with --tiny it only shows that it runs."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="run within seconds; the numbers mean nothing then")
    return parser


def build() -> Path:
    """The folder for generated data, which DQAM_BENCHMARKS can name."""
    folder = Path(os.environ.get("DQAM_BENCHMARKS", Path(__file__).parents[1] / "build" / "benchmark"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def city(trips: int) -> Path:
    """The file of so many generated trips, made if it is not there yet."""
    path = build() / f"city-{trips}.parquet"
    if not path.exists():
        start = time.perf_counter()
        points = cities.write_parquet(cities.city_trips(trips, seed=1), path, trips)
        print(f"generated {trips:,} trips, {points:,} points in {time.perf_counter() - start:.1f} s")
    return path


def seconds(work: Callable[[], Any], runs: int = 3) -> tuple[float, Any]:
    """The shortest of several runs, and what the last one gave."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


class ClockedCurator(Curator):
    """A curator that notes the seconds it takes to answer, by question."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.took: dict[str, float] = defaultdict(float)

    def _timed(self, ask: Callable[..., Any], question: Any, *rest: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return ask(question, *rest, **named)
        finally:
            self.took[question.name] += time.perf_counter() - began

    def measure(self, *given: Any, **named: Any) -> Any:
        """As the curator does."""
        return self._timed(super().measure, *given, **named)

    def select(self, *given: Any) -> Any:
        """As the curator does."""
        return self._timed(super().select, *given)

    def partition(self, *given: Any) -> Any:
        """As the curator does."""
        return self._timed(super().partition, *given)


def peak_gib() -> float:
    """The most memory this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():  # as getrusage has the parent's, where that was larger
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def claim(words: str, ratio: float, wanted: float, at_most: bool = False) -> None:
    """A line that says what was measured, what was wanted and whether it holds."""
    holds = ratio <= wanted if at_most else ratio >= wanted
    limit = f"{'at most' if at_most else 'at least'} {wanted:g}"
    print(f"{'  ok' if holds else 'MISS'}  {words}: {ratio:,.2f} (wanted: {limit})", flush=True)
