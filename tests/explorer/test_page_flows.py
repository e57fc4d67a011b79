"""Flows on the page: where the trips of an area go and come from, in a browser."""

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
import shapely
from playwright.sync_api import Page, expect

from dqam.explorer.flows import tiles_of
from dqam.release.release import Release
from tests.explorer import test_page as pages
from tests.explorer.conftest import Served
from tests.explorer.test_page import Opener, drag, upload

browser, visit = pages.browser, pages.visit  # fixtures

A, B = "-30.03,44.97,-29.99,45", "-30.01,45.005,-29.98,45.03"
WEST, SOUTH, EAST, NORTH = -30.06341408623546, 44.95500819031675, -29.93658591376453, 45.04499145372546
NAMES = ("South-west", "South-east", "North-west", "North-east")
MIDDLE = (WEST + EAST) / 2, (SOUTH + NORTH) / 2
QUARTERS = [
    shapely.box(x0, y0, x1, y1)
    for y0, y1 in ((SOUTH, MIDDLE[1]), (MIDDLE[1], NORTH))
    for x0, x1 in ((WEST, MIDDLE[0]), (MIDDLE[0], EAST))
]


def sides(text: str) -> tuple[float, ...]:
    return tuple(float(side) for side in text.split(","))


def await_flows(page: Page, words: str) -> None:
    """Wait until the map shows flows."""
    page.wait_for_selector(f"#map[data-flows='{words}']")


def choose(page: Page, way: str) -> None:
    page.locator(f"#flows-ways label:has(input[value={way}])").click()


def table(page: Page) -> dict[int, tuple[float, str]]:
    """The rows: trips and the words about the interval, by place."""
    rows = page.locator("#flows-rows tr").evaluate_all(
        "all => all.map(one => [Number(one.dataset.place), Number(one.dataset.trips), one.lastChild.textContent])"
    )
    return {place: (trips, words) for place, trips, words in rows}


def expect_table(page: Page, trips: Any, low: Any, high: Any) -> None:
    """The rows are those with most trips, and say when noise could explain them."""
    wanted = {
        i: (pytest.approx(value), "too few to tell" if a <= 0 else f"{a:,.0f} to {b:,.0f}")
        for i, (value, a, b) in enumerate(zip(trips, low, high, strict=True))
        if value >= 0.5
    }
    assert table(page) == wanted
    shown = [trips for trips, _ in table(page).values()]
    assert shown == sorted(shown, reverse=True)


def drop_quarters(page: Page) -> None:
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": json.loads(shapely.to_geojson(shape))}
        for name, shape in zip(NAMES, QUARTERS, strict=True)
    ]
    upload(page, json.dumps({"type": "FeatureCollection", "features": features}))
    expect(page.locator("#zones-rows tr")).to_have_count(4)


def click_zone(page: Page, i: int) -> None:
    box = page.locator("path.zone").nth(3 - i).bounding_box()  # drawn from the last to the first
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.3)


def test_a_drawn_area_in_both_directions(visit: Opener, trips_from_to: Served, flowing: Release) -> None:
    page = visit(f"{trips_from_to.address}/")
    expect(page.locator("#flows-hint")).to_contain_text("Draw a rectangle or polygon")
    expect(page.locator("#flows-ways")).to_be_hidden()
    page.keyboard.down("Shift")
    drag(page, (0.3, 0.45), (0.5, 0.65))
    page.keyboard.up("Shift")
    expect(page.locator("#flows-of")).to_have_value("area A")
    area = tuple(float(page.input_value(f"#{side}")) for side in pages.SIDES)
    assert flowing.flow_table is not None
    tiles = list(tiles_of(flowing.flow_table, flowing.grid).shapes)
    for way, word in (("from", "begin"), ("to", "end")):
        choose(page, way)
        await_flows(page, f"{way} Rectangle A")
        wanted = flowing.flows(tiles, **{"from_" if way == "from" else "to": area})
        expect_table(page, wanted["trips"], wanted["low"], wanted["high"])
        total = flowing.flow(*((area, None) if way == "from" else (None, area)))
        expect(page.locator("#flows-total")).to_have_text(
            f"Rectangle A: {total.value:,.0f} trips {word} here ({total.low:,.0f} to {total.high:,.0f})."
        )
        sure = int((wanted["low"] >= 0.5).sum())
        assert sure - 1 <= page.locator("path.flow-arc").count() <= sure
        expect(page.locator("#said")).to_contain_text(f"trips {word} here")
        expect(page.locator("#legend-title")).to_have_text(f"Trips {way} Rectangle A by cell")
    choose(page, "off")
    expect(page.locator("#flows-found")).to_be_hidden()
    expect(page.locator("path.flow-arc")).to_have_count(0)
    expect(page.locator("#legend-title")).to_have_text("Distinct trips per cell")


