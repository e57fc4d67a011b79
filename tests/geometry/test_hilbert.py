import numpy as np
import pytest

from dqam.geometry.hilbert import hilbert_order


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 5), (16, 16), (33, 64)])
def test_every_cell_comes_once(shape: tuple[int, int]) -> None:
    order = hilbert_order(*shape)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(shape[0] * shape[1]))


@pytest.mark.parametrize("k", range(1, 8))
def test_the_curve_goes_from_neighbour_to_neighbour_and_fills_quadrants_one_by_one(k: int) -> None:
    side = 2**k
    rows, columns = np.divmod(hilbert_order(side, side), side)
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()
    for depth in range(1, k + 1):
        block = 4 ** (k - depth)
        row, column = (rows >> (k - depth)).reshape(-1, block), (columns >> (k - depth)).reshape(-1, block)
        assert (row == row[:, :1]).all()
        assert (column == column[:, :1]).all()


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (1, 4096)])
def test_a_line_is_passed_from_one_end_to_the_other(shape: tuple[int, int]) -> None:
    np.testing.assert_array_equal(hilbert_order(*shape), np.arange(max(shape)))


def test_a_grid_is_met_as_the_square_around_it_is() -> None:
    rows, columns = np.divmod(hilbert_order(8, 8), 8)
    inside = (rows < 5) & (columns < 7)
    np.testing.assert_array_equal(hilbert_order(5, 7), (rows * 7 + columns)[inside])
