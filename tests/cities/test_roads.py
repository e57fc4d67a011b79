"""Road networks from tables and from lines."""

from __future__ import annotations

import numpy as np
import pyarrow.csv
import pytest

from dqam.cities import RoadNetwork
from dqam.errors import InputError

from .conftest import SIDE, SOUTH, STEP, WEST, metres

NODES = "id,lon,lat\na,10,50\nb,10.01,50\n"
LINKS = "from,to,length_m,freespeed_mps\na,b,700,10\nb,a,700,14\n"


def strongly_connected(network: RoadNetwork) -> bool:
    """Whether node 0 reaches all nodes, and all nodes reach it, by breadth-first search."""
    for tails, heads in ((network.tails, network.heads), (network.heads, network.tails)):
        reached = np.zeros(network.nodes, bool)
        reached[0] = True
        while not reached[heads[reached[tails]]].all():
            reached[heads[reached[tails]]] = True
        if not reached.all():
            return False
    return True


def test_parallel_links_and_loops_do_no_harm():
    """SciPy's search never ends on a matrix that holds an entry twice."""
    lon, lat = np.array([10.0, 10.1, 10.2]), np.full(3, 50.0)
    tails, heads = np.array([0, 0, 1, 1, 2, 2], np.int32), np.array([1, 1, 0, 2, 1, 2], np.int32)
    network = RoadNetwork.from_links(lon, lat, tails, heads, np.arange(1.0, 7.0))
    assert network.nodes == 3
    assert network.seconds.tolist() == [1, 2, 3, 4, 5]  # both parallel links, and no loop


