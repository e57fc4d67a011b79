"""What tells trips apart in a table that an engine reads: ids that mean the same to every engine.

Columns get names of our own, so that none can be taken for another, and ids are whole numbers or text that nothing
would be trimmed from: else one engine might take for two trips, or two persons, what another takes for one.
"""

from __future__ import annotations

from collections.abc import Mapping

from dqam.errors import InputError

NAMES = {"person": "dqam_person", "trip": "dqam_trip", "time": "dqam_time", "lon": "dqam_x", "lat": "dqam_y"}
AROUND = r"^[\s\p{Z}\p{C}]|[\s\p{Z}\p{C}]$"  # in regular expressions of DuckDB and of Spark
WHOLE = {"tinyint", "smallint", "integer", "int", "bigint", "utinyint", "usmallint", "uinteger", "ubigint"}
TEXT = {"varchar", "string"}


def roles_of(known: Mapping[str, str | None], source: str) -> dict[str, str]:
    """The columns to read, by role; an `InputError` where one is missing that an engine needs."""
    roles = {role: name for role in NAMES if (name := known.get(role))}
    missing = {"time", "lon", "lat"} - roles.keys() or ({"trip"} if not roles.keys() & {"person", "trip"} else set())
    if missing:
        raise InputError(
            f"{source}: this engine reads a point a row, with columns for its trip, time, lon and lat; there is none "
            f"for {', '.join(sorted(missing))}. Name it, or use the engine 'local'."
        )
    return roles


def keys_of(roles: Mapping[str, str]) -> list[str]:
    """The names of our own for what tells trips apart."""
    return [NAMES[role] for role in ("person", "trip") if role in roles]


def check_types(types: Mapping[str, str], source: str) -> None:
    """An `InputError` where ids are neither whole numbers nor text."""
    for kind in types.values():
        if kind.lower() not in WHOLE | TEXT:
            raise InputError(f"{source}: ids can not be {kind} for this engine; write them as whole numbers or text.")


def is_text(kind: str) -> bool:
    """Whether a type of SQL is that of text."""
    return kind.lower() in TEXT


def refuse_alike(names: list[str], roles: Mapping[str, str], source: str) -> None:
    """An `InputError` where SQL, to which upper and lower case are the same, might take another column for one."""
    for used in roles.values():
        alike = [name for name in names if name.casefold() == used.casefold()]
        if len(alike) > 1 or any(name.casefold() in NAMES.values() for name in names):
            raise InputError(f"{source}: columns {', '.join(alike)} are one to this engine; rename all but {used}.")


def refuse_bad(count: int, source: str) -> None:
    """An `InputError` where there are such points."""
    if count:
        raise InputError(
            f"{source}: {count:,} points have no id of their trip or person, or one with white space around it; "
            "repair these, or use the engine 'local'."
        )
