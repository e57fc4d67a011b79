"""Stamps change with all code behind a result, and with no other."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dqam.experiments.reproduce import DECIDING
from dqam.experiments.stamps import ROOT, code_stamp, imported, stamp_of


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, to be changed."""
    root = tmp_path_factory.mktemp("code") / "dqam"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns("__pycache__", "static"))
    return root


@pytest.mark.parametrize(
    ("file", "matters"),
    [
        ("statistics/shadows.py", True),
        ("runtime/simd.py", True),
        ("mechanisms/flux.py", True),
        ("experiments/printed_dawa.py", True),
        ("cities/journeys.py", True),
        ("sources/__init__.py", True),
        ("experiments/figures.py", False),
        ("experiments/page.py", False),
        ("cli/research.py", False),
    ],
)
def test_a_change_in_the_code_behind_the_numbers_changes_the_stamp(copy: Path, file: str, matters: bool) -> None:
    before = code_stamp(*DECIDING, root=copy)
    assert before == code_stamp(*DECIDING)
    text = (copy / file).read_text()
    (copy / file).write_text(text + "# changed\n")
    assert (code_stamp(*DECIDING, root=copy) != before) == matters
    (copy / file).write_text(text)


def test_all_modules_that_a_run_loads_are_stamped(tmp_path: Path) -> None:
    """Of all mechanisms under both protocols, from trips to numbers, in a process of its own."""
    script = """
import sys
from pathlib import Path
from dqam.experiments.datasets import made_up, generated_file
from dqam.experiments.printed import PRINTED
from dqam.experiments.protocol import DISTINCT, PAPER, Task, bench, publishable
data = made_up()[0]
table = bench(generated_file(data, 40, 0, Path(sys.argv[1]), print), data.bounds, 3, 0)
for protocol, names in ((DISTINCT, publishable()), (PAPER, PRINTED)):
    for name in names:
        table.run(Task(protocol, "city", 40, 3, 20, 10.0, name, 2 if protocol == PAPER else 0))
print(*sorted(name for name in sys.modules if name.startswith("dqam.")))
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {"dqam.statistics.shadows", "dqam.mechanisms.flux"} <= loaded
    assert loaded <= imported(*DECIDING).keys()


def test_a_stamp_tells_where_parts_end() -> None:
    assert len({stamp_of("ab", "c"), stamp_of("a", "bc"), stamp_of("abc"), stamp_of("ab", b"d")}) == 4
