"""Mechanisms that are broken on purpose are caught."""

from fractions import Fraction

import pytest

from dqam.audit.cases import CASES, FAULT_CASES
from dqam.audit.estimate import audit

CAUGHT = {  # the pair, the runs and a bound that is well above the claim
    "fault-no-cap": ("few trips + longest walk", 1_000, 2),
    "fault-no-shadow-cap": ("few trips + on corners", 1_000, 2),
    "fault-no-walk-cap": ("few trips + longest walk", 1_000, 2),
    "fault-shared-budget": ("no trips + one cell", 4_000, 1.3),
    "fault-exact-n": ("few trips + one cell", 1_000, 3),
    "fault-printed-quadtree": ("two trips in one cell + another", 4_000, 1.2),
    "fault-quiet-vectors": ("no trips + longest walk", 300, 2),
    "dqam-printed": ("no trips + longest walk", 300, 2),
    "fault-visits": ("few trips + zig-zag", 1_000, 2),
    "fault-singletons": ("a crowd in one cell + on corners", 2_000, 2),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_a_fault_is_caught(name: str) -> None:
    pair, runs, at_least = CAUGHT[name]
    assert audit(CASES[name].make(Fraction(1)), {pair: CASES[name].pairs[pair]}, runs).epsilon >= at_least


def test_every_fault_is_tried() -> None:
    assert CAUGHT.keys() == FAULT_CASES.keys()
