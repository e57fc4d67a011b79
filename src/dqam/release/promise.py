"""The privacy guarantee of a release in terms that readers can judge, and how its privacy budget was spent."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from dqam.release.formatting import decimal, number, percent
from dqam.release.provenance import Provenance
from dqam.values.guarantee import PaidQuestion

PRIORS = (0.01, 0.1, 0.5)  # the last is the one that the text explains
SEVERAL = (2, 5, 10)  # trips of one person
LARGE_EPSILON = 5  # from which on the page warns

KINDS = {"measure": "noisy numbers", "select": "noisy choice", "partition": "noisy grouping of cells"}
GAUSSIAN = "numbers with Gaussian noise"


@dataclass(frozen=True)
class BudgetRow:
    """What a part of the budget was spent on; equal questions share a row.

    sensitivity  how far one unit can change it; in the same unit as `scale`, that of the noise
    cost         epsilon, or rho if there is a delta, of all `times` together; `each` of one of them
    """

    name: str
    kind: str
    times: int
    sensitivity: float
    scale: float
    cost: Fraction
    each: Fraction
    share: float


def budget(provenance: Provenance) -> list[BudgetRow]:
    """What the privacy budget was spent on."""
    return [_row(entry, times, provenance.spent) for entry, times in Counter(provenance.paid).items()]


def _row(entry: PaidQuestion, times: int, whole: Fraction) -> BudgetRow:
    return BudgetRow(
        name=entry.name,
        kind=GAUSSIAN if entry.epsilon is None else KINDS.get(entry.kind, entry.kind),
        times=times,
        sensitivity=entry.sensitivity / entry.resolution,
        scale=float(entry.scale / entry.resolution),
        cost=times * entry.cost,
        each=entry.cost,
        share=float(times * entry.cost / whole),
    )


def overflow(provenance: Provenance) -> tuple[str, str] | None:
    """Base and exponent of the probability that noise does not fit into 64 bits; None if it always does."""
    base, power, exponent = provenance.overflow.partition("^")
    return (base, exponent) if power else None


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
    r"""The result of `posterior` as text, rounded away from the prior, so that neither bound is too tight.

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
