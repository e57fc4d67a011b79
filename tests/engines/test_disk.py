"""DuckDB sorts points on disk: any source, any names, and nothing stays behind."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dqam
from dqam import cities
from dqam.engines.disk import Disk
from dqam.errors import InputError
from dqam.mechanisms import MECHANISMS
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.contribution import ContributionBound
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.pipeline import aggregates_of, publish
from dqam.publishing.plan import Plan
from dqam.statistics.endpoints import EndpointsByCell
from dqam.statistics.trip_count import TripsOnGrid
from dqam.values.guarantee import Unit
from tests.engines.cases import GRID, in_memory, with_first_scan


@pytest.mark.parametrize("mechanism", [name for name, row in MECHANISMS.items() if row.publishable])
def test_no_mechanism_needs_a_third_scan(shuffled: Path, mechanism: str) -> None:
    plan = Plan.of(GRID, 4, mechanism)
    with aggregates_of(plan, shuffled, ContributionBound(plan.unit), "duckdb") as aggregates:
        assert isinstance(aggregates, Aggregates)
        plan.release(Curator(aggregates, Budget(4), SeededNoise(7)), "counted")
        assert 1 <= aggregates.scans <= 2


def test_any_source_of_points_can_be_sorted_on_disk(shuffled: Path, tmp_path: Path) -> None:
    points = pd.read_parquet(shuffled)
    points.to_csv(tmp_path / "points.csv", index=False)
    plan, bound = Plan.of(GRID, 1), ContributionBound(Unit.trip(), "")
    for trips in (points, tmp_path / "points.csv", f"file://{shuffled}"):
        with in_memory(shuffled)(plan, bound) as ours, aggregates_of(plan, trips, bound, "duckdb") as theirs:
            np.testing.assert_array_equal(ours.total(EndpointsByCell()), theirs.total(EndpointsByCell()))
    with pytest.raises(InputError, match="not a table with one point per row"):
        publish(next(cities.city_trips(10, 0)), GRID, 1, dataset="x", engine="duckdb")
    with pytest.raises(InputError, match="no files that end with .parquet"):
        dqam.read(f"file://{tmp_path}")


@pytest.mark.parametrize("named", ["place", "dqam_place", 'a "quoted" name', "Tid", "UID", "UID_1"])
def test_names_of_columns_do_not_matter(shuffled: Path, tmp_path: Path, named: str) -> None:
    points = pd.read_parquet(shuffled).rename(columns={"uid": named})
    for other in {"uid", "UID"} - {named}:  # which SQL would take for the same
        points.insert(0, other, np.arange(len(points)))
    points.to_parquet(tmp_path / "x[1].parquet")
    points[points[named] == 1].to_parquet(tmp_path / "x1.parquet")  # what a pattern would read
    unit = Unit.person(1)
    plan, bound = Plan.of(GRID, 1, unit="person", max_trips=1), ContributionBound(unit, "5a17")
    source = dqam.read(tmp_path / "x[1].parquet", columns={"person": named})
    with aggregates_of(plan, source, bound) as ours, aggregates_of(plan, source, bound, "duckdb") as theirs:
        assert ours.total(TripsOnGrid())[0] == theirs.total(TripsOnGrid())[0] == points[named].nunique()
        np.testing.assert_array_equal(ours.total(EndpointsByCell()), theirs.total(EndpointsByCell()))


def test_the_unit_is_that_of_the_engine(shuffled: Path) -> None:
    plan = Plan.of(GRID, 1, unit="person", max_trips=1)
    with (
        Disk(dqam.read(shuffled), ContributionBound(Unit.trip()), GRID) as disk,
        pytest.raises(InputError, match="no person column"),
    ):
        Curator(with_first_scan(disk, plan.queries), Budget(1), SeededNoise(0), Unit.person(1))
    with (
        pytest.raises(InputError, match="are bounded for one .* but the plan is for one "),
        aggregates_of(plan, dqam.read(shuffled), ContributionBound(Unit.trip())),
    ):
        pass
    with aggregates_of(plan, dqam.read(shuffled), ContributionBound(Unit.person(1), "5a")) as aggregates:
        with pytest.raises(InputError, match="for the unit 'trip' give all"):
            Curator(aggregates, Budget(1), SeededNoise(0))
        with pytest.raises(InputError, match="keep only some trips|no person column"):
            Curator(aggregates, Budget(1), SeededNoise(0), Unit.person(2))


def test_sorted_points_do_not_stay(shuffled: Path, tmp_path: Path) -> None:
    plan = Plan.of(GRID, 1)
    with Disk(dqam.read(shuffled), ContributionBound(plan.unit, ""), GRID, folder=str(tmp_path)) as disk:
        with_first_scan(disk, plan.queries).total(TripsOnGrid())
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_in_the_end_is_said(shuffled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What DuckDB has sorted still has to be noted; where that fails nothing is taken for the first scan."""
    plan = Plan.of(GRID, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with Disk(dqam.read(shuffled), ContributionBound(plan.unit, ""), GRID) as disk:
        with monkeypatch.context() as patched:
            patched.setattr(np, "save", full)
            with pytest.raises(InputError, match=r"no room to sort .*No space left.* set TMPDIR"):
                with_first_scan(disk, plan.queries).total(TripsOnGrid())
        assert disk._walks_file is None


def test_a_first_scan_that_failed_can_be_done_again(shuffled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it had open is closed when it fails, though the error is still held."""
    plan, bound = Plan.of(GRID, 1), ContributionBound(Unit.trip(), "")
    with Disk(dqam.read(shuffled), bound, GRID) as disk, in_memory(shuffled)(plan, bound) as ours:
        aggregates = with_first_scan(disk, plan.queries)
        with monkeypatch.context() as patched:
            patched.setattr("dqam.engines.disk.walk", lambda *_: (_ for _ in ()).throw(InputError("on purpose")))
            with pytest.raises(InputError, match="on purpose") as held:
                aggregates.total(TripsOnGrid())
            assert held.value is not None
            assert not list(disk._folder.glob("*/points.db"))
        np.testing.assert_array_equal(aggregates.total(EndpointsByCell()), ours.total(EndpointsByCell()))
