"""Bars move while there is work."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dqam import cities
from dqam.geometry.grid import Grid
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.ledger import Ledger
from dqam.publishing.pipeline import aggregates_of, publish
from dqam.publishing.plan import Plan
from dqam.runtime.progress import bar, watching
from dqam.statistics.crossings import CappedCrossings


class Noted:
    """What was shown, by name."""

    def __init__(self) -> None:
        self.shares: dict[str, list[float]] = {}

    @contextmanager
    def __call__(self, what: str) -> Iterator[Callable[[float], None]]:
        yield self.shares.setdefault(what, []).append


def test_work_that_gives_nothing_for_a_while_is_looked_at() -> None:
    noted, done = Noted(), [0.25]
    with watching(noted, "Work", lambda: done[0]):
        for share in (0.25, 0.5, 1.0):
            done[0] = share
            while share not in noted.shares["Work"]:  # otherwise the test never ends
                time.sleep(0.01)
    seen = noted.shares["Work"]
    assert set(seen) == {0.25, 0.5, 1.0}
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("engine", "bars"),
    [
        ("local", ["Reading points.parquet"]),
        ("duckdb", ["Reading points.parquet", "Sorting points.parquet"]),
    ],
)
def test_engines_tell_how_far_they_are(tmp_path: Path, engine: str, bars: list[str]) -> None:
    path = tmp_path / "points.parquet"
    cities.write_parquet(cities.city_trips(500, 0), path, 500)
    plan, noted = Plan.of(Grid.over(cities.BOUNDS, 4), 1), Noted()
    with aggregates_of(plan, path, ContributionBound(plan.unit), engine, progress=noted) as aggregates:
        aggregates.total(
            CappedCrossings(np.zeros(plan.grid.rows * plan.grid.columns, np.int64), np.ones(1, np.int64), 9)
        )
    scans = [] if engine == "local" else ["Scan 1 of points.parquet", "Scan 2 of points.parquet"]
    assert list(noted.shares) == bars + scans
    for scan in scans:
        assert noted.shares[scan][-1] == 1
        assert noted.shares[scan] == sorted(noted.shares[scan])


def test_nothing_is_shown_where_nobody_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.register("unseen", 1, "trip")
    trips = next(cities.city_trips(200, 0))
    publish(trips, Grid.over(cities.BOUNDS, 4), 1, dataset="unseen", ledger=ledger, progress=True)
    with bar("[Work]") as show:
        show(0.5)
    assert capsys.readouterr() == ("", "")
