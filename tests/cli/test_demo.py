"""demo: a made-up city, published."""

from pathlib import Path

import dqam
from tests.commands import run


def test_demo(tmp_path: Path) -> None:
    done = run("demo", "-n", "500", "-o", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    made = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert made == ["city.nc", "city.parquet", "demo-ledger.db", "map.png", "report.html"]
    assert "16,000 random rectangles" in done.stdout
    assert "Differentially private for one trip, epsilon = 1." in done.stdout
    release = dqam.open(tmp_path / "demo" / "city.nc")
    assert f"{release.count(-30.006, 44.995, -29.994, 45.005).value:,.0f}" in done.stdout
    assert run("demo", "-n", "200", "-o", tmp_path / "demo").returncode == 0
