"""The page about a release, read as a browser reads it."""

import re
import time
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dqam.cities import BOUNDS
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import Snapped, size_bands
from dqam.release.formatting import error_in_words, sides_in_cells, sides_on_ground
from dqam.release.promise import budget
from dqam.release.provenance import Provenance
from dqam.release.release import Release
from dqam.release.report import report
from dqam.values.guarantee import PaidQuestion, Unit
from tests.html import Page
from tests.release.cases import HERE, as_if_private, seeded, strolls, with_delta

HOSTILE = '<script>alert("1")</script> & $title ${x} \\ {50 %} \ud800'
TIMES, MINUS, RHO = "\u00d7", "\u2212", "\u03c1"


def changed(release: Release, **facts: Any) -> Release:
    return replace(release, provenance=replace(release.provenance, **facts))


@cache
def made(mechanism: str = "flux", epsilon: str = "2") -> Release:
    """As if it were private."""
    return as_if_private(seeded(mechanism=mechanism, epsilon=epsilon))


@pytest.fixture(scope="module")
def release() -> Release:
    return made()


@pytest.fixture(scope="module")
def page(release: Release) -> Page:
    return Page(release.report())


@pytest.mark.parametrize("mechanism", ["flux", "laplace"])
def test_page_loads_nothing(mechanism: str) -> None:
    html = report(made(mechanism))
    page = Page(html)
    page.assert_loads_nothing()
    assert all(link.startswith("#") for link in page.links)
    assert "url(" not in html
    assert "@import" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_page_is_in_order(page: Page) -> None:
    headings = [int(name[1]) for name, _ in page.tags if re.fullmatch("h[1-6]", name)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))
    assert all(image["alt"] for image in page.all("img"))
    assert all("aria-hidden" in svg or svg["aria-label"] for svg in page.all("svg"))
    assert page.all("html") == [{"lang": "en"}]
    columns = {len(row) for table in page.tables for row in table if len(row) != len(table[0])}
    assert not columns


def test_opening_has_the_number_of_trips_and_the_id(release: Release, page: Page) -> None:
    trips, provenance = release.trips, release.provenance
    assert f"Distinct trips{trips.value:,.0f}{trips.low:,.0f} to {trips.high:,.0f}90 % confidence interval" in page.text
    assert provenance.id in page.text
    assert page.all("time") == [{"datetime": provenance.created}]
    assert provenance.title in page.text


def test_promise_has_its_numbers(page: Page) -> None:
    assert "Differentially private for one trip, epsilon = 2." in page.text
    assert "at most eε ≈ 7.39" in page.text
    assert "50 %, can be at most 88.1 % sure afterwards" in page.text
    rows = page.table("Belief before")
    for (before, least, most), prior in zip(rows, (0.01, 0.1, 0.5), strict=True):
        odds = prior / (1 - prior) * np.exp([-2, 2])
        sure = 100 * odds / (1 + odds)
        assert float(before.split()[0]) == 100 * prior
        assert sure[0] - 0.1 <= float(least.split()[0]) <= sure[0]
        assert sure[1] <= float(most.split()[0]) <= sure[1] + 0.1
    assert [row[:2] for row in page.table("A person with")] == [["2 trips", "4"], ["5 trips", "10"], ["10 trips", "20"]]
    for words in ("one is the other with all that one unit contributed removed", "add up", "memory", "logs"):
        assert words in page.text


def test_person(release: Release) -> None:
    page = Page(report(changed(release, unit=Unit.person(3), gap="120 s")))
    assert "At most 3 trips of each person were kept" in page.text
    assert "All numbers count the trips that were kept" in page.text
    whole = Page(report(changed(release, unit=Unit.person(3), factor=1.52, scaled_up_to=28))).text
    assert "scaled up to all trips" in whole
    assert "times a factor of 1.52" in whole
    assert "people with up to 28 trips" in whole
    assert "a certain person" in page.text
    assert "120 s" in page.text
    assert "The unit of privacy is one person" in page.text
    assert "The unit of privacy is one trip" not in page.text
    assert not [table for table in page.tables if table[0][0] == "A person with"]
    assert "Sensitivity to one person" in page.whole_table("Measurement")[0]


