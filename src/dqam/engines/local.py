"""This machine, with a batch of trips in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from dqam.errors import InputError
from dqam.grid import Grid
from dqam.privacy.budget import Unit
from dqam.records import Integers, Wanted, add_up
from dqam.trips import Trips
from dqam.walks import Gap, lay

Progress = Callable[[str], AbstractContextManager[Callable[[float], None]]]  # as `progress_of` of the command


def quiet(what: str) -> AbstractContextManager[Callable[[float], None]]:
    """No progress bar."""
    return nullcontext(lambda share: None)


class Batches(Protocol):
    """Trips that are read anew at each iteration: a `Source`, or like one."""

    name: str

    @property
    def progress(self) -> float:
        """The part that was read, from 0 to 1."""

    def __iter__(self) -> Iterator[Trips]:
        """Batches of whole trips."""


class Local:
    """Reads a source anew in every scan, a batch at a time; the work on a batch is on all cores."""

    unit = Unit.trip()  # nothing is limited here

    def __init__(self, source: Batches, progress: Progress = quiet) -> None:
        self.source, self._progress, self._scans = source, progress, 0

    def add_up(self, grid: Grid, gap: Gap | None, wanted: Sequence[Wanted]) -> list[Integers]:
        """One scan."""
        self._scans += 1
        totals = add_up(lay(self._watched(), grid, gap, self.source.name), wanted)
        if totals is None:
            raise InputError(f"{self.source.name} has no trips.")
        return totals

    def _watched(self) -> Iterator[Trips]:
        with self._progress(f"Scan {self._scans} of {self.source.name}") as show:
            for trips in self.source:
                yield trips
                show(self.source.progress)
