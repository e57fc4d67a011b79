"""The chart of an audit."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from dqam.audit.figure import draw_audit


def test_the_chart_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "audit.png"
    draw_audit([("count", 0.96, True), ("fault-half-count", 1.9, False)], 1.0, "confidence 0.95", path)
    assert path.read_bytes().startswith(b"\x89PNG")