def test_large_epsilon_is_called_large(release: Release, page: Page) -> None:
    assert "This ε is large" not in page.text
    entry = release.provenance.paid[0]
    whole = replace(entry, epsilon=Fraction(800))
    page = Page(report(changed(release, epsilon=Fraction(800), paid=(whole,))))
    assert "This ε is large" in page.text
    assert "nearly 100 % sure afterwards" in page.text
    assert "The trips were measured once." in page.text


@pytest.mark.parametrize("mechanism", ["flux", "mwem", "dqam"])
def test_budget_adds_up_exactly(mechanism: str) -> None:
    provenance = made(mechanism, "0.7").provenance
    page = Page(report(made(mechanism, "0.7")))
    *rows, last = page.table("Measurement")
    paid = [Fraction(re.split(f" ≈| \\d+ {TIMES}", row[-2])[0]) for row in rows]
    assert sum(paid) == Fraction(last[-2]) == provenance.epsilon == Fraction("0.7")
    for row, part, wanted in zip(rows, paid, budget(provenance), strict=True):
        assert row[0] == f"{wanted.name} {wanted.kind}"
        assert part == wanted.cost
        assert float(row[-1].split()[0]) == pytest.approx(100 * float(part / provenance.epsilon), abs=0.6)
        assert float(row[-3].replace(",", "")) == pytest.approx(wanted.scale, rel=0.01)
        assert float(row[-4].replace(",", "")) == pytest.approx(wanted.sensitivity, rel=0.01)
    if "Times" in page.whole_table("Measurement")[0]:
        assert sum(int(row[1]) for row in rows) == int(last[1]) == len(provenance.paid)
    else:
        assert len(rows) == len(provenance.paid)


def test_error_is_that_of_the_release(release: Release, page: Page) -> None:
    """By the same bands, and in the same unit, as the forecast of a plan."""
    rows, rng = page.table("Sides in cells"), np.random.default_rng(0)
    bands = size_bands(release.grid)
    assert release.uncertainty is not None
    for row, band in zip(rows, bands, strict=True):
        cells = band.draw(release.grid, 4_000, rng)
        answer = release.counts(Snapped.of(cells, release.grid)).value.mean()
        error = release.uncertainty.mean_errors(cells).mean()
        assert row[:3] == [sides_in_cells(band), sides_on_ground(band, release.grid), f"{answer:,.0f}"]
        assert row[3:] == [f"{error:,.0f}", error_in_words(error / answer).replace("\xa0", " ")]
    assert len([bar for bar in page.all("rect") if "height" in bar and bar.get("rx")]) == len(bands)


@pytest.mark.parametrize("mechanism", ["laplace", "mwem", "uniform"])
def test_mechanism_without_intervals_says_so(mechanism: str) -> None:
    assert np.isnan(made(mechanism).trips.low)
    html = report(made(mechanism))
    page = Page(html)
    assert f"The mechanism {mechanism} gives no confidence intervals" in page.text
    assert "90 %" not in page.text
    assert not re.search(r"\b(nan|inf)\b", html.lower().replace(page.all("img")[0]["src"].lower(), ""))
    assert len(page.table("Sides in cells")[0]) == 3


GRIDS = {
    "degrees": Grid(HERE, 40, 30),
    "metres": Grid((315_000, 5_810_000, 325_000, 5_816_000), 24, 48, "EPSG:28355"),
    "around zero": Grid((-0.013, -0.02, 0.02, 0.017), 16, 16),
}