def test_cells_are_coloured_by_their_flows(visit: Opener, trips_from_to: Served, flowing: Release) -> None:
    page = visit(f"{trips_from_to.address}/#r={A}&flows=from:0")
    await_flows(page, "from Rectangle A")
    page.wait_for_function("() => location.hash.includes('view=')")
    latitude, longitude, zoom = page.evaluate("() => location.hash.match(/view=([^&]+)/)[1].split(',').map(Number)")
    box = page.locator("#map").bounding_box()
    assert box is not None
    degree = 256 * 2**zoom / 360  # pixels
    wanted = flowing.flows(from_=sides(A)).sort_values("trips")
    places = []
    for row in (-1, int(np.searchsorted(wanted["trips"], wanted["trips"].max() / 4)), 0):
        one, trips = wanted.geometry.iloc[row].centroid, float(wanted["trips"].iloc[row])
        up = np.degrees(np.arcsinh(np.tan(np.radians([one.y, latitude])))) * degree
        x, y = box["width"] / 2 + (one.x - longitude) * degree, box["height"] / 2 - float(up[0] - up[1])
        places.append((box["x"] + x, box["y"] + y))
        page.mouse.move(*places[-1])
        if row:
            expect(page.locator("#here")).to_have_text(f"here {trips:.1f}" if trips < 9.95 else f"here {trips:,.0f}")
    colours = page.evaluate(
        """(places) => {
          const canvas = document.querySelector('.leaflet-flow-cells-pane canvas');
          const { left, top, width } = canvas.getBoundingClientRect();
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          return places.map(([x, y]) => {
            const [column, row] = [x - left, y - top].map((far) => Math.floor((far * canvas.width) / width));
            return [...data.slice(4 * (row * canvas.width + column)).slice(0, 4)];
          });
        }""",
        places,
    )
    busiest, middle, none = colours
    assert none[3] == 0
    assert busiest[3] == 255
    assert busiest != middle


def test_a_click_on_a_zone(visit: Opener, trips_from_to: Served, flowing: Release) -> None:
    page = visit(f"{trips_from_to.address}/")
    drop_quarters(page)
    expect(page.locator("#flows-hint")).to_contain_text("Click a zone")
    colours = "all => all.map(one => one.getAttribute('fill'))"
    before = page.locator("path.zone").evaluate_all(colours)
    for i, way in ((0, "from"), (3, "from"), (3, "to")):
        if way == "from":
            click_zone(page, i)
        else:
            choose(page, way)
        await_flows(page, f"{way} {NAMES[i]}")
        expect(page.locator("#flows-of")).to_have_value(f"zone {i}")
        wanted = flowing.flows(QUARTERS, **{"from_" if way == "from" else "to": QUARTERS[i]})
        expect_table(page, wanted["trips"], wanted["low"], wanted["high"])
        assert page.locator("path.flow-arc").count() == sum(wanted["low"][j] >= 0.5 for j in range(4) if j != i)
        assert page.locator("path.zone").evaluate_all(colours) != before
    page.locator("path.zone").nth(2).hover(position={"x": 30, "y": 30})
    expect(page.locator(".leaflet-tooltip").first).to_contain_text("South-east → North-east")
    page.select_option("#flows-of", "zone 2")
    await_flows(page, "to North-west")
    page.click("#zones-close")
    expect(page.locator("#flows-ways")).to_be_hidden()
    expect(page.locator("path.flow-arc")).to_have_count(0)


def test_an_area_by_zones_that_were_dropped(visit: Opener, trips_from_to: Served, flowing: Release) -> None:
    page = visit(f"{trips_from_to.address}/#r={A}&flows=to:0")
    await_flows(page, "to Rectangle A")
    drop_quarters(page)
    expect(page.locator("#legend-title")).to_have_text("Trips to Rectangle A by zone")
    wanted = flowing.flows(QUARTERS, to=sides(A))
    expect_table(page, wanted["trips"], wanted["low"], wanted["high"])


def test_the_slice_that_is_chosen(visit: Opener, trips_from_to: Served, flowing: Release) -> None:
    page = visit(f"{trips_from_to.address}/#r={A};{B}&flows=from:0")
    await_flows(page, "from Rectangle A")
    scales = []
    for at, name in ((2, "weekend"), (1, "weekday")):
        page.locator("#slice").fill(str(at))
        await_flows(page, f"from Rectangle A {name}")
        total = flowing.flow(sides(A), None, slices=name)
        expect(page.locator("#flows-total")).to_contain_text(f"Rectangle A, {name}: {total.value:,.0f} trips")
        between = flowing.flow(sides(A), sides(B), slices=name)
        expect(page.locator("[data-pair='A B'] td").first).to_have_text(f"{between.value:,.0f}")
        scales.append(page.locator("#ticks span").all_inner_texts())
    assert scales[0] == scales[1]


