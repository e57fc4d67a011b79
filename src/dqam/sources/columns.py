"""Find out which column of a table has which role, from the names that common tools use or from the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from dqam.errors import InputError

# By role, the recognised names in order of preference; case does not matter.
NAMES = {
    "trip": ("tid", "trip_id", "traj_id", "trajectory_id", "tripid", "trajid", "track_id", "trip", "trajectory"),
    "person": ("uid", "user_id", "person_id", "taxi_id", "userid", "user", "person", "driver_id", "vehicle_id"),
    "time": ("datetime", "t", "tracked_at", "timestamp", "time", "date_time"),
    "lon": ("lng", "lon", "longitude", "long", "x"),
    "lat": ("lat", "latitude", "y"),
    "geometry": ("geometry", "geom", "wkt", "wkb", "the_geom"),
    "polyline": ("polyline",),
}


# By role, parts of column names that make a column worth suggesting to the user.
_LIKELY = {
    "trip": r"trip|ride|journey|traj|track|session",
    "person": r"user|person|driver|device|vehicle|taxi|bike|imei|mmsi",
    "lon": r"lon|lng|east",
    "lat": r"lat|north",
    "geometry": r"geo|wkt|wkb|shape|line",
    "polyline": r"poly|coord",
}
_DATA = r"\d\.\d|^[-+]?\d{3,}$|^-\d"  # a number, or a list of coordinates, where a column's name is expected


@dataclass(frozen=True)
class Columns:
    """The names of the columns in use; the place is in polyline, in geometry, or in lon and lat."""

    trip: str | None = None
    person: str | None = None
    time: str | None = None
    lon: str | None = None
    lat: str | None = None
    geometry: str | None = None
    polyline: str | None = None
    id: str | None = None  # a column "id", which identifies a trip only if every row is a trip
    kind: str | None = None  # a column whose value decides in which slice a trip is

    @property
    def keys(self) -> list[str]:
        """The columns that identify a trip in a table of points; trip ids need only be unique within a person."""
        return list(dict.fromkeys(name for name in (self.person, self.trip) if name))

    @property
    def row_id(self) -> str | None:
        """The column that identifies a trip in a table with one trip per row."""
        return self.trip or self.id

    @property
    def by_person(self) -> bool:
        """Whether all points of a person are one trip: rows are points (they have a time, or longitude and latitude),
        and there are no trip ids."""
        return bool(self.person and not self.trip and (self.lon or (self.geometry and self.time)))

    @property
    def row_keys(self) -> list[str]:
        """The columns that identify a trip if rows are trips or pieces of them; none if every row is a trip."""
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
        roles = (self.trip, self.person, self.time, self.lon, self.lat, self.geometry, self.polyline, self.kind)
        return list(dict.fromkeys(name for name in roles if name))


def recognise(
    names: Sequence[str], source: str, given: Mapping[str, str] | None = None, hints: Mapping[str, str] | None = None
) -> Columns:
    """The columns by role: as `given` by the user, then as the format `hints`, then by recognised names.

    >>> recognise(["uid", "tid", "datetime", "lat", "lng"], "trips.csv").keys
    ['uid', 'tid']
    """
    given = dict(given or {})
    for role, name in given.items():
        if role not in NAMES:
            meant = next((f" (did you mean {known!r}?)" for known in NAMES if role.lower() in NAMES[known]), "")
            raise InputError(f"{source}: {role!r} is not a role of a column{meant}; the roles are {', '.join(NAMES)}.")
        if name and name not in names:
            raise InputError(
                f"{source} has no column {name!r} for {role}: it has {_listed(names)}{_meant(names, name)}"
            )
    lower: dict[str, str] = {}
    for name in names:
        lower.setdefault(name.strip().lower(), name)
    roles = {role: next((lower[alias] for alias in NAMES[role] if alias in lower), None) for role in NAMES}
    roles |= {role: name for role, name in (hints or {}).items() if name in names}
    # If the user names a column for the place, the other ways to give the place are not used.
    if given.keys() & {"lon", "lat"}:
        roles |= {"geometry": None, "polyline": None}
    elif "geometry" in given:
        roles["polyline"] = None
    roles |= {role: name or None for role, name in given.items()}  # an empty name means that the role is not used
    if roles["polyline"] or roles["geometry"]:
        roles |= {"lon": None, "lat": None}
    if roles["polyline"]:
        roles["geometry"] = None
    columns = Columns(**roles, id=lower.get("id"))
    if doubled := [name for name in columns.used if list(names).count(name) > 1]:
        raise InputError(f"{source} has more than one column {doubled[0]!r}; rename all but one of them.")
    if not (columns.polyline or columns.geometry or (columns.lon and columns.lat)):
        raise _no_place(source, names, columns)
    return columns


def check_kind(names: Sequence[str], source: str, kind: str) -> None:
    """Raise an `InputError` unless there is one column of this name."""
    if kind not in names:
        raise InputError(f"{source} has no column {kind!r} for slices: it has {_listed(names)}{_meant(names, kind)}")
    if list(names).count(kind) > 1:
        raise InputError(f"{source} has more than one column {kind!r}; rename all but one of them.")


def _meant(names: Sequence[str], name: str) -> str:
    """The end of a sentence that names the column that was probably meant."""
    close = get_close_matches(name.lower(), [each.lower() for each in names], 1)
    return next((f"; did you mean {each!r}?" for each in names if [each.lower()] == close), "; name one of them.")


def require_keys(columns: Columns, names: Sequence[str], source: str) -> None:
    """Raise an `InputError` if a table of points has no ids, without which points cannot be grouped into trips."""
    if columns.keys:
        return
    others = [name for name in names if name not in columns.used]
    role = "person" if _guess(others, "person") and not _guess(others, "trip") else "trip"
    way_out = f"Name the column that has them, {_advice(others, role)}" if others else "Add a column that has them"
    raise InputError(
        f"{source} has points but no trip or person ids, which say which points belong together: it has "
        f"{_listed(names)}. {way_out}; recognised names are {', '.join(NAMES['trip'] + NAMES['person'])}."
    )


def _no_place(source: str, names: Sequence[str], columns: Columns) -> InputError:
    """The error if there are no coordinates, or only one of lon and lat."""
    if any(re.search(_DATA, name) for name in names):
        return InputError(f"The first row of {source} looks like data; add a header row with the names of the columns.")
    others = [name for name in names if name not in columns.used]
    if columns.lon or columns.lat:
        found, missing = ("lon", "lat") if columns.lon else ("lat", "lon")
        return InputError(
            f"{source} has a column for {found} but none for {missing}: it has {_listed(names)}. Name it, "
            f"{_advice(others, missing)}; recognised names are {', '.join(NAMES[missing])}."
        )
    ways = {("lon", "lat"): "points", ("geometry",): "WKT or WKB", ("polyline",): "JSON lists of [lon, lat]"}
    likely = [roles for roles in ways if all(_guess(others, role) for role in roles)]
    advice = " or ".join(f"{_advice(others, *roles)} for {ways[roles]}" for roles in likely[:1] or ways)
    sought = [", ".join(name for role in roles for name in NAMES[role]) for roles in ways]
    return InputError(
        f"{source} has no columns for coordinates: it has {_listed(names)}. Name them, {advice}; recognised names are "
        f"{' or '.join(sought)}."
    )


def _guess(names: Sequence[str], role: str) -> str | None:
    """The only column whose name looks like `role`; None if there is no such column, or more than one."""
    likely = [name for name in names if re.search(_LIKELY[role], name.lower())]
    return likely[0] if len(likely) == 1 else None


def _advice(names: Sequence[str], *roles: str) -> str:
    """The parameter that names columns for `roles`."""
    guesses = {role: _guess(names, role) or "NAME" for role in roles}
    return f"columns={guesses}"


def _listed(names: Sequence[str]) -> str:
    shown = ["..." if re.search(_DATA, name) else name for name in names[:20]]
    words = [name if len(name) <= 30 else f"{name[:27]}..." for name in shown]
    return ", ".join(words) + (f" and {len(names) - 20} more" if len(names) > 20 else "") if words else "no columns"