@pytest.mark.parametrize("name", GRIDS)
def test_examples_are_answered_as_shown(name: str) -> None:
    grid = GRIDS[name]
    release = as_if_private(seeded(grid, trips=strolls(grid.bounds, crs=grid.crs)))
    page = Page(report(release))
    rows = page.table("Rectangle: west")
    assert len(rows) == 7
    for words, value, interval in rows:
        sides = [float(side) for side in words.split()[-4:]]
        answer = release.count(*sides)  # type: ignore[arg-type]
        assert value == f"{answer.value:,.0f}"
        assert interval == f"{answer.low:,.0f} to {answer.high:,.0f}"
    command = re.search(r"dqam query map.nc --area (\S+) (\S+) (\S+) (\S+)", page.text)
    python = re.search(r"release.count\((\S+), (\S+), (\S+), (\S+)\)\) # (.*?\)) ", page.text)
    assert command is not None
    assert python is not None
    assert command.groups() == python.groups()[:4]
    assert str(release.count(*map(float, command.groups()))) == python[5]  # type: ignore[arg-type]


def test_xarray_says_what_the_page_says(release: Release, page: Page) -> None:
    found = re.search(r"trips.sel\(lon=(\S+), lat=(\S+), method=\"nearest\"\)\)\) # about (\S+)", page.text)
    assert found is not None
    longitude, latitude, value = map(float, found.groups())
    cell = release.to_xarray()["trips"].sel(lon=longitude, lat=latitude, method="nearest")
    assert float(cell) == pytest.approx(value, rel=1e-3)


def test_projected_map_has_its_own_coordinates() -> None:
    grid = GRIDS["metres"]
    page = Page(report(as_if_private(seeded(grid, trips=strolls(grid.bounds, crs=grid.crs)))))
    assert "315,000 m" in page.text
    assert "5,816,000 m" in page.text
    assert "(EPSG:28355)" in page.text
    assert f"10 {TIMES} 6 km" in page.text
    assert "trips.sel(x=" in page.text
    assert "°" not in page.text
    assert "2 km" in page.text  # the scale
    (scale,) = page.all("span", class_="scale")
    assert float(scale["style"].split()[1].rstrip("%")) == pytest.approx(20, rel=0.01)


def test_degrees_have_their_hemisphere() -> None:
    page = Page(report(as_if_private(seeded(GRIDS["degrees"], trips=strolls(HERE)))))
    for label in ("144.95000° E", "145.00000° E", "37.83000° S", "37.79000° S"):
        assert label in page.text


def with_faces(faces: np.ndarray[Any, Any], grid: Grid, like: Release) -> Release:
    rows, columns = faces.shape
    histogram = SpatialHistogram(grid, faces, np.zeros((rows, columns - 1)), np.zeros((rows - 1, columns)))
    return Release(histogram, like.provenance)


def test_north_is_up(release: Release) -> None:
    grid = Grid(BOUNDS, 20, 30)
    faces = np.linspace(1, 50, 600).reshape(20, 30)[::-1, ::-1].copy()
    faces[17, 4] = 1_000  # in the north-west
    faces[2, 25] = 0
    page = Page(report(with_faces(faces, grid, release)))
    picture = page.picture()[:, :, :3]
    assert picture.shape == (20, 30, 3)
    bright = (picture * [0.2126, 0.7152, 0.0722]).sum(axis=2)
    assert np.unravel_index(bright.argmax(), bright.shape) == (19 - 17, 4)
    np.testing.assert_allclose(picture[19 - 2, 25], np.array([0x0B, 0x13, 0x20]) / 255, atol=1e-6)
    order = np.argsort(faces[::-1].ravel())[1:]  # brighter for more
    assert (np.diff(bright.ravel()[order]) > -1e-6).all()
    assert "is in the north-west" in page.all("img")[0]["alt"]
    assert "none" in page.text


def test_picture_shows_the_release(release: Release, page: Page) -> None:
    bright = page.picture()[:, :, 0]
    row, column = np.unravel_index(release.histogram.faces.argmax(), release.histogram.faces.shape)
    assert bright[release.grid.rows - 1 - row, column] == bright.max()


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (300, 2), (515, 700)])
@pytest.mark.parametrize("value", [0.0, 1e-4, 7.0, -3.0])
def test_odd_maps_have_a_page_too(shape: tuple[int, int], value: float, release: Release) -> None:
    page = Page(report(with_faces(np.full(shape, value), Grid(BOUNDS, *shape), release)))
    assert max(page.picture().shape[:2]) <= 256
    assert "nan" not in page.text


