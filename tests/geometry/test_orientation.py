from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dqam.geometry.orientation import _exact, orientation

SIZES = (
    st.floats(1e-60, 1e60) | st.floats(-1e60, -1e-60) | st.just(0.0) | st.floats(-300, 300).map(lambda v: round(v, 3))
)


def true_sign(ax: float, ay: float, bx: float, by: float, cx: float, cy: float) -> int:
    a, b, c, d = (Fraction(p) - Fraction(q) for p, q in ((ax, cx), (by, cy), (ay, cy), (bx, cx)))
    determinant = a * b - c * d
    return (determinant > 0) - (determinant < 0)


@given(st.tuples(*[SIZES] * 6))
@example((0.1, 0.1, 0.3, 0.3, 0.2, 0.2))
@example((0.0, 0.0, 1e60, 1e60, 1e-60, 1e-60))
@settings(deadline=None)
def test_the_sign_is_exact(points: tuple[float, float, float, float, float, float]) -> None:
    assert orientation(*points) == _exact(*points) == true_sign(*points)


def test_points_on_a_line_and_the_floats_around_it() -> None:
    """The nearest floats to points of a line lie on it or beside it, which rounded arithmetic cannot tell."""
    rng = np.random.default_rng(0)
    signs = []
    for ax, ay, bx, by, share in rng.uniform(0, 256, (2000, 5)).tolist():
        x, y = ax + share / 256 * (bx - ax), ay + share / 256 * (by - ay)
        for near in (np.nextafter(y, -1), y, np.nextafter(y, 300)):
            signs.append(orientation(ax, ay, bx, by, x, float(near)))
            assert signs[-1] == true_sign(ax, ay, bx, by, x, float(near))
    rounded = rng.integers(0, 100, (2000, 5)) / 4
    for ax, ay, dx, dy, steps in rounded.tolist():
        assert orientation(ax, ay, ax + 4 * steps * dx, ay + 4 * steps * dy, ax + dx, ay + dy) == 0
    assert {-1, 1} <= set(signs)


def test_turning_the_triangle_keeps_the_sign_and_swapping_two_points_reverses_it() -> None:
    for a, b, c in np.random.default_rng(1).integers(0, 4, (300, 3, 2)) / 3:
        sign = orientation(*a, *b, *c)
        assert orientation(*b, *c, *a) == sign
        assert orientation(*b, *a, *c) == -sign
