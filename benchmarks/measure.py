"""Timing, ratios and the generated data that benchmarks share."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dqam import cities

BUILD = Path(__file__).parents[1] / "build" / "benchmark"


def city(trips: int) -> Path:
    """The file of so many generated trips, made if it is not there yet."""
    path = BUILD / f"city-{trips}.parquet"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
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


def clocked(work: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    """The same work, which adds the seconds it takes to `spent[name]`."""

    def run(*given: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return work(*given, **options)
        finally:
            spent[name] += time.perf_counter() - began

    return run


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
