"""Run many tasks in several processes, and save finished ones, so that an interrupted experiment can continue.

Tasks on the same data and grid stay together, because exact counts are then made once. Each finished chunk of tasks
becomes a small file of JSON lines; a row is found again by its key.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from dqam import __version__
from dqam.errors import InputError
from dqam.experiments.protocol import ResultRow, Task, bench, noise_seed
from dqam.experiments.stamps import stamp_of
from dqam.geometry.grid import Bounds
from dqam.runtime.files import replacing

CHUNK = 24  # runs
ONE_THREAD = dict.fromkeys(("DQAM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Place:
    """The file of a data set and its bounds; `stamp` is the stamp of its code, data and seed."""

    trips: Path
    bounds: Bounds
    seed: int
    stamp: str


@dataclass(frozen=True)
class Chunk:
    """Tasks on the same data and grid."""

    place: Place
    tasks: tuple[Task, ...]


class Parts:
    """The folder of finished runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, keys: set[str]) -> tuple[dict[str, ResultRow], int]:
        """The saved rows with these keys, and the number of rows with other keys."""
        found: dict[str, ResultRow] = {}
        others = 0
        for path in sorted(self.folder.glob("*.jsonl")):
            try:
                rows = [ResultRow.of(json.loads(line)) for line in path.read_text().splitlines()]
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{path} is damaged; remove it, and its runs will be repeated.") from None
            found.update({row.key: row for row in rows if row.key in keys})
            others += sum(row.key not in keys for row in rows)
        return found, others

    def save(self, rows: list[ResultRow]) -> None:
        """Save rows, all or none."""
        if not rows:
            return
        name = stamp_of(*(row.key for row in rows))
        with replacing(self.folder / f"{name}.jsonl") as temporary:
            temporary.write_text("".join(json.dumps(row.flat()) + "\n" for row in rows))


def chunked(tasks: Iterable[Task], places: dict[tuple[str, int], Place]) -> list[Chunk]:
    """Tasks in chunks, the largest data sets first, so that no long chunk is left for the end."""

    def group(task: Task) -> tuple[Any, ...]:
        return -task.trips, task.data, -task.resolution

    chunks = []
    for _, members in groupby(sorted(tasks, key=lambda task: (group(task), task)), group):
        together = list(members)
        place = places[together[0].data, together[0].trips]
        step = -(-len(together) // CHUNK)
        # every chunk gets some of each mechanism, so that all take about as long
        chunks += [Chunk(place, tuple(together[start::step])) for start in range(step)]
    return chunks


def run_chunk(chunk: Chunk, stopped: Callable[[], bool] = lambda: False) -> list[ResultRow]:
    """Run the tasks one after the other, until `stopped`."""
    place, rows = chunk.place, []
    for task in chunk.tasks:
        if stopped():
            break
        table = bench(place.trips, place.bounds, task.resolution, place.seed)
        try:
            measured = table.run(task)
            if task.alone:
                measured = table.run(task)  # the first time may have compiled
        except Exception as error:
            error.add_note(f"The task was {task}.")
            raise
        seed = noise_seed(place.seed, task.run)
        rows.append(ResultRow(task, measured, seed, task.key(place.stamp), __version__))
    return rows


def run_all(chunks: list[Chunk], processes: int, keep: Callable[[list[ResultRow]], None]) -> None:
    """Run all chunks and pass their rows to `keep`, including those finished by the time of an interrupt."""
    if processes == 1 or len(chunks) <= 1:
        for chunk in chunks:
            rows: list[ResultRow] = []
            try:
                for task in chunk.tasks:
                    rows += run_chunk(Chunk(chunk.place, (task,)))
            finally:
                keep(rows)
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with _environment(ONE_THREAD), ProcessPoolExecutor(processes, context, _remember, (stop,)) as pool:
        with _ignoring_interrupts():  # for good in the processes that start here
            futures: list[Future[list[ResultRow]]] = [pool.submit(_run_until_stopped, chunk) for chunk in chunks]
        waiting = set(futures)
        try:
            for future in as_completed(futures):
                waiting.discard(future)
                keep(future.result())
        except BrokenProcessPool:
            raise InputError(
                "A process died in the middle of a run, perhaps for lack of memory; run again with the same output to "
                "continue, and with processes=1 to use less memory."
            ) from None
        except BaseException:
            stop.set()
            for future in waiting:
                if not future.cancel() and future.exception() is None:
                    keep(future.result())
            raise


_stop: Any = None  # in a worker: the event that tells it to stop


def _remember(stop: Any) -> None:
    global _stop
    _stop = stop


def _run_until_stopped(chunk: Chunk) -> list[ResultRow]:
    return run_chunk(chunk, _stop.is_set)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
