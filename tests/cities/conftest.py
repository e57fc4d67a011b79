"""Small road tables and where the real ones are."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from dqam.cities import RoadNetwork

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SIDE = 21  # nodes each way
WEST, SOUTH, STEP = 10.0, 50.0, 0.002


@pytest.fixture
def real_data():
    """A function that gives the path of a file of real data, or skips the test."""

    def path(name: str) -> Path:
        if not (DATA / name).is_file():
            pytest.skip(f"real data {name} is not at hand in {DATA}")
        return DATA / name

    return path


@pytest.fixture(scope="session")
def road_tables(tmp_path_factory) -> tuple[Path, Path]:
    """A lattice of two-way streets at 10 m/s, a one-way dead end (x) and an island of two nodes (i, j)."""
    folder = tmp_path_factory.mktemp("roads")
    nodes = ["id,x,y,lon,lat"]
    links = ["id,from,to,length_m,freespeed_mps"]

    def street(a: str, b: str, metres: float) -> None:
        links.append(f"l{len(links)},{a},{b},{metres},10")
        links.append(f"l{len(links)},{b},{a},{metres},10")

    for row in range(SIDE):
        for column in range(SIDE):
            nodes.append(f"n{row}-{column},0,0,{WEST + column * STEP:.6f},{SOUTH + row * STEP:.6f}")
            if column:
                street(f"n{row}-{column - 1}", f"n{row}-{column}", 143.0)
            if row:
                street(f"n{row - 1}-{column}", f"n{row}-{column}", 222.4)
    nodes += ["x,0,0,9.999,50.0", "i,0,0,10.5,50.5", "j,0,0,10.5,50.501"]
    links.append("dead,n0-0,x,70,10")
    street("i", "j", 111.0)
    (folder / "nodes.csv").write_text("\n".join(nodes))
    with gzip.open(folder / "links.csv.gz", "wt") as file:
        file.write("\n".join(links))
    return folder / "nodes.csv", folder / "links.csv.gz"


@pytest.fixture(scope="session")
def lattice(road_tables) -> RoadNetwork:
    return RoadNetwork.from_tables(*road_tables)


def metres(lon, lat, other_lon, other_lat):
    """Distances on a sphere by the haversine formula, written apart from the code under test."""
    a, b = np.radians(lat), np.radians(other_lat)
    chord = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(np.radians(other_lon - lon) / 2) ** 2
    return 2 * 6_371_000 * np.arcsin(np.sqrt(chord))
