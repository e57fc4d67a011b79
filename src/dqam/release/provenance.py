"""The provenance of a release: how it was made, and what it guarantees."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dqam.errors import InputError
from dqam.values.guarantee import Neighbours, PaidQuestion, Unit, spell

FINEST = 10**400  # denominator that epsilons may add up to
MECHANISM = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
CODE = re.compile(r"(EPSG|ESRI|OGC):\w{1,20}", re.ASCII)


@dataclass(frozen=True)
class Provenance:
    """How a release was made: everything one needs to know to rely on it.

    id               of the publication, random
    title            of the map
    created          when it was made, in UTC
    mechanism        its name
    mechanism_about  how the mechanism works, in a few words
    monotone         whether answers never shrink when a rectangle grows
    parameters       of the mechanism
    epsilon          that was spent; the epsilons of the paid questions add up to it
    unit             whose presence is hidden
    queries          what the mechanism was tuned for, in words
    gap              the gap between points at which trips were cut, in words; empty if they were not
    salt             with which the trips of a person were chosen; empty if the unit is a trip
    row_is_trip      whether every row was a trip of its own, because trips had no ids
    paid             every question that was asked of the trips, with its share of epsilon
    private          whether the noise was drawn for a release; False for noise from a seed
    versions         of dqam and of the libraries that the numbers come from
    """

    id: str
    title: str
    created: str
    mechanism: str
    mechanism_about: str
    monotone: bool
    parameters: dict[str, Any]
    epsilon: Fraction
    unit: Unit
    queries: str
    gap: str
    salt: str
    row_is_trip: bool
    paid: tuple[PaidQuestion, ...]
    private: bool
    versions: dict[str, str]
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE_ONE_UNIT

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        spent = Fraction(0)
        for entry in self.paid:
            spent += entry.epsilon
            if spent.denominator > FINEST:
                raise InputError("The epsilons of its questions have too many digits to be added.")
        if spent != self.epsilon:
            raise InputError(f"The epsilons of its questions add up to {spent}, but the release says {self.epsilon}.")

    @property
    def promise(self) -> str:
        """The guarantee in one sentence."""
        if not self.private:
            return "NOT PRIVATE: made with noise from a seed, for tests and experiments."
        trip = "one row, which is a trip" if self.row_is_trip else "one trip"
        whose = trip if self.unit.name == "trip" else f"one person (at most {self.unit.max_trips} trips)"
        return f"Differentially private for {whose}, epsilon = {spell(self.epsilon)}."

    @property
    def delta(self) -> str:
        """A bound on the probability that epsilon does not hold, such as "10^-47"; empty if it always holds.

        The probabilities of all questions add up, to at most their number times the largest; this is rounded up to a
        power of ten.
        """
        powers = [int(entry.delta.removeprefix("10^-")) for entry in self.paid if entry.delta]
        return f"10^-{max(0, min(powers) - math.ceil(math.log10(len(powers))))}" if powers else ""

    @property
    def counted(self) -> str:
        """Which trips are counted, if not all; for readers of the numbers."""
        return "" if self.unit.name == "trip" else f"from at most {self.unit.max_trips} trips of each person"


def check_mechanism(name: str) -> None:
    """Check that the name of a mechanism is a plain word, and not a form "as printed", which is not private."""
    if not isinstance(name, str) or not MECHANISM.fullmatch(name) or name.endswith("-printed"):
        raise InputError(f"{str(name)[:40]!r} cannot be the mechanism of a release; use a name such as 'flux'.")


def check_crs(crs: str) -> None:
    """Allow only authority codes in a release, because other notations of a CRS can refer to files of the reader."""
    if not isinstance(crs, str) or not CODE.fullmatch(crs):
        raise InputError(f"The CRS of a release must be a code such as EPSG:28355; got {str(crs)[:60]!r}.")
