"""What is sound stays below its claim, and what has half the noise is caught. `make audit` does more runs of both."""

from fractions import Fraction
from typing import Any

import pytest

from dqam.audit.cases import CASES, FAULT_CASES, HALVED_CASES, QUESTION_CASES, WHOLE_MECHANISMS
from dqam.audit.estimate import audit
from dqam.audit.pairs import ADVERSARIAL_PAIRS, Pairs
from dqam.mechanisms import MECHANISMS
from dqam.privacy.curator import Curator
from dqam.statistics import PROVEN
from tests.audit.cases import TREES, revealing_pairs
from tests.commands import run


def bound(name: str, runs: int, pairs: Pairs, epsilon: Fraction = Fraction(1)) -> float:
    return audit(CASES[name].make(epsilon), pairs, runs).epsilon


def test_plain_laplace_noise_is_measured_at_most_of_its_epsilon() -> None:
    pair = {"pair": ADVERSARIAL_PAIRS["few trips + zig-zag"]}
    assert 0.8 <= bound("count", 10_000, pair) <= 1
    assert 0.4 <= bound("count", 20_000, pair, Fraction(1, 2)) <= 0.5


@pytest.mark.parametrize("name", [*WHOLE_MECHANISMS, "flux-weak"])
def test_sound_mechanisms_stay_below_their_epsilon(name: str) -> None:
    pairs = {pair: CASES[name].pairs[pair] for pair in ("no trips + longest walk", "few trips + zig-zag")}
    assert bound(name, 100, pairs) <= 1


@pytest.mark.parametrize("name", QUESTION_CASES)
def test_sound_questions_stay_below_their_epsilon(name: str) -> None:
    assert bound(name, 2_000, revealing_pairs(name)) <= 1


@pytest.mark.parametrize("name", [name for name in QUESTION_CASES if name not in TREES])
def test_half_the_noise_is_caught(name: str) -> None:
    assert bound(f"fault-half-{name}", 2_000, revealing_pairs(name)) > 1


def test_every_mechanism_that_may_publish_is_audited() -> None:
    assert set(WHOLE_MECHANISMS) == {name for name, row in MECHANISMS.items() if row.publishable}
    assert all(CASES[name].sound for name in WHOLE_MECHANISMS)


def test_every_question_with_a_proof_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, charge = set[type](), Curator._charge

    def noted(self: Curator, kind: str, question: Any, *rest: Any) -> Any:
        asked.add(type(question))
        return charge(self, kind, question, *rest)

    monkeypatch.setattr(Curator, "_charge", noted)
    for name in QUESTION_CASES:
        bound(name, 100, revealing_pairs(name))
    assert asked == PROVEN


def test_every_question_is_audited_with_half_its_noise() -> None:
    assert {name.removeprefix("fault-half-") for name in HALVED_CASES} == set(QUESTION_CASES)
    assert not any(case.sound for case in (*HALVED_CASES.values(), *FAULT_CASES.values()))


def test_the_help_says_what_can_be_audited() -> None:
    text = run("audit", "--help").stdout
    assert all(name in text for name in CASES if name not in HALVED_CASES)
    assert all(case.about in text for case in (*QUESTION_CASES.values(), *FAULT_CASES.values()))
