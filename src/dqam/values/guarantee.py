"""The privacy guarantee of a release: the unit it protects, epsilon and delta, and the questions they were spent on.

These are plain values that anyone may read; nothing in this module handles trips.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from numbers import Integral

from dqam.errors import InputError
from dqam.values.conversion import LARGEST_DELTA, SMALLEST_DELTA, rho_of

Number = int | float | str | Fraction

MOST_OF_A_PERSON = 2**20  # trips; a sensitivity times this, and what PrivTree derives from it, still fits in 64 bits


class Neighbours(Enum):
    """When two data sets are neighbours, that is, which differences the guarantee hides."""

    ADD_OR_REMOVE_ONE_UNIT = "one is the other with all that one unit contributed removed"


@dataclass(frozen=True)
class Unit:
    """Whose presence is hidden: one trip, or one person with at most `max_trips` trips kept.

    >>> Unit.trip(), Unit.person(10)
    (Unit(name='trip', max_trips=1), Unit(name='person', max_trips=10))
    """

    name: str
    max_trips: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_trips", operator.index(self.max_trips))
        if self.name not in ("trip", "person"):
            raise InputError(f"unit must be 'trip' or 'person'; got {self.name!r}.")
        if not 1 <= self.max_trips <= (1 if self.name == "trip" else MOST_OF_A_PERSON):
            raise InputError(
                f"max_trips must be 1 to {MOST_OF_A_PERSON:,} for the unit 'person' and exactly 1 for the unit 'trip'; "
                f"got {self.max_trips:,} for {self.name!r}."
            )

    @property
    def in_words(self) -> str:
        """Whose presence is hidden, such as "one person with at most 10 trips"."""
        trips = f"{self.max_trips:,} trip{'s' * (self.max_trips > 1)}"
        return "one trip" if self.name == "trip" else f"one person with at most {trips}"

    @classmethod
    def trip(cls) -> Unit:
        """One trip."""
        return cls("trip", 1)

    @classmethod
    def person(cls, max_trips: int) -> Unit:
        """One person, of whose trips at most `max_trips` are kept, chosen at random."""
        return cls("person", max_trips)


@dataclass(frozen=True)
class Promise:
    """Epsilon, and a delta that is 0 for pure differential privacy.

    Without a delta, no output is more than exp(epsilon) times as likely with a unit as without it. With a delta,
    the probability of any set of outputs is at most exp(epsilon) times that without the unit, plus delta, and vice
    versa; budgets are then accounted for in rho (see `dqam.values.conversion`).

    >>> Promise.of(1), Promise.of(1, 1e-8).rho == rho_of(Fraction(1), Fraction(1, 10**8))
    (Promise(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), True)
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, epsilon: Number, delta: Number | None = None) -> Promise:
        """The promise as exact fractions; an `InputError` if it is none."""
        made = cls(parse_epsilon(epsilon), parse_delta(delta))
        if made.delta:
            rho_of(made.epsilon, made.delta)  # raises if epsilon is out of range
        return made

    @property
    def rho(self) -> Fraction | None:
        """The budget in rho; None without a delta, where the budget is epsilon itself."""
        return rho_of(self.epsilon, self.delta) if self.delta else None

    def __str__(self) -> str:
        return f"epsilon = {spell(self.epsilon)}" + (f", delta = {spell_delta(self.delta)}" if self.delta else "")


@dataclass(frozen=True)
class PaidQuestion:
    """One question that was asked about the data, and its cost.

    kind         "measure", "select" or "partition"
    name         the question in words
    sensitivity  the most that one unit (a trip, or a person) can change the answer
    epsilon      the answer is epsilon-private; None for Gaussian noise, which is epsilon-private for no epsilon
    scale        of the noise; the largest one if several were used
    resolution   the number of units of `sensitivity` and `scale` in 1: both are fixed-point numbers
    delta        a bound on the probability that this does not hold, such as "10^-47"; empty if it always holds
    rho          what was spent on it, if the budget is one of rho; otherwise None, and epsilon was spent
    """

    kind: str
    name: str
    sensitivity: int
    epsilon: Fraction | None
    scale: Fraction
    resolution: int = 1
    delta: str = ""
    rho: Fraction | None = None

    @property
    def cost(self) -> Fraction:
        """What was spent on it, in epsilon or in rho."""
        cost = self.epsilon if self.rho is None else self.rho
        assert cost is not None
        return cost


def parse_epsilon(value: Number) -> Fraction:
    """Return an epsilon as an exact fraction; raise an `InputError` if it is not above 0.

    >>> parse_epsilon(0.1) * 10 == 1
    True
    """
    try:
        if isinstance(value, float):
            epsilon = Fraction(repr(float(value)))
        elif isinstance(value, str) and (("/" not in value and not 0 < float(value) < math.inf) or "_" in value):
            epsilon = Fraction(0)  # also for numbers that would take too long to expand, such as 1e-999999999
        elif isinstance(value, bool):
            epsilon = Fraction(0)
        else:
            epsilon = Fraction(int(value)) if isinstance(value, Integral) else Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise InputError(f"Epsilon must be a positive number, such as 1 or 0.1; got {value!r}.") from None
    if epsilon <= 0:
        raise InputError(f"Epsilon must be a positive number, such as 1 or 0.1; got {value}.")
    return epsilon


def spell(epsilon: Fraction) -> str:
    """Return an epsilon as a user would write it: exact, unless that needs very many digits.

    >>> spell(Fraction(1, 10)), spell(Fraction(2)), spell(Fraction(2, 3)), spell(Fraction(1, 10**40) + 1)
    ('0.1', '2', '2/3', 'about 1')
    """
    text = repr(float(epsilon)).removesuffix(".0")
    if Fraction(text) == epsilon:
        return text
    return str(epsilon) if epsilon.denominator < 10**30 else f"about {float(epsilon):.6g}"


def parse_delta(value: Number | None) -> Fraction:
    """Return a delta as an exact fraction, 0 for None or 0; raise an `InputError` if it is out of range.

    >>> parse_delta(1e-8), parse_delta(None)
    (Fraction(1, 100000000), Fraction(0, 1))
    """
    wrong = f"Delta must be a small probability, such as 1e-8, from 1e-30 to 0.01, or left out; got {value!r}."
    if value is None or (isinstance(value, int | float | Fraction) and not isinstance(value, bool) and value == 0):
        return Fraction(0)
    try:
        delta = parse_epsilon(value)
    except InputError:
        raise InputError(wrong) from None
    if not SMALLEST_DELTA <= delta <= LARGEST_DELTA:
        raise InputError(wrong)
    return delta


def spell_delta(delta: Fraction) -> str:
    """Return a delta as a user would write it, or as an exact fraction if that takes more than 13 digits.

    >>> spell_delta(Fraction(1, 10**8)), spell_delta(Fraction(25, 10**8))
    ('1e-8', '2.5e-7')
    """
    digits, _, power = f"{float(delta):.12e}".partition("e")
    text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    return text if Fraction(text) == delta else str(delta)
