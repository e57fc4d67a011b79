from pathlib import Path

import pytest

from dqam.errors import InputError
from dqam.runtime.files import replacing


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
