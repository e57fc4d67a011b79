"""Stamps: short hashes of the code and data behind a result, so that results of other code or data are not reused."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

from dqam import __version__

ROOT = Path(__file__).parents[1]


def stamp_of(*parts: str | bytes) -> str:
    """A short hash of the parts and of their lengths."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        whole.update(len(content).to_bytes(8, "little") + content)
    return whole.hexdigest()[:12]


def code_stamp(*modules: str, root: Path = ROOT) -> str:
    """The stamp of the version, and of everything in the package that these modules import."""
    files = imported(*modules, root=root)
    return stamp_of(__version__, *(files[name].read_bytes() for name in sorted(files)))


def imported(*modules: str, root: Path = ROOT) -> dict[str, Path]:
    """The modules of the package that these import, directly or not, with themselves; by name, the file of each.

    Imports inside functions count. The package's own `__init__` is left out: it only names the API, and would import
    everything.
    """
    files: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        base = root.joinpath(*name.split(".")[1:])
        path = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
        if name not in files and path is not None and base != root:
            files[name] = path
            waiting += [name.rpartition(".")[0], *_imports(path.read_bytes())]
    return files


@cache
def _imports(source: bytes) -> tuple[str, ...]:
    """The names in all import statements that may be modules of the package."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in names if name.split(".")[0] == "dqam")
