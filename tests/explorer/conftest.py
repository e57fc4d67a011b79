"""Small releases from seeds, and servers that show them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
import uvicorn

from dqam.cities import BOUNDS, city_trips
from dqam.explorer import make_app
from dqam.geometry.grid import Grid
from dqam.geometry.histogram import SpatialHistogram
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.release.release import Release
from dqam.values.conversion import root_above
from dqam.values.guarantee import PaidQuestion, Promise, Unit

MELBOURNE = (300_000.0, 5_800_000.0, 330_000.0, 5_824_000.0)


@dataclass(frozen=True)
class Served:
    """A running server and what it shows."""

    address: str
    releases: list[tuple[str, Release]]


def city(seed: int, private: bool = True) -> Release:
    """Trips of a generated city. The noise is from a seed, whatever the release says of itself."""
    grid = Grid.over(BOUNDS, 6)
    plan = Plan.of(grid, 1, title=f"A city, week {seed}")
    curator = Curator(walk(next(city_trips(3_000, seed=seed)), grid), Budget(1), SeededNoise(seed))
    made = plan.release(curator, f"publication-{seed}")
    return replace(made, provenance=replace(made.provenance, private=private))


def sliced_city(seed: int, by: str = "hour", timezone: str | None = "Europe/Lisbon", resolution: int = 5) -> Release:
    """The same city with slices. The noise is from a seed, whatever the release says of itself."""
    plan = Plan.of(Grid.over(BOUNDS, resolution), 4, title=f"A city by {by}", by=by, timezone=timezone)
    assert plan.slicing is not None
    trips = plan.slicing.labelled(Trips.concat(list(city_trips(3_000, seed=seed, rhythm=True))))
    aggregates = Aggregates.of(walk(trips, plan.grid), slices=len(plan.slicing))
    made = plan.release(Curator(aggregates, Budget.of(plan.promise), SeededNoise(seed)), f"publication-{seed}-{by}")
    return replace(made, provenance=replace(made.provenance, private=True))


def flowing_city() -> Release:
    """A city with flows, by part of the week. The noise is from a seed, whatever the release says of itself."""
    plan = Plan.of(Grid.over(BOUNDS, 6), 8, title="A city with flows", by="weekpart", flows=True)
    assert plan.slicing is not None
    trips = plan.slicing.labelled(Trips.concat(list(city_trips(6_000, seed=5, rhythm=True))))
    aggregates = Aggregates.of(walk(trips, plan.grid), slices=len(plan.slicing))
    made = plan.release(Curator(aggregates, Budget.of(plan.promise), SeededNoise(5)), "publication-flows")
    return replace(made, provenance=replace(made.provenance, private=True))


def of_persons(release: Release) -> Release:
    """The same, as if at most 5 trips of each person had been counted."""
    return replace(release, provenance=replace(release.provenance, unit=Unit("person", 5)))


def numbered(grid: Grid, like: Release) -> Release:
    """A release whose cells all have different numbers of trips, without confidence intervals."""
    rows, columns = grid.shape
    faces = 1.0 + np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    edges = np.zeros((rows, columns - 1)), np.zeros((rows - 1, columns))
    return Release(SpatialHistogram(grid, faces, *edges), like.provenance)


def with_delta(release: Release) -> Release:
    """The same, as if it had been made with a delta."""
    promise = Promise.of(1, "1e-8")
    paid = (PaidQuestion("measure", "everything", 1, None, root_above(1 / (2 * promise.rho)), rho=promise.rho),)  # type: ignore[operator]
    facts = {"epsilon": promise.epsilon, "delta": promise.delta, "paid": paid}
    return replace(release, provenance=replace(release.provenance, **facts))


@contextmanager
def serving(releases: list[tuple[str, Release]]) -> Iterator[Served]:
    """A server of its own, in a thread, on a free port."""
    server = uvicorn.Server(uvicorn.Config(make_app(releases), port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}", releases)
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="session")
def first() -> Release:
    return city(1)


@pytest.fixture(scope="session")
def second() -> Release:
    return city(2)


@pytest.fixture(scope="session")
def projected(first: Release) -> Release:
    return numbered(Grid(MELBOURNE, 24, 30, "EPSG:28355"), first)


@pytest.fixture(scope="session")
def pair(first: Release, second: Release) -> Iterator[Served]:
    """Two releases on the same grid."""
    with serving([("monday", first), ("tuesday", second)]) as served:
        yield served


@pytest.fixture(scope="session")
def mixed(first: Release, projected: Release) -> Iterator[Served]:
    """One in degrees that is not private, and one in metres without confidence intervals."""
    open_one = replace(first, provenance=replace(first.provenance, private=False))
    with serving([("open", open_one), ("metres", projected)]) as served:
        yield served


@pytest.fixture(scope="session")
def hourly() -> Release:
    return sliced_city(1)


@pytest.fixture(scope="session")
def days(hourly: Release, first: Release) -> Iterator[Served]:
    """By hour, by part of the week, the same of persons, without slices, and again by part of the week."""
    april, may = (sliced_city(seed, "weekpart", None) for seed in (2, 3))
    named = {"hours": hourly, "april": april, "persons": of_persons(may), "whole": first, "may": may}
    with serving(list(named.items())) as served:
        yield served


@pytest.fixture(scope="session")
def flowing() -> Release:
    return flowing_city()


@pytest.fixture(scope="session")
def trips_from_to(flowing: Release, first: Release) -> Iterator[Served]:
    """A release with flows and slices, one with neither, and one with flows in metres."""
    moved = numbered(Grid(MELBOURNE, *flowing.grid.shape, "EPSG:28355"), first)
    assert flowing.flow_table is not None
    metres = replace(moved, flow_table=replace(flowing.flow_table, by_slice=None))
    with serving([("flows", flowing), ("none", first), ("metres", metres)]) as served:
        yield served


@pytest.fixture(scope="session")
def scaled(first: Release) -> Iterator[Served]:
    """Three releases for persons: two that are scaled up, with another number of trips each, and one that is not."""
    of_five = of_persons(first)
    april, may = (
        replace(first, provenance=replace(first.provenance, unit=Unit("person", m), factor=1.5, scaled_up_to=64))
        for m in (5, 8)
    )
    with serving([("april", april), ("may", may), ("unscaled", of_five)]) as served:
        yield served


@pytest.fixture(scope="session")
def promises(first: Release) -> Iterator[Served]:
    """A pure release, and one with a delta."""
    with serving([("pure", first), ("delta", with_delta(first))]) as served:
        yield served
