"""How many trips persons have: those that contribution bounding keeps, and those beyond, by bounds on their number."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np

from dqam.errors import InputError
from dqam.geometry.arrays import Integers
from dqam.statistics.aggregate import Aggregate, Part
from dqam.statistics.limits import LARGEST_SUM, MOST_OF_A_PERSON
from dqam.statistics.question import OnAnyGrid

WHOLE = 2**30  # a person's share in one number, in fixed point
KEPT_WEIGHT = 4  # the kept trips of a person weigh 1 / KEPT_WEIGHT of that
MOST_BOUNDS = 256


@dataclass(frozen=True)
class TripsPerPerson(Aggregate):
    """int64[t + 1]: the number of persons with 0, 1, ..., t trips; persons with more than `MOST_OF_A_PERSON` trips
    count as if they had that many.

    All trips of a person count from which contribution bounding chooses, wherever they are. It is a sum over persons,
    not over trips. Engines count it where they bound contributions (`dqam.privacy.contribution`), because walks do not
    say whose they are.
    """

    def add_up(self, part: Part) -> Integers:
        """Refused: a part of the trips does not know their persons."""
        raise InputError("The trips of persons are counted by engines, where contributions are bounded.")


@dataclass(frozen=True)
class PersonTrips(OnAnyGrid):
    """How many trips persons have, those up to `max_trips` and those beyond: int64[1 + bounds].

    max_trips  trips kept of each person; m below
    bounds     b_1 < ... < b_k, all above m: persons with more than m trips are told apart by these

    A person with t trips adds min(t, m) / m to the first number, a quarter of it (`KEPT_WEIGHT`) in fixed point. A
    person with t > m trips also adds (min(t, b_i) - m) / (b_i - m) to the number of one bound: the smallest b_i >= t,
    or b_k if there is none.

    Sensitivity for one *person*, whatever the number of trips: 5/4 in L1 and sqrt(17)/4 in L2. The vector is a sum over
    persons. What a person adds depends on t alone, the number of this person's own trips in the source before any are
    left out; it is a function of the rows of this person only. To add or remove a person adds or removes one such term.
    The first number gets at most 1/4, because min(t, m) <= m. At most one other number gets anything, because a person
    belongs to one bound; and it gets at most 1, because m < min(t, b_i) <= b_i. Rounding is down, person by person. A
    person with t = b_i trips reaches both. So the sensitivity is that of a person already, and the curator does not
    multiply it by the number of trips (`dqam.statistics.OF_PERSONS`). For the unit 'trip' it refuses the question.

    Bits: products before division are at most 2^21 * 2^30. Sums are integers of any size, because the limit on trips is
    for those that are kept, and are then cut off at 2^62. Neither changes the sensitivity.
    """

    max_trips: int
    bounds: tuple[int, ...]
    name: str = field(default="Trips of persons, kept and beyond", init=False)
    resolution: int = field(default=WHOLE, init=False)
    sensitivity: ClassVar[int] = WHOLE + WHOLE // KEPT_WEIGHT
    l2_squared: ClassVar[int] = WHOLE**2 + (WHOLE // KEPT_WEIGHT) ** 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_trips", operator.index(self.max_trips))
        object.__setattr__(self, "bounds", tuple(map(operator.index, self.bounds)))
        every = (self.max_trips, *self.bounds)
        if not 1 <= len(self.bounds) <= MOST_BOUNDS:
            raise InputError(f"Give 1 to {MOST_BOUNDS} bounds; got {len(self.bounds)}.")
        if self.max_trips < 1 or every[-1] > 2 * MOST_OF_A_PERSON or any(a >= b for a, b in pairwise(every)):
            raise InputError(
                f"max_trips must be at least 1, and bounds must increase from above it to at most "
                f"{2 * MOST_OF_A_PERSON:,}; got {self.max_trips} and {self.bounds}."
            )

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The number of persons by their number of trips."""
        return (TripsPerPerson(),)

    def value(self, *totals: Integers) -> Integers:
        """The sum of what the persons add."""
        trips, m, bounds = np.flatnonzero(totals[0]), self.max_trips, np.array(self.bounds)
        persons = totals[0][trips].astype(object)  # integers of any size
        found = [0] * (1 + len(bounds))
        found[0] = (persons * (np.minimum(trips, m) * (WHOLE // KEPT_WEIGHT) // m)).sum()
        place = np.minimum(np.searchsorted(bounds, trips), len(bounds) - 1)
        beyond = (np.minimum(trips, bounds[place]) - m) * WHOLE // (bounds[place] - m)
        for i in range(len(bounds)):
            some = (place == i) & (trips > m)
            found[1 + i] = (persons[some] * beyond[some]).sum()
        return np.array([min(int(number), LARGEST_SUM) for number in found], np.int64)