def test_large_grid_is_quick_and_small(release: Release) -> None:
    rng = np.random.default_rng(0)
    faces = rng.lognormal(3, 2, (1024, 1024))
    large = with_faces(faces, Grid.over(BOUNDS, 10), release)
    start = time.perf_counter()
    html = report(large)
    assert time.perf_counter() - start < 3
    assert len(html) < 300_000
    page = Page(html)
    assert page.picture().shape[:2] == (256, 256)
    assert f"a block of 4 {TIMES} 4 cells" in page.text
    blocks = large.cells(256).value.reshape(256, 256)
    row, column = np.unravel_index(blocks.argmax(), blocks.shape)
    assert page.picture()[255 - row, column, 0] == page.picture()[:, :, 0].max()


def test_words_of_the_release_are_escaped(release: Release) -> None:
    bad = '"><script>alert(2)</script>'
    entry = release.provenance.paid[0]
    facts = {
        "title": HOSTILE,
        "id": bad,
        "created": bad,
        "queries": bad,
        "gap": bad,
        "mechanism_about": bad,
        "parameters": {bad: bad, "none": None},
        "versions": {bad: bad, "dqam": bad},
        "paid": (PaidQuestion("select", bad, 1, release.provenance.epsilon, entry.scale),),
    }
    for private in (True, False):
        html = report(changed(release, **facts, private=private))
        html.encode()
        page = Page(html)
        assert not page.all("script")
        assert page.text.count("<script>alert(2)</script>") >= 9
        assert HOSTILE.replace("\ud800", "?") in page.text
        assert "<script" not in html
        assert r"title        = {{<script>alert(" in page.text.replace("title =", "title        =")
        assert r"\{50 \%\}" in page.text


def test_not_private_is_said_in_red_and_nothing_is_promised() -> None:
    page = Page(report(changed(made(), private=False)))
    assert page.text.startswith("NOT PRIVATE")
    assert page.title == "NOT PRIVATE: A city"
    assert page.all("div", class_="banner")
    assert "promise" not in page.ids
    assert "#promise" not in page.links
    for words in ("Differentially private", "Privacy guarantee", "hides whether", "at most e", "Belief before"):
        assert words not in page.text
    assert "NOT PRIVATE" not in Page(report(made())).text


def test_citation_has_the_id(release: Release, page: Page) -> None:
    year = release.provenance.created[:4]
    assert f"A city ({year}). Map of distinct trips." in page.text
    assert "@misc{dqam-flux0," in page.text
    assert f"Publication {release.provenance.id}" in page.text


def test_parameters_and_versions_are_all_there(release: Release, page: Page) -> None:
    rows = dict(next(table for table in page.tables if table[0][0] == "Id"))
    provenance: Provenance = release.provenance
    for name, version in provenance.versions.items():
        assert rows[f"Version of {name}"] == version
    for name, value in provenance.parameters.items():
        assert rows[f"{provenance.mechanism}: {name}"] == ("chosen by the mechanism" if value is None else str(value))
    assert rows["Bounds"] == " ".join(map(repr, release.grid.bounds))
    assert rows["CRS"] == release.grid.crs
    assert Fraction(rows["ε"]) == provenance.epsilon
    assert rows["Tuned for"] == provenance.queries


def test_page_depends_on_the_release_alone(release: Release) -> None:
    assert report(release) == report(release)


def test_only_noise_of_buckets_may_not_fit() -> None:
    """The noise of DAWA's buckets can be clamped to 64 bits, and the proof does not cover that."""
    bucketed = Page(report(as_if_private(seeded(mechanism="dawa", epsilon="20"))))
    assert "(ε, δ)-differential privacy with δ < 10-47" in bucketed.text
    assert "without a δ" not in bucketed.text
    assert "What δ does not mean" not in bucketed.text
    assert "pure ε-differential privacy, without a δ" in Page(report(as_if_private(seeded()))).text


@pytest.fixture(scope="module")
def delta_page(release: Release) -> Page:
    return Page(report(with_delta(release)))


