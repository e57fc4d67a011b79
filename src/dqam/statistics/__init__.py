"""The closed list of questions that may be asked about the data, each with a proof of its sensitivity.

Each module holds one kind of statistic: its aggregate (how it is summed over trips), its sensitivity and the proof. To
add a statistic, write such a module and add its class to one of the three sets below. Add a test to `tests/statistics`
that its sensitivity is never exceeded and is reached, and a case each to `dqam.audit.cases` and
`dqam.audit.neighbours`.

An aggregate sees the cells that trips pass and their slices, not their times or ids
(`dqam.statistics.aggregate.Part`); `TripsPerPerson` sees how many trips persons have. A statistic reaches a
release only through a mechanism that asks for it.
"""

from dataclasses import fields

from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.statistics.buckets import L1Buckets
from dqam.statistics.cell_shares import MASS, CellShares, GroupShares
from dqam.statistics.crossings import CROSSING, Crossings
from dqam.statistics.distinct import DistinctCounts, QueryErrors, QueryTotals
from dqam.statistics.endpoints import Endpoints
from dqam.statistics.limits import MOST_CAP, MOST_TRIPS
from dqam.statistics.pair_counts import PairCounts
from dqam.statistics.person_trips import PersonTrips
from dqam.statistics.privtree import PrivTree
from dqam.statistics.quantile import LengthQuantile
from dqam.statistics.question import PrivatePartition, Question, Scores, Statistic
from dqam.statistics.shadow_sums import ShadowQuantile, ShadowSums
from dqam.statistics.shadows import SHADOW
from dqam.statistics.sliced import Sliced
from dqam.statistics.trip_count import TripCount
from dqam.statistics.uniformity import UniformityCosts
from dqam.statistics.walk_sums import WalkSums

STATISTICS = frozenset(
    {
        *(TripCount, Endpoints, Crossings, ShadowSums, WalkSums, CellShares, GroupShares, UniformityCosts),
        *(DistinctCounts, QueryTotals, PairCounts, Sliced, PersonTrips),
    }
)
SCORES = frozenset({QueryErrors, LengthQuantile, ShadowQuantile})
PARTITIONS = frozenset({PrivTree, L1Buckets})
OF_PERSONS = frozenset({PersonTrips})  # their sensitivities are for a person, not for a trip
PROVEN = STATISTICS | SCORES | PARTITIONS


def check_question(question: Question, grid: Grid, proven: frozenset[type] = PROVEN, slices: int | None = None) -> None:
    """Raise an `InputError` for a question that has no proof, or does not fit the grid or the number of `slices`.

    The proof is about the class. It holds neither for subclasses nor for an object that overrides an attribute of it.
    """
    kind = type(question)
    if not any(kind is known for known in proven):
        raise InputError(f"{kind.__name__} is not a question with a proof; see dqam.statistics.")
    if odd := vars(question).keys() - {each.name for each in fields(kind)}:  # type: ignore[arg-type]
        raise InputError(f"{kind.__name__} was changed: its {', '.join(sorted(odd))} cannot be set.")
    kind.check(question, grid)
    if isinstance(question, Sliced):
        Sliced.check_slices(question, slices)


__all__ = [
    "CROSSING",
    "MASS",
    "MOST_CAP",
    "MOST_TRIPS",
    "OF_PERSONS",
    "PARTITIONS",
    "PROVEN",
    "SCORES",
    "SHADOW",
    "STATISTICS",
    "CellShares",
    "Crossings",
    "DistinctCounts",
    "Endpoints",
    "GroupShares",
    "L1Buckets",
    "LengthQuantile",
    "PairCounts",
    "PersonTrips",
    "PrivTree",
    "PrivatePartition",
    "QueryErrors",
    "QueryTotals",
    "Question",
    "Scores",
    "ShadowQuantile",
    "ShadowSums",
    "Sliced",
    "Statistic",
    "TripCount",
    "UniformityCosts",
    "WalkSums",
    "check_question",
]
