"""The ledger: every publication of a data set draws on one total budget, kept in a database.

An epsilon is charged in one transaction that is on disk before any noise is drawn. If the computation then fails, it
stays charged. Data sets are identified by name, and by sketches of their trips, so that trips that were published under
one name do not get a second budget under another. The ledger is for the custodian only and never part of a release.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import sys
import unicodedata
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    NullPool,
    Row,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from dqam.errors import BudgetError, InputError
from dqam.values.guarantee import Number, Unit, parse_epsilon, spell

if TYPE_CHECKING:
    from dqam.privacy.sketch import Sketch

VERSION = 2  # of the tables
SAME = 0.25  # share of the smaller set's trips above which two data sets count as one
WAIT = 60  # seconds for others to finish their transactions
LONGEST = 200  # characters of a name
LARGEST = 10**100  # numerator and denominator of an epsilon
LOCK = 0x6471616D  # PostgreSQL's advisory lock that stands for the whole ledger
URL_LIKE = re.compile(r"\w[\w+.-]*://|(sqlite|postgres(ql)?)(\+\w+)?:", re.IGNORECASE)
IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\u2800\U0001d159\U000e0000-\U000e0fff]"
)  # invisible characters
FRACTION = re.compile(r"[1-9][0-9]{0,100}(/[1-9][0-9]{0,100})?")

TABLES = MetaData()
VERSIONS = Table("dqam_ledger", TABLES, Column("version", Integer, primary_key=True, autoincrement=False))
DATA_SETS = Table(
    "dqam_data_sets",
    TABLES,
    Column("name", Text, primary_key=True),
    Column("unit", Text, CheckConstraint("unit IN ('trip', 'person')"), nullable=False),
    Column("registered", Text, nullable=False),
)
TOTALS = Table(  # rows are only ever added; the newest counts
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
    Column("release", Text),  # when the release was saved
    Column("settled", Text),  # the final cost, if it ended early
)
SKETCHES = Table(  # publications of the same trips under one name share one
    "dqam_sketches",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("data_set", Text, ForeignKey(DATA_SETS.c.name), nullable=False),
    Column("digest", Text, nullable=False),
    Column("sketch", LargeBinary, nullable=False),
    UniqueConstraint("data_set", "digest"),
)
SECRETS = Table("dqam_secrets", TABLES, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))


class SameTripsError(BudgetError):
    """Trips that were published under another name are about to get a second budget.

    found  what was found, as a clause without a way out
    other  the name under which they were published
    unit   the unit of that data set, if it is not the requested one

    The message says what to do in Python: use the other name, or override with `sure`. Commands use their own words.
    """

    def __init__(self, message: str, found: str = "", other: str = "", unit: str | None = None) -> None:
        super().__init__(message)
        self.found, self.other, self.unit = found, other, unit


@dataclass(frozen=True)
class Spent:
    """What was charged; `id` is for `Ledger.saved`."""

    id: str
    data_set: str
    epsilon: Fraction
    total: Fraction
    left: Fraction  # after this
    when: str
    new_ledger: bool  # no data set was in it before
    new_data_set: bool  # nothing was published under this name before
    others: tuple[str, ...]  # names of the other data sets


@dataclass(frozen=True)
class Total:
    """The budget of a data set from some time on."""

    epsilon: Fraction
    when: str


@dataclass(frozen=True)
class Publication:
    """One publication that was paid for.

    epsilon  what was charged before noise was drawn
    settled  the final cost, if it ended early: at most epsilon
    release  when it was saved, if it was
    """

    id: str
    epsilon: Fraction
    unit: Unit
    mechanism: str
    grid: str
    when: str
    release: str | None
    settled: Fraction | None = None

    @property
    def cost(self) -> Fraction:
        """What it takes from the budget."""
        return self.epsilon if self.settled is None else self.settled


@dataclass(frozen=True)
class Account:
    """A data set in the ledger; totals and publications with the oldest first."""

    name: str
    unit_name: str
    registered: str
    totals: tuple[Total, ...]
    publications: tuple[Publication, ...]

    @property
    def total(self) -> Fraction:
        """What may be spent in all."""
        return self.totals[-1].epsilon

    @property
    def spent(self) -> Fraction:
        """What all publications cost, saved or not."""
        return sum((publication.cost for publication in self.publications), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What can still be spent."""
        return self.total - self.spent


