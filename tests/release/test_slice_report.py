"""What the page about a release says of its slices."""

import re
from functools import cache

import numpy as np
import pytest

from dqam.geometry.rectangles import Snapped
from dqam.release.release import Release
from dqam.release.report import report
from dqam.release.slice_report import MOST_CHANGES, describe_slices, find_changes
from tests.html import Page
from tests.release.cases import as_if_private, seeded, sliced


@cache
def made(by: str = "hour", epsilon: str = "40", rhythm: bool = True, n: int = 10_000) -> Release:
    return as_if_private(sliced(by, epsilon=epsilon, n=n, timezone="Atlantic/Azores", rhythm=rhythm))


def test_slices_on_the_page() -> None:
    release = made()
    page = Page(report(release))
    page.assert_loads_nothing()
    assert "By hour" in page.text
    assert "exactly one of 24 slices, by the hour in which it starts, in the time zone Atlantic/Azores." in page.text
    assert "the answers for several slices add up exactly" in page.text
    assert "shrink slightly when a rectangle grows; the answer for all slices never does" in page.text
    pictures = [image for image in page.all("img") if "trips in slice" in image["alt"]]
    assert len(pictures) == 24
    answer = release.by_slice(whole(release))[7][0]
    assert pictures[7]["alt"] == f"Map of the trips in slice 07, about {answer.value:,.0f} in all"
    assert f"07 {answer.value:,.0f} trips{answer.low:,.0f} to {answer.high:,.0f}" in page.text
    assert '--slices "00" dqam query map.nc' in page.text


def whole(release: Release) -> Snapped:
    rows, columns = release.grid.shape
    return Snapped.of(np.array([[0, 0, columns, rows]]), release.grid)


def test_changes_are_those_of_the_release() -> None:
    release = made()
    changes = find_changes(release)
    assert 0 < len(changes) <= MOST_CHANGES
    rows = Page(report(release)).table("Block: west")
    assert len(rows) == len(changes)
    sizes = release.values_by_slice(whole(release))[:, 0]
    for row, change in zip(rows, changes, strict=True):
        place, sides = release.slices.index(change.slice), tuple(map(float, change.sides))
        answer = release.count(sides, slices=change.slice)
        assert (answer.value, answer.low, answer.high) == pytest.approx(
            (change.trips.value, change.trips.low, change.trips.high)
        )
        assert change.expected == pytest.approx(sizes[place] / sizes.sum() * release.count(sides).value)
        assert not answer.low <= change.expected <= answer.high
        assert row[:3] == [" ".join(change.sides), change.slice, f"{answer.value:,.0f}"]
        assert float(row[-1]) == pytest.approx(answer.value / change.expected, rel=0.06)
    assert len({tuple(change.sides) for change in changes}) == len(changes)


def test_noise_is_not_a_change() -> None:
    """In a city without a rhythm, all hours are alike."""
    for epsilon in ("1", "4", "40"):
        release = made(epsilon=epsilon, rhythm=False)
        assert find_changes(release) == []
        facts = describe_slices(release)
        assert facts is not None
        text = Page(report(release)).text
        assert ("Noise hides how the slices differ" in text) == facts.alike
        assert ("In none of the blocks" in text) == (not facts.alike)


def test_many_slices_are_listed() -> None:
    release = made("hour*weekpart", n=2_000)
    facts = describe_slices(release)
    assert facts is not None
    assert facts.pictures is None
    page = Page(report(release))
    assert "By hour and part of the week" in page.text
    rows = page.table("Slice")
    assert [row[0] for row in rows] == list(release.slices)
    for row, answer in zip(rows, release.by_slice(whole(release)), strict=True):
        assert row[1:3] == [f"{answer.value[0]:,.0f}", f"{answer.low[0]:,.0f} to {answer.high[0]:,.0f}"]
    assert len(page.all("img")) == 1


def test_some_slices_of_a_release_are_described_alone() -> None:
    release = made().select(["07", "08"])
    facts = describe_slices(release)
    assert facts is not None
    assert [row.name for row in facts.rows] == ["07", "08"]
    assert sum(row.trips.value for row in facts.rows) == release.trips.value
    assert describe_slices(made().select("07")) is None
    assert "trips in slice" not in report(made().select("07"))


def test_without_slices_nothing_is_said() -> None:
    assert describe_slices(seeded()) is None
    page = Page(report(as_if_private(seeded())))
    assert not re.search(r"\bslice", page.text)
    assert "#slices" not in page.links


def test_rules_in_words() -> None:
    names = {"hour": "hour", "weekday": "day of the week", "month": "month"}
    for by, words in names.items():
        facts = describe_slices(made(by, n=2_000))
        assert facts is not None
        assert facts.by == words
