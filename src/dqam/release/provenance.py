"""The provenance of a release: how it was made, and what it guarantees."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dqam.errors import InputError
from dqam.values.guarantee import Neighbours, PaidQuestion, Promise, Unit

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
    epsilon          that was spent; without a delta, the epsilons of the paid questions add up to it
    unit             whose presence is hidden
    queries          what the mechanism was tuned for, in words
    gap              the gap between points at which trips were cut, in words; empty if they were not
    salt             with which the trips of a person were chosen; empty if the unit is a trip
    row_is_trip      whether every row was a trip of its own, because trips had no ids
    paid             every question that was asked of the trips, with its share of epsilon
    private          whether the noise was drawn for a release; False for noise from a seed
    versions         of dqam and of the libraries that the numbers come from
    delta            of the guarantee; 0 if it is pure. With a delta, questions are paid in rho, and their rhos add up
                     to at most that of epsilon and delta (`dqam.values.conversion`)
    slices           the rule that put each trip into a slice; empty if there are no slices
    timezone         in which its clocks were read; empty if times were taken as they were written
    prior            the public pattern that weak signals were drawn towards, with a checksum; empty if there was none
    factor           by which the counts of the kept trips were multiplied to count all trips of each person; 1 if they
                     were not
    scaled_up_to     the largest number of trips of a person that the measurement behind the factor could tell from
                     noise; 0 if counts were not multiplied
    max_trips_chosen  whether `unit.max_trips` was chosen by one of the paid questions; otherwise it was public
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
    delta: Fraction = Fraction(0)
    slices: str = ""
    timezone: str = ""
    prior: str = ""
    factor: float = 1.0
    scaled_up_to: int = 0
    max_trips_chosen: bool = False

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        for entry in self.paid:
            _check_currency(entry, bool(self.delta))
        scaled = self.scaled_up_to >= self.unit.max_trips and 1 <= self.factor < math.inf and self.unit.name == "person"
        if not scaled and (self.factor, self.scaled_up_to) != (1, 0):
            raise InputError(f"A factor of {self.factor} up to {self.scaled_up_to} trips does not fit {self.unit}.")
        if self.max_trips_chosen and not self.scaled_up_to:
            raise InputError("max_trips cannot have been chosen privately: the trips of persons were not measured.")
        if self.delta:
            most = Promise.of(self.epsilon, self.delta).rho
            if most is None or self.spent > most:
                raise InputError(f"The rhos of its questions add up to {float(self.spent):g}, more than {self.stated}.")
        elif self.spent != self.epsilon:
            raise InputError(
                f"The epsilons of its questions add up to {self.spent}, but the release says {self.epsilon}."
            )

    def column(self, counted: str) -> str:
        """The name of a column with answers, trips or crossings; it says so if they are not private."""
        return counted if self.private else f"{counted}_not_private"

    @property
    def spent(self) -> Fraction:
        """The sum of what the questions cost: epsilons, or rhos if there is a delta."""
        spent = Fraction(0)
        for entry in self.paid:
            spent += entry.cost
            if spent.denominator > FINEST:
                raise InputError("The costs of its questions have too many digits to be added.")
        return spent

    @property
    def stated(self) -> str:
        """Epsilon, and delta if there is one, such as "epsilon = 1, delta = 1e-8"."""
        return str(Promise(self.epsilon, self.delta))

    @property
    def promise(self) -> str:
        """The guarantee in one sentence."""
        if not self.private:
            return "NOT PRIVATE: made with noise from a seed, for tests and experiments."
        trip = "one row, which is a trip" if self.row_is_trip else "one trip"
        whose = trip if self.unit.name == "trip" else f"one person (at most {self.unit.max_trips} trips)"
        return f"Differentially private for {whose}, {self.stated}."

    @property
    def overflow(self) -> str:
        """A bound on the probability that noise does not fit into 64 bits, such as "10^-47"; empty if it always does.

        The probabilities of all questions add up, to at most their number times the largest; this is rounded up to a
        power of ten. If there is a delta, it includes this.
        """
        powers = [int(entry.delta.removeprefix("10^-")) for entry in self.paid if entry.delta]
        return f"10^-{max(0, min(powers) - math.ceil(math.log10(len(powers))))}" if powers else ""

    @property
    def counted(self) -> str:
        """Which trips are counted, if not all; for readers of the numbers."""
        if self.unit.name == "trip":
            return ""
        chosen = ", a number chosen privately" if self.max_trips_chosen else ""
        kept = f"from at most {self.unit.max_trips} trips of each person{chosen}"
        return kept if not self.scaled_up_to else f"scaled up to all trips {kept}"

    @property
    def compared_as(self) -> str:
        """What the numbers count. Two releases can be compared only if this is the same."""
        if self.unit.name == "trip":
            return "all trips"
        if self.scaled_up_to:
            return "all trips of persons, scaled up"  # however many trips of each person were used
        return f"at most {self.unit.max_trips} of the trips of each person"


def _check_currency(entry: PaidQuestion, concentrated: bool) -> None:
    """Check that a question was paid in the currency of its release, and that this covers its noise."""
    if entry.kind not in ("measure", "select", "partition"):
        raise InputError(f"{entry.kind!r:.60} is not a kind of question.")
    if (entry.rho is not None) != concentrated or (entry.epsilon is None and not concentrated):
        raise InputError(f"The question {entry.name!r:.60} is not paid in {'rho' if concentrated else 'epsilon'}.")
    if entry.epsilon is None and entry.kind != "measure":
        raise InputError(
            f"The question {entry.name!r:.60} has no epsilon; only measured numbers can have Gaussian noise."
        )
    if entry.epsilon is not None and entry.kind == "measure" and entry.scale * entry.epsilon < entry.sensitivity:
        raise InputError(f"The question {entry.name!r:.60} has too little noise for its epsilon.")
    rounded = (entry.sensitivity - 1) ** 2  # the L2 sensitivity is rounded up to an integer
    if entry.epsilon is None and entry.rho is not None and 2 * entry.rho * entry.scale**2 <= rounded:
        raise InputError(f"The question {entry.name!r:.60} has too little noise for its rho.")
    if entry.epsilon is not None and entry.rho is not None:
        least = entry.epsilon**2 / (8 if entry.kind == "select" else 2)
        if entry.rho < least:
            raise InputError(
                f"The question {entry.name!r:.60} has too little rho for epsilon {float(entry.epsilon):g}."
            )


def check_mechanism(name: str) -> None:
    """Check that the name of a mechanism is a plain word, and not a form "as printed", which is not private."""
    if not isinstance(name, str) or not MECHANISM.fullmatch(name) or name.endswith("-printed"):
        raise InputError(f"{str(name)[:40]!r} cannot be the mechanism of a release; use a name such as 'flux'.")


def check_crs(crs: str) -> None:
    """Allow only authority codes in a release, because other notations of a CRS can refer to files of the reader."""
    if not isinstance(crs, str) or not CODE.fullmatch(crs):
        raise InputError(f"The CRS of a release must be a code such as EPSG:28355; got {str(crs)[:60]!r}.")
