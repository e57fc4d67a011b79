"""What `dqam publish --plan` prints about flows, and how it writes the sizes of areas."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from dqam.cli.terminal import answers
from dqam.geometry.grid import Grid
from dqam.publishing.forecast import Forecast
from dqam.publishing.plan import Plan
from dqam.release.formatting import TIMES, error_in_words, ground, length, percent


def show_flows(plan: Plan, forecasts: list[Forecast]) -> None:
    """Print what flows cost, and how accurate they would be by size of the areas, if there are any."""
    expected = [(made.trips, made.flows) for made in forecasts if made.flows is not None]
    if not expected:
        return
    single, metres, first = len(expected) == 1, cell_side(plan.grid), expected[0][1]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title_justify="left")
    table.title = "\nFlows between two areas, by size of the areas"
    table.add_column("Side (cells)")
    if metres is not None:
        table.add_column("On the ground")
    for trips, _ in expected:
        if single:
            table.add_column("Average flow", justify="right")
        table.add_column("Expected error" if single else f"{trips:,} trips", justify="right")
    for rows in zip(*(flows.errors for _, flows in expected), strict=True):
        side = rows[0].side
        on_ground = [] if metres is None else [length(side * metres)]
        average = [f"{float(f'{rows[0].answer:.2g}'):,g}"] if single else []
        ranges = ((row.error, *((row.low, row.high) if single else ())) for row in rows)
        table.add_row(side_in_words(side), *on_ground, *average, *(error_in_words(*row) for row in ranges))
    whole = [flows.table if single else (flows.table[0], None, None) for _, flows in expected]
    blank = [""] * ((metres is not None) + single)
    table.add_row(f"All of 16 {TIMES} 16", *blank, *(error_in_words(*row) for row in whole))
    answers.print(table)
    sides = [f"{flows.tiles} {TIMES} {flows.tiles}" for _, flows in expected]
    between = sides[0] if len(set(sides)) == 1 else f"{', '.join(sides[:-1])} or {sides[-1]}"
    answers.print(
        f"Flows cost {percent(float(first.share))} of the budget; the errors above are those of the map, which has the "
        f"rest. Trips would be counted between {between} tiles. The error is the mean absolute difference from the "
        "true flow from one square to another, in percent of the average flow; many flows are far below the average. "
        f"The last line is for all pairs of 16 {TIMES} 16 tiles: the sum of absolute differences, in percent of all "
        "trips.",
        soft_wrap=True,
    )
    if expected[0][1].tiles == 1:
        answers.print(
            f"With {expected[0][0]:,} trips, flows would not show which places trips connect: origins and "
            "destinations would be assumed to be independent of each other. Consider a larger --flows-share.",
            soft_wrap=True,
        )


def flows_in_json(plan: Plan, made: Forecast) -> dict[str, Any]:
    """What to expect of flows as a JSON value; nothing if there are none."""
    if made.flows is None:
        return {}
    flows, metres = made.flows, cell_side(plan.grid)
    table = dict(zip(("error", "low", "high"), flows.table, strict=True))
    return {
        "flows": {
            "share": float(flows.share),
            "signal": flows.signal,
            "tiles": flows.tiles,
            "data_sets": flows.data_sets,
            "errors": [
                {
                    "side": row.side,
                    "side_m": metres and round(row.side * metres, 1),
                    "average_answer": row.answer,
                    "error": row.error,
                    "low": row.low,
                    "high": row.high,
                }
                for row in flows.errors
            ],
            "all_pairs_of_16_x_16_tiles": table,
        }
    }


def cell_side(grid: Grid) -> float | None:
    """The side of a square as large as a cell, in metres; None if it is unknown."""
    return None if ground(grid) is None else math.sqrt(math.prod(grid.cell_metres))


def side_in_words(cells: float) -> str:
    """A number of cells, which may be a fraction."""
    return f"{cells:,.0f}" if cells >= 10 else f"{cells:.2g}" if cells >= 0.01 else "< 0.01"
