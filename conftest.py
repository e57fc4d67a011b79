"""No test, and no doctest in src, writes to the user's own ledger."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """A ledger of their own."""
    folder = tempfile.mkdtemp(prefix="dqam-ledger-")
    os.environ["DQAM_LEDGER"] = str(Path(folder, "ledger.db"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
