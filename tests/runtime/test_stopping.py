"""Signals are delayed, become exceptions, and are not lost where Python drops exceptions."""

import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from dqam.runtime import stopping

DROPPED = """
import os, signal, sys, time, weakref
from dqam.runtime import stopping

class Thing: pass

stopping.handle_signals()
thing = Thing()
told = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.{name}))
try:
    del thing  # the signal arrives in the callback of a weak reference, where Python drops exceptions
    for _ in range(500):
        time.sleep(0.01)
        stopping.check()
    print("went on")
finally:
    print("unwound")
"""


def test_a_signal_in_the_block_waits_for_its_end() -> None:
    steps = []
    before = signal.signal(signal.SIGTERM, lambda *_: steps.append("signal"))
    try:
        with stopping.delay_signals():
            signal.raise_signal(signal.SIGTERM)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which does not stay
            steps.append("block")
        assert steps == ["block", "signal"]
        signal.raise_signal(signal.SIGTERM)
        assert steps == ["block", "signal", "signal"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_waits_even_if_the_block_fails() -> None:
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("signal"))
    try:
        with suppress(ZeroDivisionError), stopping.delay_signals():
            signal.raise_signal(signal.SIGTERM)
            seen.append(1 // 0)
        assert seen == ["signal"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 128 + signal.SIGTERM), ("SIGINT", -signal.SIGINT)])
def test_a_dropped_exception_is_raised_again(name: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED.format(name=name)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "unwound\n"
    assert done.returncode == code


def test_a_second_signal_does_not_disturb_the_first() -> None:
    program = """
import signal
from dqam.runtime import stopping
stopping.handle_signals()
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    signal.raise_signal(signal.SIGTERM)
    print("unwound")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("unwound\n", 128 + signal.SIGTERM)
