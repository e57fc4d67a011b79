"""Slices on the page: the slider, playing, charts and addresses, in a browser."""

import csv
import io
import re

import numpy as np
import pytest
import shapely
from playwright.sync_api import Page, expect

from dqam.release.release import Release
from tests.explorer import test_page as pages
from tests.explorer.conftest import Served
from tests.explorer.test_page import MIDDLE, SIDES, Opener, numbers, spell, upload

browser, visit = pages.browser, pages.visit  # fixtures

OTHER = "-30.04,44.975,-30.02,44.99"
BRIDGE = "-30.01,45,-29.99,45.002"


def hour(name: str) -> str:
    """What the page calls an hour."""
    return f"{name}:00\N{EN DASH}{int(name) + 1:02}:00"


def sides(text: str) -> list[float]:
    return [float(side) for side in text.split(",")]


def await_slice(page: Page, name: str) -> None:
    """Wait until the map shows a slice, or all for an empty name."""
    page.wait_for_selector(f"#map[data-slice='{name}']")


def expect_answer(page: Page, name: str, wanted: float) -> None:
    expect(numbers(page, name).first).to_have_attribute("data-value", re.compile(f"^{re.escape(spell(wanted))}$"))


def pixels(page: Page) -> str:
    found = page.evaluate("() => document.querySelector('canvas.picture').toDataURL()")
    assert isinstance(found, str)
    return found


def test_the_slider_chooses_what_everything_shows(visit: Opener, days: Served, hourly: Release) -> None:
    page = visit(f"{days.address}/#r={MIDDLE}")
    slider = page.get_by_role("slider", name="Slice shown")
    expect(slider).to_have_attribute("aria-valuetext", "All")
    expect_answer(page, "A", hourly.count(*sides(MIDDLE), crs="EPSG:4326").value)
    whole = pixels(page)
    slider.focus()
    seen = []
    for key, name in (("End", "23"), ("PageDown", None), ("Home", ""), ("ArrowRight", "00")):
        page.keyboard.press(key)
        if name is not None:
            await_slice(page, name)
            seen.append((pixels(page), page.locator("#ticks span").all_inner_texts()))
    (last, one_scale), (all_again, _), (first, same_scale) = seen
    assert all_again == whole
    assert len({whole, last, first}) == 3
    assert one_scale == same_scale
    slider.fill("9")
    await_slice(page, "08")
    expect(page.locator("#slice-name")).to_have_text(hour("08"))
    expect(slider).to_have_attribute("aria-valuetext", hour("08"))
    expect(page.locator("#legend-title")).to_have_text(re.compile(r"^Distinct trips per cell, 08:00...09:00$"))
    wanted = hourly.count(*sides(MIDDLE), crs="EPSG:4326", slices="08")
    expect_answer(page, "A", wanted.value)
    expect(page.locator("#answers .interval")).to_have_text(f"{wanted.low:,.0f} to {wanted.high:,.0f}")
    expect(page.locator("#all-trips")).to_contain_text(f"{hourly.select('08').trips.value:,.0f} trips, {hour('08')}")
    page.locator("#map").focus()
    page.keyboard.press(".")
    await_slice(page, "09")
    page.keyboard.press("r")  # a new rectangle is answered for the slice
    expect(numbers(page, "B")).to_have_count(1)
    drawn = [float(page.input_value(f"#{side}")) for side in SIDES]
    expect_answer(page, "B", hourly.count(*drawn, crs="EPSG:4326", slices="09").value)


def test_play_goes_through_the_slices_until_it_is_paused(visit: Opener, days: Served, hourly: Release) -> None:
    page = visit(f"{days.address}/#r={MIDDLE}&slice=22")
    await_slice(page, "22")
    play = page.locator("#play")
    expect(play).to_have_text("Play")
    play.click()
    expect(play).to_have_text("Pause")
    for name in ("23", "00", "01"):  # after the last one comes the first
        await_slice(page, name)
    page.keyboard.press("Space")  # the button still has the focus
    expect(play).to_have_text("Play")
    name = f"{int(page.input_value('#slice')) - 1:02}"
    await_slice(page, name)
    expect_answer(page, "A", hourly.count(*sides(MIDDLE), crs="EPSG:4326", slices=name).value)
    play.click()
    page.locator("#slice").fill("5")  # taking over pauses as well
    expect(play).to_have_text("Play")
    await_slice(page, "04")


