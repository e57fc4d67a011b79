"""dqam: publish what trajectories show, as a map that anyone may query, with differential privacy."""

from dqam.errors import InputError
from dqam.grid import Grid
from dqam.sources import read

__all__ = ["Grid", "InputError", "read"]
__version__ = "0.1.0"
