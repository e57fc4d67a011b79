"""Answers as numbers, as text and as tables."""

import math

import numpy as np
import pytest
import shapely

from dqam.errors import InputError
from dqam.release.answers import Answer
from tests.release.cases import as_if_private, seeded

HERE = (-30.02, 44.98, -29.98, 45.02)  # in the made-up city


def test_an_answer_is_a_number_with_an_interval() -> None:
    answer = Answer(120.4, 100.0, 140.5)
    value, low, high = answer
    assert (float(answer), value, low, high) == (120.4, 120.4, 100.0, 140.5)
    assert f"{answer:.1f} {answer:>8,.0f}|{answer}" == "120.4      120|120 (100 to 140)"
    assert str(Answer(7.2, math.nan, math.nan)) == "7"
    assert sorted([Answer(3.0, 1.0, 5.0), Answer(2.0, 0.0, 9.0)], key=float)[0].value == 2.0


def test_a_difference_has_an_interval_that_holds_both_extremes() -> None:
    one, other = Answer(120.0, 100.0, 140.0, grown=True), Answer(80.0, 70.0, 95.0, cut=True)
    assert one - other == Answer(40.0, 5.0, 70.0, grown=True, cut=True)
    assert one - 20 == Answer(100.0, 80.0, 120.0, grown=True)
    assert 200 - one == Answer(80.0, 60.0, 100.0, grown=True)
    assert math.isnan((one - Answer(1.0, math.nan, math.nan)).low)
    third = Answer(1 / 3, 1 / 3, 1 / 3) - np.float64(1.0)
    assert third.low == third.value == third.high
    for wrong in ("20", None, [1.0]):
        with pytest.raises(TypeError, match="unsupported operand"):
            one - wrong  # type: ignore[operator]
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong - one  # type: ignore[operator]


def test_what_was_done_to_a_rectangle_is_in_the_answer() -> None:
    release = seeded()
    west, south, east, north = release.grid.bounds
    whole = release.count(west, south, east, north)
    assert (whole.grown, whole.cut) == (False, False)
    inside = release.count(west + (east - west) / 1000, south, east, north)
    assert (inside.grown, inside.cut) == (True, False)
    beyond = release.count(west - (east - west), south, east, north)
    assert beyond.cut


def test_a_rectangle_may_be_one_tuple() -> None:
    release = seeded()
    assert release.count(HERE) == release.count(*HERE)
    assert release.count(list(HERE)) == release.count(np.array(HERE))  # type: ignore[arg-type]
    for wrong in ((1.0, 2.0, 3.0), "place", None):
        with pytest.raises(InputError, match="west, south, east, north"):
            release.count(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="west, south, east, north"):
        release.count(1.0, 2.0)


def test_no_rectangles_have_no_answers() -> None:
    for nothing in ([], np.zeros((0, 4)), ()):
        found = seeded().counts(nothing)
        assert len(found) == 0
        assert found.to_frame().empty
        assert repr(found) == "<Answers to 0 rectangles>"


def test_a_table_of_answers() -> None:
    release = as_if_private(seeded())
    found = release.counts([HERE, release.grid.bounds])
    table = found.to_frame()
    assert list(table.columns) == ["west", "south", "east", "north", "trips", "low", "high", "grown", "cut"]
    assert table.iloc[0, :4].tolist() == list(HERE)
    for i, row in enumerate(table.itertuples()):
        assert Answer(row.trips, row.low, row.high, row.grown, row.cut) == found[i]
    assert repr(found).startswith(f"<Answers to 2 rectangles: {found[0]}, {found[1]}")
    assert repr(release.counts([HERE])) == f"<Answers to 1 rectangle: {found[0]}>"
    assert list(found) == [found[0], found[1]]
    assert found[np.int64(1)] == found[-1]  # type: ignore[index]
    with pytest.raises(TypeError, match="slice"):
        found[:1]  # type: ignore[index]


def test_tables_say_if_numbers_are_not_private() -> None:
    release, line = seeded(), shapely.LineString([(-30.02, 44.98), (-29.98, 45.02)])
    assert "trips_not_private" in release.counts([HERE]).to_frame()
    assert "trips_not_private" in release.count(HERE).to_frame()
    assert "trips_not_private" in (release.count(HERE) - 5).to_frame()
    assert "crossings_not_private" in release.crossings([line]).to_frame()
    assert "crossings" in as_if_private(release).crossings([line]).to_frame()


def test_one_answer_is_compact_and_a_row_of_a_table() -> None:
    answer = Answer(120.4, 100.0, 140.5, grown=True)
    assert repr(answer) == "<Answer: 120 (100 to 140), grown>"
    assert repr(Answer(7.2, math.nan, math.nan)) == "<Answer: 7>"
    (row,) = answer.to_frame().to_dict("records")
    assert row == {"trips": 120.4, "low": 100.0, "high": 140.5, "grown": True, "cut": False, "repaired": False}


def test_wrong_parameters_are_named() -> None:
    release = seeded()
    for wrong in (0, 90, "most", None, math.nan):
        with pytest.raises(InputError, match="confidence must be a number between 0 and 1"):
            release.count(HERE, confidence=wrong)  # type: ignore[arg-type]
    for number in (0, -1, 2.5, "many"):
        with pytest.raises(InputError, match="blocks must be a whole number"):
            release.cells(number)  # type: ignore[arg-type]
    for rectangles in (HERE, "place", 5, None, [HERE[:3]], [[HERE]], [("a", "b", "c", "d")]):
        with pytest.raises(InputError, match="rows of four numbers"):
            release.counts(rectangles)  # type: ignore[arg-type]
