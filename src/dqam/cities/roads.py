"""Road networks: nodes in degrees, and directed links with travel times and shapes, read from tables or from lines.

Only the largest strongly connected component is kept, so that every origin reaches every destination.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import shapely
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dqam.errors import InputError
from dqam.geometry.arrays import Floats, Integers, Integers32
from dqam.geometry.grid import Bounds

METRES_PER_DEGREE = 111_195.0  # of latitude, on a sphere of 6,371 km; good to 0.5 % anywhere
MARGIN = 1000.0  # metres of network kept around bounds, because fastest routes leave a square and come back

# OpenStreetMap's highway classes as the Porto road table numbers them, identified by their counts, lengths and speed
# limits. The speeds (km/h) are those of taxis there, including stops: with them the median route takes as long as the
# recorded trip between the same places.
HIGHWAYS = {
    0: ("motorway", 60),
    1: ("trunk", 45),
    2: ("primary", 25),
    3: ("secondary", 22),
    4: ("tertiary", 20),
    5: ("living street", 8),
    6: ("residential", 16),
    7: ("motorway link", 40),
    8: ("trunk link", 30),
    9: ("primary link", 22),
    10: ("secondary link", 20),
    11: ("tertiary link", 18),
    12: ("unclassified", 16),
}


@dataclass(frozen=True, eq=False)
class RoadNetwork:
    """Nodes and directed links; the links that leave node v are starts[v] to starts[v + 1].

    lon, lat              float64[nodes], degrees
    starts                int64[nodes + 1]
    heads                 int32[links], the node where a link ends
    seconds               float64[links], travel time, above 0
    shape_starts          int64[links + 1]; link e is drawn by the points shape_starts[e] to shape_starts[e + 1]
    shape_lon, shape_lat  float64[shape points], degrees, both end nodes included
    """

    lon: Floats
    lat: Floats
    starts: Integers
    heads: Integers32
    seconds: Floats
    shape_starts: Integers
    shape_lon: Floats
    shape_lat: Floats

    @classmethod
    def from_links(
        cls,
        lon: Floats,
        lat: Floats,
        tails: Integers32,
        heads: Integers32,
        seconds: Floats,
        shape: tuple[Integers, Floats, Floats] | None = None,
    ) -> RoadNetwork:
        """The largest strongly connected component of links in any order; without `shape`, links are straight."""
        if shape is None:
            ends = np.column_stack([tails, heads]).ravel()
            shape = np.arange(0, 2 * len(tails) + 1, 2, dtype=np.int64), lon[ends], lat[ends]
        order = np.argsort(tails, kind="stable")
        # from pairs, so that parallel links are added up: the search never ends on an entry that occurs twice
        links = csr_array((np.ones(len(tails)), (tails, heads)), shape=(len(lon), len(lon)))
        component = connected_components(links, connection="strong")[1]
        kept = component == np.bincount(component).argmax() if len(component) else np.zeros(0, bool)
        if kept.sum() < 2:
            raise InputError(
                f"No two of the {len(lon):,} nodes can be reached from each other by the {len(tails):,} links; "
                "check the directions of the links, or give wider bounds."
            )
        renumbered = (np.cumsum(kept) - 1).astype(np.int32)
        order = order[kept[tails[order]] & kept[heads[order]] & (tails[order] != heads[order])]
        lengths = np.diff(shape[0])[order]
        shape_starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        corners = np.arange(shape_starts[-1]) + np.repeat(shape[0][order] - shape_starts[:-1], lengths)
        return cls(
            lon[kept],
            lat[kept],
            _row_starts(renumbered[tails[order]], int(kept.sum())),
            renumbered[heads[order]],
            seconds[order].astype(np.float64),
            shape_starts,
            shape[1][corners],
            shape[2][corners],
        )

    @classmethod
    def from_tables(
        cls, nodes_path: str | PathLike[str], links_path: str | PathLike[str], bounds: Bounds | None = None
    ) -> RoadNetwork:
        """Read a network from CSV tables of nodes (id, lon, lat) and links (from, to, length_m, freespeed_mps).

        With `bounds` (west, south, east, north, in degrees), only what lies inside or within 1 km is kept.
        """
        nodes = _read(nodes_path, {"id": pa.string(), "lon": pa.float64(), "lat": pa.float64()})
        links = _read(
            links_path,
            {"from": pa.string(), "to": pa.string(), "length_m": pa.float64(), "freespeed_mps": pa.float64()},
        )
        ends = []
        for column in ("from", "to"):
            found = pc.index_in(links[column], value_set=nodes["id"].combine_chunks())
            if found.null_count:
                stranger = links[column].filter(pc.is_null(found))[0].as_py()
                raise InputError(
                    f"{fspath(links_path)} has a link {column} node {stranger!r}, which {fspath(nodes_path)} does not "
                    "have; give the two tables of one network."
                )
            ends.append(found.to_numpy().astype(np.int32))
        for column in ("length_m", "freespeed_mps"):
            if (least := pc.min(links[column]).as_py()) <= 0:
                raise InputError(f"{fspath(links_path)} has {column} {least}; lengths and speeds must be positive.")
        lon, lat = nodes["lon"].to_numpy(), nodes["lat"].to_numpy()
        seconds = links["length_m"].to_numpy() / links["freespeed_mps"].to_numpy()
        if bounds is not None:
            west, south, east, north = bounds
            high = MARGIN / METRES_PER_DEGREE
            wide = high / np.cos(np.radians((south + north) / 2))
            inside = (lon >= west - wide) & (lon <= east + wide) & (lat >= south - high) & (lat <= north + high)
            if not inside.any():
                raise InputError(
                    f"None of the {len(lon):,} nodes of {fspath(nodes_path)} lies within {bounds}; they span "
                    f"{lon.min():.6g} {lat.min():.6g} {lon.max():.6g} {lat.max():.6g} (west south east north)."
                )
            # dropping links is enough: a node without links is never in the largest component
            used = inside[ends[0]] & inside[ends[1]]
            ends, seconds = [end[used] for end in ends], seconds[used]
        return cls.from_links(lon, lat, ends[0], ends[1], seconds)

    @classmethod
    def from_lines(cls, roads_path: str | PathLike[str]) -> RoadNetwork:
        """Read a network from a CSV table of directed segments (coordinates, highway), as published for Porto.

        `coordinates` is a JSON list of [lon, lat]. Segments meet where their first and last coordinates are equal; in
        the table of Porto, this gives exactly the 26,161 successions that its table of links lists.
        """
        roads = _read(roads_path, {"coordinates": pa.string(), "highway": pa.int64()})
        plain = pc.replace_substring_regex(roads["coordinates"], r"[\[\]\s]", "")
        numbers = pc.split_pattern(plain, ",").combine_chunks()
        try:
            flat = pc.cast(numbers.flatten(), pa.float64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{fspath(roads_path)} has coordinates that are not numbers ({error}); give lists of [lon, lat]."
            ) from None
        sizes = pc.list_value_length(numbers).to_numpy()
        odd = (sizes % 2 == 1) | (sizes < 4)
        odd[np.repeat(np.arange(len(sizes)), sizes)[~np.isfinite(flat)]] = True
        if odd.any():
            raise InputError(
                f"{fspath(roads_path)} has the coordinates {roads['coordinates'][int(odd.argmax())].as_py()!r}; "
                "a road has at least two [lon, lat]."
            )
        classes = roads["highway"].to_numpy()
        unknown = ~np.isin(classes, list(HIGHWAYS))
        if unknown.any():
            raise InputError(
                f"{fspath(roads_path)} has highway {classes[unknown][0]}; the known classes are 0 to {max(HIGHWAYS)}."
            )
        shape_starts = np.concatenate([[0], np.cumsum(sizes // 2)]).astype(np.int64)
        lon, lat = flat[0::2].copy(), flat[1::2].copy()
        along = _cumulative_metres(lon, lat)
        speeds = np.array([HIGHWAYS[code][1] for code in sorted(HIGHWAYS)])[classes] / 3.6
        metres = along[shape_starts[1:] - 1] - along[shape_starts[:-1]]
        ends = np.concatenate([shape_starts[:-1], shape_starts[1:] - 1])
        nodes, node = np.unique(lon[ends] + 1j * lat[ends], return_inverse=True)
        tails, heads = node.astype(np.int32).reshape(2, -1)
        seconds = np.maximum(metres, 0.1) / speeds
        return cls.from_links(nodes.real, nodes.imag, tails, heads, seconds, (shape_starts, lon, lat))

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.lon)

    @cached_property
    def tails(self) -> Integers32:
        """int32[links], the node where each link begins."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), np.diff(self.starts))

    @cached_property
    def shape_share(self) -> Floats:
        """float64[shape points], the share of its link, 0 to 1, that lies before each shape point."""
        along = _cumulative_metres(self.shape_lon, self.shape_lat)
        sizes = np.diff(self.shape_starts)
        before = np.repeat(along[self.shape_starts[:-1]], sizes)
        whole = np.repeat(along[self.shape_starts[1:] - 1], sizes) - before
        return (along - before) / np.where(whole > 0, whole, 1.0)

    @cached_property
    def _narrowing(self) -> float:
        """The length of a degree of longitude in degrees of latitude, at the middle of the network."""
        return float(np.cos(np.radians((self.lat.min() + self.lat.max()) / 2)))

    @cached_property
    def _tree(self) -> shapely.STRtree:
        return shapely.STRtree(shapely.points(self.lon * self._narrowing, self.lat))

    def nearest(self, lon: Floats, lat: Floats) -> Integers32:
        """The node nearest to each point on the ground, in the shape of `lon` and `lat` (degrees)."""
        points = shapely.points(lon.ravel() * self._narrowing, lat.ravel())
        return self._tree.nearest(points).astype(np.int32).reshape(lon.shape)

    def metres_to(self, node: Integers32, lon: Floats, lat: Floats) -> Floats:
        """The distance of each point from the given node, in metres."""
        return METRES_PER_DEGREE * np.hypot((self.lon[node] - lon) * self._narrowing, self.lat[node] - lat)


