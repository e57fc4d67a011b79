"""The command, run in this process: as `dqam` does, without the time it takes to start."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from dqam.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def dqam(*arguments: str | Path) -> Done:
    """Run `dqam` with these arguments."""
    out, err = StringIO(), StringIO()
    with patch.object(sys, "argv", ["dqam", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
