"""How far any histogram of faces and edges could go, private or not: python -m benchmarks.histogram_floor [--data DIR].

A trip that comes back to a rectangle is counted again by a histogram, so that even an exact one is off, and some error
is left whatever its numbers are. Here all endpoints and edges of a 256 x 256 grid are fitted, with no privacy and no
consistency, by least squares to the exact distinct counts of 200,000 random rectangles, from those of the exact
histogram. That ends early, at the best of several numbers of LSMR steps by the error on other rectangles, which is also
the error reported: this flatters it. No private histogram sees as much, so what is left is evidence of how far one
could go at most.

It is evidence and no proof: a histogram with the error found exists, and there may be better ones. There are about as
many numbers as counts, so that other rectangles are answered worse than those fitted; and squares are minimised, while
absolute errors are reported. The same with half the counts stands beside it, to tell how much more counts may gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from benchmarks.measure import options, seconds
from dqam.consistency.cone import bordered
from dqam.consistency.least_squares import answer_rectangles, spread_answers
from dqam.experiments.datasets import made_up, real
from dqam.geometry.arrays import Floats, Integers
from dqam.geometry.counting import count_distinct
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.rectangles import random_rectangles
from dqam.geometry.trips import Trips
from dqam.geometry.walks import Walks, walk

TRIPS, RESOLUTION = 100_000, 8
COUNTS, OTHERS = 200_000, 16_000
STEPS = (50, 100, 200, 400)
EDGE_SCALE = 8.0  # of an edge's unknown against an endpoint's, in place of a preconditioner


class Numbers:
    """Endpoints, vertical and horizontal edges of a grid as one vector of unknowns, and their answers to rectangles.

    The border beyond the grid is no unknown, so that it stays 0.
    """

    def __init__(self, grid: Grid) -> None:
        rows, columns = grid.shape
        self.grid = grid
        self.shapes = ((rows, columns), (rows, columns - 1), (rows - 1, columns))
        self.scales = (1.0, EDGE_SCALE, EDGE_SCALE)
        self.size = sum(high * wide for high, wide in self.shapes)

    def split(self, unknowns: Floats) -> tuple[Floats, Floats, Floats]:
        """Endpoints and edges."""
        cuts = np.cumsum([high * wide for high, wide in self.shapes])[:-1]
        a, v, h = (
            scale * part.reshape(shape)
            for part, shape, scale in zip(np.split(unknowns, cuts), self.shapes, self.scales, strict=True)
        )
        return a, v, h

    def operator(self, rectangles: Integers) -> LinearOperator:
        """From unknowns to answers, and back."""

        def answer(unknowns: Floats) -> Floats:
            a, v, h = self.split(np.ravel(unknowns))
            answers = np.zeros(len(rectangles))
            answer_rectangles(rectangles, a, bordered(v, 1), bordered(h, 0), answers)
            return answers

        def spread(answers: Floats) -> Floats:
            a, v, h = (np.zeros(shape) for shape in self.shapes)
            v, h = bordered(v, 1), bordered(h, 0)
            spread_answers(rectangles, -np.ravel(answers), a, v, h)
            parts = (a, v[:, 1:-1], h[1:-1])
            return np.concatenate([scale * part.ravel() for part, scale in zip(parts, self.scales, strict=True)])

        return LinearOperator((len(rectangles), self.size), matvec=answer, rmatvec=spread, dtype=np.float64)


def data_sets(folder: Path | None, count: int, resolution: int) -> Iterator[tuple[str, Walks]]:
    """Names and walks of so many trips."""
    for data in (made_up()[0], *(real(folder) if folder else ())):
        trips = Trips.concat(list(data.make(count, 1)))
        yield data.label(count), walk(trips, Grid.over(data.bounds, resolution))


def error(histogram: SpatialHistogram, rectangles: Integers, truth: Integers, trips: int) -> float:
    """The mean absolute one, of answers clipped to what can be."""
    return float(np.abs(np.clip(histogram.answers(rectangles), 0, trips) - truth).mean())


def floor(
    exact: SpatialHistogram, trips: int, fitted: tuple[Integers, Integers], others: tuple[Integers, Integers]
) -> tuple[float, float, int]:
    """The least error on other rectangles, that on the rectangles fitted, and the steps, of those tried."""
    rectangles, counts = fitted
    numbers = Numbers(exact.grid)
    operator = numbers.operator(rectangles)
    wanted = counts - exact.answers(rectangles).astype(np.float64)
    found = []
    for steps in STEPS:
        change = lsmr(operator, wanted, atol=0, btol=0, conlim=0, maxiter=steps)[0]
        a, v, h = numbers.split(change)
        histogram = SpatialHistogram.from_flux(
            exact.grid, exact.endpoints + a, exact.vertical + v, exact.horizontal + h
        )
        found.append((error(histogram, *others, trips), error(histogram, *fitted, trips), steps))
    return min(found)


def check_adjoint(grid: Grid) -> None:
    """The two ways of the operator fit each other, and the histogram's answers."""
    rng = np.random.default_rng(0)
    numbers, rectangles = Numbers(grid), random_rectangles(grid, 1_000, rng)
    operator = numbers.operator(rectangles)
    unknowns, answers = rng.normal(size=numbers.size), rng.normal(size=len(rectangles))
    assert np.isclose(operator.matvec(unknowns) @ answers, unknowns @ operator.rmatvec(answers))
    histogram = SpatialHistogram.from_flux(grid, *numbers.split(unknowns))
    assert np.allclose(operator.matvec(unknowns), histogram.answers(rectangles))


def main(*arguments: str) -> None:
    """Print a line or two for each data set."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args(arguments or None)
    trips, resolution, most, fresh = (300, 4, 1_000, 500) if given.tiny else (TRIPS, RESOLUTION, COUNTS, OTHERS)
    for name, walks in data_sets(given.data, trips, resolution):
        check_adjoint(walks.grid)
        rectangles, others = (
            random_rectangles(walks.grid, count, np.random.default_rng(seed)) for count, seed in ((most, 5), (fresh, 2))
        )
        counting, counts = seconds(lambda w=walks, r=rectangles: count_distinct(w, r, w.grid), runs=1)  # type: ignore[misc]
        truth = count_distinct(walks, others, walks.grid)
        mean, exact = float(truth.mean()), SpatialHistogram.of(walks)
        print(
            f"{name}, {trips:,} trips: mean answer {mean:,.0f}, "
            f"exact histogram {error(exact, others, truth, trips):,.1f} off",
            flush=True,
        )
        for part in (most // 2, most):
            fitted = rectangles[:part], counts[:part]
            fitting, (least, own, steps) = seconds(
                lambda e=exact, f=fitted, o=(others, truth): floor(e, trips, f, o),  # type: ignore[misc]
                runs=1,
            )
            print(
                f"  fitted to {part:,} counts: floor {least:,.1f} off, {least / mean:.2%} of the mean answer "
                f"({steps} steps; {own:,.1f} off on those fitted; {fitting:.0f} s, counting {counting:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