class Ledger:
    """Totals and publications of data sets, in an SQLite file or a PostgreSQL database.

    All changes are made one after the other, each in a transaction that is durable before the method returns.
    Connections live as long as a transaction, so there is nothing to close and processes may fork.
    """

    def __init__(self, url: URL) -> None:
        self._lite = url.get_backend_name() == "sqlite"
        self._place = url.database or "" if self._lite else _shown(url)
        self._secrets = [
            each for key, values in url.normalized_query.items() if "pass" in key.lower() for each in values
        ]
        self._secrets += [str(url.password)] if url.password else []
        try:
            if self._lite:
                own = {"timeout": WAIT, "isolation_level": None}  # transactions are begun below
                self._engine = create_engine(url, poolclass=NullPool, connect_args=own)
            else:  # the lock is of use only if what is read after it is new
                url = url.set(query={"connect_timeout": "10", "client_encoding": "utf8", **url.query})
                self._engine = create_engine(url, poolclass=NullPool, isolation_level="READ COMMITTED")
        except ImportError:
            raise InputError(
                f"The ledger {self._place} needs psycopg; install it with pip install 'dqam[postgres]'."
            ) from None
        except SQLAlchemyError as error:
            raise self._refusal(error) from None

    @classmethod
    def open(cls, where: str | os.PathLike[str] | None = None, *, begin: bool = True) -> Ledger:
        """The ledger in a file or at a URL, made if it is new; or, not to `begin` one, refused then.

        If not said it is what the environment variable DQAM_LEDGER says, else ledger.db in the user's folder for dqam.
        """
        if where is None:
            where = os.environ.get("DQAM_LEDGER") or _folder() / "ledger.db"
            if isinstance(where, str) and not URL_LIKE.match(where) and not Path(where).expanduser().is_absolute():
                raise InputError(f"DQAM_LEDGER is {where!r}, another file in every folder; give the whole path.")
        ledger = cls(_locate(where))
        if not begin and ledger._lite and not Path(ledger._place).exists():
            raise InputError(
                f"There is no ledger at {ledger._place}; `dqam publish` begins one, or give another --ledger."
            )
        ledger._prepare()
        return ledger

    def register(self, name: str, total: Number, unit_name: str) -> None:
        """Open an account for a data set that has none."""
        name, epsilon = canonical(name), _epsilon(total)
        if unit_name not in ("trip", "person"):
            raise InputError(f"The unit is 'trip' or 'person'; got {unit_name!r}.")
        with self._transaction() as connection:
            if account := self._account(connection, name):
                raise InputError(
                    f"{_known_as(account, name)} is in the ledger already, with a total of {spell(account.total)}; "
                    f"change that with `{_command(account.name, epsilon)}`."
                )
            _enter(connection, name, epsilon, unit_name)

    def set_total(self, name: str, total: Number) -> None:
        """Change what may be spent in all, never to less than is spent."""
        name, epsilon = canonical(name), _epsilon(total)
        with self._transaction() as connection:
            account = self._account(connection, name)
            if account is None:
                raise InputError(_unknown(name))
            if epsilon < account.spent:
                raise InputError(
                    f"{_known_as(account, name)}: epsilon {spell(account.spent)} is spent and cannot be taken "
                    f"back, so the total cannot be {spell(epsilon)}; give at least {spell(account.spent)}."
                )
            _note_total(connection, account.name, epsilon)

    @property
    def sketch_key(self) -> str:
        """The secret key for the sketches in this ledger; it was drawn when the ledger was created."""
        with self._transaction(write=False) as connection:
            key = connection.execute(select(SECRETS.c.value).where(SECRETS.c.name == "sketches")).scalar()
        if key is None:
            raise InputError(f"The ledger {self._place} is damaged: it has no key for sketches; restore a backup.")
        return str(key)

    def spend(
        self,
        name: str,
        epsilon: Number,
        unit: Unit,
        mechanism: str,
        grid: str,
        total: Number | None = None,
        *,
        sketch: Sketch | None = None,
        sure: bool = False,
    ) -> Spent:
        """Charge a publication, or refuse and charge nothing; noise may be drawn only after this has returned.

        A new data set is registered with `total`, or with this epsilon as its total if `total` is not given. Trips
        that were published under another name are refused with a `SameTripsError`, unless the custodian is `sure`.

        sketch  of the trips, made with `sketch_key`; it is kept to recognise the trips later
        """
        name, asked = canonical(name), _epsilon(epsilon)
        given = None if total is None else _epsilon(total)
        with self._transaction() as connection:
            account = self._account(connection, name)
            whole, left = _granted(account, name, asked, unit.name, given)
            name = name if account is None else account.name
            known = self._names(connection)
            if sketch is not None and not sure:
                self._refuse_same(connection, name, unit, sketch)
            if account is None:
                _enter(connection, name, whole, unit.name)
            spent = Spent(
                str(uuid.uuid4()),
                name,
                asked,
                whole,
                left - asked,
                _now(),
                new_ledger=not known,
                new_data_set=account is None or not account.publications,
                others=tuple(other for other in known if other != name),
            )
            connection.execute(
                insert(PUBLICATIONS).values(
                    id=spent.id,
                    data_set=name,
                    epsilon=str(asked),
                    unit=unit.name,
                    max_trips=unit.max_trips,
                    mechanism=mechanism,
                    grid=grid,
                    noted=spent.when,
                )
            )
            if sketch is not None:
                _keep(connection, name, sketch.to_bytes())
        return spent

    def check_same(self, name: str, unit: Unit, sketch: Sketch, sure: bool = False) -> None:
        """Refuse trips that `spend` would refuse, before long work is done for them; nothing is charged."""
        name = canonical(name)
        if not sure:
            with self._transaction(write=False) as connection:
                account = self._account(connection, name)
                self._refuse_same(connection, name if account is None else account.name, unit, sketch)

    def check(self, name: str, epsilon: Number, unit: Unit, total: Number | None = None) -> None:
        """Refuse what `spend` would refuse, before long work is done for it; nothing is charged."""
        name = canonical(name)
        with self._transaction(write=False) as connection:
            account = self._account(connection, name)
        _granted(account, name, _epsilon(epsilon), unit.name, None if total is None else _epsilon(total))

    def saved(self, id: str) -> None:
        """Note that the release was written; the first time counts."""
        with self._transaction() as connection:
            if self._publication(connection, id).settled is not None:
                raise InputError(f"Publication {id} ended early, so it has no release; publish again.")
            row = PUBLICATIONS.c.id == id
            connection.execute(update(PUBLICATIONS).where(row, PUBLICATIONS.c.release.is_(None)).values(release=_now()))

    def settle(self, id: str, spent: Fraction) -> None:
        """Note that a publication ended early, without a release, after it had used only `spent` of its charge.

        The rest can be spent again. Both numbers stay on record. This is final: it is done once, and never after the
        release was saved. If it is not reached, for example after a crash, everything that was charged stays spent.
        """
        spent = _epsilon(spent)
        with self._transaction() as connection:
            publication = self._publication(connection, id)
            if publication.release is not None:
                raise InputError(
                    f"Publication {id} was saved, so all of its epsilon {spell(publication.epsilon)} is spent."
                )
            if publication.settled is not None:
                raise InputError(f"Publication {id} was already settled, at {spell(publication.settled)}.")
            if spent > publication.epsilon:
                raise InputError(
                    f"Publication {id} was charged epsilon {spell(publication.epsilon)} and cannot have used "
                    f"{spell(spent)}."
                )
            connection.execute(update(PUBLICATIONS).where(PUBLICATIONS.c.id == id).values(settled=str(spent)))

    def history(self, name: str | None = None) -> list[Account]:
        """All data sets, or one, as they were registered; the oldest first."""
        with self._transaction(write=False) as connection:
            if name is None:
                return self._accounts(connection)
            name = canonical(name)
            account = self._account(connection, name)
        if account is None:
            raise InputError(_unknown(name))
        return [account]

    @property
    def place(self) -> str:
        """The file, or the address without its password."""
        return self._place

    def __repr__(self) -> str:
        return f"Ledger({self._place!r})"

    def _prepare(self) -> None:
        """Create or upgrade the tables; only here, so that a ledger that vanished is not silently started anew."""
        if self._lite:
            try:
                Path(self._place).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"The folder of the ledger {self._place} cannot be made ({error.strerror}); choose another place."
                ) from None
        with self._transaction(write=False, made=False) as connection:
            found = inspect(connection).has_table(VERSIONS.name)
            old = found and connection.execute(select(VERSIONS.c.version)).scalars().all() == [1]
        if not found and self._lite:
            os.chmod(self._place, 0o600)  # it records when what was published about whom
        if not found or old:
            with self._transaction(made=False) as connection:
                TABLES.create_all(connection)  # those that are missing
                versions = connection.execute(select(VERSIONS.c.version)).scalars().all()
                if versions == [1]:  # no other process was faster
                    connection.exec_driver_sql("ALTER TABLE dqam_publications ADD COLUMN settled TEXT")
                    connection.execute(update(VERSIONS).values(version=VERSION))
                if versions in ([], [1]):
                    connection.execute(insert(SECRETS).values(name="sketches", value=secrets.token_hex(16)))
                if not versions:
                    connection.execute(insert(VERSIONS).values(version=VERSION))
        with self._transaction(write=False):
            pass

    @contextmanager
    def _transaction(self, write: bool = True, made: bool = True) -> Iterator[Connection]:
        """Everything or nothing, and writers one at a time from the first thing they read."""
        try:
            with self._engine.begin() as connection:
                if self._lite:
                    # the journal is one of SQLite's that roll back; EXTRA also syncs its removal, which is the commit
                    for pragma in ("synchronous = EXTRA", "fullfsync = ON", "foreign_keys = ON"):
                        connection.exec_driver_sql(f"PRAGMA {pragma}")
                    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
                elif write:
                    durable = func.set_config("synchronous_commit", "on", True)
                    lazy = func.current_setting("synchronous_commit") == "off"
                    connection.execute(select(durable).where(lazy))
                    connection.execute(select(func.set_config("lock_timeout", f"{WAIT}s", True)))
                    connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
                else:
                    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                if made:
                    self._check(connection)
                yield connection
        except (SQLAlchemyError, UnicodeError) as error:
            raise self._refusal(error) from None

    def _check(self, connection: Connection) -> None:
        """Whether these tables are ours to read."""
        versions = list(connection.execute(select(VERSIONS.c.version)).scalars())
        if versions and max(versions) > VERSION:
            raise InputError(
                f"The ledger {self._place} has version {max(versions)} and this dqam knows version {VERSION}; "
                "install a newer dqam."
            )
        if versions != [VERSION]:
            raise InputError(
                f"The ledger {self._place} is damaged: it has no version; restore it from a backup, and enter what "
                "was published since."
            )

    def _account(self, connection: Connection, name: str) -> Account | None:
        """The data set of this name, or else the oldest whose name looks like it."""
        known = self._names(connection)
        if name not in known:
            ours = _looks(name)
            name = next((other for other in known if ours & _looks(other)), name)
        return next(iter(self._accounts(connection, name)), None)

    def _names(self, connection: Connection) -> list[str]:
        names = select(DATA_SETS.c.name).order_by(DATA_SETS.c.registered, DATA_SETS.c.name)
        return list(connection.execute(names).scalars())

    def _publication(self, connection: Connection, id: str) -> Publication:
        row = connection.execute(select(PUBLICATIONS).where(PUBLICATIONS.c.id == id)).first()
        if row is None:
            raise InputError(f"The ledger {self._place} has no publication {id!r}; `dqam ledger` lists them.")
        return self._paid(row)

    def _paid(self, row: Row[Any]) -> Publication:
        return Publication(
            row.id,
            self._fraction(row.epsilon),
            Unit(row.unit, row.max_trips),
            row.mechanism,
            row.grid,
            row.noted,
            row.release,
            None if row.settled is None else self._fraction(row.settled),
        )

    def _refuse_same(self, connection: Connection, name: str, unit: Unit, sketch: Sketch) -> None:
        """A `SameTripsError` if these trips were published under another name."""
        from dqam.privacy.sketch import Sketch

        others = (
            select(SKETCHES.c.data_set, SKETCHES.c.sketch, DATA_SETS.c.unit)
            .join(DATA_SETS)
            .where(SKETCHES.c.data_set != name)
            .order_by(SKETCHES.c.number)
        )
        for row in connection.execute(others):
            if sketch.overlap(Sketch.from_bytes(row.sketch)) > SAME:
                found, way_out = f"{name} has many trips in common with {row.data_set!r}", f"dataset={row.data_set!r}"
                mixed = row.unit if row.unit != unit.name else None
                if mixed:
                    found += f", whose budget is for the unit {mixed!r} and cannot be added to one for {unit.name!r}"
                    way_out += f" and unit={mixed!r}"
                insist = "or with sure=True if they are different trips"
                raise SameTripsError(f"{found}; publish with {way_out}, {insist}.", found, row.data_set, mixed)

    def _accounts(self, connection: Connection, name: str | None = None) -> list[Account]:
        """What the tables hold, of all data sets or of one."""
        names, totals, publications = select(DATA_SETS), select(TOTALS), select(PUBLICATIONS)
        if name is not None:
            names = names.where(DATA_SETS.c.name == name)
            totals = totals.where(TOTALS.c.data_set == name)
            publications = publications.where(PUBLICATIONS.c.data_set == name)
        amounts: dict[str, list[Total]] = {}
        for row in connection.execute(totals.order_by(TOTALS.c.number)):
            amounts.setdefault(row.data_set, []).append(Total(self._fraction(row.epsilon), row.noted))
        paid: dict[str, list[Publication]] = {}
        for row in connection.execute(publications.order_by(PUBLICATIONS.c.number)):
            paid.setdefault(row.data_set, []).append(self._paid(row))
        accounts = []
        for row in connection.execute(names.order_by(DATA_SETS.c.registered, DATA_SETS.c.name)):
            if row.name not in amounts:
                raise InputError(f"The ledger {self._place} is damaged: {row.name} has no total; restore a backup.")
            accounts.append(
                Account(row.name, row.unit, row.registered, tuple(amounts[row.name]), tuple(paid.get(row.name, ())))
            )
        return accounts

    def _fraction(self, text: object) -> Fraction:
        """An epsilon as it was noted; anything else stops all spending."""
        if not isinstance(text, str) or not FRACTION.fullmatch(text):
            raise InputError(
                f"The ledger {self._place} is damaged: it has {text!r} where an epsilon such as '1/10' should be; "
                "restore it from a backup, and enter what was published since."
            )
        return Fraction(text)

    def _refusal(self, error: Exception) -> InputError:
        """What the database said, in a sentence without passwords."""
        said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        reason = " ".join(said.split())[:300].rstrip(".")
        if not reason or any(secret in reason for secret in self._secrets):
            reason = type(error).__name__
        if "database is locked" in reason or "lock timeout" in reason:
            return InputError(
                f"The ledger {self._place} was busy for more than {WAIT} seconds; try again when others are done."
            )
        way_out = (
            "see that it is a ledger that can be read and written, on a disk with room"
            if self._lite
            else "see that the server runs and that you may read and write there"
        )
        return InputError(f"The ledger {self._place} cannot be used ({reason}); {way_out}.")


