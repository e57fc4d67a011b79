"""Plans: every choice is public and checked before a trip is read."""

import pytest

from dqam import cities
from dqam.errors import InputError
from dqam.geometry.grid import Grid
from dqam.geometry.walks import walk
from dqam.privacy.budget import Budget
from dqam.privacy.curator import Curator
from dqam.privacy.noise import OpenDPNoise
from dqam.publishing.plan import Plan
from dqam.values.guarantee import Unit

GRID = Grid.over(cities.BOUNDS, 4)
(TRIPS,) = cities.city_trips(2_000, 0)


def test_a_plan_fits_its_curator() -> None:
    plan = Plan.of(GRID, 1, unit="person")
    for grid, unit in ((GRID, Unit.trip()), (Grid.over(cities.BOUNDS, 3), Unit.trip())):
        curator = Curator(walk(TRIPS, grid), Budget(1), OpenDPNoise(), unit)
        with pytest.raises(InputError, match="different grid or unit"):
            plan.release(curator, "id")
        assert not curator.spent


def test_the_queries_are_those_given() -> None:
    areas = [(cities.BOUNDS[0], cities.BOUNDS[1], cities.BOUNDS[0] + 0.01, cities.BOUNDS[1] + 0.01)]
    plan = Plan.of(GRID, 1, queries=areas)
    assert plan.queries.tolist() == [[0, 0, 2, 2]]
    assert plan.queries_in_words == "1 rectangles chosen by the publisher"
    assert len(Plan.of(GRID, 1).queries) == 16_000
