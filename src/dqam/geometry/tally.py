"""Count the crossings and endpoints of walks on all cores; histograms are made from these counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.grid import Grid
from dqam.geometry.tracing import EdgeTally
from dqam.geometry.walks import Walks
from dqam.runtime.threads import cores, each_task, spans

SPAN = 2**19  # points that a thread tallies at a time
TALLIED = 2**26  # cells that all threads together may tally at once, in 1.5 GiB


def tally_crossings(walks: Iterable[Walks], grid: Grid) -> tuple[Integers, Integers, Integers]:
    """Starts plus ends in each cell, and crossings of vertical and of horizontal edges."""
    runs, ends = _tallied(walks, grid)
    rows, columns = grid.shape
    by_row, by_column = np.split(runs, [rows * (columns + 1)])
    vertical = np.cumsum(by_row.reshape(rows, columns + 1), axis=1)[:, : columns - 1]
    horizontal = np.cumsum(by_column.reshape(columns, rows + 1), axis=1)[:, : rows - 1].T.copy()
    return ends.reshape(grid.shape), vertical, horizontal


def _tallied(walks: Iterable[Walks], grid: Grid) -> EdgeTally:
    """The tallies of all batches, added up; new batches are read while threads work on earlier ones."""

    def parts() -> Iterator[tuple[Walks, int, int]]:
        for batch in walks:
            if batch.grid != grid:
                raise InputError(f"Walks on {batch.grid} cannot be counted in a histogram on {grid}.")
            for start, stop in spans(batch.offsets, 1 + batch.points // SPAN):
                yield batch, start, stop

    tallies = [EdgeTally.empty(grid) for _ in range(min(cores(), 1 + TALLIED // (grid.rows * grid.columns)))]
    each_task(lambda tally, part: part[0].tally(tally, *part[1:]), parts(), tallies)
    for tally in tallies[1:]:
        for total, part in zip(tallies[0], tally, strict=True):
            total += part
    return tallies[0]


def spread_mass(walks: Walks) -> Floats:
    """float64[rows, columns]: a mass of 1 for each trip on the grid, spread evenly over its visits."""
    lengths = np.diff(walks.visits)
    shares = np.repeat(1 / np.maximum(lengths, 1), lengths)
    mass = np.zeros(walks.grid.rows * walks.grid.columns)
    np.add.at(mass, walks.cells, shares)
    return mass.reshape(walks.grid.shape)
