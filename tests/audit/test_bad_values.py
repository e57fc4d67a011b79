"""Bad values can be written in every format, so that it is the reader that meets them."""

from pathlib import Path

import numpy as np
import pytest

from dqam.audit.bad_values import bad_value
from dqam.audit.formats import FORMATS, TripRow


@pytest.mark.parametrize("name", FORMATS)
def test_bad_values_can_be_written(name: str, tmp_path: Path) -> None:
    form, rng = FORMATS[name], np.random.default_rng(0)
    roles = [*form.replaceable, *(["line"] if form.csv else [])]
    rows = [
        TripRow("7", "70", 5, [(10.5, 50.25)], {role: bad_value(rng, form, role)}) for role in roles for _ in range(200)
    ]
    form.write(tmp_path, rows)
    assert len({form.shown(row) for row in rows}) > 4 * len(roles)