def _folder() -> Path:
    """The user's folder for dqam, the same as that of `click.get_app_dir`."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", os.path.expanduser("~")), "dqam")
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Application Support"), "dqam")
    return Path(os.environ.get("XDG_CONFIG_HOME", os.path.expanduser("~/.config")), "dqam")


def _locate(where: str | os.PathLike[str]) -> URL:
    """Where the ledger is, as a URL with a driver that we know."""
    text = os.fspath(where)
    if isinstance(where, str) and URL_LIKE.match(where):
        try:
            url = make_url(where)
            backend = url.drivername.partition("+")[0]
        except (SQLAlchemyError, ValueError):  # whose words may have the password
            raise InputError(
                "The URL of the ledger cannot be read; give a path, sqlite:///path, or "
                "postgresql://user:password@host/database with special characters written as %40 for @."
            ) from None
        if backend in ("postgresql", "postgres"):
            if where.count("@") > 1:  # part of a password would be taken for a host, and shown
                raise InputError("The URL of the ledger has more than one @; write those in names and passwords %40.")
            return url.set(drivername="postgresql+psycopg")
        if url.drivername not in ("sqlite", "sqlite+pysqlite"):
            raise InputError(f"The ledger is kept in SQLite or PostgreSQL; got a URL for {url.drivername!r}.")
        if url.query or url.host:
            raise InputError("The URL of an SQLite ledger is sqlite:///path and nothing else; give that, or the path.")
        text = url.database or ""
    if text.strip() in ("", ":memory:") or text.startswith("file:"):
        raise InputError(f"The ledger is kept in a file, in memory it would be forgotten; give a path, not {text!r}.")
    try:
        return URL.create("sqlite", database=str(Path(os.path.expanduser(text)).resolve()))
    except (OSError, ValueError) as error:
        raise InputError(f"The ledger cannot be at {text!r} ({error}); choose another place.") from None


def _shown(url: URL) -> str:
    """A URL with nothing secret in it."""
    public = {key: value for key, value in url.query.items() if key in ("host", "port")}
    return url.set(drivername="postgresql", query=public).render_as_string(hide_password=True)


def canonical(name: str) -> str:
    """The name of a data set, the same for all that look alike: no name a little off may have a budget of its own.

    >>> canonical("  Taxis\u200b  OF\u00a02024 ")
    'taxis of 2024'
    """
    if not isinstance(name, str):
        raise InputError(f"The name of a data set is a text; got {name!r}.")
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    plain = unicodedata.normalize("NFKC", " ".join(part for part in seen.split(" ") if part).casefold())
    if not plain or len(plain) > LONGEST or any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in plain):
        start = plain if len(plain) <= 40 else plain[:40] + "..."
        raise InputError(f"The name of a data set has 1 to {LONGEST} characters that can be printed; got {start!r}.")
    return plain


def _looks(name: str) -> frozenset[str]:
    """How a canonical name looks in lower and in upper case; names that share a look are one data set.

    A look is a skeleton as in Unicode's TR39, in which characters that are easily confused are the same: "x" in all
    scripts, but also "m" and "rn", "1" and "l" in lower case, and "1" and "I" in upper case. Names that are taken for
    one by mistake share a budget, which is safe; a name that differs more avoids it.

    >>> sorted(_looks("ta\u0445is") & _looks("taxis")), _looks("march") & _looks("april")
    (['TAXlS', 'taxis'], frozenset())
    """
    return frozenset(map(_skeleton, (name, name.upper())))


def _skeleton(text: str) -> str:
    plain = IGNORED.sub("", unicodedata.normalize("NFD", text))
    plain = re.sub("(?<=[ij])\u0307", "", plain)  # a dot over a letter that has one
    return unicodedata.normalize("NFD", plain.translate(_prototypes()).translate(_prototypes()))


@cache
def _prototypes() -> dict[int, str]:
    """For each character that can be confused with others, one text that stands for all of them.

    For each character the library lists those that it is mapped to or from: a star around the prototype. So a character
    with a single neighbour is mapped to that. If two have only each other, they are mapped to the longer one or, if
    both are single characters, to the smaller. Direction marks belong to the library's listing, not to the character.
    """
    from confusable_homoglyphs.confusables import confusables_data

    listed = {
        char.strip("\u200e"): [each["c"].strip("\u200e") for each in near] for char, near in confusables_data.items()
    }
    alone = {char: near[0] for char, near in listed.items() if len(char) == len(near) == 1}
    return {
        ord(char): other for char, other in alone.items() if len(other) > 1 or len(listed[other]) > 1 or other < char
    }


def _epsilon(value: Number) -> Fraction:
    """An epsilon that the ledger can hold exactly."""
    epsilon = parse_epsilon(value)
    if max(epsilon.numerator, epsilon.denominator) > LARGEST:
        raise InputError("Epsilon has at most 100 digits above and below the line in the ledger; round it.")
    return epsilon


def _granted(
    account: Account | None, name: str, asked: Fraction, unit_name: str, given: Fraction | None
) -> tuple[Fraction, Fraction]:
    """The total of a data set and what is left of it, or why `asked` cannot be spent."""
    if account is None:
        whole = left = given or asked
        if asked > left:
            raise BudgetError(f"{name}: a total of {spell(whole)} does not cover {spell(asked)}; give a larger one.")
        return whole, left
    whole, left, shown = account.total, account.left, _known_as(account, name)
    if account.unit_name != unit_name:
        raise InputError(
            f"{shown} has a budget for the unit {account.unit_name!r}, which bounds nothing for the unit "
            f"{unit_name!r}, so the two cannot be added up; publish with the unit {account.unit_name!r}."
        )
    if given is not None and given != whole:
        raise InputError(
            f"{shown} has a total of {spell(whole)} in the ledger and {spell(given)} was given; "
            f"leave the total out, or change it with `{_command(account.name, given)}`."
        )
    if asked > left:
        less = "ask for less, or raise" if left else "all of it is spent: raise"
        raise BudgetError(
            f"{shown}: epsilon {spell(asked)} was requested and {spell(left)} of {spell(whole)} is left; {less} "
            f"the total with `{_command(account.name)}`, which weakens the promise made to the people in the data."
        )
    return whole, left


def _enter(connection: Connection, name: str, total: Fraction, unit_name: str) -> None:
    connection.execute(insert(DATA_SETS).values(name=name, unit=unit_name, registered=_now()))
    _note_total(connection, name, total)


def _note_total(connection: Connection, name: str, total: Fraction) -> None:
    connection.execute(insert(TOTALS).values(data_set=name, epsilon=str(total), noted=_now()))


def _keep(connection: Connection, name: str, sketch: bytes) -> None:
    digest = hashlib.sha256(sketch).hexdigest()
    row = (SKETCHES.c.data_set == name, SKETCHES.c.digest == digest)
    if connection.execute(select(SKETCHES.c.number).where(*row)).first() is None:
        connection.execute(insert(SKETCHES).values(data_set=name, digest=digest, sketch=sketch))


def _known_as(account: Account, name: str) -> str:
    """The name in the ledger; with the given name, if that only looks like it."""
    return account.name if account.name == name else f"{account.name} (which {name!r} looks like)"


def _command(name: str, total: Fraction | None = None) -> str:
    """The command that changes a total."""
    return f"dqam ledger total {shlex.quote(name)} {'EPSILON' if total is None else spell(total)}"


def _unknown(name: str) -> str:
    return f"{name} is not in the ledger; `dqam ledger` lists the data sets that are."


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
