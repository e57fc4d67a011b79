"""The map of a release as a plot of matplotlib, in the colours of the report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from dqam.errors import InputError
from dqam.geometry.areas import is_geometry, on_map
from dqam.geometry.grid import Grid, is_degrees
from dqam.geometry.rectangles import Snapped
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.release.answers import Answers
from dqam.release.formatting import percent
from dqam.release.picture import BLOCKS, CIVIDIS, EMPTY, colour_range, place_of
from dqam.release.published_map import PublishedMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 0.02  # around the map, relative to its sides, so that its border is visible
BORDER = "#7f8896"  # of the map, on white and on black
STEEPEST = 89.0  # degrees of latitude
LISTED = 6  # slices in the title, at most


def plot(
    release: PublishedMap,
    ax: Axes | None,
    area: Any,
    blocks: int | None,
    crs: str | None,
    confidence: float,
    legend: bool,
    figsize: tuple[float, float] | None,
    options: dict[str, Any],
) -> Axes:
    """Draw the map, and the outline of an area if one is given; returns the axes."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise InputError('A plot needs matplotlib, which is not installed: pip install "dqam[plot]".') from None
    asked = None if area is None else release.counts(_one(area), crs=crs, confidence=confidence)
    if ax is None:
        ax = pyplot.subplots(figsize=figsize, layout="constrained")[1]
    elif figsize is not None:
        raise InputError("Give ax or figsize, not both: the figure of ax already has a size.")
    _draw(release, ax, blocks, legend, dict(options))
    _frame(release.grid, ax)
    title = _title(release)
    if asked is not None:
        _outline(asked, release.grid, ax)
        interval = "" if math.isnan(asked.low[0]) else f", {percent(confidence)} interval"
        title += f"\n{asked[0]} trips in the area{interval}"
    ax.set_title(title, loc="left", fontsize="medium", parse_math=False)
    return ax


def _one(area: Any) -> Any:
    """One area as many; a rectangle is four numbers."""
    return [area] if is_geometry(area) or np.ndim(area) == 1 else area


def _title(release: PublishedMap) -> str:
    provenance, histogram = release.provenance, release.histogram
    title = provenance.title if provenance.private else f"NOT PRIVATE: {provenance.title}"
    if not isinstance(histogram, SlicedHistogram) or histogram.complete:
        return title
    names = (
        release.slices if len(release.slices) <= LISTED else (*release.slices[: LISTED - 1], "...", release.slices[-1])
    )
    return f"{title}, {provenance.slices} {', '.join(names)}"


def _draw(release: PublishedMap, ax: Axes, blocks: int | None, legend: bool, options: dict[str, Any]) -> None:
    """Draw the cells, or blocks of cells, and the colour bar."""
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    grid = release.grid
    found = release.cells(blocks if blocks is not None or max(grid.shape) <= BLOCKS else BLOCKS)
    cells = found.rectangles.cells
    east, north = (np.unique(cells[:, ends]) for ends in ([0, 2], [1, 3]))
    counts = found.value.reshape(len(north) - 1, len(east) - 1)
    low, high = colour_range(counts)
    if "norm" not in options:
        low, high = options.pop("vmin", low), options.pop("vmax", high)
        options["norm"] = LogNorm(low, high)
        counts = np.where(counts > 0, np.maximum(counts, low), counts)  # so that few trips do not look like none
    cmap = options.pop("cmap", None)
    colours = LinearSegmentedColormap.from_list("dqam", CIVIDIS) if cmap is None else colormaps.get_cmap(cmap)
    shown = np.ma.masked_less_equal(counts, 0)
    x, _ = grid.from_cells(east.astype(float), np.zeros(len(east)))
    _, y = grid.from_cells(np.zeros(len(north)), north.astype(float))
    options = {"rasterized": True, **options, "cmap": colours.with_extremes(bad=EMPTY, under=EMPTY)}
    image = ax.pcolormesh(x, y, shown, **options)
    if legend:
        step = int(max(np.diff(east).max(), np.diff(north).max()))
        none: dict[str, Any] = {"extend": "min", "extendfrac": 0.05, "extendrect": True} if shown.mask.any() else {}
        bar = ax.figure.colorbar(image, ax=ax, label=f"Distinct trips through {place_of(grid, step)}", **none)
        if none:
            bar.ax.text(0.5, -0.065, "none", transform=bar.ax.transAxes, ha="center", va="top", fontsize="small")


def _frame(grid: Grid, ax: Axes) -> None:
    """Show the whole map, with its border, at its true proportions."""
    from matplotlib.patches import Rectangle

    west, south, east, north = grid.bounds
    width, height = east - west, north - south
    ax.add_patch(Rectangle((west, south), width, height, fill=False, edgecolor=BORDER, linewidth=1))
    ax.set_xlim(west - MARGIN * width, east + MARGIN * width)
    ax.set_ylim(south - MARGIN * height, north + MARGIN * height)
    degrees = is_degrees(grid.crs)
    middle = math.radians(max(-STEEPEST, min(STEEPEST, (south + north) / 2)))
    ax.set_aspect(1 / math.cos(middle) if degrees else "equal")
    ax.set_xlabel("longitude" if degrees else "x")
    ax.set_ylabel("latitude" if degrees else "y")
    ax.locator_params(nbins=5)
    ax.ticklabel_format(useOffset=False, style="plain")


def _outline(asked: Answers, grid: Grid, ax: Axes) -> None:
    """Draw the border of an area as it was answered: rectangles of whole cells, and what is on the map."""
    from matplotlib import patheffects

    if isinstance(asked.asked, Snapped):
        shape = shapely.box(*asked.asked.bounds[0])
    else:
        shape = on_map(asked.asked.shapes[:1], grid)[0]
    edge = [patheffects.Stroke(linewidth=4, foreground="black"), patheffects.Normal()]
    for ring in shapely.get_rings(shapely.get_parts(shape)):
        x, y = shapely.get_coordinates(ring).T
        ax.plot(x, y, color="white", linewidth=2, path_effects=edge, scalex=False, scaley=False)
