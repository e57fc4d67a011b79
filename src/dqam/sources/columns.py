"""Which column of a table plays which role: names that people's tools write, and the user's own word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dqam.errors import InputError

# Per role, names in order of preference; compared without case.
NAMES = {
    "trip": ("tid", "trip_id", "traj_id", "trajectory_id", "tripid", "trajid", "track_id", "trip", "trajectory"),
    "person": ("uid", "user_id", "person_id", "taxi_id", "userid", "user", "person", "driver_id", "vehicle_id"),
    "time": ("datetime", "t", "tracked_at", "timestamp", "time", "date_time"),
    "lon": ("lng", "lon", "longitude", "long", "x"),
    "lat": ("lat", "latitude", "y"),
    "geometry": ("geometry", "geom", "wkt", "wkb", "the_geom"),
    "polyline": ("polyline",),
}


@dataclass(frozen=True)
class Columns:
    """The names of the columns in use; either polyline, geometry, or lon and lat are there."""

    trip: str | None = None
    person: str | None = None
    time: str | None = None
    lon: str | None = None
    lat: str | None = None
    geometry: str | None = None
    polyline: str | None = None
    id: str | None = None  # a plain "id", which names a trip only where a row is a trip

    @property
    def keys(self) -> list[str]:
        """What tells the trips of a point table apart; a trip's number need only be unique within a person."""
        return list(dict.fromkeys(name for name in (self.person, self.trip) if name))

    @property
    def row_id(self) -> str | None:
        """The column that identifies a trip, in a table with one trip per row."""
        return self.trip or self.id

    @property
    def by_person(self) -> bool:
        """Whether everything of a person is one trip: rows are points (they have a time, or columns of longitude and
        latitude), and there are no trip ids."""
        return bool(self.person and not self.trip and (self.lon or (self.geometry and self.time)))

    @property
    def row_keys(self) -> list[str]:
        """Columns that tell trips apart, where a row is a trip or a piece of one; none if every row is a trip."""
        if self.by_person:
            return [self.person] if self.person else []
        return [name for name in (self.person, self.row_id) if name] if self.row_id else []

    @property
    def used_by_rows(self) -> list[str]:
        """All columns in use in a table with one trip per row, each once."""
        return list(dict.fromkeys([*self.used, *self.row_keys]))

    @property
    def used(self) -> list[str]:
        """All columns in use, each once."""
        roles = (self.trip, self.person, self.time, self.lon, self.lat, self.geometry, self.polyline)
        return list(dict.fromkeys(name for name in roles if name))


def recognise(
    names: Sequence[str], source: str, given: Mapping[str, str] | None = None, hints: Mapping[str, str] | None = None
) -> Columns:
    """The roles of the columns `names`: what the user has `given`, then `hints` of the format, then known names.

    >>> recognise(["uid", "tid", "datetime", "lat", "lng"], "trips.csv").keys
    ['uid', 'tid']
    """
    given = dict(given or {})
    if unknown := [role for role in given if role not in NAMES]:
        raise InputError(f"{source}: {unknown[0]!r} is not a role of a column; the roles are {', '.join(NAMES)}.")
    for role, name in given.items():
        if name and name not in names:
            raise InputError(
                f"{source} has no column {name!r} for {role}; it has {_listed(names)}: name one of them instead."
            )
    lower: dict[str, str] = {}
    for name in names:
        lower.setdefault(name.strip().lower(), name)
    roles = {role: next((lower[alias] for alias in NAMES[role] if alias in lower), None) for role in NAMES}
    roles |= {role: name for role, name in (hints or {}).items() if name in names}
    # What the user gives for the place rules out the other ways to give it.
    if given.keys() & {"lon", "lat"}:
        roles |= {"geometry": None, "polyline": None}
    elif "geometry" in given:
        roles["polyline"] = None
    roles |= {role: name or None for role, name in given.items()}  # an empty name: not to be used
    if roles["polyline"] or roles["geometry"]:
        roles |= {"lon": None, "lat": None}
    if roles["polyline"]:
        roles["geometry"] = None
    columns = Columns(**roles, id=lower.get("id"))
    if doubled := [name for name in columns.used if list(names).count(name) > 1]:
        raise InputError(f"{source} has more than one column {doubled[0]!r}; rename all but one of them.")
    if not (columns.polyline or columns.geometry or (columns.lon and columns.lat)):
        raise _missing(source, names, ("polyline", "geometry", "lon", "lat"), "coordinates")
    return columns


def require_keys(columns: Columns, names: Sequence[str], source: str) -> None:
    """Raise an `InputError` if a point table has no ids, without which its points cannot be grouped into trips."""
    if not columns.keys:
        raise _missing(source, names, ("trip", "person"), "trip or person ids")


def _missing(source: str, names: Sequence[str], roles: Sequence[str], what: str) -> InputError:
    sought = "; ".join(f"{role}: {', '.join(NAMES[role])}" for role in roles)
    return InputError(
        f"{source} has no columns for {what}: it has {_listed(names)}, and these names were looked for: {sought}. "
        f"Say which to use: --column {roles[0]}=NAME, or in Python columns={{'{roles[0]}': NAME, ...}}."
    )


def _listed(names: Sequence[str]) -> str:
    words = [name if len(name) <= 30 else f"{name[:27]}..." for name in names[:20]]
    return ", ".join(words) + (f" and {len(names) - 20} more" if len(names) > 20 else "") if words else "no columns"
