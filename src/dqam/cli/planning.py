"""What `dqam publish --plan` prints: the division of the budget and the expected errors, by size of the rectangle."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from dqam.cli.terminal import answers, print_json, words
from dqam.publishing.forecast import Forecast, forecast
from dqam.publishing.plan import Plan
from dqam.release.formatting import error_in_words, sides_in_cells, sides_on_ground
from dqam.values.guarantee import spell


def show_plan(plan: Plan, sizes: tuple[int, ...], as_json: bool) -> None:
    """Show how the budget would be spent, and the expected errors of answers."""
    with words.status("Forecasting"):
        forecasts = [forecast(plan, size) for size in sizes]
    if as_json:
        print_json(_plan_in_json(plan, forecasts))
        return
    answers.print(
        f"A release with {plan.name} would be private for {plan.unit.in_words}, epsilon = {spell(plan.epsilon)}."
    )
    answers.print(f"Public: {plan.grid}; tuned for {plan.queries_in_words}.", soft_wrap=True)
    for made in forecasts:
        budget = Table(box=None, padding=(0, 2, 0, 0), title=f"\nFor {made.trips:,} trips", title_justify="left")
        budget.add_column("Question")
        budget.add_column("Epsilon", justify="right")
        budget.add_column("Share", justify="right")
        for asked in made.questions:
            budget.add_row(asked.name, f"{asked.share * float(plan.epsilon):.4g}", f"{asked.share:.1%}")
        answers.print(budget)
        if made.evenly:
            answers.print(
                "The trips would only be counted and spread evenly over the map, so it would not show where they went.",
                soft_wrap=True,
            )
        errors = Table(box=None, padding=(0, 2, 0, 0))
        errors.add_column("\nSides in cells")
        errors.add_column("\nSides on the ground")
        errors.add_column("\nAverage answer", justify="right")
        errors.add_column("\nExpected error", justify="right")
        for row in made.errors:
            errors.add_row(
                sides_in_cells(row.band),
                sides_on_ground(row.band, plan.grid),
                f"{float(f'{row.answer:.2g}'):,.0f}",
                error_in_words(row.error, row.low, row.high),
            )
        answers.print(errors)
    several = "The table shows the median and the range over several data sets, real and generated"
    single = "These errors are for trips through a made-up city"
    answers.print(
        "\nThe error is the mean absolute difference from the true count, in percent of the average answer. "
        f"{several if len(forecasts[0].data_sets) > 1 else single}; your errors may differ. Nothing was spent, and no "
        "trips were read.",
        soft_wrap=True,
    )


def _plan_in_json(plan: Plan, forecasts: list[Forecast]) -> dict[str, Any]:
    """Forecasts as JSON values; widths and heights are ranges, in cells and in metres."""
    width, height = (side if math.isfinite(side) else None for side in plan.grid.cell_metres)

    def metres(sides: tuple[int, int], cell: float | None) -> list[float] | None:
        return None if cell is None else [round(side * cell, 1) for side in sides]

    return {
        "spent": 0,
        "epsilon": float(plan.epsilon),
        "unit": plan.unit.name,
        "data_sets": forecasts[0].data_sets,
        "plans": [
            {
                "trips": made.trips,
                "signal": made.signal,
                "evenly": made.evenly,
                "budget": [
                    {"kind": asked.kind, "name": asked.name, "epsilon": asked.share * float(plan.epsilon)}
                    for asked in made.questions
                ],
                "errors": [
                    {
                        "band": row.band.name,
                        "widths": row.band.widths,
                        "heights": row.band.heights,
                        "widths_m": metres(row.band.widths, width),
                        "heights_m": metres(row.band.heights, height),
                        "average_answer": row.answer,
                        "error": row.error,
                        "low": row.low,
                        "high": row.high,
                    }
                    for row in made.errors
                ],
            }
            for made in forecasts
        ],
    }
