import os
from pathlib import Path

import pytest

from dqam.errors import InputError
from dqam.runtime.files import replacing, writable, write_whole


def test_a_file_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with pytest.raises(UnicodeEncodeError), replacing(target) as temporary:
        temporary.write_text("half ü", encoding="ascii")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_in_a_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="out.txt cannot be written .No space left on device."),
        replacing(tmp_path / "out.txt"),
    ):
        Path("/dev/full").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_places_that_are_not_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"), replacing(tmp_path):
        pass
    with pytest.raises(InputError, match="There is no folder"), replacing(tmp_path / "no" / "file"):
        pass


def test_what_is_read_is_not_written(tmp_path: Path) -> None:
    source, link = tmp_path / "in.csv", tmp_path / "link.csv"
    source.write_text("x")
    link.symlink_to(source)
    assert writable(tmp_path / "out.csv", source, None) == (tmp_path / "out.csv").resolve()
    with pytest.raises(InputError, match="link.csv is also an input"):
        writable(link, source)
    with pytest.raises(InputError, match="device or a pipe"):
        writable("/dev/null")


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_whole_file_is_written_or_kept(tmp_path: Path, unnamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With unnamed temporary files, and on systems that have none."""
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "map.nc"
    write_whole(path, b"first", overwrite=False)
    with pytest.raises(FileExistsError):
        write_whole(path, b"second", overwrite=False)
    assert path.read_bytes() == b"first"
    write_whole(path, b"third")
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]
