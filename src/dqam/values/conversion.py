"""Conversion between the two ways to state a promise with a delta: (epsilon, delta), and the rho of zCDP.

A mechanism is rho-zCDP (zero-concentrated differential privacy; Bun and Steinke, 2016) if for neighbouring data sets
and every order alpha > 1 the Renyi divergence of its outputs is at most alpha * rho. Rhos of questions add up, whatever
later questions depend on. Canonne, Kamath and Steinke (2020, proposition 12) show that it is then (epsilon, delta)-
private for every epsilon >= 0 and alpha > 1 with

    delta = exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.

Solved for rho or for epsilon, this holds with any alpha > 1, so a search for the best alpha can lose accuracy but never
privacy. Both solutions are computed with 50 decimal digits and rounded to the safe side, to a fraction that is the same
on every machine. OpenDP converts by the same formula.

The formula is applied to delta (1 - 10^-9). The rest of delta covers noise that does not fit in 64 bits, whose
probability is below 10^-40 for a whole publication.

Pure differential privacy converts too: an epsilon-private answer is (epsilon^2 / 2)-zCDP (Bun and Steinke, proposition
1.4). There is no way back: a rho-zCDP answer is not epsilon-private for any epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dqam.errors import InputError

DIGITS = 15  # of a converted number
SMALLEST_DELTA = Fraction(1, 10**30)
LARGEST_DELTA = Fraction(1, 100)
SPARE = Decimal("1e-9")  # part of delta that covers what does not fit in 64 bits
SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**6), Fraction(1000)
STEPS = 120  # of the search for alpha


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho that the formula turns into (epsilon, delta), rounded down; 0 if epsilon is 0.

    >>> float(rho_of(Fraction(1), Fraction(1, 10**8)))
    0.0172053180382643
    """
    return _rho_and_order(epsilon, delta)[0] if epsilon else Fraction(0)


def order_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The order alpha with which the formula turns `rho_of(epsilon, delta)` into (epsilon, delta).

    >>> round(float(order_of(Fraction(1), Fraction(1, 10**8))), 1)
    30.5
    """
    return _rho_and_order(epsilon, delta)[1]


@lru_cache(maxsize=1024)
def _rho_and_order(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InputError(
            f"With a delta, epsilon must be {float(SMALLEST_EPSILON):g} to {float(LARGEST_EPSILON):g}; "
            f"got {float(epsilon):g}."
        )
    with localcontext(Context(prec=50)):
        whole = _decimal(epsilon)

        def rho(alpha: Decimal) -> Decimal:
            return (whole - _price(alpha, delta)) / alpha

        best, order = _best(rho, max)
        return _rounded(best, ROUND_FLOOR), Fraction(order)


@lru_cache(maxsize=1024)
def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon with which the formula makes rho-zCDP (epsilon, delta)-private, rounded up; never below 0.

    >>> round(float(epsilon_of(Fraction("0.0172053180382643"), Fraction(1, 10**8))), 9)
    1.0
    """
    if not rho:
        return Fraction(0)
    with localcontext(Context(prec=50)):
        whole = _decimal(rho)

        def epsilon(alpha: Decimal) -> Decimal:
            return alpha * whole + _price(alpha, delta)

        return _rounded(max(Decimal(0), _best(epsilon, min)[0]), ROUND_CEILING)


def pure_epsilon(rho: Fraction) -> Fraction:
    """The largest epsilon of a pure question that costs at most rho, epsilon^2 / 2 <= rho, rounded down.

    >>> pure_epsilon(Fraction(1, 2))
    Fraction(1, 1)
    """
    return 1 / root_above(1 / (2 * rho))


def root_above(square: Fraction) -> Fraction:
    """A fraction that is at least the square root of `square`, and larger by less than one part in 10^15.

    >>> root_above(Fraction(9, 4)), float(root_above(Fraction(2)))
    (Fraction(3, 2), 1.4142135623730951)
    """
    # floor(sqrt(x * 4^k)) has at least 60 binary digits for this k
    shift = max(0, 60 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2 + 1)
    scaled = -(-square.numerator * 4**shift // square.denominator)
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 2**shift)


def _price(alpha: Decimal, delta: Fraction) -> Decimal:
    """What delta adds to epsilon at this order: (ln(1/delta) - ln(alpha - 1) + alpha ln(1 - 1/alpha)) / (alpha - 1)."""
    one = Decimal(1)
    spent = _decimal(delta) * (one - SPARE)
    return (-spent.ln() - (alpha - one).ln() + alpha * (one - one / alpha).ln()) / (alpha - one)


def _best(value: Callable[[Decimal], Decimal], better: Callable[..., Decimal]) -> tuple[Decimal, Decimal]:
    """The best value over alpha > 1 and its alpha, by a ternary search over the logarithm of alpha - 1.

    Each value seen is sound.
    """
    low, high = Decimal(-12), Decimal(30)
    for _ in range(STEPS):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        at_left, at_right = value(1 + left.exp()), value(1 + right.exp())
        low, high = (low, right) if better(at_left, at_right) == at_left else (left, high)
    order = 1 + ((low + high) / 2).exp()
    return value(order), order


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _rounded(value: Decimal, rounding: str) -> Fraction:
    """A fraction of `DIGITS` digits, after leaving 10^-40 of the value for errors of the arithmetic above."""
    safe = value * (1 - Decimal("1e-40") if rounding == ROUND_FLOOR else 1 + Decimal("1e-40"))
    return Fraction(Context(prec=DIGITS, rounding=rounding).plus(safe))