def _row_starts(tails: Integers32, nodes: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=nodes))]).astype(np.int64)


def _cumulative_metres(lon: Floats, lat: Floats) -> Floats:
    """Metres along a chain of points; the step from one link to the next is meaningless and never used."""
    east = np.diff(lon) * np.cos(np.radians((lat[:-1] + lat[1:]) / 2))
    return np.concatenate([[0.0], np.cumsum(METRES_PER_DEGREE * np.hypot(east, np.diff(lat)))])


def _read(path: str | PathLike[str], columns: dict[str, pa.DataType]) -> pa.Table:
    """Read the given columns of a CSV file, plain or compressed; none may have missing values."""
    name = fspath(path)
    if not Path(name).is_file():
        raise InputError(f"There is no file {name}; give the path of a road table (CSV or CSV.gz).")
    try:
        table = pyarrow.csv.read_csv(name, convert_options=pyarrow.csv.ConvertOptions(column_types=columns))
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{name} cannot be read as CSV ({error}); give a table with a header.") from None
    for column in columns:
        if column not in table.column_names:
            raise InputError(
                f"{name} has no column {column!r}, only {', '.join(table.column_names)}; "
                f"a road table has {', '.join(columns)}."
            )
    if not len(table):
        raise InputError(f"{name} has a header but no rows; give a table with roads.")
    for column in columns:
        if table[column].null_count:
            row = pc.index(pc.is_null(table[column]), True).as_py()
            raise InputError(f"{name} has no {column} in row {row + 1:,}; fill it in or drop the row.")
    return table.select(list(columns))
