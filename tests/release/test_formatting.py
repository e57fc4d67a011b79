"""Templates escape what they are given, and do not forgive what they are not."""

from fractions import Fraction
from pathlib import Path

import jinja2
import pytest

import dqam
from dqam.release.formatting import decimal, percent, render
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
