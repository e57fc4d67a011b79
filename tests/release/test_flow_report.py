"""What the page about a release says of its flows."""

import math
import re

import numpy as np
import pytest
import shapely

from dqam.release.flow_report import ARROWS, ROWS, FlowReport, describe_flows
from dqam.release.picture import draw_picture
from dqam.release.release import Release
from dqam.release.report import report
from tests.html import Page
from tests.release.cases import as_if_private, seeded, with_flows


def described(release: Release) -> FlowReport:
    found = describe_flows(release, draw_picture(release))
    assert found is not None
    return found


def test_flows_on_the_page() -> None:
    release = as_if_private(with_flows())
    page, found = Page(report(release)), described(release)
    page.assert_loads_nothing()
    assert "Flows between areas" in page.text
    assert f"divided into {found.count} blocks of {found.block}" in page.text
    rows = page.table("#")
    assert len(rows) == len(found.rows) <= ROWS
    for number, (row, expected) in enumerate(zip(rows, found.rows, strict=True), 1):
        ends = (tuple(map(float, expected.origin)), tuple(map(float, expected.destination)))
        answer = release.flow(*ends)
        assert tuple(answer) == pytest.approx(tuple(expected.answer))
        assert row[0] == str(number)
        assert row[-2:] == [f"{answer.value:,.0f}", f"{answer.low:,.0f} to {answer.high:,.0f}"]
    assert "dqam flows map.nc --areas zones.geojson -o flows.csv" in page.text
    assert "too few trips to tell: their intervals contain 0" in page.text
    assert re.search(r"Flows\s*between \d+ x \d+ tiles", page.text)


def test_arrows_are_the_largest_flows_between_different_blocks() -> None:
    release = with_flows()
    found = described(release)
    assert 0 < len(found.arrows) <= ARROWS
    trips = [arrow.trips for arrow in found.arrows]
    assert trips == sorted(trips)  # the largest are drawn last
    assert [arrow.label for arrow in found.arrows[::-1]][: len(found.rows)] == list(range(1, len(found.rows) + 1))
    assert found.arrows[-1].width == max(arrow.width for arrow in found.arrows)
    first, grid = found.rows[0], release.grid
    assert first.origin != first.destination
    start = np.array(re.findall(r"[\d.]+", found.arrows[-1].line)[:2], float)
    west, south, east, north = map(float, first.origin)
    wide, high = grid.bounds[2] - grid.bounds[0], grid.bounds[3] - grid.bounds[1]
    block = shapely.box(
        (west - grid.bounds[0]) / wide * found.width,
        (grid.bounds[3] - north) / high * found.height,
        (east - grid.bounds[0]) / wide * found.width,
        (grid.bounds[3] - south) / high * found.height,
    )
    assert block.contains(shapely.Point(start))
    assert 0 < found.within < 1
    blocks = math.prod(int(side) for side in re.findall(r"\d+", found.count))
    assert found.pairs == blocks * (blocks - 1)


def test_without_flows_nothing_is_said() -> None:
    release = seeded()
    assert describe_flows(release, draw_picture(release)) is None
    text = report(release)
    assert "Flows between areas" not in text
    assert "#flows" not in text


def test_a_map_with_hardly_any_trips_has_no_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dqam.mechanisms.flows.tile_side", lambda signal: 1)
    release = with_flows("0.01", 30)
    found = described(release)
    assert found.arrows == []
    text = Page(report(release)).text
    assert "too few trips for this epsilon to measure which places they connect" in text
    assert "blocks of" not in text
    assert "The largest flows" not in text


def test_sliced_releases_have_flows_too() -> None:
    assert "Flows between areas" in Page(report(with_flows(by="weekpart"))).text