def test_a_delta_is_stated_and_explained(delta_page: Page) -> None:
    text = delta_page.text
    assert "Privacyε = 1, δ = 10\N{MINUS SIGN}8for one trip" in text
    assert "Differentially private for one trip, epsilon = 1, delta = 1e-8." in text
    assert (
        "at most eε ≈ 2.72 times as likely as it would be if a certain trip had never been recorded, plus a "
        "probability of at most δ = 10\N{MINUS SIGN}8, 1 in 100 million."
    ) in text
    assert "Each of these limits holds except with a probability of at most 1 in 1.2 million" in text
    assert "It does not mean that 1 in 100 million trips is published" in text
    assert "it is not a share of the trips" in text
    assert "more than e2ε ≈ 7.39 is at most 1 in 1024." in text
    assert "This is (ε, δ)-differential privacy with ε = 1 and δ = 10\N{MINUS SIGN}8" in text
    assert "ε, δ, the unit of privacy" in text
    assert "pure ε-differential privacy" not in text
    assert "guarantee is 2 ε," not in text  # of two trips
    assert "asks where it went, the guarantee is ε ≈ 2.08 at the same δ" in text
    assert "two releases like this one, of the same data, the guarantee is 2 ε with 2 δ." in text
    rows = delta_page.table("A person with")
    assert [row[1:3] for row in rows] == [["2.08", "88.9 %"], ["5.61", "99.64 %"], ["12.3", "nearly 100 %"]]
    details = dict(next(table for table in delta_page.tables if table[0][0] == "Id"))
    assert (details["ε"], details["δ"], details[RHO]) == ("1", "1e-8", "0.0172053180382643")


def test_beliefs_are_as_without_a_delta_but_can_be_exceeded(release: Release, delta_page: Page) -> None:
    entry = replace(release.provenance.paid[0], epsilon=Fraction(1))
    pure = Page(report(changed(release, epsilon=Fraction(1), paid=(entry,))))
    assert pure.table("Belief before") == delta_page.table("Belief before")
    assert "1 in 1.2 million" not in pure.text


def test_budget_under_a_delta_adds_up_in_rho(release: Release, delta_page: Page) -> None:
    header, *rows, last = delta_page.whole_table("Measurement")
    assert header[-2] == RHO
    assert sum(float(row[-2].split()[0]) for row in rows) == pytest.approx(float(last[-2]), rel=1e-3)
    assert float(last[-2]) == pytest.approx(float(with_delta(release).provenance.spent), rel=1e-3)
    assert "numbers with Gaussian noise" in rows[-1][0]
    assert "the root of the sum of the squares" in delta_page.text
    assert f"divided by √(2{RHO})" in delta_page.text
    assert f"add up to at most {RHO} ≈ 0.01721" in delta_page.text


def test_without_a_delta_none_is_mentioned(page: Page) -> None:
    for words in (RHO, "δ =", "Gaussian", "Gumbel", "What δ does not mean", "delta"):
        assert words not in page.text


def test_a_person_under_a_delta(release: Release) -> None:
    text = Page(report(changed(with_delta(release), unit=Unit.person(3)))).text
    assert "counts as two people and is protected with ε ≈ 2.08 at the same δ" in text
    assert "1 in 100 million people is published" in text
    assert "δ is a probability for any given person" in text


def test_a_delta_that_is_large_for_the_trips_is_called_large(release: Release) -> None:
    assert "is large for about" not in Page(report(with_delta(release))).text
    assert "Delta = 1e-4 is large for about" in Page(report(with_delta(release, delta="1e-4"))).text


def test_a_delta_that_is_no_power_of_ten(release: Release) -> None:
    text = Page(report(with_delta(release, delta="2.5e-7"))).text
    assert f"δ = 2.5 {TIMES} 10{MINUS}7, 1 in 4 million." in text


def test_a_real_release_with_a_delta_has_a_page() -> None:
    page = Page(report(as_if_private(seeded(epsilon="20", delta="1e-8"))))
    assert "epsilon = 20, delta = 1e-8" in page.text
    assert "This ε is large" in page.text
    assert "numbers with Gaussian noise" in page.text
