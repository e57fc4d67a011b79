"""Rows that are in order are read as what they are, in every format."""

from pathlib import Path

import numpy as np
import pytest

from dqam.audit.formats import FORMATS, SLICES, TripRow
from dqam.sources import read

PATH = [(10.1, 50.1), (10.2, 50.2), (10.4, 50.3)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_trip_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    pieces = [[point] for point in PATH] if form.by_point else [PATH]
    rows = [TripRow("7", "70", 1_372_636_800 + i, piece) for i, piece in enumerate(pieces)]
    trips = read(form.write(tmp_path, rows)).trips()
    assert len(trips) == 1
    np.testing.assert_allclose(np.column_stack([trips.x, trips.y]), PATH)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_sliced_into_as_many_slices(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    assert len(form.slicing) == SLICES
    rows = [TripRow(str(i), str(i), 1_372_636_800 + 50_000 * i, PATH[:1] if form.by_point else PATH) for i in range(60)]
    slices = read(form.write(tmp_path, rows)).sliced(form.slicing).trips().slices
    assert slices is not None
    assert len(set(slices.tolist())) > 2


def test_a_row_is_shown_as_it_is_written(tmp_path: Path) -> None:
    form, row = FORMATS["points, CSV"], TripRow("7", 'a"b', 5, [(10.5, 50.25)], {"kind": "bike", "lat": "ten"})
    line = b'7,"a""b",5,bike,10.5,ten'
    assert form.shown(row) == str(line)
    assert form.write(tmp_path, [row]).read_bytes().splitlines() == [b"uid,tid,datetime,mode,lng,lat", line]
