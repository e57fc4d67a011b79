"""The ledger's database: durable transactions, of which only one writes at a time, and errors without passwords."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, NullPool, create_engine, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from dqam.errors import InputError
from dqam.privacy.ledger.location import secrets_of, without_secrets
from dqam.privacy.ledger.tables import VERSION, DamagedError, create_or_upgrade, is_old, read_versions, tables_exist

TIMEOUT = 60  # seconds to wait for the transactions of others
ADVISORY_LOCK = 0x6471616D  # PostgreSQL's lock that stands for the whole ledger


class Database:
    """An SQLite file or a PostgreSQL database.

    A connection lives as long as its transaction, so there is nothing to close and processes may fork.
    """

    def __init__(self, url: URL) -> None:
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.place = url.database or "" if self.is_sqlite else without_secrets(url)
        self._secrets = secrets_of(url)
        try:
            if self.is_sqlite:
                options = {"timeout": TIMEOUT, "isolation_level": None}  # `transaction` begins transactions itself
                self.engine = create_engine(url, poolclass=NullPool, connect_args=options)
            else:  # with a stricter isolation level, reads would not see what was committed while waiting for the lock
                url = url.set(query={"connect_timeout": "10", "client_encoding": "utf8", **url.query})
                self.engine = create_engine(url, poolclass=NullPool, isolation_level="READ COMMITTED")
        except ImportError:
            raise InputError(
                f"The ledger {self.place} needs psycopg; install it with pip install 'dqam[postgres]'."
            ) from None
        except SQLAlchemyError as error:
            raise self._input_error(error) from None

    def prepare(self) -> None:
        """Create or upgrade the tables; only here, so that a ledger that was deleted is not silently started anew."""
        if self.is_sqlite:
            try:
                Path(self.place).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"The folder of the ledger {self.place} cannot be created ({error.strerror}); give another path."
                ) from None
        with self.transaction(write=False, check_version=False) as connection:
            new = not tables_exist(connection)
            old = not new and is_old(read_versions(connection))
        if new and self.is_sqlite:
            os.chmod(self.place, 0o600)  # the ledger says what was published, and when
        if new or old:
            with self.transaction(check_version=False) as connection:
                create_or_upgrade(connection)
        with self.transaction(write=False):
            pass  # checks the version

    @contextmanager
    def transaction(self, write: bool = True, check_version: bool = True) -> Iterator[Connection]:
        """A transaction that is committed and durable when the block ends, or rolled back if it raises an error.

        A transaction that writes holds the lock of the ledger before it reads anything, so writers run one at a time.
        """
        try:
            with self.engine.begin() as connection:
                if self.is_sqlite:
                    # SQLite rolls back by a journal; EXTRA also syncs the removal of that, which is the commit.
                    for pragma in ("synchronous = EXTRA", "fullfsync = ON", "foreign_keys = ON"):
                        connection.exec_driver_sql(f"PRAGMA {pragma}")
                    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
                elif write:
                    durable = func.set_config("synchronous_commit", "on", True)
                    asynchronous = func.current_setting("synchronous_commit") == "off"
                    connection.execute(select(durable).where(asynchronous))
                    connection.execute(select(func.set_config("lock_timeout", f"{TIMEOUT}s", True)))
                    connection.execute(select(func.pg_advisory_xact_lock(ADVISORY_LOCK)))
                else:
                    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                if check_version:
                    self._check_version(connection)
                yield connection
        except (SQLAlchemyError, UnicodeError, DamagedError) as error:
            raise self._input_error(error) from None

    def _check_version(self, connection: Connection) -> None:
        versions = read_versions(connection)
        if versions and max(versions) > VERSION:
            raise InputError(
                f"The ledger {self.place} has version {max(versions)} and this dqam knows version {VERSION}; "
                "install a newer dqam."
            )
        if versions != [VERSION]:
            raise DamagedError("it has no version")

    def _input_error(self, error: Exception) -> InputError:
        """What went wrong, in one sentence without passwords."""
        if isinstance(error, DamagedError):
            return InputError(
                f"The ledger {self.place} is damaged: {error}; restore it from a backup, then record what was "
                "published since."
            )
        message = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        reason = " ".join(message.split())[:300].rstrip(".")
        if not reason or any(secret in reason for secret in self._secrets):
            reason = type(error).__name__
        if "database is locked" in reason or "lock timeout" in reason:
            return InputError(
                f"The ledger {self.place} was busy for more than {TIMEOUT} seconds; try again when other publications "
                "are done."
            )
        way_out = (
            "check that it is a ledger that you can read and write, on a disk with free space"
            if self.is_sqlite
            else "check that the server is running and that you can read and write there"
        )
        return InputError(f"The ledger {self.place} cannot be used ({reason}); {way_out}.")
