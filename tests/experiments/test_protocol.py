"""What a run measures."""

import numpy as np
import pytest

from dqam.experiments.protocol import (
    DISTINCT,
    EXACT,
    NO_NOISE,
    PAPER,
    START,
    Bench,
    ResultRow,
    RunResult,
    Task,
    noise_seed,
)
from dqam.geometry.counting import count_distinct
from dqam.mechanisms import make
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise


def task(mechanism: str, protocol: str = DISTINCT, epsilon: float = 1.0, rounds: int = 0, run: int = 0) -> Task:
    return Task(protocol, "city", 60, 4, 40, epsilon, mechanism, rounds, run)


def test_distinct_truth_is_counted_on_the_trips(bench: Bench) -> None:
    budget = Budget(1.0)
    curator = Curator(bench.walks, budget, SeededNoise(noise_seed(3, 1)))
    given, fresh = bench.queries(40, False), bench.queries(40, True)
    made = make("uniform").synthesize(curator, given, budget).histogram
    measured = bench.run(task("uniform", run=1))
    for asked, error in ((given, measured.error), (fresh, measured.error_fresh)):
        truth = count_distinct(bench.walks, asked, bench.grid)
        assert error == pytest.approx(np.abs(np.clip(made.answers(asked), 0, made.total) - truth).mean())
    assert measured.mean_answer == pytest.approx(count_distinct(bench.walks, given, bench.grid).mean())
    assert measured.evenness == pytest.approx(0, abs=1e-9)


def test_given_and_fresh_rectangles_differ_and_stay(bench: Bench) -> None:
    assert (bench.queries(40, False) != bench.queries(40, True)).any()
    assert (bench.queries(40, False) == bench.queries(40, False)).all()


def test_the_same_run_gives_the_same_numbers_and_another_does_not(bench: Bench) -> None:
    first, again, other = (bench.run(task("uniform", run=run)).error for run in (0, 0, 1))
    assert first == again != other


def test_the_exact_histogram_has_no_divergence(bench: Bench) -> None:
    measured = bench.run(task(EXACT, epsilon=NO_NOISE))
    assert measured.kld == pytest.approx(0, abs=1e-12)
    assert measured.total == bench.walks.trips[-1]


def test_printed_forms_are_held_against_their_own_truth(bench: Bench) -> None:
    faces = bench.run(task("mwem-printed", PAPER, rounds=3))
    whole = bench.run(task("prish-printed", PAPER, rounds=3))
    assert faces.error == whole.error == 3
    assert faces.mean_answer > whole.mean_answer
    assert np.isnan(faces.kld)
    assert whole.evenness == 0


def test_the_uniform_start_has_the_exact_number_of_trips(bench: Bench) -> None:
    measured = bench.run(task(START, PAPER, NO_NOISE))
    assert measured.total == pytest.approx(bench.walks.on_grid)
    assert measured.visits == pytest.approx(bench.histogram.faces.sum())


def test_a_row_survives_being_flat() -> None:
    row = ResultRow(task("uniform"), RunResult(*map(float, range(8))), 7, "key", "0")
    assert ResultRow.of(row.flat()) == row


def test_keys_tell_everything_apart() -> None:
    tasks = [task("uniform"), task("uniform", run=1), task("uniform", rounds=2), task("uniform", epsilon=0.1)]
    assert len({one.key(stamp) for one in tasks for stamp in ("a", "b")}) == 8
