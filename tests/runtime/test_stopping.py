"""Signals are delayed, become exceptions, and are not lost where Python drops exceptions."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dqam.runtime import stopping
from tests.commands import listen_to_signals


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


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "then",
    [
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM]); time.sleep(20)",
        "write_whole('map', b'', overwrite=False)",
        "write_whole('map', b'')",
    ],
    ids=["waiting", "new file", "any file"],
)
def test_a_signal_that_falls_into_a_callback_is_not_lost(tmp_path: Path, ending: signal.Signals, then: str) -> None:
    """Python drops what is raised there, and goes on; but not for long, and no file is written.

    The alarm that raises it again is blocked, so that the program gets as far as each case needs.
    """
    program = f"""
import os, signal, time, weakref
from dqam.runtime.files import write_whole
from dqam.runtime.stopping import handle_signals
class Thing: pass
handle_signals()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
thing = Thing()
falls_in = weakref.ref(thing, lambda _: os.kill(os.getpid(), {int(ending)}))
try:
    del thing
    print("dropped")
    {then}
    print("went on")
finally:
    os.kill(os.getpid(), {int(ending)})
    print("unwound")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=listen_to_signals,
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["dropped", "unwound"], done.stderr
    assert done.returncode in (128 + ending, -ending)
    assert list(tmp_path.iterdir()) == []


def test_an_alarm_during_the_hook_comes_again() -> None:
    """What the hook itself raises is lost."""
    program = """
import os, signal, time, weakref
from dqam.runtime.stopping import handle_signals
class Thing: pass
plain = signal.setitimer
def at_once(which, seconds, *interval):
    if seconds:
        signal.raise_signal(signal.SIGALRM)
    return plain(which, seconds, *interval)
signal.setitimer = at_once
handle_signals()
thing = Thing()
falls_in = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
try:
    del thing
    time.sleep(20)
    print("went on")
finally:
    print("unwound")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("unwound\n", 128 + signal.SIGTERM), done.stderr


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_can_wait(ending: signal.Signals) -> None:
    """For the end of what would be left in half; and handlers that others set meanwhile are gone then."""
    program = f"""
import os, signal
from dqam.runtime.stopping import delay_signals, handle_signals
handle_signals()
try:
    with delay_signals():
        os.kill(os.getpid(), {int(ending)})
        signal.signal({int(ending)}, lambda *_: print("wrong"))
        print("done")
    print("went on")
finally:
    print("unwound")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, preexec_fn=listen_to_signals
    )
    assert done.stdout.split() == ["done", "unwound"], done.stderr
    assert done.returncode in (128 + ending, -ending)
