"""Templates escape what they are given, and do not forgive what they are not."""

from fractions import Fraction
from pathlib import Path

import jinja2
import pytest

import dqam
from dqam.geometry.grid import Grid
from dqam.geometry.rectangles import size_bands
from dqam.release.formatting import decimal, error_in_words, percent, render, sides_in_cells, sides_on_ground
from tests.html import Page

PACKAGE = Path(dqam.__file__).parent
TABLES = "release/templates/tables.html"


def test_values_are_escaped() -> None:
    bad = '"><script>alert(1)</script>'
    tables = jinja2.Environment(loader=jinja2.PackageLoader("dqam", ""), autoescape=True).get_template(TABLES)
    page = Page(str(tables.module.table((bad,), [(bad, bad)])))
    assert page.tables == [[[bad], [bad, bad]]]
    assert not page.all("script")


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("release/templates/report.html")


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("**/templates/*.html")), ids=lambda path: path.name)
def test_only_constants_of_a_template_are_markup(path: Path) -> None:
    text = path.read_text()
    assert "autoescape" not in text
    for before in text.split("| safe")[:-1]:
        assert before.rstrip().endswith(("' class=\"n\"'", "captions[key]"))


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0"), (1e-9, "below 0.01"), (0.5, "50"), (1 - 1e-9, "above 99.99"), (1, "100"), (float("inf"), "above 1,000")],
)
def test_percent_never_rounds_to_all_or_nothing(share: float, words: str) -> None:
    assert percent(share) == f"{words}\xa0%"


def test_decimal_is_exact_or_says_so() -> None:
    assert decimal(Fraction("0.7")) == "0.7"
    assert decimal(Fraction(1, 3)) == "1/3 ≈ 0.3333"


PORTO = Grid.square((-8.62, 41.155), side_km=10)
TALL = Grid((400_000, 0, 656_000, 512_000), 256, 256, "EPSG:32631")


@pytest.mark.parametrize(
    ("grid", "band", "cells", "ground"),
    [
        (PORTO, 0, "any", "any"),
        (PORTO, 1, "2 to 4", "78 to 160 m"),
        (PORTO, 5, "33 to 64", "1.29 to 2.5 km"),
        (PORTO, 4, "17 to 32", "660 m to 1.25 km"),
        (Grid(PORTO.bounds, 128, 256), 1, "2 to 4 wide, 1 to 2 high", "78 to 160 m"),
        (Grid(PORTO.bounds, 64, 64), 1, "1", "160 m"),
        (TALL, 1, "2 to 4", "2 to 4 km wide, 4 to 8 km high"),
        (TALL, 0, "any", "any"),
    ],
)
def test_sides_of_a_band_in_words(grid: Grid, band: int, cells: str, ground: str) -> None:
    found = size_bands(grid)[band]
    assert (sides_in_cells(found), sides_on_ground(found, grid)) == (cells, ground)


def test_errors_in_words() -> None:
    assert error_in_words(0.5, 0.18, 12) == "50\xa0% (18 to above 1,000\xa0%)"
    assert error_in_words(0.5, 0.501, 0.503) == "50\xa0%"
    assert error_in_words(0.5, 0.498, 0.61) == "50\xa0% (50 to 61\xa0%)"
    assert error_in_words(0.0316) == "3.2\xa0%"
