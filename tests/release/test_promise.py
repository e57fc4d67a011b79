"""The guarantee in numbers, and the parts of the budget."""

import math

import pytest
from scipy.stats import norm

from dqam.release.promise import (
    GAUSSIAN,
    KINDS,
    LAPLACE,
    beliefs,
    budget,
    delta_facts,
    epsilon_of_several,
    groups,
    overflow,
    posterior,
    tail,
)
from dqam.values.guarantee import Promise
from tests.release.cases import seeded, with_delta

PROMISES = [("0.1", "1e-6"), ("1", "1e-8"), ("1", "1e-20"), ("4", "1e-8"), ("10", "1e-3")]


def test_posterior_is_what_epsilon_allows() -> None:
    least, most = posterior(0.5, 1)
    assert most == pytest.approx(math.e / (1 + math.e))
    assert least == pytest.approx(1 / (1 + math.e))
    assert posterior(0.1, 5_000) == (0, 1)  # without overflow


def test_beliefs_never_promise_too_much() -> None:
    for epsilon in (0.01, 0.5, 1, 3, 8):
        for (_, low, high), prior in zip(beliefs(epsilon), (0.01, 0.1, 0.5), strict=True):
            least, most = posterior(prior, epsilon)
            if "nearly" not in low:
                assert 100 * least - 0.1 <= float(low.split()[0]) <= 100 * least
            if "nearly" not in high:
                assert 100 * most <= float(high.split()[0]) <= 100 * most + 0.1


def test_several_trips_have_several_times_the_epsilon() -> None:
    rows = groups(seeded().provenance)
    assert [row[:2] for row in rows] == [("2 trips", "4"), ("5 trips", "10"), ("10 trips", "20")]


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("units", [1, 2, 5, 10])
def test_several_units_under_a_delta_are_as_protected_as_gaussian_noise_allows(
    epsilon: str, delta: str, units: int
) -> None:
    """Gaussian noise reaches its rho, and its delta is known: that for `units` times the distance must fit."""
    promise = Promise.of(epsilon, delta)
    assert promise.rho is not None
    distance, together = units * math.sqrt(2 * promise.rho), float(epsilon_of_several(promise, units))
    likely = norm.sf(together / distance - distance / 2)
    exact = likely - math.exp(together + norm.logcdf(-together / distance - distance / 2))
    assert exact <= float(promise.delta)
    assert together >= units * float(promise.epsilon) * 0.999  # a publication that was exchanged needs that


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("units", [1, 2, 10])
def test_epsilon_is_exceeded_no_more_often_than_said(epsilon: str, delta: str, units: int) -> None:
    """For Gaussian noise, the logarithm of the likelihood ratio is normal, with mean rho and variance 2 rho."""
    promise = Promise.of(epsilon, delta)
    assert promise.rho is not None
    rho = units**2 * promise.rho
    for times in (1, 2):
        limit = times * epsilon_of_several(promise, units)
        exceeded = norm.sf((float(limit) - float(rho)) / math.sqrt(2 * rho))
        assert exceeded <= tail(limit, rho) <= 60 * exceeded + 1e-39
    assert tail(promise.epsilon, promise.rho) > float(promise.delta)  # so that delta must not be given for it


def test_facts_about_a_delta() -> None:
    assert delta_facts(seeded().provenance) is None
    release = with_delta(seeded())
    facts = delta_facts(release.provenance)
    assert facts is not None
    assert float(facts.rho) == pytest.approx(0.0172053, rel=1e-5)
    assert facts.exceeded == pytest.approx(8.03e-7, rel=0.01)
    assert facts.far_exceeded == pytest.approx(1.6e-25, rel=0.1)
    assert float(facts.two_units) == pytest.approx(2.0798, abs=1e-3)
    assert [row[1] for row in groups(release.provenance)] == ["2.08", "5.61", "12.3"]
    assert [row[3] for row in groups(release.provenance)] == ["1 in 2.3 million", "1 in 5.5 million", "1 in 10 million"]


def test_budget_rows_under_a_delta_are_in_rho() -> None:
    provenance = with_delta(seeded()).provenance
    rows = budget(provenance)
    assert [row.kind for row in rows] == [LAPLACE, KINDS["select"], GAUSSIAN]
    assert [row.times for row in rows] == [1, 1, 2]
    assert sum(row.cost for row in rows) == provenance.spent == delta_facts(provenance).rho  # type: ignore[union-attr]
    assert math.fsum(row.share for row in rows) == pytest.approx(1)
    for row in rows:
        assert row.scale == pytest.approx(row.sensitivity / math.sqrt(2 * row.each))


@pytest.mark.parametrize("mechanism", ["flux", "mwem", "dawa"])
def test_budget_rows_are_those_of_the_ledger(mechanism: str) -> None:
    provenance = seeded(mechanism=mechanism, epsilon="20").provenance
    rows = budget(provenance)
    assert sum(row.cost for row in rows) == provenance.epsilon
    assert sum(row.times for row in rows) == len(provenance.paid)
    assert math.fsum(row.share for row in rows) == pytest.approx(1)
    assert {row.kind for row in rows} <= set(KINDS.values())
    for row in rows:
        assert row.cost == row.times * row.each
        if row.kind == KINDS["measure"]:
            assert row.scale == pytest.approx(row.sensitivity / float(row.each))
    assert (overflow(provenance) is not None) == (mechanism == "dawa")
