"""Work done ahead: in order, not too far, and with its errors."""

from itertools import count, islice

import pytest

from dqam.runtime.threads import ahead, cores


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
