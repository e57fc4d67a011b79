"""The guarantee in numbers, and the parts of the budget."""

import math
from fractions import Fraction

import pytest

from dqam.release.promise import KINDS, beliefs, budget, delta, groups, posterior
from tests.release.cases import seeded


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
    assert [row[:2] for row in groups(Fraction(1, 10))] == [("2 trips", "0.2"), ("5 trips", "0.5"), ("10 trips", "1")]


@pytest.mark.parametrize("mechanism", ["flux", "mwem", "dawa"])
def test_budget_rows_are_those_of_the_ledger(mechanism: str) -> None:
    provenance = seeded(mechanism=mechanism, epsilon="20").provenance
    rows = budget(provenance)
    assert sum(row.epsilon for row in rows) == provenance.epsilon
    assert sum(row.times for row in rows) == len(provenance.paid)
    assert math.fsum(row.share for row in rows) == pytest.approx(1)
    assert {row.kind for row in rows} <= set(KINDS.values())
    for row in rows:
        assert row.epsilon == row.times * row.each
        if row.kind == KINDS["measure"]:
            assert row.scale == pytest.approx(row.sensitivity / float(row.each))
    assert (delta(provenance) is not None) == (mechanism == "dawa")
