"""Work in threads: in order, not too far ahead, and with its errors."""

from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqam.runtime.threads import ahead, cores, each_span, each_task, spans


def test_results_come_in_order_and_only_a_few_ahead() -> None:
    begun = []

    def tasks() -> object:
        for i in count():
            begun.append(i)
            yield i

    assert list(islice(ahead(lambda i: i * i, tasks()), 5)) == [0, 1, 4, 9, 16]  # type: ignore[arg-type]
    assert len(begun) <= 5 + cores()


def test_an_error_comes_where_its_result_would() -> None:
    results = ahead(lambda i: 1 // i, [1, 1, 0, 1])
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 9))
def test_spans_cover_all_items_and_share_the_weight(weights: list[int], parts: int) -> None:
    cumulative = np.concatenate([[0], np.cumsum(weights)])
    found = spans(cumulative, parts)
    assert [i for start, stop in found for i in range(start, stop)] == list(range(len(weights)))
    assert len(found) <= parts
    if cumulative[-1]:
        heaviest = max(cumulative[stop] - cumulative[start] for start, stop in found)
        assert heaviest <= cumulative[-1] / parts + max(weights)


@pytest.mark.parametrize("parts", [0, 1, 7])
def test_spans_are_worked_on_in_order(parts: int) -> None:
    given = [(i, i + 1) for i in range(parts)]
    assert each_span(lambda start, stop: 10 * start + stop, given) == [10 * i + i + 1 for i in range(parts)]


@pytest.mark.parametrize("states", [1, 3])
def test_every_task_is_done_once_and_no_two_share_a_state(states: int) -> None:
    sums, busy = [[0, 0] for _ in range(states)], set[int]()

    def add(state: list[int], task: int) -> None:
        assert id(state) not in busy
        busy.add(id(state))
        state[0] += task
        state[1] += 1
        busy.discard(id(state))

    each_task(add, iter(range(200)), sums)
    assert [sum(column) for column in zip(*sums, strict=True)] == [sum(range(200)), 200]
    with pytest.raises(ZeroDivisionError):
        each_task(lambda state, task: 1 // task, [1, 0, 1], sums)


def test_the_environment_lowers_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DQAM_THREADS", raising=False)
    available = cores()
    for value, wanted in (("1", 1), ("0", 1), ("100000", available), ("many", available), ("", available)):
        monkeypatch.setenv("DQAM_THREADS", value)
        assert cores() == wanted
