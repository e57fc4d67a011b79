"""Answers of a histogram a second, against summing the area of each rectangle."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import city, claim, options, seconds
from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.walks import lay
from dqam.sources import read


def by_area(histogram: SpatialHistogram, rectangles: np.ndarray) -> np.ndarray:
    """Faces minus edges inside, summed by NumPy rectangle by rectangle."""
    return np.array(
        [
            histogram.faces[s:n, w:e].sum()
            - histogram.vertical[s:n, w : e - 1].sum()
            - histogram.horizontal[s : n - 1, w:e].sum()
            for w, s, e, n in rectangles.tolist()
        ]
    )


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    trips, asked = (1_000, 10_000) if tiny else (100_000, 1_000_000)
    print("answers of a histogram:")
    for resolution in (6,) if tiny else (6, 8, 10):
        grid = Grid.over(cities.BOUNDS, resolution)
        histogram = SpatialHistogram.of(lay(read(city(trips)), grid), grid)
        rectangles = random_rectangles(grid, asked, np.random.default_rng(0))
        first = seconds(lambda h=histogram, r=rectangles: h.answers(r), runs=1)[0]  # type: ignore[misc]
        took, answers = seconds(lambda h=histogram, r=rectangles: h.answers(r))  # type: ignore[misc]
        slow, same = seconds(lambda h=histogram, r=rectangles: by_area(h, r[:2_000]), runs=1)  # type: ignore[misc]
        np.testing.assert_array_equal(answers[:2_000], same)
        rate = asked / took / 1e6
        print(f"  2^{resolution:<2}  {rate:6.1f} million a second, {asked / first / 1e6:6.1f} with making the table")
        if resolution == 8 or tiny:
            claim("million answers a second", rate, 5)
            claim("sum over the area / ours, an answer", slow / 2_000 / (took / asked), 10)


if __name__ == "__main__":
    main()
