"""Where a ledger is: an SQLite file or a PostgreSQL database, and how its address is shown without secrets."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from dqam.errors import InputError

URL_LIKE = re.compile(r"\w[\w+.-]*://|(sqlite|postgres(ql)?)(\+\w+)?:", re.IGNORECASE)


def default_location() -> str | Path:
    """What the environment variable DQAM_LEDGER says, otherwise ledger.db in the user's folder for dqam."""
    where = os.environ.get("DQAM_LEDGER")
    if not where:
        return user_folder() / "ledger.db"
    if not URL_LIKE.match(where) and not Path(where).expanduser().is_absolute():
        raise InputError(f"DQAM_LEDGER is {where!r}, which is a relative path; use an absolute one.")
    return where


def user_folder() -> Path:
    """The user's folder for dqam, the same as that of `click.get_app_dir`."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", os.path.expanduser("~")), "dqam")
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Application Support"), "dqam")
    return Path(os.environ.get("XDG_CONFIG_HOME", os.path.expanduser("~/.config")), "dqam")


def locate(where: str | os.PathLike[str]) -> URL:
    """The URL of the ledger in a file or at a URL, with a driver that the ledger knows."""
    text = os.fspath(where)
    if isinstance(where, str) and URL_LIKE.match(where):
        try:
            url = make_url(where)
            backend = url.drivername.partition("+")[0]
        except (SQLAlchemyError, ValueError):  # their messages may contain the password
            raise InputError(
                "The URL of the ledger cannot be parsed; give a path, sqlite:///path, or "
                "postgresql://user:password@host/database with special characters escaped, such as %40 for @."
            ) from None
        if backend in ("postgresql", "postgres"):
            if where.count("@") > 1:  # part of the password would be taken for the host, and shown
                raise InputError("The URL of the ledger has more than one @; write %40 for @ in names and passwords.")
            return url.set(drivername="postgresql+psycopg")
        if url.drivername not in ("sqlite", "sqlite+pysqlite"):
            raise InputError(f"The ledger must be in SQLite or PostgreSQL; got a URL for {url.drivername!r}.")
        if url.query or url.host:
            raise InputError("The URL of an SQLite ledger is sqlite:///path and nothing else; give that, or the path.")
        text = url.database or ""
    if text.strip() in ("", ":memory:") or text.startswith("file:"):
        raise InputError(f"A ledger in memory would be lost, so it must be in a file; give a path instead of {text!r}.")
    try:
        return URL.create("sqlite", database=str(Path(os.path.expanduser(text)).resolve()))
    except (OSError, ValueError) as error:
        raise InputError(f"The ledger cannot be at {text!r} ({error}); give another path.") from None


def without_secrets(url: URL) -> str:
    """A PostgreSQL URL with the password hidden and only those options that say where the server is."""
    public = {key: value for key, value in url.query.items() if key in ("host", "port")}
    return url.set(drivername="postgresql", query=public).render_as_string(hide_password=True)


def secrets_of(url: URL) -> list[str]:
    """The passwords in a URL."""
    options = [value for key, values in url.normalized_query.items() if "pass" in key.lower() for value in values]
    return options + ([str(url.password)] if url.password else [])
