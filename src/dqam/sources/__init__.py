"""Trips from files and data frames, recognised by what is in them.

`read` returns a `Source`, which yields batches of whole trips each time it is iterated, in little memory.
"""

from dqam.sources.reading import read
from dqam.sources.source import BATCH, Source, regrouped

__all__ = ["BATCH", "Source", "read", "regrouped"]
