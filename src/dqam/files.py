"""Files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dqam.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes the name `path` when all went well, else it goes away."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"There is no folder {target.parent} to write {target.name} to; make it first.")
    if target.is_dir():
        raise InputError(f"{target} is a folder; give the name of a file to write.")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"{target} can not be written ({error.strerror or error}); choose another place.") from error
    finally:
        temporary.unlink(missing_ok=True)
