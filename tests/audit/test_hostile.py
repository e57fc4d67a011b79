"""Neighbours of a file have its rows, in their order, and all rows of one more unit."""

import numpy as np
import pytest

from dqam.audit.formats import FORMATS
from dqam.audit.hostile import random_neighbourhood


@pytest.mark.parametrize("name", FORMATS)
def test_neighbours_add_the_rows_of_one_unit(name: str) -> None:
    form = FORMATS[name]
    for unit in form.units:
        for seed in range(5):
            files = random_neighbourhood(np.random.default_rng(seed), name, unit)
            own = {(row.person, row.trip) for rows in files.neighbours for mine, row in rows if mine}
            others = {(row.person, row.trip) for row in files.base}
            assert [[row for mine, row in rows if not mine] for rows in files.neighbours] == [files.base] * 6
            if unit.name == "person":
                assert len({person for person, _ in own}) <= 1
                assert not {person for person, _ in own} & {person for person, _ in others}
            elif not form.no_ids:
                assert len(own) <= 1
                assert not own & others


def test_the_same_seed_gives_the_same_files() -> None:
    form, unit = FORMATS["points, CSV"], FORMATS["points, CSV"].units[0]
    texts = [
        [form.shown(row) for rows in files.neighbours for _, row in rows]
        for seed in (4, 4, 5)
        if (files := random_neighbourhood(np.random.default_rng(seed), "points, CSV", unit))
    ]
    assert texts[0] == texts[1] != texts[2]
