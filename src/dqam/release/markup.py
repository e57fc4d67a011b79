"""What the pages about a release are written with: safe text, tables, and numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from html import escape

from dqam.geometry.grid import Grid, parse_crs


def plain(value: object) -> str:
    """Anything as text that is safe in HTML, between tags and in attributes.

    >>> plain('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return escape(str(value))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, foot: Sequence[str] = ()) -> str:
    """A table of cells that are HTML already, the first of a row its heading; numbers after `words` columns."""

    def line(cells: Sequence[str], rest: str) -> str:
        first = '<th scope="row"' if rest == "<td" else rest
        kinds = ("" if i < words else ' class="n"' for i in range(len(cells)))
        tags = (first if i == 0 else rest for i in range(len(cells)))
        parts = zip(tags, kinds, cells, strict=True)
        return "<tr>" + "".join(f"{tag}{kind}>{cell}</{tag[1:3]}>" for tag, kind, cell in parts) + "</tr>"

    body = "".join(line(row, "<td") + "\n" for row in rows)
    end = f"<tfoot>{line(foot, '<td')}</tfoot>" if foot else ""
    top = line(header, '<th scope="col"')
    return f'<div class="wide"><table><thead>{top}</thead><tbody>\n{body}</tbody>{end}</table></div>\n'


def bullets(items: Iterable[str]) -> str:
    """A list of what is HTML already."""
    return "<ul>\n" + "".join(f"<li>{item}</li>\n" for item in items) + "</ul>\n"


def trips(value: float) -> str:
    """A number of trips, whole."""
    return f"{value:,.0f}"


def number(value: float) -> str:
    """Three digits, or all whole ones.

    >>> number(0.123456), number(12.34), number(1234.5)
    ('0.123', '12.3', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def percent(share: float, digits: int | None = None) -> str:
    r"""A share in percent, with one to three digits if not said otherwise, never rounded to all or nothing.

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
    """A fraction as a decimal; one that six digits do not hold is shown as it is, too.

    >>> decimal(Fraction(1, 40)), decimal(Fraction(19, 850))
    ('0.025', '19/850 ≈ 0.02235')
    """
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"{value} ≈ {float(value):.4g}"


def length(metres: float) -> str:
    """A distance in metres, or in km from 1 km on.

    >>> length(9999.97), length(39.06), length(1500)
    ('10 km', '39 m', '1.5 km')
    """
    return f"{float(f'{metres / 1000:.3g}'):,g} km" if metres >= 995 else f"{float(f'{metres:.2g}'):g} m"


def area(width: float, height: float) -> str:
    """How wide and how high something is, given in metres.

    >>> area(16_400, 9_620), area(500, 2_000)
    ('16.4 &times; 9.62 km', '500 m &times; 2 km')
    """
    wide, high = length(width), length(height)
    number, unit = wide.split()
    return f"{number if high.endswith(f' {unit}') else wide} &times; {high}"


def ground(grid: Grid) -> tuple[float, float] | None:
    """Width and height of the map in metres, at its middle; None where that cannot be told."""
    width, height = grid.cell_metres[0] * grid.columns, grid.cell_metres[1] * grid.rows
    return (width, height) if 0 < width < math.inf and 0 < height < math.inf else None


def crs_name(grid: Grid) -> str:
    """The coordinate reference system by its own name, and by its number where it has one."""
    crs = parse_crs(grid.crs)
    known = crs.to_authority()
    return plain(crs.name if known is None else f"{crs.name} ({':'.join(known)})")
