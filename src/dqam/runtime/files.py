"""Atomic file writes: a file appears complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dqam.errors import InputError
from dqam.runtime import stopping


def writable(path: str | os.PathLike[str], *inputs: str | os.PathLike[str] | None) -> Path:
    """Return `path` with links resolved; raise an `InputError` if it cannot be written or is one of `inputs`."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise InputError(f"There is no folder {target.parent} to write {target.name} to; create it first.")
    if target.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file to write.")
    if target.exists() and not target.is_file():
        raise InputError(f"{path} is not a file but a device or a pipe; give the name of a file to write.")
    for source in inputs:
        if source is not None and target.exists() and os.path.exists(source) and target.samefile(source):
            raise InputError(f"{path} is also an input and would be replaced; give another name to write to.")
    return target


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it is renamed to `path` if the block succeeds, and removed if it fails."""
    target = writable(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part{target.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        stopping.check()
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error}); choose another place.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], content: bytes, overwrite: bool = True) -> None:
    """Write a file so that even a killed process never leaves an incomplete file under its name.

    If the system allows it, the file has no name until it is complete; otherwise it has a temporary name. Without
    `overwrite`, an existing file is kept and a `FileExistsError` is raised; on systems with unnamed files, this holds
    even for a file that is created in the meantime.
    """
    target = writable(path)
    if not overwrite and target.exists():
        raise FileExistsError(f"{path} exists; choose another name, or replace the file with overwrite=True")
    try:
        unnamed = os.open(target.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except (AttributeError, OSError):  # this system or file system does not support unnamed files
        with replacing(path) as temporary:
            temporary.write_bytes(content)
        return
    with os.fdopen(unnamed, "wb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(unnamed)
        except OSError as error:
            raise InputError(f"{target} cannot be written ({error.strerror}); choose another place.") from error
        whole = f"/proc/self/fd/{unnamed}"
        stopping.check()
        if not overwrite:
            os.link(whole, target, src_dir_fd=unnamed)  # with src_dir_fd, links are followed
            return
        with replacing(path) as temporary:
            os.link(whole, temporary, src_dir_fd=unnamed)
