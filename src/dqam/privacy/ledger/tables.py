"""The tables of the ledger, their version, and how they are created and upgraded.

Epsilons, deltas and rhos are stored as text, as exact fractions such as "1/10", and times as text in UTC, in ISO 8601.

Version 2 added sketches, secrets and `settled`; version 3 added `delta`, `rho` and `exchanged`. Data sets and
publications of older versions are pure: these columns are empty.
"""

from __future__ import annotations

import secrets

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    update,
)

VERSION = 3
SKETCH_KEY = "sketches"  # the name of the secret that sketches are hashed with

TABLES = MetaData()
VERSIONS = Table("dqam_ledger", TABLES, Column("version", Integer, primary_key=True, autoincrement=False))
DATA_SETS = Table(
    "dqam_data_sets",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("unit", Text, CheckConstraint("unit IN ('trip', 'person')"), nullable=False),
    Column("registered", Text, nullable=False),
    Column("delta", Text),  # none if the budget is pure
)
TOTALS = Table(  # rows are only ever added; the newest one is in force
    "dqam_totals",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("data_set", Text, ForeignKey(DATA_SETS.c.name), nullable=False, index=True),
    Column("epsilon", Text, nullable=False),
    Column("noted", Text, nullable=False),
)
PUBLICATIONS = Table(
    "dqam_publications",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("id", Text, unique=True, nullable=False),
    Column("data_set", Text, ForeignKey(DATA_SETS.c.name), nullable=False, index=True),
    Column("epsilon", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("max_trips", Integer, nullable=False),
    Column("mechanism", Text, nullable=False),
    Column("grid", Text, nullable=False),
    Column("noted", Text, nullable=False),
    Column("release", Text),  # when the release was handed over
    Column("settled", Text),  # the final cost, if the publication ended early: a rho if it has one, else an epsilon
    Column("rho", Text),  # what was charged; none if the publication is pure
    Column("exchanged", Text),  # the rho that was charged first, if the budget was exchanged for a pure one
)
SKETCHES = Table(  # publications of the same trips under one name share a row
    "dqam_sketches",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("data_set", Text, ForeignKey(DATA_SETS.c.name), nullable=False),
    Column("digest", Text, nullable=False),
    Column("sketch", LargeBinary, nullable=False),
    UniqueConstraint("data_set", "digest"),
)
SECRETS = Table("dqam_secrets", TABLES, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))


class DamagedError(Exception):
    """The tables hold something that no ledger writes; the message continues "The ledger is damaged: "."""


def tables_exist(connection: Connection) -> bool:
    """Whether there is a ledger, of any version."""
    return inspect(connection).has_table(VERSIONS.name)


def read_versions(connection: Connection) -> list[int]:
    """The version of the tables, as the only element unless they are damaged."""
    return list(connection.execute(select(VERSIONS.c.version)).scalars())


def is_old(versions: list[int]) -> bool:
    """Whether the tables have a version that can be upgraded."""
    return versions in ([1], [2])


def create_or_upgrade(connection: Connection) -> None:
    """Create the tables, or upgrade those of an older version; leave them if another process was faster."""
    TABLES.create_all(connection)  # only those that are missing
    versions = read_versions(connection)
    if versions == [1]:
        connection.exec_driver_sql("ALTER TABLE dqam_publications ADD COLUMN settled TEXT")
    if is_old(versions):
        connection.exec_driver_sql("ALTER TABLE dqam_data_sets ADD COLUMN delta TEXT")
        connection.exec_driver_sql("ALTER TABLE dqam_publications ADD COLUMN rho TEXT")
        connection.exec_driver_sql("ALTER TABLE dqam_publications ADD COLUMN exchanged TEXT")
        connection.execute(update(VERSIONS).values(version=VERSION))
    if versions in ([], [1]):
        connection.execute(insert(SECRETS).values(name=SKETCH_KEY, value=secrets.token_hex(16)))
    if not versions:
        connection.execute(insert(VERSIONS).values(version=VERSION))
