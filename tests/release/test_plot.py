"""Plots: what is drawn where, in which colours, and what the title says."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pytest
import shapely

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.release.formatting import TIMES
from dqam.release.picture import CIVIDIS, EMPTY
from dqam.release.release import Release
from tests.release.cases import as_if_private, seeded, sliced

matplotlib.use("Agg")
from matplotlib import colors, pyplot

HERE = (-30.02, 44.98, -29.98, 45.02)  # in the made-up city


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def mesh(ax: Any) -> Any:
    (drawn,) = ax.collections
    return drawn


def with_empty_corner(release: Release) -> Release:
    """The same, with no trips through the south-western cell."""
    faces = release.histogram.faces.copy()
    faces[0, 0] = 0.0
    return replace(release, histogram=replace(release.histogram, faces=faces))


def test_cells_are_drawn_where_they_are() -> None:
    release = seeded()
    ax = release.plot()
    west, south, east, north = release.grid.bounds
    corners = mesh(ax).get_coordinates()
    assert corners.shape == (33, 33, 2)
    np.testing.assert_allclose(corners[0, 0], (west, south))
    np.testing.assert_allclose(corners[-1, -1], (east, north))
    counts, drawn = release.cells().value.reshape(32, 32), mesh(ax).get_array()
    some = counts >= mesh(ax).norm.vmin
    np.testing.assert_array_equal(drawn[some], counts[some])
    assert ax.get_xlabel() == "longitude"
    assert ax.get_aspect() == pytest.approx(1 / np.cos(np.radians(45)), rel=1e-3)
    assert ax.get_xlim()[0] < west < east < ax.get_xlim()[1]
    assert ax.get_ylim()[0] < south < north < ax.get_ylim()[1]


def test_a_map_in_metres_has_equal_axes() -> None:
    plane = Grid((731_000, 4_982_000, 742_000, 4_991_000), 36, 44, crs="EPSG:32625")
    ax = seeded(grid=plane).plot(area=(735_000, 4_985_000, 738_000, 4_988_000))
    assert ax.get_aspect() == 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_none_few_and_outside_look_different() -> None:
    ax = with_empty_corner(seeded()).plot()
    ax.figure.canvas.draw()
    faces = mesh(ax).get_facecolors()
    assert colors.to_hex(faces[0]) == EMPTY
    assert {colors.to_hex(face) for face in faces} & {EMPTY, CIVIDIS[0]} == {EMPTY, CIVIDIS[0]}
    assert colors.to_hex(ax.get_facecolor()) == "#ffffff"
    (bar,) = [each for each in ax.figure.axes if each is not ax]
    assert [text.get_text() for text in bar.texts] == ["none"]
    assert bar.get_ylabel().startswith(f"Distinct trips through a cell (310 {TIMES} 310 m)")


def test_axes_and_options_of_the_user_are_used() -> None:
    ax = pyplot.figure().subplots()
    release = seeded()
    assert release.plot(ax, legend=False, cmap="viridis", vmin=5, vmax=50, alpha=0.5, blocks=8) is ax
    drawn = mesh(ax)
    assert ax.figure.axes == [ax]
    assert (drawn.norm.vmin, drawn.norm.vmax, drawn.get_alpha(), drawn.cmap.name) == (5, 50, 0.5, "viridis")
    assert drawn.get_array().size == 64
    linear = colors.Normalize(0, 100)
    assert mesh(release.plot(norm=linear)).norm is linear
    assert release.plot(figsize=(4, 3)).figure.get_size_inches().tolist() == [4, 3]
    with pytest.raises(InputError, match="ax or figsize"):
        release.plot(ax, figsize=(4, 3))


def test_an_area_is_outlined_and_its_answer_is_said() -> None:
    release = as_if_private(seeded())
    ax = release.plot(area=HERE, confidence=0.5)
    found = release.count(HERE, confidence=0.5)
    assert ax.get_title("left") == f"A city\n{found} trips in the area, 50\N{NO-BREAK SPACE}% interval"
    (line,) = ax.lines
    np.testing.assert_allclose(shapely.Polygon(line.get_xydata()).bounds, release.counts([HERE]).rectangles.bounds[0])
    ring = shapely.Point(-30, 45).buffer(0.02).difference(shapely.Point(-30, 45).buffer(0.01))
    (outer, inner) = release.plot(area=ring).lines
    assert shapely.Polygon(outer.get_xydata(), [inner.get_xydata()]).equals_exact(ring, 1e-9, normalize=True)
    moved = shapely.box(731_000, 4_985_000, 738_000, 4_988_000)
    assert len(release.plot(area=moved, crs="EPSG:32625").lines) == 1
    plain = seeded(mechanism="laplace").plot(area=HERE).get_title("left")
    assert plain.startswith("NOT PRIVATE: A city\n")
    assert plain.endswith(" trips in the area")


def test_a_title_is_text_and_no_formula() -> None:
    release = seeded()
    odd = replace(release, provenance=replace(release.provenance, title=r"$\frac{$"))
    odd.plot().figure.canvas.draw()


def test_slices_are_chosen_and_named() -> None:
    release = as_if_private(sliced())
    ax = release.plot(slices=["07", "08"])
    assert ax.get_title("left") == "A city by day, hour 07, 08"
    counts, drawn = release.select(["07", "08"]).cells().value, mesh(ax).get_array().ravel()
    some = counts >= mesh(ax).norm.vmin
    np.testing.assert_array_equal(drawn[some], counts[some])
    assert release.plot().get_title("left") == "A city by day"
    assert release.plot(slices=release.slices[:9]).get_title("left").endswith("hour 00, 01, 02, 03, 04, ..., 08")


def test_without_matplotlib_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match=r'pip install "dqam\[plot\]"'):
        seeded().plot()
