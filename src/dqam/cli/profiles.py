"""What `dqam query --profile` prints and saves: the answers for each slice."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from dqam.cli.terminal import answers, plain, print_json, words
from dqam.geometry.areas import PlacedShapes
from dqam.geometry.arrays import Floats
from dqam.geometry.rectangles import HEADER, Snapped
from dqam.runtime.files import replacing

if TYPE_CHECKING:
    from dqam.geometry.area_files import NamedShapes
    from dqam.release.release import Release

MOST_ROWS = 48  # on a terminal


def show_profile(
    opened: Release,
    asked: Snapped | PlacedShapes,
    given: NamedShapes | None,
    confidence: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Answer each area or line for each slice, and print and save a row for each; rectangles have no file `given`."""
    found = opened.by_slice(asked, confidence)
    names = None if given is None else given.names
    value, low, high = (np.stack([getattr(each, name) for each in found]) for name in ("value", "low", "high"))
    count, counted = len(found[0]), found[0].counted
    if output:
        import shapely

        from dqam.geometry.shape_tables import write_shapes
        from dqam.release.export import notes

        if isinstance(asked, Snapped):
            shapes = shapely.box(*asked.bounds.T)
            place = {name: np.tile(side, len(found)) for name, side in zip(HEADER, asked.bounds.T, strict=True)}
            crs = opened.grid.crs
        else:
            shapes, crs = asked.asked, opened.grid.crs if given is None else given.crs
            place = {"name": np.tile(np.array(names, object), len(found))}
        numbers = {opened.provenance.column(counted): value.ravel(), "low": low.ravel(), "high": high.ravel()}
        columns = {**place, "slice": np.repeat(np.array(opened.slices, object), count), **numbers}
        with replacing(output) as temporary:
            write_shapes(temporary, columns, np.tile(shapes, len(found)), crs, notes(opened), output.suffix.lower())
    if as_json:

        def plain_rows(part: Floats) -> list[list[float | None]]:
            return [[None if math.isnan(x) else x for x in row] for row in part.T.tolist()]

        print_json(
            {
                "slices": list(opened.slices),
                **({} if names is None else {"names": list(names)}),
                "counts": plain_rows(value),
                "low": plain_rows(low),
                "high": plain_rows(high),
                "what": counted,
                "confidence": confidence,
                "private": opened.provenance.private,
                "promise": opened.provenance.promise,
            }
        )
        return
    answers.print(f"[bold]{plain(opened.provenance.promise)}[/]")
    rule, zone = opened.provenance.slices, opened.provenance.timezone
    answers.print(f"By {rule}{f', {zone}' if zone else ''}; slices add up exactly.", markup=False, soft_wrap=True)
    table = Table("Area", "Slice", counted.capitalize(), f"Interval ({confidence:.0%})")
    rows_left = MOST_ROWS
    for i in range(count):
        for k, name in enumerate(opened.slices):
            if rows_left == 0:
                break
            rows_left -= 1
            sure = "no interval" if math.isnan(low[k, i]) else f"{low[k, i]:,.0f} to {high[k, i]:,.0f}"
            trips = "no answer" if math.isnan(value[k, i]) else f"{value[k, i]:,.0f}"
            table.add_row(plain(str(i + 1) if names is None else names[i]), plain(name), trips, sure)
    answers.print(table)
    if count * len(found) > MOST_ROWS:
        answers.print(f"... and {count * len(found) - MOST_ROWS:,} more{'' if output else '; save them with -o FILE'}")
    if output:
        words.print(f"Saved as {output}", markup=False)
