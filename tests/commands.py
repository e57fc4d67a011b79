"""The command, run in this process: as `dqam` does, without the time it takes to start."""

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
