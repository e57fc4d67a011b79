"""Statistical audits: run a mechanism many times on neighbouring data sets, and bound its epsilon from below.

An eps-private mechanism gives every event at most exp(eps) times the probability on one data set that it has on its
neighbour. On half of the runs the audit looks for the event that tells the two apart best; on the other half it bounds
the two probabilities of this event (Clopper and Pearson). The result is a lower bound on eps that holds at the given
confidence level. A bound above the claim proves a fault; a bound below it proves nothing.

A claim may have a delta. An (eps, delta)-private mechanism satisfies P(S) <= exp(eps) Q(S) + delta for the
probabilities P and Q of every event S on neighbouring data sets. If P is at least p and Q at most q, then eps is at
least ln((p - delta) / q). The event is chosen and bounded as above; it is often a rare one. The audit only counts how
often an event happens. For a delta of 1e-8, the events that decide have a probability of about 3e-7, too little to be
counted in an affordable number of runs. Audits therefore make claims with `AUDIT_DELTA` = 1e-3, where these events
have a probability of about 1 %. The code that converts a claim into noise is the same for every delta. The conversion
is not tight: at eps = 1, one Gaussian answer has an exact eps of 0.82 for a delta of 1e-2, of 0.87 for 1e-3 and of 0.94
for 1e-8, so that no audit can measure more than that.

A mechanism is any callable `f(trips, rng) -> outcome`. An outcome is a number, an array, a `Partition`, a string or a
tuple, or a dict of these; its structure can reveal data as well as its numbers can. A `Sampler` knows both data sets of
a pair and can add the log-likelihood ratio of its answers: if the distribution of the noise is known, no other number
reveals more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import betaincinv

from dqam.audit.pairs import ADVERSARIAL_PAIRS, Pair, Pairs
from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Numbers
from dqam.geometry.regions import Partition
from dqam.geometry.trips import Trips
from dqam.values.guarantee import Number, parse_delta

MechanismFunction = Callable[[Trips, np.random.Generator], Any]

THRESHOLDS = 64  # at most so many values of a number are tried as thresholds
CANDIDATES = 30  # alpha is divided by this when an event is chosen, because many events are tried
AUDIT_DELTA = Fraction(1, 1000)  # of the claims of audits with a delta; see above
WIDEST = 256  # at most so many numbers of an array are looked at one by one


@runtime_checkable
class Sampler(Protocol):
    """A mechanism that draws its own runs, and may use both data sets of the pair to say how much each run reveals."""

    def draw(
        self, pair: Pair, side: int, runs: int, rng: np.random.Generator, step: Callable[[int], None]
    ) -> list[Any] | dict[str, Numbers]:
        """Outcomes on `pair[side]`: a list, or arrays with one row per run. Calls `step` with the runs done."""


@dataclass(frozen=True)
class Finding:
    """The event that tells one pair of neighbours apart best.

    high, low  how often it happened on the data set on which it is more likely, and on the other; counted on the runs
               that it was not chosen on
    epsilon    the lower bound
    """

    pair: str
    event: str
    high: float
    low: float
    epsilon: float


@dataclass(frozen=True)
class Audit:
    """The result of an audit: one finding for each pair of neighbours."""

    findings: tuple[Finding, ...]
    runs: int
    confidence: float
    delta: Fraction = Fraction(0)

    @property
    def epsilon(self) -> float:
        """A lower bound on the epsilon of the mechanism at `delta`; the confidence level is for all pairs together."""
        return max(finding.epsilon for finding in self.findings)


def audit(
    mechanism: MechanismFunction | Sampler,
    pairs: Pairs = ADVERSARIAL_PAIRS,
    runs: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
    delta: Number | None = None,
) -> Audit:
    """Bound the epsilon of `mechanism` from below on each pair of data sets, by `runs` runs on each side.

    With a `delta`, the bound is on the smallest epsilon for which it is (epsilon, delta)-private.
    """
    least = parse_delta(delta)
    if runs < 100:
        raise InputError(f"An audit needs at least 100 runs; got {runs}.")
    if not 0 < confidence < 1:
        raise InputError(f"Confidence must be between 0 and 1, such as 0.95; got {confidence}.")
    alpha = (1 - confidence) / len(pairs)
    rng = np.random.default_rng(seed)
    findings: list[Finding] = []
    for done, (name, pair) in enumerate(pairs.items()):
        sides = []
        for side, trips in enumerate(pair):

            def step(run: int, before: float = done + side / 2) -> None:
                if progress is not None and run % 100 == 0:
                    progress((before + run / runs / 2) / len(pairs))

            if isinstance(mechanism, Sampler):
                sides.append(mechanism.draw(pair, side, runs, rng, step))
            else:
                sides.append(repeat(partial(mechanism, trips, rng), runs, step))
        findings.append(_finding(name, *_columns(*sides), runs, alpha, float(least)))
    return Audit(tuple(findings), runs, confidence, least)


def repeat(run: Callable[[], Any], runs: int, step: Callable[[int], None]) -> list[Any]:
    """The outcomes of `runs` runs; an exception is an outcome too, because it may reveal something."""
    outcomes = []
    for done in range(runs):
        try:
            outcomes.append(run())
        except Exception as error:
            outcomes.append(f"raised {type(error).__name__}: {error}")
        step(done)
    return outcomes


def _finding(
    pair: str, numbers: dict[str, Floats], labels: dict[str, Integers], runs: int, alpha: float, delta: float
) -> Finding:
    """Choose an event on the first half of the runs of each side, and bound it on the second.

    The event is that a number is at least, or at most, a threshold. Labels become numbers by how much more likely each
    is on one side than on the other. This is estimated on the first quarter of the runs, and the threshold is chosen on
    the second.
    """
    half, quarter = runs // 2, runs // 4
    first_quarter = slice(0, quarter), slice(runs, runs + quarter)
    tried = [(name, values, 0) for name, values in numbers.items()]  # and the run from which thresholds are chosen
    if len(numbers) > 1:
        tried.append(("likelihood", _likelihood(np.stack(list(numbers.values()), axis=1), *first_quarter), quarter))
    for name, codes in labels.items():
        kinds = codes.max() + 1
        if kinds <= half:  # if nearly all labels differ, thresholds reveal more
            on_one, on_other = (np.bincount(codes[side], minlength=kinds) + 0.5 for side in first_quarter)
            tried.append((f"log-odds of {name}", np.log(on_other / on_one)[codes], quarter))
    best, event, happened, reverse = -math.inf, "", np.zeros(2 * runs, bool), False
    for name, values, start in tried:
        first, second = np.sort(values[start:half]), np.sort(values[runs + start : runs + half])
        seen = np.concatenate([first, second])
        thresholds = np.unique(seen)
        if len(thresholds) > THRESHOLDS:
            ranks = _tail_ranks(len(seen)) if delta else np.linspace(0, 1, THRESHOLDS)
            thresholds = np.unique(np.quantile(seen, ranks, method="nearest"))
        for sign, counts in (
            (">=", [half - start - np.searchsorted(side, thresholds, "left") for side in (first, second)]),
            ("<=", [np.searchsorted(side, thresholds, "right") for side in (first, second)]),
        ):
            for flipped in (False, True):
                hits, misses = counts if flipped else counts[::-1]
                bounds = _lower_bound(hits, misses, half - start, alpha / CANDIDATES, delta)
                found = int(np.argmax(bounds))
                if bounds[found] > best:
                    best, event, reverse = float(bounds[found]), f"{name} {sign} {thresholds[found]:.6g}", flipped
                    happened = values >= thresholds[found] if sign == ">=" else values <= thresholds[found]
    rest = runs - half
    hits, misses = happened[runs + half :].sum(), happened[half:runs].sum()
    if reverse:
        hits, misses = misses, hits
    bound = max(0.0, float(_lower_bound(hits, misses, rest, alpha, delta)))
    return Finding(pair, event, float(hits / rest), float(misses / rest), bound)


def _tail_ranks(seen: int) -> Floats:
    """Ranks that are even on the scale of log-odds: with a delta, the best events are rare.

    >>> _tail_ranks(1_000_000)[[0, 31, 63]].round(3).tolist()
    [0.0, 0.445, 1.0]
    """
    furthest = math.log(max(seen, 2))
    return np.asarray(1 / (1 + np.exp(np.linspace(furthest, -furthest, THRESHOLDS))))


def _lower_bound(hits: Any, misses: Any, runs: int, alpha: float, delta: float) -> Any:
    """ln((lower end for p of the first - delta) / upper end for p of the second).

    It is above the true ln((p - delta) / q) with probability at most `alpha`.
    """
    hits, misses = np.asarray(hits, np.float64), np.asarray(misses, np.float64)
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, alpha / 2), 0)
    high = np.where(misses < runs, betaincinv(misses + 1, np.maximum(runs - misses, 1), 1 - alpha / 2), 1)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0) / high)


def _columns(one: Any, other: Any) -> tuple[dict[str, Floats], dict[str, Integers]]:
    """Outcomes of one side and then of the other, run by run, as named numbers and named labels."""
    numbers, labels = {}, {}
    if isinstance(one, dict):
        for name, array in ((name, np.concatenate([one[name], other[name]])) for name in one):
            for i, column in enumerate(array.reshape(len(array), -1).T):
                key = name if array.ndim == 1 else f"{name} [{i}]"
                numbers[key], labels[key] = column.astype(np.float64), np.unique(column, return_inverse=True)[1]
        return numbers, labels
    rows = [dict(_parts("", outcome)) for outcome in (*one, *other)]
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if all(isinstance(value, int | float) for value in values):
            numbers[name] = np.array(values, np.float64)
        codes: dict[Any, int] = {}
        labels[name] = np.array([codes.setdefault(value, len(codes)) for value in values])
    return numbers, labels


def _parts(name: str, outcome: Any) -> Iterator[tuple[str, Any]]:
    """An outcome as named numbers and hashable labels."""
    if isinstance(outcome, Mapping):
        for key, value in outcome.items():
            yield from _parts(f"{name}{key} ", value)
    elif isinstance(outcome, Partition):
        yield f"{name}number of regions", len(outcome)
        yield f"{name}partition", outcome.regions.tobytes()
        sizes = outcome.sizes[outcome.labels]
        yield from _parts(f"{name}region size at cell ", np.array(sizes)[::2, ::2])
    elif isinstance(outcome, np.ndarray):
        flat = outcome.ravel().astype(np.float64)
        yield f"{name}shape", outcome.shape
        yield f"{name}count of NaN", float(np.isnan(flat).sum())
        flat = np.nan_to_num(flat)
        yield f"{name}sum", float(flat.sum())
        if outcome.dtype.kind in "iu" and outcome.size:
            yield f"{name}last bits", float(int(outcome.ravel()[0]) % 1024)
        for i in np.linspace(0, len(flat) - 1, min(len(flat), WIDEST)).astype(int):
            yield f"{name}[{i}]", float(flat[i])
    elif isinstance(outcome, bool | np.bool_ | str | bytes | tuple):
        yield name or "outcome", outcome if not isinstance(outcome, np.bool_) else bool(outcome)
    elif isinstance(outcome, int | float | np.number):
        yield from _parts(name, np.array([outcome]))
    else:
        raise InputError(f"An outcome cannot be a {type(outcome).__name__}; return numbers, arrays, strings or tuples.")


def _likelihood(numbers: Floats, one: slice, other: slice) -> Floats:
    """The log-likelihood ratio of independent Laplace variables around the medians of each side."""
    center, shifted = np.median(numbers[one], axis=0), np.median(numbers[other], axis=0)
    spread = np.maximum(np.abs(numbers[one] - center).mean(axis=0), 1e-9)
    return ((np.abs(numbers - center) - np.abs(numbers - shifted)) / spread).sum(axis=1)
