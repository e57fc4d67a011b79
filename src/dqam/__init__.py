"""dqam: publish differentially private maps of trajectory data that anyone can query."""

import os as _os
import tempfile as _tempfile
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING

# Numba keeps compiled code beside this package or in the user's cache; where neither can be written (a container, a
# service account) it would fail to import, so it then gets a folder of its own for this process.
if not any(_os.access(_place, _os.W_OK) for _place in (_Path(__file__).parent, _Path.home())):
    _os.environ.setdefault("NUMBA_CACHE_DIR", _tempfile.mkdtemp(prefix="dqam-"))

if _TYPE_CHECKING:
    from dqam.errors import BudgetError, InputError
    from dqam.geometry.grid import Grid
    from dqam.publishing.pipeline import publish
    from dqam.release.reading import open_release as open
    from dqam.release.release import Release
    from dqam.sources import read

__all__ = ["BudgetError", "Grid", "InputError", "Release", "open", "publish", "read"]
__version__ = "0.1.0"

_HOMES = {
    "BudgetError": ("dqam.errors", "BudgetError"),
    "Grid": ("dqam.geometry.grid", "Grid"),
    "InputError": ("dqam.errors", "InputError"),
    "Release": ("dqam.release.release", "Release"),
    "open": ("dqam.release.reading", "open_release"),
    "publish": ("dqam.publishing.pipeline", "publish"),
    "read": ("dqam.sources", "read"),
}


def __getattr__(name: str) -> object:
    """Import a name of the API when it is first used, so that unused modules take no time to load."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dqam' has no attribute {name!r}")
    module, own = _HOMES[name]
    value = globals()[name] = getattr(_import_module(module), own)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
