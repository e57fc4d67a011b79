"""The privacy guarantee of a release in terms that readers can judge, and how its privacy budget was spent."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from markupsafe import Markup

from dqam.release.formatting import decimal, number, one_in, percent, rounded_up
from dqam.release.provenance import Provenance
from dqam.values.conversion import epsilon_of
from dqam.values.guarantee import PaidQuestion, Promise

PRIORS = (0.01, 0.1, 0.5)  # the last is the one that the text explains
SEVERAL = (2, 5, 10)  # trips of one person
LARGE_EPSILON = 5  # from which on the page warns

KINDS = {"measure": "noisy numbers", "select": "noisy choice", "partition": "noisy grouping of cells"}
GAUSSIAN, LAPLACE = "numbers with Gaussian noise", "numbers with Laplace noise"  # where both occur
OVERFLOW = 1e-40  # more than the probability that noise does not fit into 64 bits, if there is a delta


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
        kind=_kind(entry),
        times=times,
        sensitivity=entry.sensitivity / entry.resolution,
        scale=float(entry.scale / entry.resolution),
        cost=times * entry.cost,
        each=entry.cost,
        share=float(times * entry.cost / whole),
    )


def _kind(entry: PaidQuestion) -> str:
    if entry.rho is not None and entry.kind == "measure":
        return GAUSSIAN if entry.epsilon is None else LAPLACE
    return KINDS.get(entry.kind, entry.kind)


@dataclass(frozen=True)
class DeltaFacts:
    """What a delta adds to the guarantee.

    rho           that the promise amounts to; measurements are paid from it
    exceeded      bound on the probability that the odds change by more than a factor of exp(epsilon)
    far_exceeded  the same for exp(2 epsilon)
    two_units     epsilon of two units together, or of replacing one unit, at the same delta
    """

    rho: Fraction
    exceeded: float
    far_exceeded: float
    two_units: Fraction


def delta_facts(provenance: Provenance) -> DeltaFacts | None:
    """What the delta of a release adds to its guarantee; None if it has none."""
    promise = Promise(provenance.epsilon, provenance.delta)
    if promise.rho is None:
        return None
    return DeltaFacts(
        rho=promise.rho,
        exceeded=tail(promise.epsilon, promise.rho),
        far_exceeded=tail(2 * promise.epsilon, promise.rho),
        two_units=epsilon_of_several(promise, 2),
    )


def tail(epsilon: Fraction, rho: Fraction) -> float:
    """A bound on the probability, over the noise, that a likelihood ratio exceeds exp(epsilon) under rho-zCDP.

    By Markov's inequality for the moments that rho-zCDP bounds, it is exp(-(epsilon - rho)^2 / (4 rho)) if epsilon is
    at least rho. This is more than the delta to which rho and epsilon convert, because delta weighs each outcome by how
    far it exceeds epsilon. Even for Gaussian noise, where the probability is known, it can be several times delta.

    >>> f"{tail(Fraction(1), Fraction('0.0172053180382643')):.2g}"  # rho of epsilon = 1, delta = 1e-8
    '8e-07'
    """
    excess = max(Fraction(0), epsilon - rho)
    return min(1.0, math.exp(-float(excess**2 / (4 * rho))) + OVERFLOW)


def epsilon_of_several(promise: Promise, units: int) -> Fraction:
    """The epsilon with which several units together are protected, at the same delta if there is one.

    Several units have `units` times the epsilon or, with a delta, `units`^2 times the rho (Bun and Steinke, 2016,
    proposition 1.9). A publication that could have been exchanged for a pure one (`Curator.exchange`) needs the larger.

    >>> round(float(epsilon_of_several(Promise.of(1, 1e-8), 2)), 3), epsilon_of_several(Promise.of(1), 2)
    (2.08, Fraction(2, 1))
    """
    pure = units * promise.epsilon
    return pure if promise.rho is None else max(pure, epsilon_of(units**2 * promise.rho, promise.delta))


def overflow(provenance: Provenance) -> tuple[str, str] | None:
    """Base and exponent of the probability that noise does not fit into 64 bits; None if it always does."""
    base, power, exponent = provenance.overflow.partition("^")
    return (base, exponent) if power else None


def beliefs(epsilon: float) -> list[tuple[str, str, str]]:
    """How sure someone can be that a unit is in the data: before, at least and at most afterwards."""
    return [(percent(prior), *posterior_in_words(prior, epsilon)) for prior in PRIORS]


def groups(provenance: Provenance) -> list[tuple[str | Markup, ...]]:
    """For several trips together: how many, their epsilon, and the highest belief in them that was 50 % before.

    With a delta, also the probability with which that belief can be exceeded.
    """
    promise = Promise(provenance.epsilon, provenance.delta)
    rows: list[tuple[str | Markup, ...]] = []
    for trips in SEVERAL:
        epsilon = epsilon_of_several(promise, trips)
        sure = posterior_in_words(0.5, float(epsilon))[1]
        if promise.rho is None:
            rows.append((f"{trips} trips", decimal(epsilon), sure))
        else:
            exceeded = one_in(tail(epsilon, trips**2 * promise.rho))
            rows.append((f"{trips} trips", rounded_up(epsilon), sure, exceeded))
    return rows


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
