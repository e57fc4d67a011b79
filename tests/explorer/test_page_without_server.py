"""The page in one file, opened from disk in a browser without a network: its answers are those of the library."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from playwright.sync_api import Page, expect

from dqam.explorer import write_page
from dqam.explorer.selections import ShownRelease
from dqam.explorer.standalone import bundle
from dqam.geometry.areas import place_areas, place_lines
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram, TwoScaleHistogram
from dqam.geometry.rectangles import snap
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.release.answers import Answers
from dqam.release.release import Release
from tests.explorer import random_areas
from tests.explorer import test_page as pages
from tests.explorer.conftest import MELBOURNE, numbered
from tests.explorer.test_page import MIDDLE, numbers, settle, spell

browser = pages.browser  # a fixture

CLOSE = 1e-9  # relative
POLYGON = "-30.02,44.98,-29.99,44.985,-30,45.02"
LINE = "-30.03,45,-29.97,45.01"
ASK = """async ({ rectangles, areas, lines, slices, chosen }) => {
  const three = ({ value, trips, crossings, low, high }) => [value ?? trips ?? crossings ?? null, low, high];
  const ask = async (path, geometries) => {
    if (!geometries.length) return [];
    const features = geometries.map((geometry) => ({ type: "Feature", properties: null, geometry }));
    const told = await dqam.ask(0, path, JSON.stringify({ type: "FeatureCollection", features }), { slice: chosen });
    return told.features.map(({ properties }) => properties);
  };
  const sides = [];
  for (const one of rectangles) sides.push(await dqam.count(0, one, chosen));
  const [inside, across, profiles] = [await ask("areas", areas), await ask("lines", lines), []];
  for (const geometry of slices && !chosen ? [...areas, ...lines] : []) {
    const { trips, crossings, low, high } = await dqam.ask(0, "profile", JSON.stringify(geometry), {});
    profiles.push([trips ?? crossings, low, high]);
  }
  const [grown, cut, cells] = ["grown", "cut", "cells"].map((name) => inside.map((one) => one[name]));
  const answers = { rectangles: sides.map(three), areas: inside.map(three), lines: across.map(three) };
  return { ...answers, profiles, grown, cut, cells };
}"""


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Write the page of a release and open it, without a network; nothing may be requested or complained about."""
    contexts, problems = [], []

    def go(release: Release, fragment: str = "", **options: Any) -> Page:
        path = tmp_path / f"map{len(contexts)}.html"
        write_page(release, path)
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, "offline": True, **options})
        context.set_default_timeout(pages.PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda line: problems.append(f"console: {line.text}"))
        page.on("request", lambda asked: asked.url.split("#")[0] == path.as_uri() or problems.append(asked.url))
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("#map[data-painted]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []


def two_scales(release: Release) -> Release:
    """The same with another histogram for large rectangles, for all slices if there are any."""
    small, uncertainty = release.histogram, release.uncertainty
    assert uncertainty is not None
    large = SpatialHistogram(small.grid, 0.8 * small.faces, 0.8 * small.vertical, 0.8 * small.horizontal)
    both = TwoScaleHistogram.of_two(small, large, 0.1 * float(small.faces.max()), 5)
    made: SpatialHistogram = both
    if isinstance(small, SlicedHistogram):
        made = SlicedHistogram.of_patterns(both, small.patterns)
    return replace(release, histogram=made, uncertainty=replace(uncertainty, histogram=made))


def geometries(shapes: list[Any]) -> list[Any]:
    return [shapely.geometry.mapping(shape) for shape in shapes]


def rows(answers: Answers) -> np.ndarray:
    return np.stack([answers.value, answers.low, answers.high], axis=1)


def farthest(told: list[Any], wanted: np.ndarray) -> float:
    """The largest relative difference; what one side does not know, the other may not know either."""
    found = np.array(told, np.float64).reshape(wanted.shape)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        off = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1e-300)
    return float(np.nanmax(np.where(found == wanted, 0, off), initial=0))


