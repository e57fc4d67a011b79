"""Pictures of a grid of counts: in the terminal, and as an image with axes, scale and legend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Numbers
from dqam.geometry.grid import Grid, is_degrees
from dqam.runtime.files import replacing

SHADES = " ░▒▓█"


def sketch(counts: Numbers, grid: Grid, width: int = 64) -> str:
    """`counts` (rows x columns) as lines of text, north at the top, shaded by the logarithm.

    >>> print(sketch(np.array([[0, 100], [1, 10]]), Grid((0, 0, 1, 1), 2, 2), width=2))
    ░█
    """
    rows, columns = counts.shape
    metres = grid.cell_metres
    width = min(width, columns)
    # a character is about twice as high as it is wide
    height = min(rows, max(1, round(width * rows * metres[1] / (columns * metres[0]) / 2)))
    down, across = np.arange(rows) * height // rows, np.arange(columns) * width // columns
    sums = np.zeros((height, width))
    np.add.at(sums, (down[:, None], across[None, :]), np.maximum(counts, 0))
    level = np.log1p(sums)
    shade = np.where(sums > 0, np.ceil(level / (level.max() or 1) * (len(SHADES) - 1)), 0).astype(int)
    return "\n".join("".join(SHADES[s] for s in line) for line in shade[::-1])


def draw_maps(panels: Mapping[str, Numbers], grid: Grid, path: str | os.PathLike[str], note: str, unit: str) -> None:
    """Save counts (rows x columns), each under its title, as an image (PNG, SVG or PDF by the ending of `path`).

    All are shaded by the logarithm, on one scale.
    """
    try:
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise InputError("Drawing needs matplotlib: pip install 'dqam[plot]'.") from None

    west, south, east, north = grid.bounds
    width, height = grid.cell_metres
    aspect = (height * grid.rows / (north - south)) / (width * grid.columns / (east - west))
    layout = ConstrainedLayoutEngine(rect=(0, 0.025, 1, 0.975))
    figure = Figure(figsize=(2 + 7 * len(panels), 8), dpi=150, layout=layout)
    shown = [np.ma.masked_less_equal(counts, 0) for counts in panels.values()]
    seen = np.concatenate([counts.compressed() for counts in shown]).astype(np.float64)
    scale = LogNorm(max(1.0, seen.min()) if len(seen) else 1.0, seen.max(initial=2.0))
    each = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, counts, title in zip(each, shown, panels, strict=True):
        axes.set_facecolor("#0b1320")
        image = axes.imshow(
            counts,
            origin="lower",
            extent=(west, east, south, north),
            aspect=aspect,
            cmap="cividis",
            norm=scale,
            interpolation="nearest",
        )
        axes.set_title(title, loc="left", fontsize=13, fontweight="bold", parse_math=False)
        axes.set_xlabel("longitude" if is_degrees(grid.crs) else "x")
        axes.ticklabel_format(useOffset=False)
        axes.tick_params(labelsize=8)
        _scale_bar(axes, grid)
    each[0].set_ylabel("latitude" if is_degrees(grid.crs) else "y")
    figure.colorbar(image, ax=each, label=f"{unit} (log scale; dark: fewer than one)", shrink=0.85)
    figure.text(0.012, 0.005, note, fontsize=8, color="#555555")
    with replacing(path) as temporary:
        try:
            figure.savefig(temporary)
        except ValueError:
            raise InputError(f"{path} is not a picture file; use a name that ends with .png, .svg or .pdf.") from None


def _scale_bar(axes: Any, grid: Grid) -> None:
    """A bar of a round length, about a fifth of the picture's width."""
    west, south, east, north = grid.bounds
    metres_wide = grid.cell_metres[0] * grid.columns
    power = 10 ** np.floor(np.log10(metres_wide / 5))
    length = max(step * power for step in (1, 2, 5) if step * power <= metres_wide / 5)
    share = length / metres_wide
    left, low = west + 0.04 * (east - west), south + 0.04 * (north - south)
    axes.plot([left, left + share * (east - west)], [low, low], color="white", linewidth=3, solid_capstyle="butt")
    label = f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
    axes.text(left, low + 0.012 * (north - south), label, color="white", fontsize=9, va="bottom")
