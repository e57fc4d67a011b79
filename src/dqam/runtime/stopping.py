"""To stop when told to, wherever that falls.

A signal becomes an exception, so that all is unwound and no temporary file stays. But Python drops an exception that is
raised in a callback of its own, as of a weak reference, and goes on; it tells a hook so. Then the exception is raised
again a moment later, and in any case before a file gets its name.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

ENOUGH = 10.0  # seconds to unwind, in which who says stop again is told nothing new

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_dropped: BaseException | None = None


class Stopped(SystemExit):
    """The process was told to stop."""


def heed() -> None:
    """Stop when told to: for commands, not for those who have signals of their own."""
    told = -ENOUGH

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal told
        if time.monotonic() - told > ENOUGH:
            told = time.monotonic()
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped(128 + number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup
            signal.signal(number, stop)
    sys.unraisablehook = _note


@contextmanager
def later() -> Iterator[None]:
    """A stop in the block waits for its end, and handlers that are set in it do not stay."""
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS if current_thread() is main_thread()}
    before = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, lambda told, _: waiting.append(told))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def check() -> None:
    """Raise what was dropped."""
    global _dropped
    if _dropped is not None:
        error, _dropped = _dropped, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise error


def _note(told: Any) -> None:
    """Python's hook."""
    global _dropped
    if not isinstance(told.exc_value, Stopped | KeyboardInterrupt) or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(told)
        return
    _dropped = told.exc_value
    signal.signal(signal.SIGALRM, lambda *_: check())
    signal.setitimer(signal.ITIMER_REAL, 0.02)