def test_nothing_moves_by_itself_for_those_who_prefer_less_motion(visit: Opener, days: Served) -> None:
    page = visit(f"{days.address}/", reduced_motion="reduce")
    expect(page.locator("#play")).to_have_text("Next")
    for name in ("00", "01"):
        page.click("#play")
        await_slice(page, name)
        expect(page.locator("#play")).to_have_text("Next")


def test_a_chart_of_two_areas(visit: Opener, days: Served, hourly: Release) -> None:
    page = visit(f"{days.address}/#r={MIDDLE};{OTHER}&line={BRIDGE}")
    trips, crossings = page.locator("figure.profile").all() if page.wait_for_selector("figure >> nth=1") else []
    expect(trips.locator("h3")).to_have_text("Distinct trips by hour")
    expect(crossings.locator("h3")).to_have_text("Crossings by hour")
    expect(trips.locator("g.series")).to_have_count(2)
    expect(crossings.locator("g.series")).to_have_count(1)
    profiles = [hourly.profile(tuple(sides(one)), crs="EPSG:4326") for one in (MIDDLE, OTHER)]
    totals = trips.locator("[data-total]").evaluate_all("all => all.map(one => Number(one.dataset.total))")
    assert totals == [one["trips"].sum() for one in profiles]
    outlines = page.locator("path.asked").evaluate_all("all => all.map(one => one.getAttribute('stroke'))")
    colour = "all => all.map(one => one.style.getPropertyValue('--series'))"
    assert trips.locator("g.series").evaluate_all(colour) == outlines[-2:]
    assert len(set(outlines)) == 3
    chart = trips.locator(".chart")
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": box["width"] * (46 + 304 * 17.5 / 24) / 356, "y": box["height"] / 2})
    read = trips.locator("[data-profile]")
    expect(read).to_have_text([f"{one['trips']['17']:,.0f}" for one in profiles])
    expect(trips.locator(".read")).to_contain_text(
        f"{profiles[0]['low']['17']:,.0f} to {profiles[0]['high']['17']:,.0f}"
    )
    expect(trips.locator("circle.here")).to_have_count(2)
    chart.click(position={"x": box["width"] * (46 + 304 * 17.5 / 24) / 356, "y": box["height"] / 2})
    await_slice(page, "17")
    expect_answer(page, "A", float(profiles[0]["trips"]["17"]))
    page.mouse.move(900, 400)
    page.locator(".chart").first.focus()
    page.keyboard.press("ArrowRight")
    expect(read).to_have_text([f"{one['trips']['18']:,.0f}" for one in profiles])
    expect(page.locator("#said")).to_contain_text(f"{hour('18')}: Rectangle A {profiles[0]['trips']['18']:,.0f} (")
    page.keyboard.press("Enter")
    await_slice(page, "18")
    trips.locator("summary").click()
    rows = trips.locator("tbody tr")
    expect(rows).to_have_count(25)
    expect(rows.nth(19).locator("th, td")).to_have_text(
        [
            hour("18"),
            *(
                text
                for one in profiles
                for text in (f"{one['trips']['18']:,.0f}", f"{one['low']['18']:,.0f} to {one['high']['18']:,.0f}")
            ),
        ]
    )
    page.click("[aria-label='Remove line L1']")
    expect(page.locator("figure.profile")).to_have_count(1)


def test_few_slices_are_told_apart_without_lines_between_them(visit: Opener, days: Served) -> None:
    page = visit(f"{days.address}/#release=1&r={MIDDLE}")
    expect(page.locator(".profile h3")).to_have_text("Distinct trips by part of the week")
    expect(page.locator(".series circle.always")).to_have_count(2)
    expect(page.locator(".series polyline")).to_have_count(0)
    expect(page.locator("#slice-ticks span")).to_have_text(["All", "weekday", "weekend"])


