"""What `dqam audit` can audit: mechanisms, each question of the curator, and mechanisms that are broken on purpose.

The broken ones show that the audit has power: it must catch every one of them. Among them is each question with half
the noise that was charged for.

Questions and mechanisms are audited a second time under a claim with a delta, where they get Gaussian and Gumbel noise;
the names of these cases end in "-delta". A single selection, or a single answer with Laplace noise, does not reveal as
much as its rho pays for, but many small ones together do. They are therefore asked `TIMES` times, each time with an
equal part of the budget. Partitions are asked four times. They are not audited with half the noise under a delta: one
partition gets sqrt(2 rho), about a third of epsilon, and with half the noise it would still keep the claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dqam.audit import faults
from dqam.audit.curators import (
    CuratorSampler,
    ExponentialNoise,
    HalvedNoise,
    NoNoiseOnVectors,
    RepeatedNoise,
    buckets,
    exchange_or_not,
    select_and_count,
    select_and_measure,
)
from dqam.audit.estimate import AUDIT_DELTA, MechanismFunction, Sampler
from dqam.audit.faults import CAP, L2_CAP, L2_WEIGHT, LATTICE, QUARTERS, RECTANGLES, TILES, TIMES, histogram_values
from dqam.audit.pairs import (
    ADVERSARIAL_PAIRS,
    BUCKET_PAIRS,
    GRID,
    MECHANISM_PAIRS,
    PERSON_PAIRS,
    QUADTREE_PAIRS,
    QUANTILE_PAIRS,
    SINGLE_TRIP_PAIRS,
    SLICES,
    Pairs,
)
from dqam.geometry.grid import Grid
from dqam.mechanisms import MECHANISMS, Mechanism, flux
from dqam.mechanisms.dawa import Dawa
from dqam.mechanisms.dqam import Dqam
from dqam.mechanisms.laplace import Laplace
from dqam.mechanisms.mwem import Mwem
from dqam.mechanisms.prish import Prish
from dqam.mechanisms.quadtree import grow_quadtree
from dqam.mechanisms.uniform import Uniform
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.statistics import (
    CellShares,
    Crossings,
    Endpoints,
    GroupShares,
    LengthQuantile,
    PairCounts,
    PersonTrips,
    QueryTotals,
    Scores,
    ShadowQuantile,
    ShadowSums,
    Sliced,
    Statistic,
    TripCount,
    UniformityCosts,
    WalkSums,
)
from dqam.statistics.privtree import PrivTree
from dqam.values.guarantee import Promise, Unit

ROW = Grid((0.0, 0.0, 7.0, 1.0), 1, 7)
COARSE = Grid(GRID.bounds, 4, 4)


@dataclass(frozen=True)
class AuditCase:
    """A mechanism to audit.

    about   what it is, in a few words
    make    makes the mechanism, or a sampler of it, for a claim
    sound   whether it should stay below its claim; False if it is broken on purpose
    pairs   neighbouring data sets; special ones if the usual ones do not reach the sensitivity
    runs    default number of runs on each data set of a pair
    delta   default delta of the claim; above 0 if the mechanism needs one
    """

    about: str
    make: Callable[[Promise], MechanismFunction | Sampler]
    sound: bool = True
    pairs: Pairs = field(default_factory=lambda: ADVERSARIAL_PAIRS)
    runs: int = 10_000
    delta: Fraction = Fraction(0)


def _asks(ask: Callable[[Curator, Budget], Any], **options: Any) -> Callable[[Promise], CuratorSampler]:
    return lambda claim: CuratorSampler(ask, claim, **options)


def _measures(statistic: Statistic, pure: bool = False, **options: Any) -> Callable[[Promise], CuratorSampler]:
    return _asks(lambda curator, budget: curator.measure(statistic, budget, pure=pure), batched=True, **options)


def _selects(scores: Scores) -> Callable[[Promise], CuratorSampler]:
    return _asks(lambda curator, budget: curator.select(scores, budget), batched=True)


def _synthesizes(mechanism: Mechanism, **options: Any) -> Callable[[Promise], CuratorSampler]:
    """A whole mechanism, from walks to histogram, with all answers that it was given on the way."""

    def ask(curator: Curator, budget: Budget) -> Any:
        return histogram_values(mechanism.synthesize(curator, RECTANGLES, budget).histogram)

    return _asks(ask, **options)


# with rounds and trees forced, because by default they would spread the few trips of an audit evenly
WHOLE_MECHANISMS: dict[str, Mechanism] = {
    "flux": flux.Flux(side=3, finest=6, least=0, crossed=0, known=0, rich=0, detailed=0),
    "uniform": Uniform(),
    "laplace": Laplace(least=0),
    "mwem": Mwem(rounds=3, least=0),
    "dawa": Dawa(width=0, grain=0, least=0),
    "prish": Prish(rounds=3, least=0),
    "dqam": Dqam(depth=2, rounds=2, least=0),
}
QUESTION_CASES: dict[str, AuditCase] = {
    "count": AuditCase("number of trips", _measures(TripCount())),
    "endpoints": AuditCase("endpoints by quarter of the map", _measures(Endpoints(QUARTERS))),
    "crossings": AuditCase("crossings by quarter of the map, capped", _measures(Crossings(QUARTERS, CAP))),
    "shadows": AuditCase("shadows on a lattice, capped", _measures(ShadowSums(LATTICE, CAP, CAP))),
    "walks": AuditCase("walks on a lattice, scaled to a cap", _measures(WalkSums(LATTICE, CAP, CAP))),
    "shadow-sizes": AuditCase(
        "quantile of the sizes of shadows",
        _selects(ShadowQuantile(np.array([4, 7]), Fraction(3, 4), LATTICE, 3)),
        pairs=QUANTILE_PAIRS,
    ),
    "shares": AuditCase("cell shares", _measures(CellShares())),
    "costs": AuditCase("uniformity costs", _measures(UniformityCosts(QUARTERS.regions))),
    "groups": AuditCase("cell shares by quarter of the map", _measures(GroupShares(QUARTERS.labels))),
    "buckets": AuditCase("DAWA's buckets", _asks(buckets, grid=ROW), pairs=BUCKET_PAIRS, runs=100_000),
    "answers": AuditCase("totals over rectangles that trips meet or miss", _measures(QueryTotals(RECTANGLES))),
    "slices": AuditCase(
        "totals over rectangles that trips meet or miss, by slice", _measures(Sliced(QueryTotals(RECTANGLES), SLICES))
    ),
    "person-slices": AuditCase(
        "number of trips by slice, at most two per person",
        _measures(Sliced(TripCount(), SLICES), unit=Unit.person(2)),
        pairs=PERSON_PAIRS,
    ),
    "pairs": AuditCase("trips by origin and destination", _measures(PairCounts(TILES, TILES))),
    "person-pairs": AuditCase(
        "trips by origin and destination, by slice, at most two per person",
        _measures(Sliced(PairCounts(TILES, TILES), SLICES), unit=Unit.person(2)),
        pairs=PERSON_PAIRS,
    ),
    "distinct": AuditCase(
        "rectangle selected by its error, then counted", _asks(select_and_measure), pairs=SINGLE_TRIP_PAIRS
    ),
    "quantile": AuditCase(
        "quantile of walk lengths", _selects(LengthQuantile(np.array([4, 16]), Fraction(3, 4))), pairs=QUANTILE_PAIRS
    ),
    "person": AuditCase(
        "number of trips, at most two per person",
        _measures(TripCount(), unit=Unit.person(2)),
        pairs=PERSON_PAIRS,
    ),
    "person-trips": AuditCase(
        "how many trips persons have", _measures(PersonTrips(2, (3, 12)), unit=Unit.person(2)), pairs=PERSON_PAIRS
    ),
    "privtree": AuditCase(
        "PrivTree on cell shares",
        _asks(lambda curator, budget: curator.partition(PrivTree(), budget), grid=COARSE),
        pairs={"no trips + one cell": SINGLE_TRIP_PAIRS["no trips + one cell"]},
        runs=100_000,
    ),
    "quadtree": AuditCase(
        "the paper's quadtree, paid for at every level",
        _asks(lambda curator, budget: grow_quadtree(curator, budget, threshold=-10.0)),
        pairs=SINGLE_TRIP_PAIRS,
    ),
}


def _halved(case: AuditCase) -> AuditCase:
    """The same question with half the noise."""
    return replace(case, about=f"{case.about}: half the noise", make=_with_noise(case, HalvedNoise), sound=False)


def _with_noise(case: AuditCase, noise: type[RepeatedNoise]) -> Callable[[Promise], Sampler]:
    make: Any = case.make
    return lambda claim: replace(make(claim), noise=noise)


HALVED_CASES = {f"fault-half-{name}": _halved(case) for name, case in QUESTION_CASES.items()}
FAULT_CASES: dict[str, AuditCase] = {
    "fault-no-cap": AuditCase("crossings without a cap", faults.uncapped_crossings, sound=False, runs=2_000),
    "fault-no-shadow-cap": AuditCase("shadows without a cap", faults.uncapped_shadows, sound=False, runs=2_000),
    "fault-no-walk-cap": AuditCase("walks without a cap", faults.uncapped_walks, sound=False, runs=2_000),
    "fault-shared-budget": AuditCase(
        "two lattices, each with noise as if it had the whole budget", faults.twice_the_budget, sound=False, runs=10_000
    ),
    "fault-exact-n": AuditCase(
        "cell shares scaled to the exact number of trips", faults.exact_total, sound=False, runs=2_000
    ),
    "fault-printed-quadtree": AuditCase(
        "the quadtree as printed: eps1 is spent at every level but charged once",
        faults.printed_quadtree,
        sound=False,
        pairs=QUADTREE_PAIRS,
    ),
    "fault-quiet-vectors": AuditCase(
        "dqam without noise on costs and densities",
        _synthesizes(WHOLE_MECHANISMS["dqam"], noise=NoNoiseOnVectors),
        sound=False,
        pairs=MECHANISM_PAIRS,
        runs=1_000,
    ),
    "dqam-printed": AuditCase("DQAM as printed", faults.printed_dqam, sound=False, pairs=MECHANISM_PAIRS, runs=1_000),
    "fault-visits": AuditCase(
        "visits (faces minus edges) taken for a distinct count", faults.visits_as_distinct, sound=False, runs=2_000
    ),
    "fault-two-slices": AuditCase(
        "number of trips by slice, where a trip counts in two slices", faults.in_two_slices, sound=False, runs=10_000
    ),
    "fault-two-origins": AuditCase(
        "trips by origin and destination, where a trip counts for two origins",
        faults.from_two_origins,
        sound=False,
        runs=10_000,
    ),
    "fault-exact-max-trips": AuditCase(
        "number of trips, where the exact trips of persons decide how many of them are kept",
        faults.exact_max_trips,
        sound=False,
        pairs=PERSON_PAIRS,
        runs=10_000,
    ),
    "fault-no-person-cap": AuditCase(
        "trips of persons without a cap", faults.uncapped_persons, sound=False, pairs=PERSON_PAIRS, runs=10_000
    ),
    "fault-singletons": AuditCase("regions of one cell without noise", faults.bare_singletons, sound=False, runs=2_000),
}


# Claims with a delta

REVEALING_PAIRS = {  # few, because rare events take many runs
    name: ADVERSARIAL_PAIRS[name]
    for name in ("no trips + one cell", "no trips + longest walk", "few trips + to and fro")
}
_L2_SHADOWS = ShadowSums(LATTICE, L2_CAP, L2_WEIGHT, 2)
_WITH_DELTA: dict[str, AuditCase] = {  # questions that are asked only, or differently, under a delta
    "distinct": AuditCase(
        "rectangle selected by its error, and one counted",
        _asks(select_and_count, batched=True),
        pairs=SINGLE_TRIP_PAIRS,
    ),
    "count-laplace": AuditCase("number of trips, Laplace noise", _measures(TripCount(), pure=True)),
    "shadows-l2": AuditCase("shadows on a lattice, sum of squares capped", _measures(_L2_SHADOWS)),
    "walks-l2": AuditCase(
        "walks on a lattice, sum of squares scaled to a cap", _measures(WalkSums(LATTICE, L2_CAP, L2_WEIGHT, 2))
    ),
    "shadow-sizes-l2": AuditCase(
        "quantile of the sums of squares of shadows",
        _selects(ShadowQuantile(np.array([2, 4]), Fraction(3, 4), LATTICE, 1, norm=2)),
        pairs=QUANTILE_PAIRS,
    ),
}
_REPEATED = {
    **dict.fromkeys(("count-laplace", "shadow-sizes", "shadow-sizes-l2", "quantile"), TIMES),
    **dict.fromkeys(("buckets", "privtree"), 4),
}


def _with_delta(name: str, case: AuditCase) -> AuditCase:
    """The same question under a claim with a delta."""
    make: Any = case.make
    times = _REPEATED.get(name, 1)
    pairs = case.pairs
    if pairs is ADVERSARIAL_PAIRS:
        pairs = REVEALING_PAIRS
    elif pairs is QUANTILE_PAIRS:
        pairs = dict(list(pairs.items())[-1:])
    return replace(
        case,
        about=case.about + (f", {times} times" if times > 1 else ""),
        make=lambda claim: replace(make(claim), times=times),
        pairs=pairs,
        runs=100_000 if make(Promise.of(1)).batched else 20_000,
        delta=AUDIT_DELTA,
    )


DELTA_QUESTION_CASES = {
    f"{name}-delta": _with_delta(name, case) for name, case in {**QUESTION_CASES, **_WITH_DELTA}.items()
}
DELTA_QUESTION_CASES["exchange-delta"] = AuditCase(
    "number of trips, and again with a budget that was exchanged for a pure one or not",
    _asks(exchange_or_not),
    pairs={"no trips + one cell": ADVERSARIAL_PAIRS["no trips + one cell"]},
    runs=20_000,
    delta=AUDIT_DELTA,
)
DELTA_QUESTION_CASES["count-delta"] = replace(
    DELTA_QUESTION_CASES["count-delta"],
    pairs={"no trips + one cell": ADVERSARIAL_PAIRS["no trips + one cell"]},
    runs=4_000_000,
)
DELTA_MECHANISM_CASES = {
    **{
        f"{name}-delta": AuditCase(
            f"{name} with Gaussian noise",
            _synthesizes(mechanism, may_exchange=False),
            pairs=MECHANISM_PAIRS,
            runs=1_000,
            delta=AUDIT_DELTA,
        )
        for name, mechanism in WHOLE_MECHANISMS.items()
    },
    "flux-exchange-delta": AuditCase(
        "flux that exchanges its budget for a pure one after a first look",
        _synthesizes(WHOLE_MECHANISMS["flux"]),
        pairs=MECHANISM_PAIRS,
        runs=1_000,
        delta=AUDIT_DELTA,
    ),
}
HALVED_DELTA_CASES = {
    f"fault-half-{name}": _halved(case)
    for name, case in DELTA_QUESTION_CASES.items()
    if name not in ("buckets-delta", "privtree-delta")
}


def _delta_fault(about: str, make: Callable[[Promise], MechanismFunction | Sampler], runs: int) -> AuditCase:
    return AuditCase(about, make, sound=False, pairs=REVEALING_PAIRS, runs=runs, delta=AUDIT_DELTA)


DELTA_FAULT_CASES = {
    "fault-no-shadow-cap-delta": _delta_fault(
        "shadows without a cap on the sum of squares", faults.shadows_without_l2_cap, 20_000
    ),
    "fault-no-walk-cap-delta": _delta_fault(
        "walks without a cap on the sum of squares", faults.walks_without_l2_cap, 20_000
    ),
    "fault-rho-for-each-delta": _delta_fault(
        "four counts, each with noise as if it had all of rho", faults.rho_for_each, 100_000
    ),
    "fault-cheap-laplace-delta": _delta_fault(
        "Laplace noise charged at a quarter of its rho", faults.cheap_laplace, 100_000
    ),
    "fault-permute-and-flip-delta": replace(
        DELTA_QUESTION_CASES["quantile-delta"],
        about="permute and flip charged as the exponential mechanism",
        make=_with_noise(DELTA_QUESTION_CASES["quantile-delta"], ExponentialNoise),
        sound=False,
    ),
    "fault-careless-exchange-delta": _delta_fault(
        "a pure budget taken in exchange for one that is spent", faults.careless_exchange, 100_000
    ),
}
CASES: dict[str, AuditCase] = {
    **{
        name: AuditCase(MECHANISMS[name].about, _synthesizes(mechanism), pairs=MECHANISM_PAIRS, runs=1_000)
        for name, mechanism in WHOLE_MECHANISMS.items()
    },
    "flux-weak": AuditCase(
        "flux at a weak signal, where it measures the share of the trips in each coarse cell",
        _synthesizes(flux.Flux(side=3, least=0, crossed=1e9)),
        pairs=MECHANISM_PAIRS,
        runs=1_000,
    ),
    **QUESTION_CASES,
    **HALVED_CASES,
    **FAULT_CASES,
    **DELTA_MECHANISM_CASES,
    **DELTA_QUESTION_CASES,
    **HALVED_DELTA_CASES,
    **DELTA_FAULT_CASES,
}
