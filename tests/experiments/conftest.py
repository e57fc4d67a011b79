"""Printed forms that are quick and known, in place of the real ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dqam import cities
from dqam.experiments import claims, plan, protocol
from dqam.experiments.plan import Settings
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.walks import walk
from dqam.sources import read

TINY = Settings(
    sizes=(50, 80),
    epsilons=(0.01, 1.0),
    queries=60,
    query_counts=(30, 60),
    resolution=4,
    resolutions=(3, 4),
    rounds=(2, 3),
    hindsight=(2,),
    runs=2,
)


@dataclass(frozen=True)
class FakePrinted:
    """Exact answers, off by `rounds`; or an even histogram."""

    faces_only: bool
    by_rounds: bool

    def run(self, exact: Any, queries: Any, epsilon: float, rounds: int, rng: np.random.Generator) -> Any:
        made = exact.histogram
        if self.faces_only:
            bare = SpatialHistogram(made.grid, made.faces, made.vertical * 0, made.horizontal * 0)
            return bare.answers(queries) + rounds, None
        even = SpatialHistogram(made.grid, made.faces * 0 + made.faces.mean(), made.vertical * 0, made.horizontal * 0)
        return made.answers(queries) + rounds, even


FAKES = {
    "laplace-printed": FakePrinted(True, False),
    "mwem-printed": FakePrinted(True, True),
    "dawa-printed": FakePrinted(True, False),
    "prish-printed": FakePrinted(False, True),
    "dqam-printed": FakePrinted(False, True),
}


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (protocol, plan, claims):
        monkeypatch.setattr(module, "PRINTED", FAKES)


@pytest.fixture
def tiny() -> Settings:
    """Experiments of a few seconds."""
    return TINY


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> protocol.Bench:
    """60 trips of the made-up city on 16 x 16 cells."""
    path: Path = tmp_path_factory.mktemp("trips") / "city.parquet"
    cities.write_parquet(cities.city_trips(60, 1), path, 60)
    return protocol.Bench(walk(read(path).trips(), Grid.over(cities.BOUNDS, 4)), seed=3)
