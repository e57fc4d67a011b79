"""Privacy budgets as exact fractions, which can be split and spent but never exceeded.

A float such as 0.1 is read as it is written, 1/10, so that parts add up to the whole without rounding.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import NoReturn

from dqam.errors import BudgetError, InputError
from dqam.values.guarantee import Number, parse_epsilon, spell


class Budget:
    """An amount of epsilon that can be spent once.

    >>> whole = Budget(1)
    >>> tree, counts = whole.split(tree=1, counts=3)
    >>> counts.epsilon
    Fraction(3, 4)
    >>> tree.spend("0.25"); tree.left
    Fraction(0, 1)
    """

    def __init__(self, epsilon: Number, name: str = "budget", _whole: Budget | None = None) -> None:
        self._epsilon = parse_epsilon(epsilon)
        self.name = name
        self._whole = _whole  # the budget that this one was split from
        self._spent = Fraction(0)
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        raise TypeError("A budget cannot be copied: it would be spent twice.")

    @property
    def epsilon(self) -> Fraction:
        """The initial amount."""
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
        """Split all that is left into named parts proportional to `shares`; this budget is then empty."""
        weights = {name: parse_epsilon(share) for name, share in shares.items()}
        if not weights:
            raise InputError(f"{self.name}: a budget must be split into at least one part.")
        left, total = self.left, sum(weights.values())
        if not left:
            raise BudgetError(f"{self.name} is spent; nothing is left to split.")
        self.spend(left)
        return [Budget(left * weight / total, f"{self.name}/{name}", self) for name, weight in weights.items()]

    def is_part_of(self, whole: Budget) -> bool:
        """Whether this is `whole`, or was split from it or from a part of it."""
        part: Budget | None = self
        while part is not None and part is not whole:
            part = part._whole
        return part is whole

    def __repr__(self) -> str:
        return f"Budget({self.name!r}, {spell(self.left)} of {spell(self.epsilon)} left)"
