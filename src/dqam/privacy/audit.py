"""Is a mechanism as private as it says? Run it many times on neighbouring data and measure how much it tells.

An eps-private mechanism gives every event at most exp(eps) times the probability on one data set that it has on its
neighbour. On half of the runs the audit looks for the event that tells most; on the other half it bounds its two
probabilities (Clopper and Pearson). The result is a lower bound on eps that holds with the confidence asked for: far
below the claim it proves nothing, above the claim it proves a fault.

A mechanism is any callable `f(trips, rng) -> outcome`. An outcome is a number, an array, a `Partition`, a string or a
tuple, or a dict of these: structure is an event like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from dqam.errors import InputError
from dqam.grid import Grid
from dqam.partition.regions import Partition
from dqam.trips import Trips
from dqam.walks import Walks, walk

Mechanism = Callable[[Trips, np.random.Generator], Any]
Floats = NDArray[np.float64]

GRID = Grid((0.0, 0.0, 8.0, 8.0), 8, 8)  # a cell is one unit
THRESHOLDS = 64  # values of a number that are tried as thresholds
VALUES = 16  # most frequent values that are tried as events of their own
WIDEST = 256  # numbers of an array that are looked at one by one


@dataclass(frozen=True)
class Finding:
    """The most telling event for one pair of neighbours."""

    pair: str
    event: str
    high: float  # how often it was seen where it is likelier, on the runs that it was not chosen on
    low: float  # and on the neighbour
    epsilon: float  # the lower bound


@dataclass(frozen=True)
class Audit:
    """What an audit found: one finding for each pair of neighbours."""

    findings: tuple[Finding, ...]
    runs: int
    confidence: float

    @property
    def epsilon(self) -> float:
        """A lower bound on the eps of the mechanism, at the given confidence for all findings together."""
        return max(finding.epsilon for finding in self.findings)


def neighbours() -> dict[str, tuple[Trips, Trips]]:
    """Pairs of data sets on `GRID` that differ in one trip, chosen to hurt."""
    rng = np.random.default_rng(7)
    few = [[tuple(rng.uniform(0, 8, 2)) for _ in range(rng.integers(1, 6))] for _ in range(12)]
    crowd = [[(2.5, 2.5)] for _ in range(12)]
    snake = [
        (column + 0.5, row + 0.5) for row in range(8) for column in (range(8) if row % 2 == 0 else range(7, -1, -1))
    ]
    added = {
        "longest walk": snake,
        "one cell": [(2.5, 2.5)],
        "zig-zag": [(3.5 + (i + 1) // 2 % 2, 0.25 + i // 2 * 0.5) for i in range(31)],
        "on corners": [(float(i), float(i)) for i in range(1, 8)],
        "out and back": [(0.5, 3.5), (-1.0, 3.5), (-1.0, 4.5), (7.5, 4.5), (9.0, 4.5), (9.0, 0.5), (6.5, 0.5)],
    }
    pairs = {}
    for base_name, base in (("no trips", []), ("few trips", few), ("a crowd in one cell", crowd)):
        for name, trip in added.items():
            pairs[f"{base_name} + {name}"] = Trips.from_lists(base), Trips.from_lists([*base, trip])
    return pairs


def audit(
    mechanism: Mechanism,
    pairs: Mapping[str, tuple[Trips, Trips]] | None = None,
    runs: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Audit:
    """Lower bounds on the eps of `mechanism`, one for each pair of neighbouring data sets, `runs` runs on each side."""
    if runs < 100:
        raise InputError(f"An audit needs at least 100 runs; got {runs}.")
    if not 0 < confidence < 1:
        raise InputError(f"Confidence is between 0 and 1, such as 0.95; got {confidence}.")
    pairs = neighbours() if pairs is None else pairs
    doubt = (1 - confidence) / len(pairs)
    rng = np.random.default_rng(seed)
    findings = []
    for done, (name, (one, other)) in enumerate(pairs.items()):
        outcomes: list[list[Any]] = []
        for side, trips in enumerate((one, other)):
            outcomes.append([])
            for run in range(runs):
                try:
                    outcomes[side].append(mechanism(trips, rng))
                except Exception as error:  # that it fails is an outcome, and may tell
                    outcomes[side].append(f"raised {type(error).__name__}: {error}")
                if progress is not None and run % 100 == 0:
                    progress((done + (side + run / runs) / 2) / len(pairs))
        findings.append(_finding(name, outcomes[0], outcomes[1], doubt))
    return Audit(tuple(findings), runs, confidence)


def _finding(pair: str, one: list[Any], other: list[Any], doubt: float) -> Finding:
    """Choose an event on the first half of the runs, bound it on the second."""
    half = len(one) // 2
    numbers, labels = _columns([*one, *other])
    sides = np.repeat([False, True], [len(one), len(other)])
    training = np.tile(np.arange(len(one)) < half, 2)
    if len(numbers) > 1:
        numbers["likelihood"] = _likelihood(np.stack(list(numbers.values()), axis=1), sides, training)
    best = (-math.inf, "", np.zeros(len(sides), bool), False)
    for event, happened in _events(numbers, labels, training, sides):
        on_one, on_other = happened[training & ~sides].sum(), happened[training & sides].sum()
        for flipped in (False, True):
            hits, misses = (on_one, on_other) if flipped else (on_other, on_one)
            bound = _lower_bound(hits, misses, half, half, doubt)
            if bound > best[0]:
                best = bound, event, happened, flipped
    _, event, happened, flipped = best
    on_one, on_other = happened[~training & ~sides].sum(), happened[~training & sides].sum()
    hits, misses = (on_one, on_other) if flipped else (on_other, on_one)
    rest = len(one) - half
    bound = max(0.0, _lower_bound(hits, misses, rest, rest, doubt))
    return Finding(pair, event, float(hits / rest), float(misses / rest), bound)


def _lower_bound(hits: int, misses: int, hit_runs: int, miss_runs: int, doubt: float) -> float:
    """ln(lowest likely p of the first / highest likely p of the second), wrong with a chance of at most `doubt`."""
    if hits == 0:
        return -math.inf
    low = betaincinv(hits, hit_runs - hits + 1, doubt / 2)
    high = 1.0 if misses == miss_runs else betaincinv(misses + 1, miss_runs - misses, 1 - doubt / 2)
    return math.log(low / high) if low > 0 else -math.inf


def _columns(outcomes: list[Any]) -> tuple[dict[str, Floats], dict[str, NDArray[np.int64]]]:
    """Outcomes, run by run, as named numbers and named labels."""
    rows = [dict(_parts("", outcome)) for outcome in outcomes]
    names = dict.fromkeys(name for row in rows for name in row)
    numbers, labels = {}, {}
    for name in names:
        values = [row.get(name) for row in rows]
        if all(isinstance(value, int | float) for value in values):
            numbers[name] = np.array(values, np.float64)
        known: dict[Any, int] = {}
        labels[name] = np.array([known.setdefault(value, len(known)) for value in values])
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
        yield f"{name}not numbers", float(np.isnan(flat).sum())
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
        raise InputError(f"An outcome can not be a {type(outcome).__name__}; give numbers, arrays, strings or tuples.")


def _likelihood(numbers: Floats, sides: NDArray[np.bool_], training: NDArray[np.bool_]) -> Floats:
    """The log-likelihood ratio of independent Laplace variables around the medians of each side."""
    one, other = numbers[training & ~sides], numbers[training & sides]
    center, shifted = np.median(one, axis=0), np.median(other, axis=0)
    spread = np.maximum(np.abs(one - center).mean(axis=0), 1e-9)
    return ((np.abs(numbers - center) - np.abs(numbers - shifted)) / spread).sum(axis=1)


def _events(
    numbers: dict[str, Floats],
    labels: dict[str, NDArray[np.int64]],
    training: NDArray[np.bool_],
    sides: NDArray[np.bool_],
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for name, values in numbers.items():
        for threshold in np.unique(np.quantile(values[training], np.linspace(0, 1, THRESHOLDS), method="nearest")):
            yield f"{name} >= {threshold:.6g}", values >= threshold
            yield f"{name} <= {threshold:.6g}", values <= threshold
    for name, codes in labels.items():
        found, counts = np.unique(codes[training], return_counts=True)
        if len(found) > len(codes) // 4:
            continue  # all different: thresholds say more
        tells = np.abs(
            np.bincount(codes[training & sides], minlength=codes.max() + 1)
            - np.bincount(codes[training & ~sides], minlength=codes.max() + 1)
        )[found]
        for code in found[np.unique(np.concatenate([np.argsort(-counts)[:VALUES], np.argsort(-tells)[:VALUES]]))]:
            yield f"{name} is value {code}", codes == code


@lru_cache(maxsize=256)
def laid(trips: Trips, grid: Grid = GRID) -> Walks:
    """The walks of trips, laid once for all runs."""
    return walk(trips, grid)