def compare(page: Page, release: Release, count: int, seed: int, chosen: tuple[str, ...] = ()) -> float:
    """Ask the page and the library about `count` rectangles, areas and lines; the largest relative difference."""
    rng, grid = np.random.default_rng(seed), release.grid
    asked = {"rectangles": random_areas.rectangles(rng, grid, count // 4).tolist()}
    areas, lines = random_areas.areas(rng, grid, count - 2 * (count // 4)), random_areas.lines(rng, grid, count // 4)
    told = page.evaluate(
        ASK,
        {
            **asked,
            "areas": geometries(areas),
            "lines": geometries(lines),
            "slices": bool(release.slices),
            "chosen": ",".join(chosen) or None,
        },
    )
    some = release.select(chosen) if chosen else release
    placed = place_areas(areas, grid)
    found = some.counts(placed)
    assert told["grown"] == placed.grown.tolist()
    assert told["cut"] == placed.cut.tolist()
    off = [
        farthest(told["rectangles"], rows(some.counts(snap(asked["rectangles"], grid)))),
        farthest(told["areas"], rows(found)),
        farthest(told["lines"], rows(some.crossings(lines))),
        farthest(told["cells"], placed.cells),
    ]
    if release.slices and not chosen:
        for each in (placed, place_lines(lines, grid)):
            wanted = np.stack([rows(one) for one in release.by_slice(each)])  # [slices, areas, 3]
            profiles, told["profiles"] = told["profiles"][: len(each)], told["profiles"][len(each) :]
            off.append(farthest(profiles, wanted.transpose(1, 2, 0)))
    return max(off)


def test_answers_are_those_of_the_library(open_page: Callable[..., Page], first: Release, hourly: Release) -> None:
    """With two histograms and with one, with slices and without; all slices, single ones, and some together."""
    for seed, release in enumerate((first, two_scales(first))):
        assert compare(open_page(release), release, 120, seed) < CLOSE
    for seed, release in enumerate((hourly, two_scales(hourly)), 2):
        page = open_page(release)
        assert compare(page, release, 80, seed) < CLOSE
        assert compare(page, release, 50, seed, ("07", "08", "17")) < CLOSE


def test_answers_without_intervals_and_in_metres(open_page: Callable[..., Page], projected: Release) -> None:
    assert compare(open_page(projected), projected, 100, 5) < CLOSE


def test_answers_near_the_180th_meridian(open_page: Callable[..., Page], first: Release) -> None:
    grid = Grid((170, -20, 180, -10), 16, 20)
    release = numbered(grid, first)
    across = [[175, -15], [-175, -16], [-176, -12], [174, -13], [175, -15]]  # from 175 to 185 degrees
    beside = [[-190, -15], [-184, -15], [-185, -11], [-190, -15]]  # the same as 170 to 176 degrees
    areas = [shapely.Polygon(ring) for ring in (across, beside)]
    lines = [shapely.LineString(ring[:3]) for ring in (across, beside)]
    page = open_page(release)
    asked = {"rectangles": [], "areas": geometries(areas), "lines": geometries(lines), "slices": False, "chosen": None}
    told = page.evaluate(ASK, asked)
    assert farthest(told["areas"], rows(release.counts(areas))) < CLOSE
    assert farthest(told["lines"], rows(release.crossings(lines))) < CLOSE


def test_only_valid_areas_are_answered_and_their_parts_on_the_map_are_right(browser: Any) -> None:
    """Corners at few places, so that rings touch, overlap and run along the border of the map. What cannot be clipped
    for certain is refused, which is rare; nothing else is wrong."""
    shapes = random_areas.touching(np.random.default_rng(6), 3_000)
    page = browser.new_page()
    page.add_script_tag(content=f"{bundle('engine/polygons.js')}\nglobalThis.polygons = modules['engine/polygons.js'];")
    told = page.evaluate(
        """(shapes) => shapes.map(({ type, coordinates }) => {
          const flat = (rings) => rings.map((ring) => new Float64Array(ring.flat()));
          const some = (type === "Polygon" ? [coordinates] : coordinates).map(flat);
          if (!polygons.isValid(some)) return null;
          const parts = polygons.clipPolygons(some, 8, 6);
          return parts && parts.map((part) => [polygons.areaOf([part]), part.length]);
        })""",
        geometries(shapes),
    )
    page.close()
    valid, on_map = shapely.is_valid(shapes), shapely.box(0, 0, 8, 6)
    assert 500 < valid.sum() < 2_500
    assert not [one for one, good in zip(told, valid, strict=True) if one is not None and not good]
    unanswered = 0
    for shape, parts in zip(np.array(shapes, object)[valid], np.array(told, object)[valid], strict=True):
        wanted = [one for one in shapely.get_parts(shape.intersection(on_map)) if one.area > 0]
        if parts is None:
            unanswered += 1
            continue
        assert sorted(count for _, count in parts) == sorted(1 + len(one.interiors) for one in wanted)
        np.testing.assert_allclose(sorted(area for area, _ in parts), sorted(one.area for one in wanted), atol=1e-9)
    assert unanswered <= 0.005 * valid.sum()


@pytest.mark.parametrize(
    ("ring", "words"),
    [
        ([[-30.02, 44.98], [-30.0, 45.0], [-30.02, 45.0], [-30.0, 44.98], [-30.02, 44.98]], "crosses itself"),
        ([[-30.02, 44.98], [-30.0, 45.0], [-30.01, 44.99], [-30.02, 44.98]], "has no area"),
        ([[-20, 44], [-19, 44], [-19, 45], [-20, 44]], "outside the map|not meet the map"),
        ([[-30.02, 144.98], [-30.0, 45.0], [-30.01, 44.99], [-30.02, 144.98]], "not degrees"),
    ],
)
def test_areas_that_have_no_answer_are_refused(
    open_page: Callable[..., Page], first: Release, ring: list[list[float]], words: str
) -> None:
    page = open_page(first)
    body = json.dumps({"type": "Polygon", "coordinates": [ring]})
    ask = "(body) => dqam.ask(0, 'areas', body, {}).then(() => '', (error) => error.message)"
    assert re.search(words, page.evaluate(ask, body))


def test_it_is_the_explorer(open_page: Callable[..., Page], hourly: Release) -> None:
    """Rectangle, polygon, line and slice from the address, the chart, and the promise."""
    page = open_page(hourly, f"#r={MIDDLE}&polygon={POLYGON}&line={LINE}&slice=08")
    flat = [float(side) for side in POLYGON.split(",")]
    polygon = shapely.Polygon(np.reshape(flat, (-1, 2)))
    line = shapely.LineString(np.reshape([float(side) for side in LINE.split(",")], (-1, 2)))
    sides = [float(side) for side in MIDDLE.split(",")]
    wanted = {
        "A": hourly.count(*sides, slices="08").value,
        "P1": hourly.count(polygon, slices="08").value,
        "L1": hourly.crossings(line, slices="08").value,
    }
    for name, value in wanted.items():
        expect(numbers(page, name).first).to_have_attribute("data-value", spell(value))
    expect(page.locator("#promise")).to_have_text(hourly.provenance.promise.replace(" = ", "\u00a0=\u00a0"))
    expect(page.locator("figure.profile")).to_have_count(2)
    assert page.locator("nav a").count() == 0  # the API needs a server
    page.get_by_role("slider", name="Slice shown").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#map[data-slice='09']")
    expect(numbers(page, "A").first).to_have_attribute("data-value", spell(hourly.count(*sides, slices="09").value))
    settle(page)
    assert "slice=09" in page.url
    assert f"r={MIDDLE}" in page.url


def zones_file(*shapes: Any, crs: str | None = None) -> dict[str, Any]:
    """A GeoJSON file as Playwright uploads it."""
    features = [
        {"type": "Feature", "properties": {"name": f"zone {i}"}, "geometry": geometry}
        for i, geometry in enumerate(geometries(list(shapes)))
    ]
    declared = {"crs": {"type": "name", "properties": {"name": f"urn:ogc:def:crs:{crs}"}}} if crs else {}
    told = {"type": "FeatureCollection", **declared, "features": features}
    return {"name": "zones.geojson", "mimeType": "application/geo+json", "buffer": json.dumps(told).encode()}


def test_zones_are_answered_and_saved(open_page: Callable[..., Page], first: Release) -> None:
    page = open_page(first)
    zones = random_areas.areas(np.random.default_rng(7), first.grid, 12)
    page.set_input_files("#zones-file", zones_file(*zones))
    expect(page.locator("#zones-rows tr")).to_have_count(12)
    wanted = first.counts(zones)
    with page.expect_download() as saved:
        page.click("#zones-geojson")
    told = json.loads(saved.value.path().read_text())
    assert told["promise"] == first.provenance.promise
    found = [one["properties"] for one in told["features"]]
    assert farthest([[one["trips"], one["low"], one["high"]] for one in found], rows(wanted)) < CLOSE
    with page.expect_download() as saved:
        page.click("#zones-csv")
    table = list(csv.DictReader(saved.value.path().read_text().splitlines()))
    assert farthest([float(row["trips"]) for row in table], wanted.value) < CLOSE


def test_a_projected_map_is_asked_in_its_own_coordinates(open_page: Callable[..., Page], projected: Release) -> None:
    west, south, _, _ = MELBOURNE
    sides = [west + 5_100, south + 4_200, west + 9_900, south + 12_000]
    page = open_page(projected, f"#r={','.join(map(str, sides))}")
    expect(numbers(page, "A").first).to_have_attribute("data-value", spell(projected.count(*sides).value))
    expect(page.locator("#sides-in")).to_have_text("Sides in the coordinates of the map (EPSG:28355)")
    zone = shapely.Polygon([(sides[0], sides[1]), (sides[2], sides[1]), (sides[2], sides[3])])
    page.set_input_files("#zones-file", zones_file(zone, crs="EPSG::28355"))
    expect(page.locator("#zones-rows tr")).to_have_attribute("data-value", spell(projected.count(zone).value))
    page.set_input_files("#zones-file", zones_file(shapely.box(144.5, -38, 145.5, -37)))
    expect(page.locator("#problem")).to_contain_text("Save the file in the coordinate system of the map, EPSG:28355.")
    page.click("#draw")
    pages.drag(page, (0.45, 0.4), (0.55, 0.5))
    expect(page.locator("li[data-name='B']")).to_contain_text("km")


def test_files_in_another_crs_and_areas_that_cross_themselves_are_refused(
    open_page: Callable[..., Page], first: Release
) -> None:
    page = open_page(first)
    page.set_input_files("#zones-file", zones_file(shapely.box(3e5, 4e6, 4e5, 5e6), crs="EPSG::28355"))
    expect(page.locator("#problem")).to_contain_text("Save the file in longitude and latitude (EPSG:4326).")
    crossed = shapely.Polygon([(-30.02, 44.98), (-30.0, 45.0), (-30.02, 45.0), (-30.0, 44.98)])
    page.set_input_files("#zones-file", zones_file(shapely.box(-30.01, 44.99, -30, 45), crossed))
    expect(page.locator("#problem")).to_contain_text("Feature 2 crosses itself")
    expect(page.locator("#problem")).to_contain_text("Fix geometries")


def test_scripts_that_are_not_of_the_page_do_not_run(browser: Any, first: Release, tmp_path: Path) -> None:
    write_page(first, tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    (tmp_path / "odd.html").write_text(text.replace("</body>", "<script>globalThis.odd = 1</script></body>"))
    page = browser.new_page()
    page.goto((tmp_path / "odd.html").as_uri())
    page.wait_for_selector("#map[data-painted]")
    assert page.evaluate("globalThis.odd") is None
    assert page.evaluate("fetch('https://example.org').then(() => 'sent', () => 'refused')") == "refused"
    page.close()


@pytest.mark.parametrize("slices", [None, "08"])
def test_the_picture_is_that_of_the_server(open_page: Callable[..., Page], hourly: Release, slices: str | None) -> None:
    page = open_page(hourly)
    told = page.evaluate(
        """async (slices) => {
          const { facts, values } = await dqam.layer(0, slices);
          return { ...facts, largest_of_slices: facts.largest_of_slices, values: [...values] };
        }""",
        slices,
    )
    shown = ShownRelease("hours", hourly)
    names = shown.names(slices)
    wanted = shown.layer_facts(names)
    assert {name: told[name] for name in ("width", "height", "block")} == {
        name: list(wanted[name]) if name == "block" else wanted[name] for name in ("width", "height", "block")
    }
    for name in ("bounds", "largest", "largest_of_slices"):
        np.testing.assert_allclose(told[name], wanted[name], rtol=1e-6)  # float32 in one of them
    same = np.isclose(np.reshape(told["values"], (told["height"], told["width"])), shown.layer(names).values, rtol=1e-6)
    assert same.mean() > 0.999  # pixels whose centres are on the border of a cell may fall on either side
