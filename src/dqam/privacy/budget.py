"""Privacy budgets as exact fractions: split, spend, and never more than there is.

A float such as 0.1 is read as it is written, 1/10, so that parts add up to the whole without rounding.
"""

from __future__ import annotations

import math
import operator
import threading
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from numbers import Integral
from typing import NoReturn

from dqam.errors import InputError

Number = int | float | str | Fraction

MOST_OF_A_PERSON = 2**20  # trips; a sensitivity times this, and what PrivTree derives from it, still fits 64 bits


class BudgetError(InputError):
    """More was asked than is left. Commands exit with code 3."""


class Neighbours(Enum):
    """When two data sets are neighbours, that is, what the guarantee is about."""

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
            raise InputError(f"The unit is 'trip' or 'person'; got {self.name!r}.")
        if not 1 <= self.max_trips <= (1 if self.name == "trip" else MOST_OF_A_PERSON):
            raise InputError(
                f"max_trips must be 1 to {MOST_OF_A_PERSON:,} for the unit 'person' and exactly 1 for the unit 'trip'; "
                f"got {self.max_trips:,} for {self.name!r}."
            )

    @classmethod
    def trip(cls) -> Unit:
        """One trip."""
        return cls("trip", 1)

    @classmethod
    def person(cls, max_trips: int) -> Unit:
        """One person, of whose trips at most `max_trips` are kept, chosen at random."""
        return cls("person", max_trips)


def parse_epsilon(value: Number) -> Fraction:
    """An epsilon above 0 as an exact fraction.

    >>> parse_epsilon(0.1) * 10 == 1
    True
    """
    try:
        if isinstance(value, float):
            epsilon = Fraction(repr(float(value)))
        elif isinstance(value, str) and (("/" not in value and not 0 < float(value) < math.inf) or "_" in value):
            epsilon = Fraction(0)  # also what would take forever to write out, such as 1e-999999999
        elif isinstance(value, bool):
            epsilon = Fraction(0)
        else:
            epsilon = Fraction(int(value)) if isinstance(value, Integral) else Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise InputError(f"Epsilon is a number above 0, such as 1 or 0.1; got {value!r}.") from None
    if epsilon <= 0:
        raise InputError(f"Epsilon is a number above 0, such as 1 or 0.1; got {value}.")
    return epsilon


class Budget:
    """An amount of epsilon that can be spent once.

    >>> whole = Budget(1)
    >>> tree, counts = whole.split(tree=1, counts=3)
    >>> counts.epsilon
    Fraction(3, 4)
    >>> tree.spend("0.25"); tree.left
    Fraction(0, 1)
    """

    def __init__(self, epsilon: Number, name: str = "budget", _root: Budget | None = None) -> None:
        self._epsilon = parse_epsilon(epsilon)
        self.name = name
        self.root = _root or self  # the budget that this one was split from
        self._spent = Fraction(0)
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        raise TypeError("A budget cannot be copied: it would be spent twice.")

    @property
    def epsilon(self) -> Fraction:
        """What there was to spend."""
        return self._epsilon

    @property
    def left(self) -> Fraction:
        """What can still be spent."""
        return self.epsilon - self._spent

    def spend(self, epsilon: Number) -> None:
        """Take `epsilon`, or refuse with a `BudgetError` and take nothing."""
        asked = parse_epsilon(epsilon)
        with self._lock:
            if asked > self.left:
                raise BudgetError(
                    f"{self.name}: epsilon {spell(asked)} was requested and {spell(self.left)} of "
                    f"{spell(self.epsilon)} is left; ask for less."
                )
            self._spent += asked

    def split(self, **shares: Number) -> list[Budget]:
        """All that is left, in named parts that are to each other as `shares`; this budget is then empty."""
        weights = {name: parse_epsilon(share) for name, share in shares.items()}
        if not weights:
            raise InputError(f"{self.name}: a budget is split into at least one part.")
        left, total = self.left, sum(weights.values())
        if not left:
            raise BudgetError(f"{self.name} is spent; nothing is left to split.")
        self.spend(left)
        return [Budget(left * weight / total, f"{self.name}/{name}", self.root) for name, weight in weights.items()]

    def __repr__(self) -> str:
        return f"Budget({self.name!r}, {spell(self.left)} of {spell(self.epsilon)} left)"


def spell(epsilon: Fraction) -> str:
    """An epsilon as a user would write it: exact, unless that takes very many digits.

    >>> spell(Fraction(1, 10)), spell(Fraction(2)), spell(Fraction(2, 3)), spell(Fraction(1, 10**40) + 1)
    ('0.1', '2', '2/3', 'about 1')
    """
    text = repr(float(epsilon)).removesuffix(".0")
    if Fraction(text) == epsilon:
        return text
    return str(epsilon) if epsilon.denominator < 10**30 else f"about {float(epsilon):.6g}"
