"""The choices of flux: more signal never means less, and all that follows from them is allowed."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dqam.geometry.lattice import Lattice
from dqam.mechanisms.flux import Flux, cap_scores
from dqam.mechanisms.flux_fit import ENDPOINT_WEIGHT
from dqam.mechanisms.flux_rules import CROSSED, FIRST_LOOK, MOST_FINE, GaussianRules, LaplaceRules, pure_below
from dqam.privacy.budget import Budget
from dqam.statistics import MOST_CAP, ShadowSums, WalkSums
from dqam.values.guarantee import Promise
from tests.mechanisms.cases import unit_square

SIGNALS = [0.0, 0.5, 1.0, *np.geomspace(2, 1e12, 400)]
LAPLACE, GAUSSIAN = LaplaceRules(), GaussianRules()
BOTH = pytest.mark.parametrize("rules", [LAPLACE, GAUSSIAN], ids=["Laplace", "Gaussian"])


@BOTH
def test_more_signal_leaves_more_than_the_size_takes(rules: LaplaceRules) -> None:
    shares = [rules.size_share(signal) for signal in SIGNALS]
    assert all(more >= less for more, less in pairwise(shares))
    assert shares[0] == Fraction(3, 4)
    assert shares[-1] == FIRST_LOOK


@BOTH
def test_more_signal_makes_a_finer_lattice(rules: LaplaceRules) -> None:
    for rule in (rules.share_side, rules.coarsest_side, rules.finest_side, rules.detail_share):
        found = [rule(signal) for signal in SIGNALS]
        assert all(coarse <= fine for coarse, fine in pairwise(found))
        assert found[0] < found[-1]
    detailed = Flux().detailed * rules.thresholds["detailed"]
    assert all(
        rules.coarsest_side(signal) < rules.finest_side(signal) <= MOST_FINE
        for signal in SIGNALS
        if detailed <= signal < 1e8
    )


def test_the_coarsest_lattice_has_some_cells() -> None:
    assert LAPLACE.coarsest_side(0.0) == GAUSSIAN.coarsest_side(0.0) == 5
    assert LAPLACE.share_side(0.0) == GAUSSIAN.share_side(0.0) == 6


@BOTH
def test_more_signal_makes_a_higher_cap(rules: LaplaceRules) -> None:
    quantiles = [rules.cap_quantile(signal) for signal in SIGNALS]
    assert all(low <= high for low, high in pairwise(quantiles))
    assert quantiles[-1] == Fraction(95, 100)


def test_noise_that_dominates_lowers_the_cap() -> None:
    """By much if it is proportional to the cap, by little if only to its root."""
    assert LAPLACE.cap_quantile(0.0) == LAPLACE.cap_quantile(Flux().known) == Fraction(7, 10)
    assert GAUSSIAN.cap_quantile(0.0) == Fraction(9, 10)


@BOTH
def test_shares_are_shares(rules: LaplaceRules) -> None:
    for signal in SIGNALS:
        for scale in (1e-3, 0.5, 1.0, 10.0, 1e6):
            assert 0 < rules.detail_share(signal, scale) < 1
        small, large = rules.detail_share(signal, 10.0), rules.detail_share(signal, 0.5)
        assert small > large  # smaller queries need more detail
        assert 0 < rules.size_share(signal) < 1
        assert 0 <= rules.lowering(signal).smooth <= 1
        assert 0 < rules.lowering(signal).offset < 0.01
    assert 0 < rules.cap_share < 1
    assert 0 < rules.middle_share < 1
    assert rules.thresholds.keys() == {"crossed", "known", "rich", "detailed", "strong"}


@BOTH
def test_caps_of_walks_are_few_and_allowed(rules: LaplaceRules) -> None:
    grid = unit_square(4096, 4096)
    coarse, middle, fine = (Lattice.even(grid, side) for side in (4, 64, 4096))
    least = ENDPOINT_WEIGHT**rules.norm
    caps = [rules.walk_caps(cap, coarse, [middle, fine], False) for cap in range(least, least + 40)]
    for of_one in zip(*caps, strict=True):
        assert all(1 <= low <= high <= MOST_CAP for low, high in pairwise(of_one))
        assert 1 < len(set(of_one)) < 20


def test_a_strong_signal_keeps_walks_whole_if_noise_is_laplace() -> None:
    grid = unit_square(4096, 4096)
    coarse, middle, fine = (Lattice.even(grid, side) for side in (4, 64, 4096))
    weak, strong = (
        [LAPLACE.walk_caps(cap, coarse, [middle, fine], strong) for cap in range(3, 40)] for strong in (False, True)
    )
    assert all(own[0] >= other[0] and own[1] == other[1] for own, other in zip(strong, weak, strict=True))
    assert any(own[0] > 2 * other[0] for own, other in zip(strong, weak, strict=True))
    for cap in range(9, 50):
        once, twice = (GAUSSIAN.walk_caps(cap, coarse, [middle, fine], strong) for strong in (False, True))
        assert once == twice


@BOTH
@pytest.mark.parametrize("side", [1, 2, 7, 64, 4096])
def test_caps_of_shadows_are_allowed(rules: LaplaceRules, side: int) -> None:
    grid = unit_square(4096, 4096)
    lattice = Lattice.even(grid, side)
    guess, candidates = rules.caps(lattice)
    assert candidates[0] == ENDPOINT_WEIGHT**rules.norm  # that of a trip within one cell
    assert candidates[0] <= guess <= candidates[-1] <= MOST_CAP
    assert (np.diff(candidates) > 0).all()
    for cap in (guess, *candidates.tolist()):
        assert ShadowSums(lattice, cap, ENDPOINT_WEIGHT, rules.norm).cap == cap


@BOTH
@pytest.mark.parametrize("strong", [False, True])
def test_all_that_may_be_asked_after_the_cap_is_added_up_with_it(rules: LaplaceRules, strong: bool) -> None:
    """For each cap that may be chosen, the sums of shadows and of walks that flux asks next are known already."""
    grid = unit_square(256, 256)
    coarse, *finer = (Lattice.even(grid, side) for side in (16, 64, 256))
    scores = cap_scores(rules, coarse, finer, 5_000.0, strong)
    assert scores.norm == rules.norm
    (sizes,) = scores.aggregates
    ahead = sizes.companions()
    assert len(ahead) == 3
    for cap in scores.candidates.tolist():
        asked = [ShadowSums(coarse, cap, ENDPOINT_WEIGHT, rules.norm)]
        asked += [
            WalkSums(lattice, walked, ENDPOINT_WEIGHT, rules.norm)  # type: ignore[misc]
            for lattice, walked in zip(finer, rules.walk_caps(cap, coarse, finer, strong), strict=True)
        ]
        for statistic in asked:
            (aggregate,) = statistic.aggregates
            assert any(aggregate.covered_by(known) for known in ahead)


@BOTH
def test_a_lattice_between_is_between(rules: LaplaceRules) -> None:
    for signal in (1e3, 1e4, 1e5, 1e6):
        coarse, fine = rules.coarsest_side(signal), rules.finest_side(signal)
        if fine / coarse >= rules.steep:
            assert coarse < rules.middle_side(coarse, fine) < fine


def test_thresholds_of_gaussian_noise_are_lower() -> None:
    """In terms of trips * sqrt(2 rho): finer lattices pay off at a weaker signal."""
    assert set(LAPLACE.thresholds.values()) == {1.0}
    assert all(0 <= factor < 1 for factor in GAUSSIAN.thresholds.values())
    weak, strong = CROSSED * GAUSSIAN.thresholds["crossed"], CROSSED
    assert GAUSSIAN.size_share(weak * 0.99) == LAPLACE.size_share(weak * 0.99)
    assert GAUSSIAN.size_share(weak) < LAPLACE.size_share(weak) / 2
    assert GAUSSIAN.size_share(strong) < LAPLACE.size_share(strong)


def test_a_pure_budget_is_better_for_longer_if_delta_is_smaller() -> None:
    limits = []
    for delta in ("1e-4", "1e-6", "1e-8", "1e-12", "1e-20"):
        promise = Promise.of(1, delta)
        limits.append(pure_below(1.0, Budget.of(promise).precision()))
    assert all(low < high for low, high in pairwise(limits))
    assert 3_300 < limits[2] < 10_000
    assert pure_below(2.0, 0.371) == pytest.approx(pure_below(1.0, 0.1855))  # only the ratio matters
