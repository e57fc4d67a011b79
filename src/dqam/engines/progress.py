"""How far an engine is, for those who wait."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Progress = Callable[[str], AbstractContextManager[Callable[[float], None]]]  # as `progress_of` of the command


def quiet(what: str) -> AbstractContextManager[Callable[[float], None]]:
    """No progress bar."""
    return nullcontext(lambda share: None)
