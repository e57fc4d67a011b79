"""A ledger is found where it was said to be, and its address is shown without secrets."""

import os
import sys
from pathlib import Path

import click
import pytest

from dqam.errors import InputError
from dqam.privacy.ledger import Ledger
from dqam.privacy.ledger.location import user_folder
from tests.ledgers import spend


def test_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(os.environ["DQAM_LEDGER"]).name == "ledger.db"  # not the user's, in any test
    assert Path.home() not in Path(os.environ["DQAM_LEDGER"]).parents
    monkeypatch.chdir(tmp_path)
    for place in ("a.db", tmp_path / "b" / "c" / "a.db", f"sqlite:///{tmp_path}/d.db", "sqlite:///e.db", "50% ?#.db"):
        ledger = Ledger.open(place)
        monkeypatch.chdir("/")
        spend(ledger, "porto", 1)
        monkeypatch.chdir(tmp_path)
        assert len(Ledger.open(place).history()) == 1
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"a.db", "d.db", "e.db", "50% ?#.db"}
    monkeypatch.setenv("DQAM_LEDGER", str(tmp_path / "said.db"))
    assert repr(Ledger.open()) == f"Ledger({str(tmp_path / 'said.db')!r})"
    monkeypatch.delenv("DQAM_LEDGER")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert repr(Ledger.open(None)) == f"Ledger({str(tmp_path / 'dqam' / 'ledger.db')!r})"


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("said", [False, True])
def test_the_users_folder_is_that_of_commands(platform: str, said: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
        if said:
            monkeypatch.setenv(name, f"/home/of/{name}")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("click.utils.WIN", platform == "win32")
    assert str(user_folder()) == click.get_app_dir("dqam")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", "in memory"),
        (":memory:", "in memory"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("file::memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "nothing else"),
        ("sqlite:///x.db?timeout=0", "nothing else"),
        ("sqlite://x.db", "nothing else"),
        ("mysql://u:hush-hush@h/d", "SQLite or PostgreSQL; got a URL for 'mysql'"),
        ("postgresql://u:hush-hush/d", "cannot be parsed"),
        ("postgresql:/u:hush-hush@h/d", "cannot be parsed"),
        ("postgresql://u:p@hush-hush@h/d", "more than one @"),
        ("postgresql://u:hush-hush@127.0.0.1:1/d", r"postgresql://u:\*\*\*@127.0.0.1:1/d .*Connection refused"),
        ("postgres://127.0.0.1:1/d?password=hush-hush", "postgresql://127.0.0.1:1/d .*Connection refused"),
        ("postgresql+psycopg2://u:hush-hush@127.0.0.1:1/d", "Connection refused"),
        ("postgresql://u:hush-hush@127.0.0.1:1/d?hush=hush-hush", "invalid connection option"),
        ("postgresql://u:refused@127.0.0.1:1/d", r"\(OperationalError\)"),
        ("a\x00b", "give another path"),
    ],
)
def test_bad_places_and_no_password(place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words) as refused:
        Ledger.open(place)
    assert "hush-hush" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_passwords_are_hidden(postgresql_url: str) -> None:
    assert "open-sesame" in postgresql_url
    ledger = Ledger.open(postgresql_url)
    assert repr(ledger).startswith("Ledger('postgresql://dqam:***@/postgres?host=")
    with pytest.raises(InputError, match="password authentication failed") as refused:
        Ledger.open(postgresql_url.replace("open-sesame", "hush-hush"))
    assert "hush-hush" not in str(refused.value)
    with pytest.raises(InputError, match='database "nowhere" does not exist') as refused:
        Ledger.open(postgresql_url.replace("/postgres?", "/nowhere?"))
    assert "open-sesame" not in str(refused.value)


def test_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"pip install 'dqam\[postgres\]'") as refused:
        Ledger.open("postgresql://u:hush-hush@h/d")
    assert "hush-hush" not in str(refused.value)


@pytest.mark.parametrize("where", ["ledger.db", "books/ledger.db", "./ledger.db"])
def test_a_relative_path_is_no_default(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DQAM_LEDGER", where)
    with pytest.raises(InputError, match=f"DQAM_LEDGER is '{where}', which is a relative path; use an absolute one"):
        Ledger.open()


def test_a_missing_file_is_not_created_unless_wanted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no ledger at .*; check the path"):
        Ledger.open(tmp_path / "books" / "ledger.db", create=False)
    assert list(tmp_path.iterdir()) == []
    Ledger.open(tmp_path / "ledger.db")
    assert Ledger.open(tmp_path / "ledger.db", create=False).history() == []
