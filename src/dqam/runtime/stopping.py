"""Signal handling: stop cleanly on SIGINT, SIGTERM or SIGHUP, whenever it arrives.

A signal raises an exception, so that the stack is unwound and temporary files are removed. Python drops an exception
that is raised in one of its own callbacks, such as that of a weak reference, and only reports it to a hook. The hook
here raises the exception again a moment later, and in any case before a file gets its final name.
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

UNWINDING = 10.0  # seconds allowed for unwinding, during which further signals are ignored
RETRY = 0.02  # seconds until a dropped exception is raised again

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_dropped: BaseException | None = None


class Stopped(SystemExit):
    """A signal told the process to stop."""


def handle_signals() -> None:
    """Install the signal handlers. Commands call this; programs that handle signals themselves should not."""
    told = -UNWINDING

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal told
        if time.monotonic() - told > UNWINDING:
            told = time.monotonic()
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped(128 + number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored signals stay ignored, as under nohup
            signal.signal(number, stop)
    sys.unraisablehook = _note


@contextmanager
def delay_signals() -> Iterator[None]:
    """Delay signals until the end of the block, and then restore the handlers from before it."""
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
    """Raise the exception that Python dropped, if there is one."""
    global _dropped
    if _dropped is not None:
        error, _dropped = _dropped, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise error


def _note(told: Any) -> None:
    """The hook that Python calls with a dropped exception."""
    global _dropped
    if not isinstance(told.exc_value, Stopped | KeyboardInterrupt) or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(told)
        return
    _dropped = told.exc_value
    signal.signal(signal.SIGALRM, _retry)
    signal.setitimer(signal.ITIMER_REAL, RETRY, RETRY)


def _retry(_: int, frame: FrameType | None) -> None:
    """Raise the dropped exception, unless the hook is still running: what it raises is lost. The timer comes again."""
    while frame is not None:
        if frame.f_code is _note.__code__:
            return
        frame = frame.f_back
    check()
