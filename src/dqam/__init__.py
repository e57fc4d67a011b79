"""dqam: publish what trajectories show, as a map that anyone may query, with differential privacy."""

import os as _os
import tempfile as _tempfile
from pathlib import Path as _Path

# Numba keeps compiled code beside this package or in the user's cache; where neither can be written (a container, a
# service account) it would fail to import, so it then gets a folder of its own for this process.
if not any(_os.access(_place, _os.W_OK) for _place in (_Path(__file__).parent, _Path.home())):
    _os.environ.setdefault("NUMBA_CACHE_DIR", _tempfile.mkdtemp(prefix="dqam-"))

from dqam.errors import InputError
from dqam.grid import Grid
from dqam.sources import read

__all__ = ["Grid", "InputError", "read"]
__version__ = "0.1.0"