def test_the_address_holds_the_slice(visit: Opener, days: Served) -> None:
    page = visit(f"{days.address}/#r={MIDDLE}")
    page.locator("#slice").fill("9")
    expect(page).to_have_url(re.compile("&slice=08"))
    await_slice(page, "08")
    expect(page.locator(".profile .read strong")).to_have_text(hour("08"))
    seen = "() => ['answers', 'all-trips', 'slice-name', 'legend', 'profiles']"
    seen += ".map(id => document.getElementById(id).innerText)"
    before, address = page.evaluate(seen), page.url
    other = visit(address)
    await_slice(other, "08")
    expect(other.locator(".profile .read strong")).to_have_text(hour("08"))
    assert other.evaluate(seen) == before
    other.goto(f"{days.address}/#r={MIDDLE}&slice=25")
    await_slice(other, "")
    expect(other.locator("#slice-name")).to_have_text("All")
    other.goto(f"{days.address}/#release=1&slice=weekend")
    await_slice(other, "weekend")


def test_without_slices_there_is_no_slider_and_no_chart(visit: Opener, days: Served, pair: Served) -> None:
    page = visit(f"{days.address}/#slice=08&r={MIDDLE}")
    await_slice(page, "08")
    page.select_option("#show", "3")
    await_slice(page, "")
    for name in ("#slices", "#profiles"):
        expect(page.locator(name)).to_be_hidden()
    page.click("#about-open")
    expect(page.locator("#about")).not_to_contain_text("Slices")
    height = "() => document.querySelector('#map').clientHeight"
    other = visit(f"{pair.address}/#slice=08")
    assert page.evaluate(height) == other.evaluate(height) == 800
    expect(other.locator("#slices")).to_be_hidden()
    assert "slice" not in other.evaluate("() => document.querySelector('#answers-title').closest('section').innerText")


def test_releases_with_other_units_are_not_compared(visit: Opener, days: Served) -> None:
    page = visit(f"{days.address}/#release=1&with=2&layer=difference&r={MIDDLE}")
    page.wait_for_selector("#map[data-painted^='first']")
    expect(page.locator("#unlike")).to_have_text(
        "april counts all trips, and persons counts at most 5 trips of each person. Such numbers cannot be compared, "
        "so no difference is shown."
    )
    expect(numbers(page, "A")).to_have_count(2)
    expect(page.locator("[data-difference]")).to_have_count(0)
    expect(page.locator("#layers input[value=difference]")).to_be_disabled()
    expect(page.locator("g.series")).to_have_count(1)
    page.select_option("#against", "0")
    expect(page.locator("[data-difference]")).to_have_count(1)
    expect(page.locator("#unlike")).to_be_hidden()
    page.locator("#slice").fill("1")
    await_slice(page, "weekday")
    expect(page.locator("#unlike")).to_have_text("hours does not have the same slices, so it is shown only for All.")
    expect(numbers(page, "A")).to_have_count(1)
    expect(page.locator("[data-difference]")).to_have_count(0)
    page.locator("#map").focus()
    page.keyboard.press("t")  # there is nothing to switch to
    page.keyboard.press(",")
    expect(page.locator("[data-difference]")).to_have_count(1)


def test_releases_that_are_scaled_up_to_all_trips_are_compared(visit: Opener, scaled: Served) -> None:
    """However many trips of each person were used, which can differ from month to month."""
    page = visit(f"{scaled.address}/#release=0&with=1&layer=difference&r={MIDDLE}")
    page.wait_for_selector("#map[data-painted^='difference']")
    expect(page.locator("#unlike")).to_be_hidden()
    expect(page.locator("[data-difference]")).to_have_count(1)
    page.select_option("#against", "2")
    expect(page.locator("#unlike")).to_have_text(
        "april estimates all trips from at most 5 trips of each person, and unscaled counts at most 5 trips of each "
        "person. Such numbers cannot be compared, so no difference is shown."
    )
    expect(page.locator("[data-difference]")).to_have_count(0)


