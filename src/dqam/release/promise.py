"""The guarantee of a release in numbers that people can judge, and what its privacy budget was spent on."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from dqam.release.formatting import decimal, number, percent
from dqam.release.release import Provenance
from dqam.values.guarantee import LedgerEntry

PRIORS = (0.01, 0.1, 0.5)  # the last is the one that the text explains
SEVERAL = (2, 5, 10)  # trips of one person
LARGE_EPSILON = 5  # from which on the page warns

# For each name in the ledger: what was measured, in words, and how many units of its sensitivity make one.
QUESTIONS = {
    "number of trips": ("Number of trips", 1),
    "rectangles met and missed": ("Number of trips and average answer", 1),
    "distinct trips": ("Number of trips through one rectangle", 1),
    "query errors": ("Public rectangle at which the draft map is furthest off", 1),
    "endpoints by region": ("Starts and ends of trips, by region", 1),
    "flux by region": ("Crossings between cells, by region", 2**16),
    "walk length quantile": ("Cap on one trip's length", 1),
    "shadows": ("Starts, ends and crossings of trips on a coarse lattice", 2**16),
    "shadow size quantile": ("Cap on one trip's contribution", 1),
    "cell shares": ("Share of trips in each cell", 2**30 - 2**24),
    "shares by group": ("Share of trips in each group of cells", 2**30 - 2**24),
    "uniformity costs": ("Unevenness of trips within each region", 2**30 - 2**24),
    "privtree": ("Regions in which the map should be finer", 2**30 - 2**24),
    "l1 buckets": ("Neighbouring cells that can be counted together", 2**30 - 2**24),
}
KINDS = {"measure": "noisy numbers", "select": "noisy choice", "partition": "noisy grouping of cells"}


@dataclass(frozen=True)
class BudgetRow:
    """What a part of epsilon was spent on; equal entries of the ledger share a row.

    sensitivity  how far one unit can change it; in the same unit as `scale`, that of the noise
    epsilon      of all `times` together; `each` of one of them
    """

    name: str
    kind: str
    times: int
    sensitivity: float
    scale: float
    epsilon: Fraction
    each: Fraction
    share: float


def budget(provenance: Provenance) -> list[BudgetRow]:
    """What the privacy budget was spent on."""
    return [_row(entry, times, provenance.epsilon) for entry, times in Counter(provenance.ledger).items()]


def _row(entry: LedgerEntry, times: int, whole: Fraction) -> BudgetRow:
    name, resolution = QUESTIONS.get(entry.name, (entry.name, 1))
    return BudgetRow(
        name=name,
        kind=KINDS.get(entry.question, entry.question),
        times=times,
        sensitivity=entry.sensitivity / resolution,
        scale=float(entry.scale / resolution),
        epsilon=times * entry.epsilon,
        each=entry.epsilon,
        share=float(times * entry.epsilon / whole),
    )


def delta(provenance: Provenance) -> tuple[str, str] | None:
    """Base and exponent of the delta that the guarantee holds with; None for pure differential privacy."""
    if any(entry.name == "l1 buckets" for entry in provenance.ledger):
        return "10", "-47"
    return None


def beliefs(epsilon: float) -> list[tuple[str, str, str]]:
    """How sure someone can be that a unit is in the data: before, at least and at most afterwards."""
    return [(percent(prior), *posterior_in_words(prior, epsilon)) for prior in PRIORS]


def groups(epsilon: Fraction) -> list[tuple[str, str, str]]:
    """For several trips together: how many, their epsilon, and the highest belief in them that was 50 % before."""
    return [
        (f"{trips} trips", decimal(trips * epsilon), posterior_in_words(0.5, float(trips * epsilon))[1])
        for trips in SEVERAL
    ]


def posterior(prior: float, epsilon: float) -> tuple[float, float]:
    """The lowest and the highest belief that a unit is in the data, for someone whose belief was `prior` before.

    >>> [round(belief, 3) for belief in posterior(0.5, math.log(3))]
    [0.25, 0.75]
    """
    less = math.exp(-epsilon)
    return prior * less / (prior * less + 1 - prior), prior / (prior + (1 - prior) * less)


def posterior_in_words(prior: float, epsilon: float) -> tuple[str, str]:
    r"""The same as text, rounded away from the prior, so that neither bound is too tight.

    >>> posterior_in_words(0.5, 1), posterior_in_words(0.5, 99)
    (('26.8\xa0%', '73.2\xa0%'), ('nearly 0\xa0%', 'nearly 100\xa0%'))
    """
    least, most = posterior(prior, epsilon)
    low, high = (10 ** (3 if 0.01 < share < 0.99 else 4) for share in (least, most))
    return (
        percent(math.floor(least * low) / low, 3) if least > 2e-4 else "nearly 0\xa0%",
        percent(math.ceil(most * high) / high, 3) if most < 1 - 2e-4 else "nearly 100\xa0%",
    )


def factor(epsilon: float) -> str:
    """E to the power of epsilon, as text."""
    if epsilon > math.log(1e6):
        return "more than a million"
    return number(math.exp(epsilon)) if epsilon >= 0.1 else f"{math.exp(epsilon):.4g}"
