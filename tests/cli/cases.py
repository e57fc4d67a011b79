"""A few trips on a map of 4 x 4 degrees, and a city to publish."""

from pathlib import Path
from subprocess import CompletedProcess

from dqam import cities
from tests.commands import run

BOUNDS = ["--bounds", "0", "0", "4", "4"]
TRIPS = """tid,datetime,lng,lat
a,2024-01-01 00:00:00,0.5,0.5
a,2024-01-01 00:00:15,2.5,0.5
b,2024-01-01 00:00:00,0.5,2.5
b,2024-01-01 00:00:15,9.0,2.5
c,2024-01-01 00:00:00,8.0,8.0
"""
CITY = ["--bounds", *map(str, cities.BOUNDS)]
MIDDLE = ["--area", "-30.02", "44.98", "-29.98", "45.02"]


def publish(
    trips: Path, output: Path, ledger: Path | str, *more: str | Path, epsilon: str = "1"
) -> CompletedProcess[str]:
    how = ["-k", "4", "--epsilon", epsilon, "-o", output, "--ledger", ledger]
    return run("publish", trips, *CITY, *how, *more)
