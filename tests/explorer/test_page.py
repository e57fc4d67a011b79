"""The page as people use it: in a browser."""

import csv
import io
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyproj
import pytest
import shapely
from playwright.sync_api import Browser, Locator, Page, Response, expect, sync_playwright

from dqam.release.release import Release
from tests.explorer.conftest import Served, serving

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIDES = ("west", "south", "east", "north")
MIDDLE = "-30.01,44.99,-29.99,45.01"
PATIENCE = 60_000  # milliseconds, as the machine may be busy with other things
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("No Chromium on PATH: chromium, chromium-browser or google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


Opener = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Opener]:
    """Open the page; afterwards nothing may have failed, come from elsewhere or be complained about."""
    contexts, problems = [], []

    def go(address: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        host = "/".join(address.split("/")[:3])
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
        page.on("request", lambda request: request.url.startswith(host) or problems.append(f"out: {request.url}"))
        page.on("response", lambda got: got.status in (200, 304, 400) or problems.append(f"{got.status}: {got.url}"))
        page.on("console", lambda line: "400" in line.text or problems.append(f"console: {line.text}"))
        page.goto(address)
        page.wait_for_selector("#map[data-painted]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []


def settle(page: Page) -> None:
    """Wait until the address was written."""
    page.wait_for_timeout(250)


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """With the mouse, from one place of the map to another, both as shares of it."""
    box = page.locator("#map").bounding_box()
    assert box is not None
    places = [(box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=6)
    page.mouse.up()


def shown_sides(page: Page) -> list[float]:
    return [float(page.input_value(f"#{side}")) for side in SIDES]


def numbers(page: Page, name: str) -> Locator:
    return page.locator(f'li[data-name="{name}"] strong[data-value]')


def check_answer(page: Page, served: Served, name: str) -> None:
    """What is shown is what the API and the library say for the sides that are shown."""
    sides = shown_sides(page)
    wanted = served.releases[0][1].count(*sides, crs="EPSG:4326")
    expect(numbers(page, name).first).to_have_attribute("data-value", re.compile(f"^{re.escape(spell(wanted.value))}$"))
    expect(numbers(page, name).first).to_have_text(f"{wanted.value:,.0f}")
    expect(page.locator(f'li[data-name="{name}"] .interval').first).to_have_text(
        f"{wanted.low:,.0f} to {wanted.high:,.0f}"
    )
    query = "&".join(f"{side}={value!r}" for side, value in zip(SIDES, sides, strict=True))
    told = page.request.get(f"{served.address}/api/releases/0/count?{query}").json()
    assert (told["value"], told["low"], told["high"]) == (wanted.value, wanted.low, wanted.high)


def spell(value: float) -> str:
    """A number as JavaScript writes it."""
    return str(int(value)) if value.is_integer() else repr(value)


def test_it_opens_without_a_network(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    expect(page.locator("#release-title")).to_have_text("A city, week 1")
    expect(page.locator("#promise")).to_contain_text("Differentially private for one trip")
    expect(page.locator("#banner")).to_be_hidden()
    assert page.locator("#ticks span").all_inner_texts()[:2] == ["1", "10"]
    page.click("#about-open")
    expect(page.locator("#about")).to_contain_text("at most 2.72 times as likely")
    page.keyboard.press("Escape")
    expect(page.locator("#about")).to_be_hidden()
    page.click("text=API")
    expect(page.locator("article h3").nth(2)).to_contain_text("/api/releases/{n}/count")


def test_the_examples_in_the_description_of_the_api_work(visit: Opener, pair: Served, projected: Release) -> None:
    with serving([("metres", projected)]) as metres:
        for served in (pair, metres):
            page = visit(f"{served.address}/")
            page.click("text=API")
            expect(page.locator("article h3").first).to_be_visible()
            links = page.locator("article a").evaluate_all("all => all.map((one) => one.href)")
            assert sum("/edr/" in link for link in links) == 6
            for link in links:
                assert page.request.get(link).status == 200, link


def test_the_page_says_which_promise_it_is(visit: Opener, promises: Served) -> None:
    limit = "at most 2.72 times as likely with that trip as without, plus a probability of at most 1e-8"
    page = visit(f"{promises.address}/#release=1")
    expect(page.locator("#promise")).to_have_text("Differentially private for one trip, epsilon = 1, delta = 1e-8.")
    page.click("#about-open")
    expect(page.locator("#about")).to_contain_text(limit)
    page.keyboard.press("Escape")
    page.select_option("#show", "0")
    expect(page.locator("#promise")).to_have_text("Differentially private for one trip, epsilon = 1.")
    page.click("#about-open")
    expect(page.locator("#about")).to_contain_text("every possible map is at most 2.72 times as likely")
    expect(page.locator("#about")).not_to_contain_text("delta")


def test_the_layer_has_colours_where_trips_are(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    size = page.evaluate("() => { const c = document.querySelector('canvas.picture'); return [c.width, c.height]; }")
    assert size == [512, 512]
    clear = page.evaluate(
        "() => { const c = document.querySelector('canvas.picture');"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] < 128; return n / (d.length / 4); }"
    )
    faces = pair.releases[0][1].cells().value
    assert abs(clear - (faces < 0.7).mean()) < 0.1


def test_draw_a_rectangle(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.keyboard.down("Shift")
    drag(page, (0.4, 0.4), (0.6, 0.55))
    page.keyboard.up("Shift")
    check_answer(page, pair, "A")
    expect(page.locator("#said")).to_contain_text("Rectangle A: ")
    expect(page.locator('li[data-name="A"] .note')).to_contain_text(re.compile(r"\d\skm \(\d+\s.\s\d+ cells\)"))
    expect(page.locator("path.answered")).to_have_count(1)
    page.click("#draw")
    drag(page, (0.5, 0.3), (0.7, 0.5))
    check_answer(page, pair, "B")
    assert page.locator("#answers li").count() == 2
    expect(page.locator("li.chosen")).to_have_attribute("data-name", "B")
    before = shown_sides(page)
    drag(page, (0.7, 0.5), (0.75, 0.6))  # by its corner
    settle(page)
    after = shown_sides(page)
    assert (after[0], after[3]) == (before[0], before[3])
    assert after[2] > before[2]
    assert after[1] < before[1]
    check_answer(page, pair, "B")
    page.click('[aria-label="Remove rectangle A"]')
    expect(page.locator("#answers li")).to_have_count(1)


def test_an_answer_is_there_while_drawing_and_escape_takes_it_back(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.keyboard.press("d")
    page.mouse.move(700, 300)
    page.mouse.down()
    page.mouse.move(800, 400, steps=4)
    expect(page.locator("#readout")).to_contain_text("trips")
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page.locator("#answers li")).to_have_count(0)
    expect(page.locator("#readout")).to_be_hidden()


def test_draw_with_a_finger(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.tap("[aria-label='Draw a rectangle']")
    touch = page.context.new_cdp_session(page)
    for kind, places in (
        ("touchStart", [(150, 150)]),
        ("touchMove", [(180, 180)]),
        ("touchMove", [(250, 240)]),
        ("touchEnd", []),
    ):
        points = [{"x": x, "y": y} for x, y in places]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    check_answer(page, pair, "A")


def test_type_a_rectangle(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    for side, value in zip(SIDES, ("-30.02", "44.98", "-29.98", "45.02"), strict=True):
        page.fill(f"#{side}", value)
    page.press("#north", "Enter")
    check_answer(page, pair, "A")
    page.fill("#east", "-29.97")
    page.click("#change")
    expect(page.locator("#answers li")).to_have_count(1)
    expect(page).to_have_url(re.compile("r=-30.02,44.98,-29.97,45.02"))
    check_answer(page, pair, "A")


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        (("-29.98", "44.98", "-30.02", "45.02"), "upside down; give west <= east and south <= north."),
        (("1", "1", "2", "2"), "does not meet the map"),
    ],
)
def test_a_bad_rectangle_is_explained(visit: Opener, pair: Served, sides: tuple[str, ...], words: str) -> None:
    page = visit(f"{pair.address}/")
    for side, value in zip(SIDES, sides, strict=True):
        page.fill(f"#{side}", value)
    with page.expect_response(lambda got: "/count?" in got.url) as asked:
        page.click("#add")
    answer: Response = asked.value
    assert answer.status == 400
    assert words in answer.json()["error"]
    expect(page.locator("#problem")).to_have_text(answer.json()["error"])
    expect(page.locator("#answers li")).to_have_count(0)


def test_sides_that_are_no_numbers_are_explained(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.fill("#west", "abc")
    page.click("#add")
    expect(page.locator("#problem")).to_have_text(
        "Enter a number of degrees for each side: west, south, east and north."
    )


def test_a_rectangle_drawn_off_the_map_is_explained(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#view=46,-30,11")
    page.keyboard.press("d")
    drag(page, (0.3, 0.3), (0.5, 0.5))
    expect(page.locator("#problem")).to_contain_text("does not meet the map")
    expect(page.locator("#answers li")).to_have_count(0)


def test_compare_two_releases(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#r={MIDDLE}")
    page.select_option("#against", "1")
    sides = [float(side) for side in MIDDLE.split(",")]
    a, b = (release.count(*sides, crs="EPSG:4326") for _, release in pair.releases)
    expect(numbers(page, "A")).to_have_count(2)
    assert [float(one.get_attribute("data-value") or "") for one in numbers(page, "A").all()] == [a.value, b.value]
    difference = page.locator("strong[data-difference]")
    assert float(difference.get_attribute("data-difference") or "") == b.value - a.value
    expect(difference).to_contain_text(f"{abs(b.value - a.value):,.0f} (")
    page.click("#layers label:has-text('Difference')")
    page.wait_for_selector("#map[data-painted^='difference']")
    expect(page.locator("#legend-title")).to_have_text("Trips per cell: tuesday \N{MINUS SIGN} monday")
    ticks = page.locator("#ticks span").all_inner_texts()
    assert "0" in ticks
    sizes = [tick.lstrip("+\N{MINUS SIGN}") for tick in ticks]
    assert sizes == sizes[::-1]
    page.locator("#map").focus()
    page.keyboard.press("t")
    page.wait_for_selector("#map[data-painted^='first']")
    page.select_option("#show", "1")
    expect(page.locator("#release-title")).to_have_text("A city, week 2")
    expect(page.locator("#against")).to_have_value("0")


def test_other_grids_have_no_difference_and_open_releases_a_banner(visit: Opener, mixed: Served) -> None:
    page = visit(f"{mixed.address}/")
    expect(page.locator("#banner")).to_contain_text("NOT PRIVATE: open was made for tests")
    page.select_option("#against", "1")
    expect(page.locator("#layers input[value=difference]")).to_be_disabled()
    page.locator("#map").focus()
    page.keyboard.press("r")
    expect(numbers(page, "A")).to_have_count(1)
    expect(page.locator("li .problem")).to_contain_text("metres: Rectangle 1 ")
    page.keyboard.press("Delete")
    page.select_option("#against", "")
    page.select_option("#show", "1")
    expect(page.locator("#banner")).to_be_hidden()
    page.wait_for_selector("#map[data-painted='first 1 light']")
    page.keyboard.press("Escape")
    page.locator("#map").focus()
    page.keyboard.press("r")
    expect(page.locator("li .interval")).to_have_text("no confidence interval")
    value = float(numbers(page, "A").get_attribute("data-value") or "")
    assert value == mixed.releases[1][1].count(*shown_sides(page), crs="EPSG:4326").value


def test_the_address_brings_everything_back(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.select_option("#show", "1")
    page.select_option("#against", "0")
    page.click("#layers label:has-text('monday')")
    page.click("#theme")
    page.locator("#map").focus()
    page.keyboard.press("r")
    page.keyboard.press("+")
    page.keyboard.press("r")
    page.locator("#opacity").fill("40")
    expect(numbers(page, "B")).to_have_count(2)
    expect(page).to_have_url(re.compile("opacity=40"))
    page.wait_for_timeout(700)  # until the map has come to rest
    seen = "() => [document.querySelector('#answers').innerText, document.documentElement.dataset.theme,"
    seen += " document.querySelector('#map').dataset.painted, document.querySelector('#opacity').value,"
    seen += " document.querySelector('.leaflet-control-scale').innerText]"
    before, address = page.evaluate(seen), page.url
    other = visit(address)
    expect(numbers(other, "B")).to_have_count(2)
    assert other.evaluate(seen) == before
    settle(other)
    assert other.url == address
    other.goto(f"{pair.address}/#r={MIDDLE};rubbish;1,2;&view=x&release=9&theme=pink&layer=second")
    expect(other.locator("#answers li")).to_have_count(1)
    expect(other.locator("#release-title")).to_have_text("A city, week 1")


def test_the_keyboard_moves_and_resizes(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    grid = pair.releases[0][1].grid
    wide, high = (grid.bounds[2] - grid.bounds[0]) / 64, (grid.bounds[3] - grid.bounds[1]) / 64
    page.keyboard.press("r")
    expect(numbers(page, "A")).to_have_count(1)
    before = shown_sides(page)
    expect(page.locator("path.answered")).to_have_count(0)  # whole cells
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    moved = [before[0] + 2 * wide, before[1] + high, before[2] + 2 * wide, before[3] + high]
    assert shown_sides(page) == pytest.approx(moved, abs=1e-9)
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Shift+ArrowUp")
    resized = [moved[0], moved[1], moved[2] - wide, moved[3] + high]
    assert shown_sides(page) == pytest.approx(resized, abs=1e-9)
    expect(page.locator("path.answered")).to_have_count(0)
    check_answer(page, pair, "A")
    for _ in range(45):
        page.keyboard.press("ArrowLeft")
    assert shown_sides(page)[0] == pytest.approx(grid.bounds[0], abs=1e-9)
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("r")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("Delete")
    expect(page.locator("#answers li")).to_have_count(0)
    assert page.locator("#draw").evaluate("button => { button.focus(); return button.matches(':focus-visible'); }")


def test_tab_reaches_everything(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#r={MIDDLE}&with=1")
    expect(numbers(page, "A")).to_have_count(2)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("() => document.activeElement.id || document.activeElement.getAttribute('aria-label')")
        )
    named = {"map", "opacity", "theme", "help-open", "about-open", "show", "against", "draw", *SIDES, "add", "change"}
    assert reached >= named | {"copy", "clear", "Select rectangle A", "Remove rectangle A", "Show the whole map"}


def test_copy_as_csv(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#r={MIDDLE}&with=1", permissions=["clipboard-read", "clipboard-write"])
    expect(numbers(page, "A")).to_have_count(2)
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("() => navigator.clipboard.readText()"))))
    sides = [float(side) for side in MIDDLE.split(",")]
    for row, (name, release) in zip(rows, pair.releases, strict=True):
        wanted = release.count(*sides, crs="EPSG:4326")
        assert (row["name"], row["release"]) == ("A", name)
        assert [float(row[side]) for side in SIDES] == sides
        assert (float(row["value"]), float(row["low"]), float(row["high"])) == (wanted.value, wanted.low, wanted.high)


def test_dark_and_light(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/", color_scheme="dark")
    background = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(20, 24, 29)"
    page.click("#theme")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.wait_for_selector("#map[data-painted$='light']")
    expect(page).to_have_url(re.compile("theme=light$"))


def test_a_server_that_went_away_is_told(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.route("**/count?*", lambda route: route.fulfill(status=400, body="gone"))
    page.keyboard.press("r")
    expect(page.locator("li .problem")).to_have_text("The server responded with status 400.")


DROP = (
    "(surface, text) => { const data = new DataTransfer(); data.items.add(new File([text], 'zones.geojson'));"
    " surface.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); }"
)


def test_zones_of_a_file(visit: Opener, pair: Served) -> None:
    release = pair.releases[0][1]
    west, south, east, north = release.grid.bounds
    x, y = np.random.default_rng(0).uniform((west, south), (east, north), (200, 2)).T
    areas = list(shapely.buffer(shapely.points(x, y), 0.004, quad_segs=2))
    features = [
        {"type": "Feature", "properties": {"name": f"Zone {i}"}, "geometry": one.__geo_interface__}
        for i, one in enumerate(areas)
    ]
    told = json.dumps({"type": "FeatureCollection", "features": features})
    page = visit(f"{pair.address}/")
    page.locator("#map").evaluate(DROP, told)
    rows = page.locator("#zones-rows tr")
    expect(rows).to_have_count(200)
    expect(page.locator("path.zone")).to_have_count(200)
    expect(page.locator("#legend-title")).to_have_text("Distinct trips per zone")
    wanted = release.counts(areas, crs="EPSG:4326")
    seen = [float(value) for value in rows.evaluate_all("rows => rows.map(row => row.dataset.value)")]
    assert seen == sorted(wanted.value.tolist(), reverse=True)
    page.click("#zones-head button:has-text('Trips')")
    expect(page.locator("#zones-head th").nth(1)).to_have_attribute("aria-sort", "ascending")
    seen = [float(value) for value in rows.evaluate_all("rows => rows.map(row => row.dataset.value)")]
    assert seen == sorted(wanted.value.tolist())
    with page.expect_download() as saved:
        page.click("#zones-csv")
    lines = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    assert [float(line["low"]) for line in lines] == wanted.low.tolist()
    assert [line["name"] for line in lines] == [f"Zone {i}" for i in range(200)]
    page.click("text=Remove zones")
    expect(page.locator("#zones")).to_be_hidden()
    expect(page.locator("#zones-title")).to_have_text("Zones and lines")
    expect(page.locator("#legend-title")).to_have_text("Distinct trips per cell")


CORNERS = [(0.3, 0.3), (0.6, 0.35), (0.7, 0.6), (0.4, 0.7)]


def places(page: Page, corners: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Where shares of the map are on the screen."""
    box = page.locator("#map").bounding_box()
    assert box is not None
    return [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]


def drawn(page: Page, kind: str) -> list[list[float]]:
    """The corners of the one polygon or line in the address."""
    expect(numbers(page, f"{kind[0].upper()}1")).not_to_have_count(0)
    settle(page)
    told = dict(part.split("=") for part in page.evaluate("location.hash.slice(1)").split("&"))
    return np.array(told[kind].split(","), dtype=float).reshape(-1, 2).tolist()  # type: ignore[no-any-return]


def check_shape(page: Page, served: Served, name: str) -> None:
    """What is shown for a polygon or line is what the API and the library say for its corners."""
    release = served.releases[0][1]
    if name.startswith("P"):
        shape: shapely.Geometry = shapely.Polygon(drawn(page, "polygon"))
        wanted, where, counted = release.counts([shape], crs="EPSG:4326"), "areas", "trips"
    else:
        shape = shapely.LineString(drawn(page, "line"))
        wanted, where, counted = release.crossings([shape], crs="EPSG:4326"), "lines", "crossings"
    value, low, high = (float(one[0]) for one in (wanted.value, wanted.low, wanted.high))
    expect(numbers(page, name).first).to_have_attribute("data-value", re.compile(f"^{re.escape(spell(value))}$"))
    expect(numbers(page, name).first).to_have_text(f"{value:,.0f}")
    expect(page.locator(f'li[data-name="{name}"] .interval').first).to_have_text(f"{low:,.0f} to {high:,.0f}")
    headers = {"Content-Type": "application/geo+json"}
    told = page.request.post(
        f"{served.address}/api/releases/0/{where}", data=json.dumps(shapely.geometry.mapping(shape)), headers=headers
    ).json()["features"][0]["properties"]
    assert (told[counted], told["low"], told["high"]) == (value, low, high)


def test_draw_a_polygon(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.click("#draw-polygon")
    expect(page.locator("#draw-polygon")).to_have_attribute("aria-pressed", "true")
    *corners, last = places(page, CORNERS)
    for x, y in corners:
        page.mouse.click(x, y)
    page.mouse.dblclick(*last)
    expect(page.locator("#draw-polygon")).to_have_attribute("aria-pressed", "false")
    assert len(drawn(page, "polygon")) == len(CORNERS)
    check_shape(page, pair, "P1")
    expect(page.locator("#answers li .note")).to_contain_text("km²")
    page.reload()
    check_shape(page, pair, "P1")
    page.click("[aria-label='Remove polygon P1']")
    expect(page.locator("#answers li")).to_have_count(0)
    settle(page)
    assert "polygon=" not in page.url


def test_draw_a_line(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.click("[aria-label='Draw a line']")
    for x, y in places(page, [(0.5, 0.3), (0.55, 0.5), (0.5, 0.7)]):
        page.mouse.click(x, y)
    page.keyboard.press("Enter")
    assert len(drawn(page, "line")) == 3
    check_shape(page, pair, "L1")
    expect(page.locator("#answers li")).to_contain_text("crossings")
    expect(page.locator("#answers-title")).to_have_text("Answers")


def test_draw_a_polygon_with_the_keyboard(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.locator("#map").focus()
    for key in ("p", "Space", "Shift+ArrowRight", "Space", "Shift+ArrowUp", "Space", "ArrowUp", "Space", "Backspace"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    corners = np.array(drawn(page, "polygon"))
    wide, high = np.ptp(corners, axis=0)
    west, south, east, north = pair.releases[0][1].grid.bounds
    assert len(corners) == 3
    assert (wide, high) == (
        pytest.approx(10 / 64 * (east - west), rel=0.01),
        pytest.approx(10 / 64 * (north - south), rel=0.01),
    )
    check_shape(page, pair, "P1")


def test_draw_a_polygon_with_a_finger(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.tap("[aria-label='Draw a polygon']")
    corners = places(page, [(0.3, 0.3), (0.7, 0.3), (0.6, 0.6)])
    for x, y in [*corners, corners[0]]:  # a tap on the first corner closes it
        page.touchscreen.tap(x, y)
    assert len(drawn(page, "polygon")) == 3
    check_shape(page, pair, "P1")


def test_escape_stops_drawing_and_too_few_corners_are_explained(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.keyboard.press("p")
    for x, y in places(page, CORNERS[:2]):
        page.mouse.click(x, y)
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_have_text("A polygon needs at least three corners.")
    page.keyboard.press("Escape")
    expect(page.locator("#draw-polygon")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#answers li")).to_have_count(0)
    expect(page.locator(".sketch")).to_have_count(0)


def test_a_polygon_that_crosses_itself_is_repaired_and_told(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#polygon=-30.01,44.99,-29.99,45.01,-29.99,44.99,-30.01,45.01")
    check_shape(page, pair, "P1")
    expect(page.locator("#answers li")).to_contain_text("crosses itself")


def test_a_polygon_off_the_map_is_explained(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#polygon=10,10,11,10,11,11")
    expect(page.locator("#answers li .problem")).to_have_text("This polygon lies outside the map.")


def test_compare_polygons(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#with=1&polygon=-30.01,44.99,-29.99,45,-30,45.01")
    check_shape(page, pair, "P1")
    shape = shapely.Polygon(drawn(page, "polygon"))
    one, other = (release.count(shape, crs="EPSG:4326").value for _, release in pair.releases)
    expect(page.locator("#answers [data-difference]")).to_have_attribute("data-difference", spell(other - one))


def test_copy_polygons_as_csv(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/#polygon=-30.01,44.99,-29.99,45,-30,45.01&line=-30.01,45,-29.99,45")
    check_shape(page, pair, "P1")
    check_shape(page, pair, "L1")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    assert [shapely.from_wkt(row["wkt"]).geom_type for row in rows] == ["Polygon", "LineString"]
    assert [row["counted"] for row in rows] == ["distinct trips, all trips", "crossings, all trips"]
    assert float(rows[0]["value"]) == pair.releases[0][1].count(shapely.from_wkt(rows[0]["wkt"]), crs="EPSG:4326").value


def test_lines_of_a_file(visit: Opener, pair: Served) -> None:
    line = shapely.LineString([(-30.01, 45), (-29.99, 45.002)])
    feature = {"type": "Feature", "properties": {"name": "Bridge"}, "geometry": shapely.geometry.mapping(line)}
    page = visit(f"{pair.address}/")
    upload(page, json.dumps(feature))
    expect(page.locator("#zones-rows tr")).to_have_count(1)
    wanted = pair.releases[0][1].crossings([line], crs="EPSG:4326")
    expect(page.locator("#zones-rows tr")).to_have_attribute("data-value", spell(float(wanted.value[0])))
    with page.expect_download() as saved:
        page.click("#zones-geojson")
    told = json.loads(saved.value.path().read_text())["features"][0]
    assert saved.value.suggested_filename == "lines.geojson"
    assert told["properties"]["name"] == "Bridge"
    assert told["properties"]["crossings"] == float(wanted.value[0])
    assert shapely.geometry.shape(told["geometry"]).equals(line)


BOX, BOW = (
    shapely.box(-30.01, 44.99, -29.99, 45.01),
    shapely.Polygon([(-30.02, 45), (-30.01, 45.01), (-30.02, 45.01), (-30.01, 45)]),
)
FAR, HALF = shapely.box(19.99, 44.99, 20.01, 45.01), shapely.box(-30.5, 44.99, -30.01, 45.2)
BRIDGE = shapely.LineString([(-30.01, 45), (-29.99, 45.002)])


def collection(*shapes: shapely.Geometry | None, **members: object) -> str:
    """A GeoJSON file of features called a, b, ..."""
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": shape and shapely.geometry.mapping(shape)}
        for name, shape in zip("abcdef", shapes, strict=False)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features, **members})


def in_metres(shape: shapely.Geometry) -> shapely.Geometry:
    """A shape in degrees, in EPSG:32625."""
    move = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32625", always_xy=True).transform
    return shapely.transform(shape, lambda xy: np.stack(move(xy[:, 0], xy[:, 1]), axis=1))


def test_zones_that_were_changed_or_have_no_answer_are_told(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    upload(page, collection(BOX, BOW, FAR, HALF))
    rows = page.locator("#zones-rows tr")
    expect(rows).to_have_count(4)
    texts = {text.split()[0]: text for text in rows.all_inner_texts()}
    assert "NaN" not in page.locator("#zones").inner_text()
    assert "*" not in texts["a"]
    assert "(crosses" not in texts["a"]
    assert "(crossed itself; repaired)" in texts["b"]
    assert texts["c"].split("\t") == ["c", "outside the map"]
    assert "(clipped to the map)" in texts["d"]
    for sentence in (
        "1 zone crossed itself and was repaired (marked *).",
        "1 zone was clipped to the map (marked *).",
        "1 zone lies outside the map and has no answer.",
    ):
        expect(page.locator("#zones-note")).to_contain_text(sentence)
    settle(page)
    _, longitude, zoom = map(float, page.evaluate("location.hash.match(/view=([^&]*)/)[1]").split(","))
    assert -30.1 < longitude < -29.9
    assert zoom > 10
    with page.expect_download() as saved:
        page.click("#zones-csv")
    lines = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    flags = {line["name"]: [line[flag] for flag in ("repaired", "cut", "outside")] for line in lines}
    assert flags["a"] == ["false", "false", "false"]
    assert flags["b"] == ["true", "false", "false"]
    assert flags["c"][2] == "true"
    assert flags["d"] == ["false", "true", "false"]
    assert {line["confidence"] for line in lines} == {"0.9"}
    assert lines[2]["trips"] == ""


def test_the_csv_of_zones_says_that_a_release_is_not_private(visit: Opener, mixed: Served) -> None:
    page = visit(f"{mixed.address}/")
    upload(page, collection(BOX))
    with page.expect_download() as saved:
        page.click("#zones-csv")
    (line,) = csv.DictReader(io.StringIO(saved.value.path().read_text()))
    assert line["counted"] == "NOT PRIVATE: distinct trips, all trips"


def test_here_is_the_zone_under_the_pointer(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    page.mouse.move(*places(page, [(0.5, 0.3)])[0])
    expect(page.locator("#here")).to_contain_text("here")
    upload(page, collection(shapely.box(-30.005, 44.995, -29.995, 45.005)))
    expect(page.locator("path.zone")).to_have_count(1)
    expect(page.locator("#here")).to_have_text("")
    box = page.locator("path.zone").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown = page.locator("#zones-rows td").first.inner_text()
    expect(page.locator("#here")).to_have_text(f"here {shown}")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 5)
    expect(page.locator("#here")).to_have_text("")


@pytest.mark.parametrize("width", [390, 1200])
def test_the_legend_is_legible_and_hides_no_zone(visit: Opener, pair: Served, width: int) -> None:
    page = visit(f"{pair.address}/", viewport={"width": width, "height": 844})
    upload(page, collection(shapely.box(*pair.releases[0][1].grid.bounds)))
    expect(page.locator("path.zone")).to_have_count(1)
    zone, legend = (page.locator(name).bounding_box() for name in ("path.zone", "#legend"))
    assert zone is not None
    assert legend is not None
    assert zone["x"] + zone["width"] <= legend["x"] or zone["y"] + zone["height"] <= legend["y"]
    sides = "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"
    ticks = sorted(page.locator("#ticks span:visible").evaluate_all(sides))
    assert len(ticks) >= 2
    assert all(right < left for (_, right), (left, _) in itertools.pairwise(ticks))


def test_the_answer_is_in_view_after_drawing_on_a_phone(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.tap("#draw-line")
    line = places(page, [(0.3, 0.3), (0.7, 0.5)])
    for x, y in [*line, line[-1]]:
        page.touchscreen.tap(x, y)
    expect(page.locator('li[data-name="L1"]')).to_be_in_viewport(ratio=1)


def test_zones_in_another_crs_that_the_file_names(visit: Opener, pair: Served) -> None:
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32625"}}
    page = visit(f"{pair.address}/")
    upload(page, collection(in_metres(BOW), crs=crs))
    expect(page.locator("#zones-note")).to_contain_text("The file is in EPSG:32625, so its zone is not drawn")
    expect(page.locator("path.zone")).to_have_count(0)
    wanted = pair.releases[0][1].counts([in_metres(BOW)], crs="EPSG:32625").value
    expect(page.locator("#zones-rows tr")).to_have_attribute("data-value", spell(float(wanted[0])))
    with page.expect_download() as saved:
        page.click("#zones-geojson")
    assert json.loads(saved.value.path().read_text())["crs"] == crs


GOOD = collection(BOX)
BAD: dict[str, str | re.Pattern[str]] = {
    "no JSON": "This file is not GeoJSON. Open a GeoJSON file of only polygons or only lines.",
    "": "This file is empty.",
    GOOD[:120]: "This file ends too early, so a part of it is missing. Save it again.",
    GOOD.replace("45.01", "NaN", 1): re.compile(r"^This file is not valid JSON (at|near) .*\.$"),
    collection(): "This file has no features. Open a GeoJSON file of only polygons or only lines.",
    collection(shapely.Point(-30, 45)): "Feature 1 is a Point, not a polygon or a line. "
    "Open a GeoJSON file of only polygons or only lines.",
    collection(BOX, shapely.GeometryCollection([BOX])): re.compile("Feature 2 is a GeometryCollection, not a polygon"),
    collection(BOX, BRIDGE): "This file mixes polygons and lines. Open the polygons and the lines as two files.",
    collection(BOX, None): "Feature 2 has no geometry. Remove it from the file.",
    collection(None, BOX, None): "2 features have no geometry, the first of them feature 1. Remove them from the file.",
    collection(in_metres(BOX)): re.compile(r"feature 1, such as 73\S+ and 4,98\S+, are not degrees. Save the file in"),
    collection(BOX, crs={"properties": {"name": "EPSG:999999"}}): "The file is in the coordinate system EPSG:999999, "
    "which cannot be read here. Save the file in longitude and latitude (EPSG:4326).",
    collection(BOX, crs={"properties": {"name": "Moon"}}): re.compile("coordinate system Moon, which cannot be read"),
    collection(FAR): "All zones lie outside the map.",
    collection(shapely.Polygon([(-30, 45), (-30.01, 45), (-30, 45)])): re.compile("^Feature 1 has no area; "),
    GOOD.replace("-29.99", '"-29.99"'): "Feature 1 has a coordinate that is not a number.",
    GOOD.replace("-29.99, 44.99", "-29.98, 44.99", 1): "Feature 1 has a ring that is not closed: "
    "its last point is not its first.",
    collection(BOX, note="x" * (8 << 20)): "This file is too large: 9 MiB, and at most 8 MiB can be answered. "
    "Simplify its shapes, or split it into several files.",
}


def test_bad_files_are_explained_and_what_is_shown_stays(visit: Opener, pair: Served) -> None:
    page = visit(f"{pair.address}/")
    upload(page, collection(BRIDGE))
    expect(page.locator("#zones-rows tr")).to_have_count(1)
    for text, words in BAD.items():
        page.evaluate("document.querySelector('#problem').textContent = ''")
        upload(page, text)
        expect(page.locator("#problem")).to_have_text(words)
        expect(page.locator("path.zone")).to_have_count(1)
    expect(page.locator("#problem")).to_be_in_viewport()
    expect(page.locator("#zones-title")).to_have_text("Lines")
    expect(page.locator("#zones-close")).to_have_text("Remove lines")
    upload(page, GOOD)
    expect(page.locator("#zones-title")).to_have_text("Zones")
    expect(page.locator("#problem")).to_be_hidden()


def upload(page: Page, text: str) -> None:
    """Open a GeoJSON file with the page's button."""
    file = {"name": "zones.geojson", "mimeType": "application/geo+json", "buffer": text.encode()}
    page.set_input_files("#zones-file", file)
