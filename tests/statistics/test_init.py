"""The closed list of questions: each has its exhaustive test, and nothing else is accepted."""

import ast
from pathlib import Path

import numpy as np
import pytest

from dqam.errors import InputError
from dqam.statistics import PARTITIONS, PROVEN, SCORES, STATISTICS, CellShares, Question, TripCount, check_question
from dqam.statistics.buckets import L1Buckets
from dqam.statistics.privtree import PrivTree
from tests.statistics import test_buckets, test_privtree
from tests.statistics.cases import GRID

# they try all walks of a 3 x 3 grid, or all persons with few trips
EXHAUSTIVE = {"assert_adds_up", "assert_scores", "changes", "assert_persons"}
# partitions draw their own noise, and each has a test of its own
PARTITION_TESTS = {
    PrivTree: test_privtree.test_no_tree_becomes_much_likelier_by_one_unit,
    L1Buckets: test_buckets.test_the_shift_of_noise_is_enough_for_walks_of_all_kinds,
}


def tried(path: Path) -> set[str]:
    """The names in those tests of a file that try all walks."""
    found = set()
    for test in ast.parse(path.read_text(encoding="utf-8")).body:
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_") and names & EXHAUSTIVE:
            found |= names
    return found


@pytest.mark.parametrize("question", sorted(STATISTICS | SCORES, key=lambda kind: kind.__name__))
def test_every_question_is_tried_on_all_walks(question: type) -> None:
    mirror = Path(__file__).with_name(f"test_{question.__module__.rpartition('.')[2]}.py")
    assert question.__name__ in tried(mirror)


def test_every_partition_has_its_test() -> None:
    assert set(PARTITION_TESTS) == PARTITIONS


def test_the_three_sets_have_nothing_in_common() -> None:
    assert len(PROVEN) == len(STATISTICS) + len(SCORES) + len(PARTITIONS)


def test_only_questions_as_their_class_defines_them_are_accepted() -> None:
    check_question(TripCount(), GRID)
    check_question(TripCount(), GRID, STATISTICS)

    class Mine(TripCount):
        pass

    changed = CellShares()
    object.__setattr__(changed, "sensitivity", 1)
    wrong: list[tuple[Question, frozenset[type], str]] = [
        (TripCount(), SCORES, "TripCount is not a question with a proof"),
        (Mine(), PROVEN, "Mine is not a question with a proof"),
        (changed, PROVEN, "its sensitivity cannot be set"),
        (L1Buckets(np.arange(4), 1.0), PROVEN, "grid"),
    ]
    for question, proven, says in wrong:
        with pytest.raises(InputError, match=says):
            check_question(question, GRID, proven)
