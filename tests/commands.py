"""The command, run in this process, which saves the time it takes to start, or in one of its own."""

import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from dqam.cli import main


def run(*arguments: str | Path) -> CompletedProcess[str]:
    """What `dqam` says to these arguments, and its exit code."""
    command, out, err = ["dqam", *map(str, arguments)], StringIO(), StringIO()
    with patch.object(sys, "argv", command), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return CompletedProcess(command, code, out.getvalue(), err.getvalue())


def run_apart(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user runs it."""
    command = [sys.executable, "-c", "from dqam.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def listen_to_signals() -> None:
    """Whatever the process that runs the tests ignores."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
