"""What `dqam publish --plan` prints: the division of the budget and the expected errors, by size of the rectangle.

A line below them says so if there is no delta and one would help, or if there is one and it does harm. With --by, a
table shows what slices cost and how accurate their numbers of trips would be, and with --flows, how good flows would
be. With --areas, there is also a table of
the expected errors for the zones of a file, by size of the zone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from rich.table import Table

from dqam.cli.flow_planning import cell_side, flows_in_json, show_flows, side_in_words
from dqam.cli.terminal import answers, plain, print_json, words
from dqam.cli.zones import Zones
from dqam.errors import InputError
from dqam.geometry.rectangles import ALL, SizeBand
from dqam.geometry.shape_tables import listed
from dqam.publishing.forecast import Forecast, forecast, is_measured
from dqam.publishing.plan import Plan, usual_delta
from dqam.publishing.zone_forecast import ZoneClass, below_one_cell, equivalent_sides, forecast_zones
from dqam.release.formatting import (
    TIMES,
    error_in_words,
    length,
    percent,
    sides_in_cells,
    sides_on_ground,
    span,
)
from dqam.statistics import PersonTrips
from dqam.values.guarantee import spell, spell_delta

LESS, MORE = "\N{LESS-THAN OR EQUAL TO}", "\N{GREATER-THAN OR EQUAL TO}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
WORTH_IT = 1.2  # advice is given if an error would be smaller by at least this factor


def show_plan(
    plan: Plan, sizes: tuple[int, ...], as_json: bool, whole: bool = True, zones: Zones | None = None
) -> None:
    """Show how the budget would be spent, and the expected errors of answers.

    whole  whether the publication takes the whole budget of its data set
    zones  areas whose errors are shown too
    """
    zones = zones and replace(zones, what="zones")
    with words.status("Forecasting"):
        forecasts = [forecast(plan, size, whole=whole) for size in sizes]
    if as_json:
        in_json = _plan_in_json(plan, forecasts)
        if zones is not None:
            zones.say_changes(grown=False)
            _add_zones(in_json, zones, forecasts)
        print_json(in_json)
        return
    whose = "one person with all their trips" if plan.chooses_max_trips else plan.unit.in_words
    answers.print(f"A release with {plan.name} would be private for {whose}, {plan.promise}.")
    answers.print(f"Public: {plan.grid}; tuned for {plan.queries_in_words}.", soft_wrap=True)
    if plan.prior is not None:
        answers.print(
            f"Prior, declared public in the release: {plan.prior.source}. Expected errors are those without it.",
            markup=False,
            soft_wrap=True,
        )
    for made in forecasts:
        budget = Table(box=None, padding=(0, 2, 0, 0), title=f"\nFor {made.trips:,} trips", title_justify="left")
        budget.add_column("Question")
        budget.add_column("rho" if made.concentrated else "Epsilon", justify="right")
        budget.add_column("Share", justify="right")
        for asked in made.questions:
            budget.add_row(asked.name, f"{asked.share * float(made.budget):.4g}", f"{asked.share:.1%}")
        answers.print(budget)
        if made.max_trips is not None:
            answers.print(_chosen_max_trips(made), soft_wrap=True)
        if plan.delta:
            answers.print(_use_of_delta(plan, made), soft_wrap=True)
        if made.evenly:
            spread = "evenly over the map" if plan.prior is None else "as in the prior"
            answers.print(
                f"The trips would only be counted and spread {spread}, so the map would not show where they went.",
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
    if plan.unit.name == "person":
        answers.print(
            "Counts are scaled up to all trips of each person, and the error includes that. How many trips each person "
            "has is not known here, so the forecast averages over two groups of made-up persons.",
            soft_wrap=True,
        )
    if advice := _advice(plan, forecasts, whole):
        answers.print(advice, soft_wrap=True)
    _show_slices(plan, forecasts)
    show_flows(plan, forecasts)
    if zones is not None:
        _show_zones(zones, forecasts)


def _chosen_max_trips(made: Forecast) -> str:
    """Which m to expect, and what it costs."""
    assert made.max_trips is not None
    low, high = made.max_trips
    share = sum(asked.share for asked in made.questions if asked.name == PersonTrips.name)
    kept = f"{low} trip{'s' * (low > 1)}" if low == high else f"{low} to {high} trips"
    return (
        f"About {kept} of each person would be used. The number would be chosen from the measurement "
        f'"{PersonTrips.name}" (about {percent(share)} of the budget), which is needed in any case to scale counts up.'
    )


def _show_slices(plan: Plan, forecasts: list[Forecast]) -> None:
    """Print what slices cost, and how well their numbers of trips would be known, if there are any."""
    expected = [(made.trips, made.slices) for made in forecasts if made.slices is not None]
    if plan.slicing is None or not expected:
        return
    count, share = len(plan.slicing), expected[0][1].share
    zone = f" ({plan.slicing.timezone})" if plan.slicing.timezone else ""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title_justify="left")
    table.title = f"\n{count:,} slice{'' if count == 1 else 's'}, by {plain(str(plan.slicing))}{zone}"
    for column in ("All trips", "Average slice", "Noise in its trips", "In percent", "Lattice"):
        table.add_column(column, justify="right")
    for trips, slices in expected:
        off = f"{PLUS_MINUS} {float(f'{slices.deviation:.2g}'):,g}"
        lattice = f"{slices.side} {TIMES} {slices.side}"
        relative = error_in_words(slices.deviation / slices.trips)
        table.add_row(f"{trips:,}", f"{float(f'{slices.trips:.2g}'):,g}", off, relative, lattice)
    answers.print(table)
    answers.print(
        f"Slices cost {percent(float(share))} of the budget, however many there are; the errors above are those of the "
        "map, which is made with the rest. The noise is one standard deviation, the same for all slices, so small "
        "slices have larger relative errors. How the trips of a slice are spread over the map is measured on the "
        "lattice; all finer detail is that of the map. If there are too few trips to show how slices differ, each "
        "slice is the whole map, scaled down to its share of the trips.",
        soft_wrap=True,
    )


def _show_zones(zones: Zones, forecasts: list[Forecast]) -> None:
    """Print the expected errors for zones, by size of the zone."""
    placed = zones.areas
    found = [forecast_zones(made, placed) for made in forecasts]
    single, metres = len(found) == 1, cell_side(zones.grid)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title_justify="left")
    table.title = "\nExpected error by size of your zones"
    table.add_column("Zones", justify="right")
    table.add_column("Side (cells)")
    if metres is not None:
        table.add_column("On the ground")
    for made in forecasts:
        table.add_column("Expected error" if single else f"{made.trips:,} trips", justify="right")
    for row in zip(*(each.classes for each in found), strict=True):
        first = row[0]
        sides = first.smallest, first.largest
        on_ground = [] if metres is None else [span([length(side * metres) for side in sides])]
        errors = [_in_table(one, with_range=single) for one in row]
        table.add_row(f"{first.zones:,}", span([side_in_words(side) for side in sides]), *on_ground, *errors)
    answers.print(table)
    for made, each in zip(forecasts, found, strict=True):
        with_trips = "" if single else f", with {made.trips:,} trips"
        answers.print(
            f"Your {_number(zones)}{with_trips}: {_range_of_errors(each.classes)} of the average answer.",
            soft_wrap=True,
        )
    answers.print("These are averages over zones of like size; a single zone can be off by more.", soft_wrap=True)
    small = below_one_cell(placed)
    if small.any():
        note = zones.note(small, "is smaller than one cell of the map", "are smaller than one cell of the map")
        answers.print(plain(note), soft_wrap=True)
    zones.say_changes(grown=False, console=answers)
    answers.print(
        "The side is that of a square with the area of the zone. The error is the one expected for rectangles with "
        "such sides, anywhere on the map. Zones of other shapes can have larger errors.",
        soft_wrap=True,
    )


def _number(zones: Zones) -> str:
    """How many zones are on the map."""
    inside = int((~zones.placed.outside).sum())
    return f"{inside:,} zone{'' if inside == 1 else 's'}{' on the map' if inside < len(zones.given) else ''}"


def _in_table(row: ZoneClass, with_range: bool) -> str:
    """The expected error of a class of zones, in as few characters as possible."""
    expected = row.expected
    if row.beyond:
        return f"{LESS if row.beyond > 0 else MORE} {error_in_words(expected.error)}"
    return error_in_words(expected.error, *((expected.low, expected.high) if with_range else ()))


def _range_of_errors(classes: Sequence[ZoneClass]) -> str:
    """The smallest and the largest of the expected errors in words."""
    by_error = sorted(classes, key=lambda row: (row.expected.error, -row.beyond))
    least, most = by_error[0], by_error[-1]
    if least.expected == most.expected:
        return _about(most if most.beyond else least)
    return f"from {_about(least)} to {_about(most)}"


def _about(row: ZoneClass) -> str:
    return f"about {error_in_words(row.expected.error)}{('', ' or less', ' or more')[row.beyond]}"


def _use_of_delta(plan: Plan, made: Forecast) -> str:
    """Which of the two kinds of noise would be drawn."""
    if made.concentrated:
        return f"Noise would be Gaussian, with a budget of rho = {float(made.budget):.4g}."
    why = "With this number of trips" if is_measured(plan) else "With this mechanism"
    return f"{why}, noise without a delta is better, so no delta would be used: epsilon = {spell(plan.epsilon)}."


def _advice(plan: Plan, forecasts: list[Forecast], whole: bool) -> str:
    """Where a delta would help most, if there is none, or where the plan would be better without it; empty if nowhere.

    Only measured errors are compared.
    """
    if not is_measured(plan):
        return ""
    found = []
    for made in forecasts:
        delta = Fraction(0) if plan.delta else usual_delta(made.trips)
        try:
            other = forecast(replace(plan, delta=delta), made.trips, whole=whole)
        except InputError:  # with a delta, epsilon must not be tiny or huge
            continue
        found += [
            (now.error / then.error, delta, made.trips, now, then)
            for now, then in zip(made.errors, other.errors, strict=True)
        ]
    better, delta, trips, now, then = max(found, key=lambda row: row[0], default=(0.0, Fraction(0), 0, None, None))
    if better < WORTH_IT or now is None or then is None:
        return ""
    how = f"With --delta {spell_delta(delta)}" if delta else "Without --delta"
    size = f" and {trips:,} trips" if len(forecasts) > 1 else ""
    return (
        f"{how}{size}, the expected error for {_rectangles(now.band)} would be {error_in_words(then.error)} instead of "
        f"{error_in_words(now.error)}."
    )


def _rectangles(band: SizeBand) -> str:
    sides = sides_in_cells(band)
    if band.name == ALL:
        return "rectangles of any size"
    return f"rectangles {sides.replace(' wide', ' cells wide')}" if " wide" in sides else f"sides of {sides} cells"


def _add_zones(in_json: dict[str, Any], zones: Zones, forecasts: list[Forecast]) -> None:
    """Add zones to a plan in JSON, and their expected errors to the plan for each number of trips.

    Errors of zones outside the map are None. A bound, "or more" or "or less", says that the error is only known to be
    at least or at most this large.
    """
    placed, metres = zones.areas, cell_side(zones.grid)
    in_json["zones"] = {
        "names": zones.given.names,
        **zones.to_json(),
        "sides": list(listed(equivalent_sides(placed))),
        "below_one_cell": below_one_cell(placed).tolist(),
    }
    for one, made in zip(in_json["plans"], forecasts, strict=True):
        found = forecast_zones(made, placed)
        one["zones"] = {
            "errors": list(listed(found.errors)),
            "classes": [
                {
                    "zones": row.zones,
                    "sides": [row.smallest, row.largest],
                    "sides_m": metres and [round(side * metres, 1) for side in (row.smallest, row.largest)],
                    "band": row.expected.band.name,
                    "error": row.expected.error,
                    "low": row.expected.low,
                    "high": row.expected.high,
                    "bound": (None, "or less", "or more")[row.beyond],
                }
                for row in found.classes
            ],
        }


def _slices_in_json(plan: Plan, made: Forecast) -> dict[str, Any]:
    """What to expect of slices as a JSON value; nothing if there are none."""
    if plan.slicing is None or made.slices is None:
        return {}
    slices = made.slices
    return {
        "slices": {
            "by": str(plan.slicing),
            "timezone": plan.slicing.timezone,
            "names": list(plan.slicing.names),
            "count": slices.count,
            "share": float(slices.share),
            "average_trips": slices.trips,
            "deviation": slices.deviation,
            "side": slices.side,
        }
    }


def _plan_in_json(plan: Plan, forecasts: list[Forecast]) -> dict[str, Any]:
    """Forecasts as JSON values; widths and heights are ranges, in cells and in metres.

    The delta of a plan is None where it would not be used.
    """
    width, height = (side if math.isfinite(side) else None for side in plan.grid.cell_metres)

    def metres(sides: tuple[int, int], cell: float | None) -> list[float] | None:
        return None if cell is None else [round(side * cell, 1) for side in sides]

    return {
        "spent": 0,
        "epsilon": float(plan.epsilon),
        "delta": float(plan.delta) or None,
        "unit": plan.unit.name,
        **({} if plan.prior is None else {"prior": plan.prior.source}),
        "data_sets": forecasts[0].data_sets,
        "plans": [
            {
                "trips": made.trips,
                "signal": made.signal,
                "concentrated": made.concentrated,
                "delta": float(plan.delta) if made.concentrated else None,
                "rho": float(made.budget) if made.concentrated else None,
                "evenly": made.evenly,
                **({} if made.max_trips is None else {"max_trips": made.max_trips}),
                "budget": [
                    {
                        "kind": asked.kind,
                        "name": asked.name,
                        "rho" if made.concentrated else "epsilon": asked.share * float(made.budget),
                    }
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
                **_slices_in_json(plan, made),
                **flows_in_json(plan, made),
            }
            for made in forecasts
        ],
    }
