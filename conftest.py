"""No test, and no doctest in src, writes to the user's own ledger, and every run tries the same examples."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings


def pytest_configure(config: pytest.Config) -> None:
    """Give tests their own ledger and fixed examples; with DQAM_FUZZ set, as by `make fuzz`, examples vary."""
    settings.register_profile("dqam", derandomize="DQAM_FUZZ" not in os.environ, deadline=None)
    settings.load_profile("dqam")
    folder = tempfile.mkdtemp(prefix="dqam-ledger-")
    os.environ["DQAM_LEDGER"] = str(Path(folder, "ledger.db"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of Spark first and together, so that one worker runs them in one session."""
    items.sort(key=lambda item: "engines" not in item.nodeid and "spark" not in getattr(item, "fixturenames", ()))