def test_the_difference_of_a_slice(visit: Opener, days: Served) -> None:
    page = visit(f"{days.address}/#release=1&with=4&layer=difference&slice=weekday&r={MIDDLE}")
    page.wait_for_selector("#map[data-painted^='difference'][data-slice='weekday']")
    values = [
        release.count(*sides(MIDDLE), crs="EPSG:4326", slices="weekday").value
        for release in (days.releases[n][1] for n in (1, 4))
    ]
    difference = page.locator("strong[data-difference]")
    expect(difference).to_have_attribute("data-difference", spell(values[1] - values[0]))
    expect(page.locator("g.series")).to_have_count(2)
    expect(page.locator("g.series.dashed")).to_have_count(1)
    scale = page.locator("#ticks span").all_inner_texts()
    page.locator("#slice").fill("2")
    page.wait_for_selector("#map[data-painted^='difference'][data-slice='weekend']")
    assert page.locator("#ticks span").all_inner_texts() == scale


def test_the_csv_has_every_slice(visit: Opener, days: Served, hourly: Release) -> None:
    page = visit(
        f"{days.address}/#r={MIDDLE}&line={BRIDGE}&slice=08", permissions=["clipboard-read", "clipboard-write"]
    )
    expect(page.locator("figure.profile")).to_have_count(2)
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("() => navigator.clipboard.readText()"))))
    line = shapely.LineString(np.reshape(sides(BRIDGE), (-1, 2)))
    wanted = hourly.profile(tuple(sides(MIDDLE)), crs="EPSG:4326"), hourly.profile(line, crs="EPSG:4326")
    assert len(rows) == 50
    for (total, *each), profile in zip((rows[:25], rows[25:]), wanted, strict=True):
        assert (total["slice"], [row["slice"] for row in each]) == ("all", list(hourly.slices))
        for column, of in (("value", profile.columns[0]), ("low", "low"), ("high", "high")):
            assert [float(row[column]) for row in each] == profile[of].tolist()
        assert float(total["value"]) == sum(float(row["value"]) for row in each)


def test_zones_follow_the_slice(visit: Opener, days: Served, hourly: Release) -> None:
    page = visit(f"{days.address}/#slice=08")
    await_slice(page, "08")
    upload(page, pages.collection(pages.BOX, shapely.box(*sides(OTHER))))
    rows = page.locator("#zones-rows tr")
    expect(rows).to_have_count(2)
    scales = []
    for name in ("08", "03"):
        page.locator("#slice").fill(str(1 + int(name)))
        wanted = hourly.counts([pages.BOX, shapely.box(*sides(OTHER))], crs="EPSG:4326", slices=name).value
        for value in wanted:
            expect(page.locator(f'#zones-rows tr[data-value="{spell(float(value))}"]')).to_have_count(1)
        expect(page.locator("#legend-title")).to_contain_text(f"Distinct trips per zone, {name}:00")
        scales.append(page.locator("#ticks span").all_inner_texts())
    assert scales[0] == scales[1]
    with page.expect_download() as saved:
        page.click("#zones-csv")
    lines = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    assert [line["slice"] for line in lines] == ["03", "03"]


@pytest.mark.parametrize("width", [360, 390])
def test_the_slider_fits_on_a_phone(visit: Opener, days: Served, width: int) -> None:
    page = visit(
        f"{days.address}/#r={MIDDLE};{OTHER}&slice=08",
        viewport={"width": width, "height": 844},
        has_touch=True,
        is_mobile=True,
    )
    expect(page.locator("g.series")).to_have_count(2)
    for name in ("#play", "#slice", "#slice-name", "#legend"):
        expect(page.locator(name)).to_be_in_viewport(ratio=1)
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    legend, bar = (page.locator(name).bounding_box() for name in ("#legend", "#slices"))
    assert legend is not None
    assert bar is not None
    assert legend["y"] + legend["height"] <= bar["y"]
    page.tap("#play")
    await_slice(page, "09")