def test_a_path_too_long_for_recursion():
    nodes = 200_000
    tails = np.arange(nodes, dtype=np.int32)
    heads = np.append(np.arange(1, nodes), nodes // 2).astype(np.int32)
    network = RoadNetwork.from_links(np.linspace(0, 1, nodes), np.zeros(nodes), tails, heads, np.ones(nodes))
    assert network.nodes == nodes - nodes // 2


def test_tables_keep_the_largest_strong_part(lattice):
    assert lattice.nodes == SIDE * SIDE  # neither the dead end nor the island
    assert len(lattice.heads) == 4 * SIDE * (SIDE - 1)
    assert strongly_connected(lattice)
    assert set(lattice.seconds.round(6)) == {14.3, 22.24}
    ends = lattice.shape_starts
    np.testing.assert_array_equal(lattice.shape_lon[ends[:-1]], lattice.lon[lattice.tails])
    np.testing.assert_array_equal(lattice.shape_lat[ends[1:] - 1], lattice.lat[lattice.heads])


def test_bounds_keep_a_margin_of_one_kilometre(road_tables):
    middle = WEST + 10 * STEP, SOUTH + 10 * STEP
    network = RoadNetwork.from_tables(*road_tables, bounds=(*middle, middle[0] + 1e-6, middle[1] + 1e-6))
    assert network.nodes == 13 * 9  # 143 m and 222 m apart: six columns and four rows fit in 1 km each way
    with pytest.raises(InputError, match=r"nodes\.csv lies within \(0, 0, 1, 1\)"):
        RoadNetwork.from_tables(*road_tables, bounds=(0, 0, 1, 1))


def test_nearest_is_nearest_on_the_ground(lattice):
    rng = np.random.default_rng(0)
    lon, lat = WEST + rng.random((2, 300)) * 0.05, SOUTH + rng.random((2, 300)) * 0.05
    found = lattice.nearest(lon, lat)
    away = metres(lon[..., None], lat[..., None], lattice.lon, lattice.lat)
    assert found.shape == lon.shape
    np.testing.assert_allclose(np.take_along_axis(away, found[..., None], 2)[..., 0], away.min(axis=2), rtol=2e-3)
    np.testing.assert_allclose(lattice.metres_to(found, lon, lat), away.min(axis=2), rtol=2e-3)


def test_lines_meet_at_their_ends(tmp_path):
    # A one-way triangle a-b-c with a bend on a-b, a spur that leads nowhere, and d, which only touches a bend.
    roads = [
        ("[[10.0, 50.0], [10.002, 50.0], [10.002, 50.001]]", 0),
        ("[[10.002, 50.001],[10.0,50.001]]", 6),
        ("[[10.0, 50.001], [10.0, 50.0]]", 6),
        ("[[10.0, 50.0], [9.99, 50.0]]", 6),
        ("[[10.002, 50.0], [10.01, 50.0]]", 6),
    ]
    path = tmp_path / "roads.csv"
    path.write_text("coordinates,highway\n" + "\n".join(f'"{line}",{code}' for line, code in roads))
    network = RoadNetwork.from_lines(path)
    assert (network.nodes, len(network.heads)) == (3, 3)
    assert strongly_connected(network)
    bent = int(np.diff(network.shape_starts).argmax())
    assert network.shape_lon[network.shape_starts[bent] :][:3].tolist() == [10.0, 10.002, 10.002]
    east, north = metres(10, 50, 10.002, 50), metres(10, 50, 10, 50.001)
    np.testing.assert_allclose(
        network.shape_share[network.shape_starts[bent] :][:3], [0, east / (east + north), 1], rtol=1e-5
    )
    assert network.seconds[bent] == pytest.approx((east + north) / (60 / 3.6), rel=1e-5)


@pytest.mark.parametrize(
    ("nodes", "links", "message"),
    [
        (None, LINKS, r"no file .*nodes\.csv"),
        ("", LINKS, r"nodes\.csv cannot be read"),
        ("id,lon,lat\n", LINKS, r"nodes\.csv has a header but no rows"),
        ("id,lon\na,10\n", LINKS, r"nodes\.csv has no column 'lat', only id, lon"),
        ("id,lon,lat\na,10,north\n", LINKS, r"nodes\.csv cannot be read .*'north'"),
        ("id,lon,lat\na,10,50\nb,,50\n", LINKS, r"nodes\.csv has no lon in row 2"),
        (NODES, "from,to,length_m\na,b,1\n", r"links\.csv has no column 'freespeed_mps'"),
        (NODES, LINKS + "a,q,1,1\n", r"links\.csv has a link to node 'q', which .*nodes\.csv does not have"),
        (NODES, LINKS + "a,b,1,0\n", r"links\.csv has freespeed_mps 0"),
        (NODES, "from,to,length_m,freespeed_mps\na,b,700,10\n", "No two of the 2 nodes"),
    ],
)
def test_tables_that_can_not_be_used(tmp_path, nodes, links, message):
    if nodes is not None:
        (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "links.csv").write_text(links)
    with pytest.raises(InputError, match=message):
        RoadNetwork.from_tables(tmp_path / "nodes.csv", tmp_path / "links.csv")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"[[10, 50], [x, 51]]",6', "coordinates that are not numbers"),
        ('"[[10, 50]]",6', r"coordinates '\[\[10, 50\]\]'; a road has at least two"),
        ('"[[10, 50], [11, nan]]",6', "nan"),
        ('"[[10, 50], [11, 51]]",40', "highway 40; the known classes are 0 to 12"),
    ],
)
def test_lines_that_can_not_be_used(tmp_path, row, message):
    (tmp_path / "roads.csv").write_text(f"coordinates,highway\n{row}\n")
    with pytest.raises(InputError, match=message):
        RoadNetwork.from_lines(tmp_path / "roads.csv")


def test_ends_of_porto_lines_give_its_published_successions(real_data):
    roads = pyarrow.csv.read_csv(real_data("porto_roads.csv.gz"))
    links = pyarrow.csv.read_csv(real_data("porto_road_links.csv.gz"))
    ends = [line.replace("[", "").replace("]", "").split(", ") for line in roads["coordinates"].to_pylist()]
    first = np.array([f"{end[0]} {end[1]}" for end in ends])
    last = np.array([f"{end[-2]} {end[-1]}" for end in ends])
    places, place = np.unique(np.concatenate([first, last]), return_inverse=True)
    begins, stops = place[: len(first)], place[len(first) :]
    into, out = (np.bincount(nodes, minlength=len(places)) for nodes in (stops, begins))
    assert (into * out).sum() == len(links)
    assert (stops[links["origin_id"].to_numpy()] == begins[links["destination_id"].to_numpy()]).all()
    network = RoadNetwork.from_lines(real_data("porto_roads.csv.gz"))
    assert strongly_connected(network)
    assert network.nodes > 0.98 * len(places)
