"""How long it takes to ask a release for one number, against a Python that only imports NumPy and h5py.

Each is a new process: `dqam query` with one rectangle, and `dqam.open` with one count. They take turns, and the fastest
of each counts. What remains is imports, so that a slow one that creeps in shows here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.explorer_load import make_release
from benchmarks.measure import build, claim, options, seconds

AREA = "-30.02", "44.98", "-29.98", "45.02"
MOST_SECONDS = 0.7


def commands(release: Path) -> dict[str, list[str]]:
    """What is run, by name; the first is what the others are compared with."""
    python = [sys.executable, "-c"]
    return {
        "import numpy, h5py": [*python, "import numpy, h5py"],
        "dqam.open": [*python, f"import dqam; dqam.open({str(release)!r}).count({', '.join(AREA)})"],
        "dqam query": [sys.executable, "-m", "dqam", "query", str(release), "--area", *AREA],
    }


def main(*arguments: str) -> None:
    tiny = options(__doc__).parse_args(arguments or None).tiny
    path = build() / "start.nc"
    make_release(path, tiny)
    found = commands(path)
    fastest = dict.fromkeys(found, float("inf"))
    for _ in range(1 if tiny else 20):
        for name, command in found.items():
            took, _ = seconds(lambda c=command: subprocess.run(c, check=True, stdout=subprocess.DEVNULL), runs=1)  # type: ignore[misc]
            fastest[name] = min(fastest[name], took)
    bare, *ours = fastest
    for name, took in fastest.items():
        print(f"{name:<20} {took:6.3f} s")
    for name in ours:
        claim(f"{name}, seconds", fastest[name], MOST_SECONDS, at_most=True)
        claim(f"{name} / {bare}", fastest[name] / fastest[bare], 3, at_most=True)


if __name__ == "__main__":
    main()
