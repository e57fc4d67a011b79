"""The paper's consistent inference, solved directly, against HiGHS on the full linear program."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from tests.oracles.linear_program import distance, linear_program

from benchmarks.measure import claim, options, seconds
from dqam.consistency.pairwise import make_consistent
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram


def violated(side: int, seed: int = 0) -> SpatialHistogram:
    """A histogram with about two in five edges above one of their faces."""
    rng = np.random.default_rng(seed)
    grid = Grid((0.0, 0.0, 1.0, 1.0), side, side)
    faces, vertical = rng.exponential(10, (side, side)), rng.exponential(5, (side, side - 1))
    return SpatialHistogram(grid, faces, vertical, rng.exponential(5, (side - 1, side)))


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    make_consistent(violated(8))  # compile
    for side in (16,) if tiny else (32, 64, 128, 256):
        given = violated(side)
        cost, matrix, bound = linear_program(given)
        ours, made = seconds(lambda h=given: make_consistent(h))  # type: ignore[misc]
        slow, solved = seconds(
            lambda c=cost, a=matrix, b=bound: linprog(c, A_ub=a, b_ub=b, bounds=(0, None), method="highs"),  # type: ignore[misc]
            runs=1,
        )
        off = abs(distance(made, given) - solved.fun) / solved.fun
        print(f"{side:>4} x {side:<4} ours {ours * 1e3:8.2f} ms, HiGHS {slow:8.2f} s, distances differ by {off:.1e}")
        if side == 256 or tiny:
            claim("HiGHS / ours", slow / ours, 1_000)
    for side in (32,) if tiny else (512, 1024, 2048):
        ours = seconds(lambda h=violated(side): make_consistent(h), runs=2)[0]  # type: ignore[misc]  # noqa: B008
        print(f"{side:>4} x {side:<4} ours {ours * 1e3:8.2f} ms, {ours / side**2 * 1e9:.0f} ns a cell")


if __name__ == "__main__":
    main()
