"""Every benchmark runs, at a size at which its numbers mean nothing."""

import importlib
from pathlib import Path

import benchmarks
import pytest
from benchmarks.__main__ import NAMES

NEEDS = {"explorer_load": "uvicorn", "start": "uvicorn", "engines": "pyspark", "zones": "rasterstats"}


def test_all_benchmarks_are_listed() -> None:
    files = {path.stem for path in Path(*benchmarks.__path__).glob("*.py")}
    assert sorted(NAMES) == sorted(files - {"__init__", "__main__", "measure"})


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs(
    name: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    if name == "engines":
        request.getfixturevalue("spark")
    monkeypatch.setenv("DQAM_BENCHMARKS", str(tmp_path))
    importlib.import_module(f"benchmarks.{name}").main("--tiny")
    assert capsys.readouterr().out
