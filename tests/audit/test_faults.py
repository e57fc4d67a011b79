"""Mechanisms that are broken on purpose are caught."""

import pytest

from dqam.audit.cases import CASES, DELTA_FAULT_CASES, FAULT_CASES
from dqam.audit.estimate import audit
from dqam.errors import InputError
from dqam.values.guarantee import Promise

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
    "fault-two-slices": ("no trips + one cell", 4_000, 1.3),
    "fault-two-origins": ("no trips + one cell", 4_000, 1.3),
    "fault-exact-max-trips": ("a person with three trips", 10_000, 1.3),
    "fault-no-person-cap": ("a person with three trips", 4_000, 1.2),
    "fault-singletons": ("a crowd in one cell + on corners", 2_000, 2),
    "fault-no-shadow-cap-delta": ("no trips + longest walk", 20_000, 1.15),
    "fault-no-walk-cap-delta": ("no trips + longest walk", 20_000, 1.15),
    "fault-rho-for-each-delta": ("no trips + one cell", 50_000, 1.15),
    "fault-cheap-laplace-delta": ("no trips + one cell", 50_000, 1.15),
    "fault-permute-and-flip-delta": ("two short and two middling walks + a long one", 200_000, 1.15),
    "fault-careless-exchange-delta": ("no trips + one cell", 50_000, 1.1),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_a_fault_is_caught(name: str) -> None:
    (pair, runs, at_least), case = CAUGHT[name], CASES[name]
    claim = Promise.of(1, case.delta)
    assert audit(case.make(claim), {pair: case.pairs[pair]}, runs, delta=claim.delta).epsilon >= at_least


def test_every_fault_is_tried() -> None:
    assert CAUGHT.keys() == FAULT_CASES.keys() | DELTA_FAULT_CASES.keys()


def test_a_fault_that_spends_rho_needs_a_delta() -> None:
    with pytest.raises(InputError, match="give a delta above 0"):
        CASES["fault-rho-for-each-delta"].make(Promise.of(1))