def test_two_areas_in_both_directions(visit: Opener, trips_from_to: Served, flowing: Release) -> None:
    page = visit(f"{trips_from_to.address}/#r={A};{B}")
    expect(page.locator("#flows-pairs tr")).to_have_count(2)
    for pair, ends in (("A B", (A, B)), ("B A", (B, A))):
        wanted = flowing.flow(*map(sides, ends))
        row = page.locator(f"[data-pair='{pair}']")
        assert float(row.get_attribute("data-trips") or "") == pytest.approx(wanted.value)
        words = "too few to tell" if wanted.low <= 0 else f"{wanted.low:,.0f} to {wanted.high:,.0f}"
        expect(row.locator("td").nth(1)).to_have_text(words)
    page.locator("li[data-name=B] .close").click()
    expect(page.locator("#flows-between")).to_be_hidden()


def test_the_keyboard_and_the_address(visit: Opener, trips_from_to: Served) -> None:
    page = visit(f"{trips_from_to.address}/#polygon=-30.03,44.97,-29.99,44.97,-30,45")
    expect(page.locator("#flows-of")).to_have_value("area P1")
    page.locator("#map").focus()
    page.keyboard.press("f")
    await_flows(page, "from Polygon P1")
    page.locator("#flows-ways input:checked").focus()
    page.keyboard.press("ArrowRight")
    await_flows(page, "to Polygon P1")
    page.wait_for_function("() => location.hash.includes('flows=to:0')")
    again = visit(page.url)
    await_flows(again, "to Polygon P1")
    page.locator("#map").focus()
    page.keyboard.press("f")
    expect(page.locator("#flows-found")).to_be_hidden()


def test_the_download_has_all_rows(visit: Opener, trips_from_to: Served, flowing: Release) -> None:
    page = visit(f"{trips_from_to.address}/#r={A}&flows=to:0&slice=weekend")
    await_flows(page, "to Rectangle A weekend")
    with page.expect_download() as saved:
        page.click("#flows-csv")
    assert saved.value.suggested_filename == "flows-to.csv"
    rows = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    assert flowing.flow_table is not None
    wanted = flowing.flows(
        list(tiles_of(flowing.flow_table, flowing.grid).shapes), to=sides(A), slices="weekend"
    )  # fmt: skip
    assert len(rows) == len(wanted)
    for row in rows:
        i = int(row["origin"].removeprefix("tile "))
        assert (row["destination"], row["slice"], row["release"]) == ("Rectangle A", "weekend", "flows")
        for name in ("trips", "low", "high"):
            assert float(row[name]) == pytest.approx(wanted[name][i])
        assert row["too_few_to_tell"] == ("true" if wanted["low"][i] <= 0 else "false")
        centre = wanted.geometry[i].centroid
        assert (float(row["longitude"]), float(row["latitude"])) == pytest.approx((centre.x, centre.y))


def test_a_release_without_flows(visit: Opener, trips_from_to: Served) -> None:
    page = visit(f"{trips_from_to.address}/#r={A}&flows=from:0")
    await_flows(page, "from Rectangle A")
    page.select_option("#show", "1")
    expect(page.locator("#flows")).to_be_hidden()
    expect(page.locator("path.flow-arc")).to_have_count(0)
    expect(page.locator("#legend-title")).to_have_text("Distinct trips per cell")
    page.click("#about-open")
    expect(page.locator("#about")).to_contain_text("dqam publish --flows")
    page.keyboard.press("Escape")
    page.select_option("#show", "0")
    await_flows(page, "from Rectangle A")


def test_a_map_in_metres(visit: Opener, trips_from_to: Served) -> None:
    page = visit(f"{trips_from_to.address}/#release=2")
    page.locator("#map").focus()
    page.keyboard.press("r")
    expect(page.locator("#flows-of")).to_have_value("area A")
    page.keyboard.press("f")
    await_flows(page, "from Rectangle A")
    assert table(page)


@pytest.mark.parametrize("width", [360, 390])
def test_it_fits_on_a_phone(visit: Opener, trips_from_to: Served, width: int) -> None:
    page = visit(
        f"{trips_from_to.address}/#r={A};{B}&flows=from:0",
        viewport={"width": width, "height": 844},
        has_touch=True,
        is_mobile=True,
    )
    await_flows(page, "from Rectangle A")
    size = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert size == [width, 844]
    choose(page, "to")
    await_flows(page, "to Rectangle A")
    for label in page.locator("#flows-ways span").all():
        assert label.evaluate("one => one.scrollWidth <= one.clientWidth")
    expect(page.locator("#legend")).to_be_in_viewport(ratio=1)
