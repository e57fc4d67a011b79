"""What a notebook shows of a release: a summary, and the explorer in a frame.

The summary loads nothing and runs nothing. Its colours are those of the notebook, so it suits light and dark themes.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import numpy as np
from markupsafe import escape

from dqam.errors import InputError
from dqam.geometry.sliced_histogram import SlicedHistogram
from dqam.release.formatting import crs_in_words, percent, render, shortest_sides
from dqam.release.picture import draw_picture
from dqam.release.published_map import CONFIDENCE, PublishedMap

SIDE = 300  # pixels of the longer side of the picture
LISTED = 8  # slices that are listed, at most
PAGES = "dqam.explorer"  # its `make_page` makes the explorer; by name, as releases are independent of it


def describe(release: PublishedMap) -> str:
    """A release in HTML: picture, guarantee, number of trips, and how to ask."""
    picture, grid, names = draw_picture(release), release.grid, release.slices
    width = SIDE if picture.aspect >= 1 else SIDE * picture.aspect
    columns, rows = max(1, grid.columns // 4), max(1, grid.rows // 4)
    west, south = (grid.columns - columns) // 2, (grid.rows - rows) // 2
    some = isinstance(release.histogram, SlicedHistogram) and not release.histogram.complete
    text = render(
        "release/templates/notebook.html",
        provenance=release.provenance,
        grid=grid,
        crs=crs_in_words(grid),
        picture=picture,
        width=max(1, round(width)),
        height=max(1, round(width / picture.aspect)),
        trips=release.trips,
        confidence=percent(CONFIDENCE),
        counted=release.provenance.counted,
        slices=names if len(names) <= LISTED else (*names[: LISTED - 2], "…", names[-1]),
        slices_in_all=len(names),
        selected=some,
        has_flows=release.flow_table is not None,
        sides=", ".join(shortest_sides(np.array([west, south, west + columns, south + rows]), grid)),
        note=release.note,
    )
    return text.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be sent to a browser


@dataclass(frozen=True, repr=False)
class Explorer:
    """The explorer of a release, which a notebook shows in a frame of its own."""

    page: str
    height: int

    @classmethod
    def of(cls, release: PublishedMap, height: int) -> Explorer:
        """The explorer of a release, `height` pixels high."""
        make_page = getattr(import_module(PAGES), "make_page", None)
        if make_page is None:
            raise InputError(
                "This version of dqam has no explorer for notebooks; run `dqam serve` on the file instead."
            )
        return cls(make_page(release), height)

    def __repr__(self) -> str:
        return f"<Explorer: {len(self.page):,} characters of HTML, to be shown in a notebook>"

    def _repr_html_(self) -> str:
        """A frame that may run the scripts of the page, and may not reach the notebook around it."""
        return (
            f'<iframe title="Explorer" sandbox="allow-scripts allow-downloads" srcdoc="{escape(self.page)}" '
            f'style="width: 100%; height: {int(self.height)}px; border: 1px solid rgba(128, 128, 128, 0.5)"></iframe>'
        )
