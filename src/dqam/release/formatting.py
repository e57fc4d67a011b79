"""Rendering of HTML pages: Jinja2 templates, and numbers formatted for readers.

Templates are in the folder `templates` of each package. They escape every value, because anyone may have written the
text in a release, and fail if a value is missing.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dqam.geometry.arrays import Integers
from dqam.geometry.grid import Grid, parse_crs
from dqam.geometry.rectangles import ALL, SizeBand, Snapped, snap
from dqam.values.guarantee import spell_delta

SQUARE = 0.05  # cells whose sides differ by less than this share count as square
TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
Icon = tuple[float, float, float, float]
NAMED = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))


def render(template: str, **values: Any) -> str:
    """The text of a template, named by its path within the package `dqam`."""
    environment = Environment(
        loader=PackageLoader("dqam", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "trips": trips,
        "number": number,
        "percent": percent,
        "decimal": decimal,
        "error": error_in_words,
        "typeset": typeset,
        "one_in": one_in,
        "rounded_up": rounded_up,
    }
    return environment.get_template(template).render(values)


def trips(value: float) -> str:
    """A number of trips, rounded to whole ones."""
    return f"{value:,.0f}"


def number(value: float) -> str:
    """A number with three significant digits, or without decimals from 100 on.

    >>> number(0.123456), number(12.34), number(1234.5)
    ('0.123', '12.3', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def percent(share: float, digits: int | None = None) -> str:
    r"""A share in percent, rounded to `digits` decimals (by default, as many as its size needs), never to 0 or 100.

    >>> percent(0.5), percent(0.02689), percent(0.99331), percent(0.99999)
    ('50\xa0%', '2.7\xa0%', '99.33\xa0%', 'above 99.99\xa0%')
    """
    if math.isnan(share) or share > 10:
        return "above 1,000\xa0%"
    if 0.9999 < share < 1:
        return "above 99.99\xa0%"
    if 0 < share < 0.0001:
        return "below 0.01\xa0%"
    if share >= 1:
        return f"{100 * share:,.0f}\xa0%"
    if digits is None:
        digits = 0 if 0.1 <= share <= 0.9 else 2 if share > 0.99 or share < 0.01 else 1
    return f"{round(100 * share, digits):g}\xa0%"


def decimal(value: Fraction) -> str:
    """A fraction as a decimal, preceded by the fraction itself where six digits are not exact.

    >>> decimal(Fraction(1, 40)), decimal(Fraction(19, 850))
    ('0.025', '19/850 ≈ 0.02235')
    """
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"{value} ≈ {float(value):.4g}"


def typeset(delta: Fraction) -> Markup:
    """A delta in HTML.

    >>> typeset(Fraction(1, 10**8)) == f"10<sup>{MINUS}8</sup>"
    True
    >>> typeset(Fraction(25, 10**8)) == f"2.5 {TIMES} 10<sup>{MINUS}7</sup>"
    True
    """
    digits, _, power = spell_delta(delta).partition("e-")
    return Markup(f"{'' if digits == '1' else f'{digits} {TIMES} '}10<sup>{MINUS}{int(power)}</sup>")


def one_in(probability: float | Fraction) -> Markup:
    """A probability as 1 in a number of two digits, so that it is never shown as smaller than it is.

    >>> one_in(Fraction(1, 10**8)), one_in(8.03e-7), one_in(0.0013), one_in(1.6e-25)
    (Markup('1 in 100 million'), Markup('1 in 1.2 million'), Markup('1 in 760'), Markup('1 in 10<sup>24</sup>'))
    """
    number = int(1 / Fraction(probability))
    digits = len(str(number))
    if digits > 15:
        return Markup(f"1 in 10<sup>{digits - 1}</sup>")
    unit = 10 ** max(0, digits - 2)
    short = number // unit * unit
    for size, name in NAMED:
        if short >= size:
            return Markup(f"1 in {short / size:g} {name}")
    return Markup(f"1 in {short:,}")


def rounded_up(value: Fraction) -> str:
    """A positive number with three significant digits, rounded up.

    >>> rounded_up(Fraction(2)), rounded_up(Fraction("2.0701")), rounded_up(Fraction(12345))
    ('2', '2.08', '12400')
    """
    context = Context(prec=3, rounding=ROUND_CEILING)
    return f"{context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize():f}"


def length(metres: float) -> str:
    """A distance in metres, or in kilometres from 1 km on.

    >>> length(9999.97), length(39.06), length(1500)
    ('10 km', '39 m', '1.5 km')
    """
    return f"{float(f'{metres / 1000:.3g}'):,g} km" if metres >= 995 else f"{float(f'{metres:.2g}'):g} m"


def area(width: float, height: float) -> str:
    """Width and height, both given in metres.

    >>> area(16_400, 9_620).split(TIMES), area(500, 2_000).split(TIMES)
    (['16.4 ', ' 9.62 km'], ['500 m ', ' 2 km'])
    """
    wide, high = length(width), length(height)
    number, unit = wide.split()
    return f"{number if high.endswith(f' {unit}') else wide} {TIMES} {high}"


def area_in_words(square_metres: float) -> str:
    """The size of an area in square metres, or in square kilometres from 0.1 km² on.

    >>> area_in_words(832_100), area_in_words(53_271), area_in_words(1.234e13)
    ('0.832 km²', '53,300 m²', '12,300,000 km²')
    """
    large = square_metres >= 99_500
    return f"{float(f'{square_metres / (1e6 if large else 1):.3g}'):,.10g} {'km²' if large else 'm²'}"


def size_of_area(cells: float, grid: Grid) -> str:
    """The size of an area on a grid, on the ground and in cells; only in cells if their size in metres is unknown.

    >>> size_of_area(120, Grid((5e5, 5e6, 508_000, 5_008_000), 80, 80, "EPSG:32631"))
    '1.2 km² (120 cells)'
    """
    in_cells = _cells(number(cells))
    if ground(grid) is None:
        return in_cells
    return f"{area_in_words(cells * grid.cell_metres[0] * grid.cell_metres[1])} ({in_cells})"


def size_of_rectangle(columns: int, rows: int, grid: Grid) -> str:
    """The sides of a rectangle of whole cells, likewise.

    >>> size_of_rectangle(12, 8, Grid((5e5, 5e6, 508_000, 5_008_000), 80, 80, "EPSG:32631")).replace(TIMES, "x")
    '1.2 km x 800 m (12 x 8 cells)'
    """
    in_cells = _cells(f"{columns:,} {TIMES} {rows:,}")
    if ground(grid) is None:
        return in_cells
    return f"{area(columns * grid.cell_metres[0], rows * grid.cell_metres[1])} ({in_cells})"


def _cells(count: str) -> str:
    return f"{count} cell{'' if count == '1' else 's'}"


def ground(grid: Grid) -> tuple[float, float] | None:
    """Width and height of the map in metres, measured at its centre; None where they are unknown."""
    width, height = grid.cell_metres[0] * grid.columns, grid.cell_metres[1] * grid.rows
    return (width, height) if 0 < width < math.inf and 0 < height < math.inf else None


def sides_in_cells(band: SizeBand) -> str:
    """The sides of the rectangles of a band, in cells; one range if it is the same for width and height.

    >>> sides_in_cells(SizeBand("2-4", (2, 4), (2, 4))), sides_in_cells(SizeBand("2-4", (1, 1), (1, 2)))
    ('2 to 4', '1 wide, 1 to 2 high')
    """
    if band.name == ALL:
        return "any"
    wide, high = (span([str(side) for side in sides]) for sides in (band.widths, band.heights))
    return wide if wide == high else f"{wide} wide, {high} high"


def sides_on_ground(band: SizeBand, grid: Grid) -> str:
    """The sides of the rectangles of a band, in metres or kilometres; one range if cells are about square, and an empty
    string if the size of cells in metres is unknown."""
    if ground(grid) is None:
        return ""
    if band.name == ALL:
        return "any"
    width, height = grid.cell_metres
    if band.widths == band.heights and abs(width / height - 1) < SQUARE:
        width = height = math.sqrt(width * height)
    wide = span([length(width * side) for side in band.widths])
    high = span([length(height * side) for side in band.heights])
    return wide if wide == high else f"{wide} wide, {high} high"


def shortest_sides(lines: Integers, grid: Grid) -> list[str]:
    """The sides of a rectangle of cells, moved inward to as few decimals as still give the same cells."""
    low, high = np.split(Snapped.of(lines[None, :], grid).bounds[0], 2)
    for digits in range(12):
        unit = 10.0**digits
        inward = np.concatenate([np.ceil(low * unit), np.floor(high * unit)]) / unit + 0.0  # turns -0 into 0
        sides = [f"{side:.{digits}f}" for side in inward]
        west, south, east, north = map(float, sides)
        if west < east and south < north:
            again = snap(np.array([[west, south, east, north]]), grid).cells[0]
            if np.array_equal(again, lines):
                return sides
    return [repr(float(side)) for side in (*low, *high)]


def icon(lines: Integers, grid: Grid) -> Icon:
    """Where a rectangle of cells is: x, y, width and height on a map of 20 by 20, with y from the top.

    >>> icon(np.array([2, 1, 4, 4]), Grid((0, 0, 1, 1), 4, 4))
    (10.0, 0.0, 10.0, 15.0)
    """
    west, south, east, north = (20.0 * lines / np.array([grid.columns, grid.rows] * 2)).tolist()
    return west, 20 - north, east - west, north - south


def span(ends: list[str]) -> str:
    """The two ends of a range in words, with the unit only once if they share it.

    >>> span(["78 m", "160 m"]), span(["660 m", "1.25 km"]), span(["1", "1"])
    ('78 to 160 m', '660 m to 1.25 km', '1')
    """
    low, high = ends
    number, _, unit = low.partition(" ")
    return low if low == high else f"{number if unit and high.endswith(f' {unit}') else low} to {high}"


def error_in_words(error: float, low: float | None = None, high: float | None = None) -> str:
    r"""A relative error in percent, with its range unless both ends round to the same text as the error.

    >>> error_in_words(0.234, 0.18, 0.312), error_in_words(0.0213, 0.0208, 0.0214), error_in_words(0.927)
    ('23\xa0% (18 to 31\xa0%)', '2.1\xa0%', '93\xa0%')
    """
    middle, *ends = (
        percent(share, 0 if share >= 0.1 else 1).replace("\xa0", " ")
        for share in (error, low, high)
        if share is not None
    )
    words = middle if set(ends) <= {middle} else f"{middle} ({span(ends)})"
    return words.replace(" %", "\xa0%")


def crs_in_words(grid: Grid) -> str:
    """The name of the coordinate reference system, with its code where it has one."""
    crs = parse_crs(grid.crs)
    code = crs.to_authority()
    return crs.name if code is None else f"{crs.name} ({':'.join(code)})"
