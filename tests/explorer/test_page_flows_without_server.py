"""Flows in the page in one file: the answers of the library, from a browser without a network."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import shapely
from playwright.sync_api import Error, Page, expect

from dqam.explorer import standalone
from dqam.explorer.flows import place, tiles_of
from dqam.geometry.flow_table import Ends, FlowSlices, FlowTable
from dqam.geometry.grid import Grid, is_degrees
from dqam.geometry.lattice import Lattice
from dqam.release.release import Release
from tests.explorer import random_areas
from tests.explorer import test_page_without_server as pages
from tests.explorer.conftest import MELBOURNE, numbered
from tests.explorer.test_page_flows import (
    QUARTERS,
    A,
    B,
    await_flows,
    choose,
    click_zone,
    drop_quarters,
    expect_table,
    sides,
    table,
)

browser, open_page = pages.browser, pages.open_page  # fixtures

CLOSE = 1e-9  # relative to the upper end of an interval
Opener = Callable[..., Page]
ASK = """async ({ pairs, areas, zones, slices }) => {
  const ask = (path, body) => dqam.ask(0, path, JSON.stringify(body), { slice: slices });
  const flow = [];
  for (const [from, to] of pairs) flow.push(await ask("flow", { from, to }));
  const flows = [];
  for (const [i, area] of areas.entries()) {
    const way = i % 2 ? "to" : "from";
    for (const more of [{ by: "cells" }, { by: "tiles" }, { zones }]) {
      flows.push(await ask("flows", { [way]: area, ...more }));
    }
  }
  const largest = [await ask("flows/largest", { k: 10000 }), await ask("flows/largest", { zones, k: 10000 })];
  return { flow, flows, largest };
}"""


def made_up(grid: Grid, seed: int, slices: tuple[str, ...] = ()) -> FlowTable:
    """A table on lattices of uneven cells."""
    rng = np.random.default_rng(seed)

    def some(lines: np.ndarray, count: int) -> np.ndarray:
        inner = np.sort(rng.choice(lines[1:-1], count - 1, replace=False))
        return np.concatenate([lines[:1], inner, lines[-1:]])

    cells = Lattice(*(some(np.arange(side + 1), 14) for side in (grid.columns, grid.rows)))
    tiles = Lattice(*(some(lines, 5) for lines in (cells.east, cells.north)))
    coarse = Lattice(*(some(lines, 2) for lines in (tiles.east, tiles.north)))
    of = tiles.within(cells).labels.ravel()

    def ends() -> Ends:
        shares = rng.gamma(0.5, 1, cells.cells) + 1e-6
        variance = rng.gamma(0.3, 0.01, cells.cells)
        return Ends(shares / np.bincount(of, shares)[of], np.where(rng.random(cells.cells) < 0.1, 0.2, variance))

    shape = tiles.cells, tiles.cells
    by_slice = None
    if slices:
        shares = rng.gamma(0.5, 1, (len(slices), coarse.cells, coarse.cells))
        by_slice = FlowSlices(slices, coarse, shares / shares.sum(axis=0), rng.gamma(1, 0.05, shares.shape))
    trips = np.where(rng.random(shape) < 0.3, 0.0, rng.gamma(0.3, 200, shape))
    return FlowTable(tiles, cells, trips, rng.gamma(1, 50, shape), ends(), ends(), 0.17, by_slice)


def geometry(area: Any) -> Any:
    """An area as the page is asked about it."""
    return json.loads(shapely.to_geojson(area)) if isinstance(area, shapely.Geometry) else area


def collection(areas: list[Any]) -> dict[str, Any]:
    features = [{"type": "Feature", "properties": None, "geometry": geometry(area)} for area in areas]
    return {"type": "FeatureCollection", "features": features}


def farthest(told: dict[str, Any], wanted: Any, known: Any = slice(None)) -> float:
    """The largest difference of trips and intervals, relative to the upper end of the interval."""
    off = 0.0
    for name in ("trips", "low", "high"):
        found = np.array(told[name], np.float64)[known]
        assert found.shape == wanted[name].shape
        off = max(off, float((np.abs(found - wanted[name]) / np.maximum(wanted["high"], 1e-9)).max()))
    return off


def compare(page: Page, release: Release, count: int, seed: int, slices: str | None = None) -> float:
    """Ask the page and the library about random areas, as pairs, as zones and one at a time; the largest difference."""
    rng, grid = np.random.default_rng(seed), release.grid
    areas: list[Any] = random_areas.areas(rng, grid, count)
    areas += random_areas.rectangles(rng, grid, count // 4).tolist()
    rng.shuffle(areas)
    pairs: list[tuple[Any, Any]] = [*zip(areas[::2], areas[1::2], strict=False)]
    pairs += [(areas[0], None), (None, areas[1]), (None, None)]
    zones, ones = random_areas.areas(rng, grid, 20), areas[:6]
    west, south, east, north = grid.bounds
    far = shapely.box(east + 0.1 * (east - west), south, east + 0.2 * (east - west), north)
    told = page.evaluate(
        ASK,
        {
            "pairs": [[geometry(area) for area in pair] for pair in pairs],
            "areas": [geometry(area) for area in ones],
            "zones": collection([far, *zones]),
            "slices": slices,
        },
    )
    assert release.flow_table is not None
    tiles = list(tiles_of(release.flow_table, grid).shapes)
    off = []
    for found, pair in zip(told["flow"], pairs, strict=True):
        numbers = np.array(
            [[found[name] for name in ("value", "low", "high")], list(release.flow(*pair, slices=slices))]
        )
        one, other = numbers.astype(np.float64)
        assert np.array_equal(np.isnan(one), np.isnan(other))  # no interval of all trips
        off.append(float(np.nanmax(np.abs(one - other)) / np.nanmax(other)))
    by = 0
    for i, area in enumerate(ones):
        end = {"to" if i % 2 else "from_": area}
        for places, known in ((None, slice(None)), (tiles, slice(None)), (zones, slice(1, None))):
            found, by = told["flows"][by], by + 1
            wanted = release.flows(places, **end, slices=slices)
            off.append(farthest(found, wanted, known))
            total = release.flow(*((None, area) if i % 2 else (area, None)), slices=slices)
            assert found["total"]["value"] == pytest.approx(total.value)
            if places is not None and is_degrees(grid.crs):
                np.testing.assert_allclose(found["centres"][known], place(places, grid, "grid").centres(), rtol=1e-9)
        assert found["trips"][0] is found["low"][0] is found["high"][0] is found["centres"][0] is None
    for found, places, first in ((told["largest"][0], None, 0), (told["largest"][1], zones, 1)):
        wanted = release.largest_flows(10_000, places, slices=slices).sort_values(["origin", "destination"])
        assert (np.diff(found["trips"]) <= 0).all()
        order = np.lexsort((found["destination"], found["origin"]))  # pairs with as many trips may be in any order
        columns = {name: np.array(found[name])[order] for name in ("origin", "destination", "trips", "low", "high")}
        for name in ("origin", "destination"):
            assert np.array_equal(columns[name] - first, wanted[name])
        off.append(farthest(columns, wanted))
    return max(off)


def test_answers_are_those_of_the_library(open_page: Opener, first: Release, flowing: Release) -> None:
    page = open_page(flowing)
    assert compare(page, flowing, 60, 1) < CLOSE
    for seed, slices in enumerate(("weekend", "weekday"), 2):
        assert compare(page, flowing, 30, seed, slices) < CLOSE
    uneven = replace(first, flow_table=made_up(first.grid, 4))
    assert compare(open_page(uneven), uneven, 120, 5) < CLOSE
    names = replace(flowing, flow_table=made_up(flowing.grid, 6, flowing.slices))
    page = open_page(names)
    assert compare(page, names, 60, 7) < CLOSE
    assert compare(page, names, 60, 8, "weekend") < CLOSE


PLANTED = [
    ("UNEVEN = 0.5", "UNEVEN = 0.500001"),
    ("part.inside += fraction ** 2 *", "part.inside += fraction *"),
    ("Math.max(this.sums[tile] - inside, 0)", "this.sums[tile]"),
    ("(out * share) ** 2", "out * share"),
    ("variance += ofOut * sum ** 2;", ""),
    ("arriving[at].variance * into[at] ** 2", "0"),
    ("alike * Math.max(number - 1, 0)", "alike * number"),
    ("(i ? -area : area)", "area"),
    ("+ all * share * (1 - share)", ""),
    ("table.between(there.leaving[0], here.arriving[0])", "table.between(here.leaving[0], there.arriving[0])"),
    ("known.length ** 2 <= ALL_PAIRS ? 0 : LEAST", "LEAST"),
    ("if (inside(point) === inside(before))", "if (inside(point))"),
]


@pytest.mark.parametrize(("right", "wrong"), PLANTED)
def test_planted_errors_are_found(
    open_page: Opener, first: Release, flowing: Release, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    """Each is in one of the modules that answer about flows."""
    read, changed = standalone._text, []

    def planted(name: str) -> str:
        text = read(name)
        if right in text and name.startswith("engine/"):
            changed.append(name)
            return text.replace(right, wrong)
        return text

    monkeypatch.setattr(standalone, "_text", planted)
    monkeypatch.setattr(standalone, "_frame", standalone._frame.__wrapped__)
    release = replace(flowing, flow_table=made_up(flowing.grid, 6, flowing.slices))
    page = open_page(release)
    assert len(changed) == 1
    try:
        off = compare(page, release, 40, 7, "weekend")
    except (AssertionError, Error):  # the page itself may have noticed
        return
    assert off > CLOSE


def test_a_number_that_is_off_is_found(open_page: Opener, flowing: Release) -> None:
    right = flowing.flow_table
    assert right is not None
    for name in ("trips", "variance"):
        numbers = getattr(right, name).copy()
        numbers[3, 5] += 1e-4
        page = open_page(replace(flowing, flow_table=replace(right, **{name: numbers})))
        assert compare(page, flowing, 20, 9) > CLOSE


def test_a_map_in_metres(open_page: Opener, flowing: Release, first: Release) -> None:
    moved = numbered(Grid(MELBOURNE, *flowing.grid.shape, "EPSG:28355"), first)
    release = replace(moved, flow_table=made_up(moved.grid, 10))
    west, south, _, _ = MELBOURNE
    page = open_page(release, f"#r={west + 5_000},{south + 5_000},{west + 12_000},{south + 9_000}&flows=from:0")
    assert compare(page, release, 40, 11) < CLOSE
    await_flows(page, "from Rectangle A")
    assert table(page)
    names = page.locator("#flows-rows th").all_inner_texts()
    assert any(re.fullmatch(r"\d[\d.,]* k?m [NESW]+", name) for name in names)
    with page.expect_download() as saved:
        page.click("#flows-csv")
    assert ",x,y," in saved.value.path().read_text().splitlines()[0]


def test_it_shows_flows_as_the_explorer_does(open_page: Opener, flowing: Release) -> None:
    """A drawn area in both directions, by tile and cell, by slice, by zone, and the trips between two areas."""
    page = open_page(flowing, f"#r={A};{B}&flows=from:0")
    await_flows(page, "from Rectangle A")
    assert flowing.flow_table is not None
    tiles = list(tiles_of(flowing.flow_table, flowing.grid).shapes)
    for way, slices in (("from", None), ("to", None), ("to", "weekend")):
        if slices:
            page.locator("#slice").fill(str(1 + flowing.slices.index(slices)))
        choose(page, way)
        await_flows(page, f"{way} Rectangle A {slices or ''}".strip())
        wanted = flowing.flows(tiles, **{"to" if way == "to" else "from_": sides(A)}, slices=slices)
        expect_table(page, wanted["trips"], wanted["low"], wanted["high"])
        between = flowing.flow(sides(B), sides(A), slices=slices)
        expect(page.locator("[data-pair='B A'] td").first).to_have_text(f"{between.value:,.0f}")
    drop_quarters(page)
    click_zone(page, 3)
    await_flows(page, "to North-east weekend")
    wanted = flowing.flows(QUARTERS, to=QUARTERS[3], slices="weekend")
    expect_table(page, wanted["trips"], wanted["low"], wanted["high"])
    page.click("#about-open")
    expect(page.locator("#about")).to_contain_text("how many trips go from one area to another")


def test_a_release_without_flows(open_page: Opener, first: Release) -> None:
    page = open_page(first, f"#r={A}&flows=from:0")
    expect(page.locator("#flows")).to_be_hidden()
    page.click("#about-open")
    expect(page.locator("#about")).to_contain_text("dqam publish --flows")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("flow", {"from": geometry(shapely.box(10, 50, 11, 51))}, "not meet the map"),
        ("flow", {"from": [10, 50, 11, 51]}, "not meet the map"),
        ("flow", {"from": collection(QUARTERS)}, "4 features; give one area"),
        ("flows", {}, "Give one area"),
        ("flows", {"from": sides(A), "to": sides(B)}, "Give one area"),
        ("flows", {"from": sides(A), "zones": collection([shapely.box(10, 50, 11, 51)])}, "not meet the map"),
        ("flows/largest", {"zones": collection([QUARTERS[0]] * 2_001)}, "2,001 zones, more than 2,000"),
    ],
)
def test_errors(open_page: Opener, flowing: Release, path: str, body: Any, words: str) -> None:
    ask = "([path, body]) => dqam.ask(0, path, body, {}).then(() => '', (error) => error.message)"
    assert words in open_page(flowing).evaluate(ask, [path, json.dumps(body)])
