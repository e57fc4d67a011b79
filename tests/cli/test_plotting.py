"""Pictures of counts, in the terminal and as files."""

from pathlib import Path

import numpy as np
import pytest

from dqam.cli.plotting import draw_maps, sketch
from dqam.errors import InputError
from dqam.geometry.grid import Grid

GRID = Grid((0, 0, 4, 4), 4, 4)
COUNTS = np.array([[9, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 9]])


def test_north_is_at_the_top() -> None:
    assert sketch(COUNTS, GRID).splitlines() == ["   █", "█   "]
    assert set(sketch(0 * COUNTS, GRID)) == {" ", "\n"}


@pytest.mark.parametrize(("name", "begins"), [("map.png", b"\x89PNG"), ("map.svg", b"<?xml"), ("map.pdf", b"%PDF")])
def test_the_ending_decides_the_form(name: str, begins: bytes, tmp_path: Path) -> None:
    draw_maps({"Trips": COUNTS, "Nothing": 0 * COUNTS}, GRID, tmp_path / name, "a note", "trips")
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_another_ending_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a picture file"):
        draw_maps({"Trips": COUNTS}, GRID, tmp_path / "map.xyz", "a note", "trips")
    assert not list(tmp_path.iterdir())
