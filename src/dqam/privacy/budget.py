"""Privacy budgets as exact fractions, which can be split and spent but never exceeded.

A budget is an amount of epsilon or, for a promise with a delta, of rho (`dqam.values.conversion`). Either adds up over
questions. A float such as 0.1 is read as it is written, 1/10, so that parts add up to the whole without rounding.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import NoReturn

from dqam.errors import BudgetError, InputError
from dqam.values.guarantee import Number, Promise, parse_epsilon, spell


class Budget:
    """An amount of epsilon, or of rho if it is `concentrated`, that can be spent once.

    promise  what the budget was made from (`of`); None if it was made from an amount, or split from another budget

    >>> whole = Budget(1)
    >>> tree, counts = whole.split(tree=1, counts=3)
    >>> counts.amount
    Fraction(3, 4)
    >>> tree.spend("0.25"); tree.left
    Fraction(0, 1)
    """

    def __init__(
        self, amount: Number, name: str = "budget", concentrated: bool = False, _whole: Budget | None = None
    ) -> None:
        self._amount = parse_epsilon(amount)
        self.name = name
        self._concentrated = concentrated
        self._promise: Promise | None = None
        self._whole = _whole  # the budget that this one was split from
        self._spent = Fraction(0)
        self._lock = threading.Lock()

    @classmethod
    def of(cls, promise: Promise, name: str = "budget") -> Budget:
        """The whole budget of a promise."""
        rho = promise.rho
        made = cls(promise.epsilon if rho is None else rho, name, rho is not None)
        made._promise = promise
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError("A budget cannot be copied: it would be spent twice.")

    @property
    def amount(self) -> Fraction:
        """The initial amount."""
        return self._amount

    @property
    def concentrated(self) -> bool:
        """Whether this is an amount of rho."""
        return self._concentrated

    @property
    def promise(self) -> Promise | None:
        """What the budget was made from."""
        return self._promise

    @property
    def currency(self) -> str:
        """What this is an amount of, for errors."""
        return "rho" if self.concentrated else "epsilon"

    @property
    def left(self) -> Fraction:
        """What can still be spent."""
        return self.amount - self._spent

    def precision(self, amount: Fraction | None = None) -> float:
        """One over the scale of the noise that `amount` (by default all that is left) buys for a sensitivity of 1.

        It is epsilon, or sqrt(2 rho): then Gaussian noise has the standard deviation 1 / precision.

        >>> Budget(2).precision(), Budget(2, concentrated=True).precision()
        (2.0, 2.0)
        """
        amount = self.left if amount is None else amount
        return math.sqrt(2 * amount) if self.concentrated else float(amount)

    def spend(self, amount: Number) -> None:
        """Take `amount`, or refuse with a `BudgetError` and take nothing."""
        asked = parse_epsilon(amount)
        with self._lock:
            if asked > self.left:
                raise BudgetError(
                    f"{self.name}: {self.currency} {spell(asked)} was requested and {spell(self.left)} of "
                    f"{spell(self.amount)} is left; ask for less."
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
        return [
            Budget(left * weight / total, f"{self.name}/{name}", self.concentrated, self)
            for name, weight in weights.items()
        ]

    def exchange(self, epsilon: Fraction, spent: Fraction, before: Fraction) -> bool:
        """Become a pure budget of `epsilon`, of which `spent` is spent already. Only the curator may call this.

        It keeps its own record of what it granted, so calling this elsewhere buys nothing. Returns whether it is done:
        not if anything but `before` was spent, for example by another curator.
        """
        with self._lock:
            if not self._concentrated or self._spent != before:
                return False
            self._amount, self._concentrated, self._spent = epsilon, False, spent
            return True

    def is_part_of(self, whole: Budget) -> bool:
        """Whether this is `whole`, or was split from it or from a part of it."""
        part: Budget | None = self
        while part is not None and part is not whole:
            part = part._whole
        return part is whole

    def __repr__(self) -> str:
        return f"Budget({self.name!r}, {self.currency} {spell(self.left)} of {spell(self.amount)} left)"
