"""Run work on several threads: over spans of trips or over a list of tasks.

Compiled loops release Python's interpreter lock, so threads use every core.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")
T = TypeVar("T")


def cores() -> int:
    """The number of processors this process may use; DQAM_THREADS lowers it."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("DQAM_THREADS", "")
    return max(1, min(available, int(wanted))) if wanted.isdecimal() else available


def spans(weights: NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Divide n items into at most `parts` spans of about equal weight; `weights`, int64[n + 1], are cumulative.

    >>> spans(np.array([0, 1, 2, 10, 11]), 2)
    [(0, 3), (3, 4)]
    """
    cuts = np.searchsorted(weights, np.linspace(weights[0], weights[-1], parts + 1))
    cuts[0], cuts[-1] = 0, len(weights) - 1
    return [(int(a), int(b)) for a, b in pairwise(cuts) if a < b]


def each_span(work: Callable[[int, int], T], parts: list[tuple[int, int]]) -> list[T]:
    """Call `work(start, stop)` for every span, on all cores; the results are in the order of the spans."""
    if len(parts) <= 1:
        return [work(*part) for part in parts]
    with ThreadPoolExecutor(min(len(parts), cores())) as pool:
        return list(pool.map(lambda part: work(*part), parts))


def ahead(work: Callable[[S], T], tasks: Iterable[S]) -> Iterator[T]:
    """Yield `work(task)` for every task, in order; up to one task per core runs before its result is needed.

    >>> list(ahead(abs, [-1, -2]))
    [1, 2]
    """
    waiting = deque[Future[T]]()
    with ThreadPoolExecutor(cores()) as pool:
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > cores():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def each_task(work: Callable[[S, T], object], tasks: Iterable[T], states: list[S]) -> None:
    """Call `work(state, task)` for every task, with one thread per state; tasks are fetched only when needed."""
    idle, busy = deque(states), deque[Future[object]]()

    def do(task: T) -> None:
        state = idle.pop()
        try:
            work(state, task)
        finally:
            idle.append(state)

    with ThreadPoolExecutor(len(states)) as pool:
        for task in tasks:
            busy.append(pool.submit(do, task))
            if len(busy) > len(states):
                busy.popleft().result()
        for future in busy:
            future.result()
