"""Releases for the tests, made without a ledger and from a seed; and the same as if they were private.

Each is made once and shared, so no test may write to its arrays.
"""

import hashlib
from dataclasses import replace
from functools import cache

import numpy as np

from dqam import cities
from dqam.geometry.grid import Grid
from dqam.geometry.trips import Trips
from dqam.geometry.walks import walk
from dqam.privacy.aggregates import Aggregates
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import SeededNoise
from dqam.publishing.plan import Plan
from dqam.release.file import SEAL
from dqam.release.release import Release
from dqam.values.conversion import root_above
from dqam.values.guarantee import PaidQuestion, Promise

HERE = (144.95, -37.83, 145.0, -37.79)  # Melbourne, in degrees


@cache
def seeded(
    grid: Grid | None = None,
    mechanism: str = "flux",
    epsilon: str = "2",
    trips: Trips | None = None,
    seed: int = 0,
    delta: str | None = None,
) -> Release:
    """A release that says it is not private."""
    if trips is None:
        (trips,) = cities.city_trips(1_000, 1)
    plan = Plan.of(grid or Grid.over(cities.BOUNDS, 5), epsilon, mechanism, title="A city", delta=delta)
    curator = Curator(walk(trips, plan.grid), Budget.of(plan.promise), SeededNoise(seed))
    return plan.release(curator, f"{mechanism}-{seed}")


@cache
def sliced(
    by: str = "hour",
    resolution: int = 5,
    epsilon: str = "20",
    n: int = 1_500,
    mechanism: str = "flux",
    seed: int = 0,
    timezone: str | None = None,
    rhythm: bool = True,
) -> Release:
    """A release with slices of trips that follow a daily rhythm; it says that it is not private."""
    trips = Trips.concat(list(cities.city_trips(n, 1, rhythm=rhythm)))
    grid = Grid.over(cities.BOUNDS, resolution)
    plan = Plan.of(grid, epsilon, mechanism, title="A city by day", by=by, timezone=timezone)
    assert plan.slicing is not None
    walks = walk(plan.slicing.labelled(trips), plan.grid)
    aggregates = Aggregates.of(walks, slices=len(plan.slicing))
    curator = Curator(aggregates, Budget.of(plan.promise), SeededNoise(seed))
    return plan.release(curator, f"sliced-{seed}")


@cache
def with_flows(epsilon: str = "20", n: int = 3_000, by: str | None = None, resolution: int = 6) -> Release:
    """A release with flows, and with slices if there is a rule for them; it says that it is not private."""
    trips = Trips.concat(list(cities.city_trips(n, 1, rhythm=by is not None)))
    plan = Plan.of(Grid.over(cities.BOUNDS, resolution), epsilon, title="A city with flows", by=by, flows=True)
    count = None if plan.slicing is None else len(plan.slicing)
    walks = walk(trips if plan.slicing is None else plan.slicing.labelled(trips), plan.grid)
    curator = Curator(Aggregates.of(walks, slices=count), Budget.of(plan.promise), SeededNoise(0))
    return plan.release(curator, "flows")


def as_if_private(release: Release) -> Release:
    """The same, with the word of a real one."""
    return replace(release, provenance=replace(release.provenance, private=True))


def with_delta(release: Release, epsilon: str = "1", delta: str = "1e-8") -> Release:
    """The same, as if it had been made with a delta: with Laplace noise, Gaussian noise and a choice."""
    promise = Promise.of(epsilon, delta)
    assert promise.rho is not None
    first, choice = promise.epsilon / 20, promise.epsilon / 30
    rest = promise.rho - first**2 / 2 - choice**2 / 8
    paid = (
        PaidQuestion("measure", "Size", 1, first, 1 / first, rho=first**2 / 2),
        PaidQuestion("select", "Cap", 1, choice, 2 / choice, rho=choice**2 / 8),
        *(PaidQuestion("measure", "Crossings", 3, None, root_above(9 / rest), rho=rest / 2),) * 2,
    )
    facts = {"epsilon": promise.epsilon, "delta": promise.delta, "paid": paid}
    return replace(release, provenance=replace(release.provenance, **facts))


@cache
def strolls(bounds: tuple[float, ...], n: int = 400, crs: str = "EPSG:4326") -> Trips:
    """Short straight trips, most of them in the south-western quarter of the bounds."""
    rng = np.random.default_rng(5)
    west, south, east, north = bounds
    start = rng.beta(1, 4, (n, 2))
    points = np.stack([start, np.clip(start + rng.normal(0, 0.05, (n, 2)), 0, 1)], axis=1).reshape(-1, 2)
    x, y = west + points[:, 0] * (east - west), south + points[:, 1] * (north - south)
    return Trips(x, y, np.arange(0, 2 * n + 1, 2), crs=crs)


def sealed(body: bytes) -> bytes:
    """A file with the seal that fits it."""
    return body + SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n"
