"""Processors of different types compute the same integers from the same trips.

Both tests run this module in new processes, with no compiled code to reuse: once for the processor at hand, and once
for any that has the basic instructions of its kind, without AVX and fused multiply-add.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TRIPS, GRID_SIDE, LATTICE_SIDES = 1_500, 64, (5, 20, 48, 64)
FUSED = re.compile(r"\bv?f(n?m(add|sub)|ml[as]|nml[as])\w*")  # of x86 and of ARM
FREE = re.compile(
    r"= f(?:add|sub|mul|div|neg) (?!double|float|<|half).*|llvm\.(?:fmuladd|fma)\."
)  # flags before the type


def walks_of(rng: np.random.Generator) -> list[np.ndarray]:
    """Points of trips, in cells: at random with detours off the grid, and walks that pass close to themselves."""
    trips = [rng.uniform(-8, GRID_SIDE + 8, (rng.integers(1, 12), 2)) for _ in range(TRIPS)]
    trips += [np.clip(np.cumsum(rng.normal(0, 3, (60, 2)), 0) + 32, 0, GRID_SIDE) for _ in range(TRIPS)]
    for wide in range(1, 40):
        for gap in (1, 2, 3):
            rows = np.repeat(np.arange(0, 20 * gap, gap), 2)[: 4 + 256 // wide]
            snake = np.stack([np.where(np.arange(len(rows)) // 2 % 2 == np.arange(len(rows)) % 2, 0, wide), rows], 1)
            trips += [snake + 0.5, snake[:, ::-1] + 0.5, snake + rng.uniform(0, 1, 2)]
    angle = np.linspace(0, 12 * np.pi, 400)
    spiral = np.stack([angle * np.cos(angle), angle * np.sin(angle)], 1)
    return trips + [32 + size * spiral for size in (0.1, 0.3, 0.7)]


def compiled(function: Any) -> tuple[str, str]:
    """The LLVM code and the machine code of all that was compiled for a function."""
    return "\n".join(function.inspect_llvm().values()), "\n".join(function.inspect_asm().values())


def tell() -> dict[str, Any]:
    """What this processor computes from the trips, and with which instructions."""
    from numba import njit

    from dqam.geometry import tracing, walks
    from dqam.geometry.grid import Grid
    from dqam.geometry.lattice import Lattice
    from dqam.geometry.trips import Trips
    from dqam.statistics import shadows
    from dqam.statistics.aggregate import Part

    trips = walks_of(np.random.default_rng(0))
    x, y = np.concatenate(trips).T.copy()
    offsets = np.concatenate([[0], np.cumsum([len(trip) for trip in trips])])
    grid = Grid((0.1, 0.2, 0.1 + 1 / 3, 0.7), GRID_SIDE, GRID_SIDE)
    x, y = grid.from_cells(x, y)
    laid = walks.walk(Trips(x, y, offsets), grid)
    part_of_all = Part(laid)
    cast = [shadows.compute_shadows(laid, part_of_all.longest, Lattice.even(grid, side)) for side in LATTICE_SIDES]
    digest = hashlib.sha256()
    for numbers in (laid.cells, laid.pieces, laid.trips, *(part for shadow in cast for part in shadow)):
        digest.update(np.ascontiguousarray(numbers).tobytes())

    @njit(fastmath={"contract"})
    def planted(a, b, c):  # type: ignore[no-untyped-def]
        return a * b + c

    planted(1.0, 2.0, 3.0)
    walks._great_circle(x, y)  # its sines come from the C library, and may differ
    kernels = {name: compiled(function) for name, function in _kernels(shadows, tracing, walks).items()}
    return {
        "integers": digest.hexdigest(),
        "values": sum(len(shadow.values) for shadow in cast),
        "wide": "ymm" in kernels["_solve"][1],
        "rounded": {name: len(re.findall(r"= f(?:add|sub|mul|div) ", ir)) for name, (ir, _) in kernels.items()},
        "free": [line for ir, _ in kernels.values() for line in FREE.findall(ir)],
        "fused": [line.group() for _, machine in kernels.values() for line in FUSED.finditer(machine)],
        "planted free": len(FREE.findall(compiled(planted)[0])),
        "planted fused": len(FUSED.findall(compiled(planted)[1])),
    }


def _kernels(*modules: Any) -> dict[str, Any]:
    """Everything that was compiled in some modules."""
    found = {name: each for module in modules for name, each in vars(module).items() if hasattr(each, "inspect_asm")}
    return {name: each for name, each in found.items() if each.signatures}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The results of two types of processor; both run at once, because compiling takes long."""
    started = {}
    for name in ("this", "generic"):
        own = {"NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp(name)), "DQAM_THREADS": "1"}
        if name == "generic":
            own |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
        environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")} | own
        command = [sys.executable, "-m", "tests.runtime.test_processors"]
        here = Path(__file__).parents[2]
        started[name] = subprocess.Popen(command, cwd=here, env=environment, stdout=subprocess.PIPE)
    answers = {name: process.communicate()[0] for name, process in started.items()}
    assert not any(process.returncode for process in started.values())
    return {name: json.loads(answer) for name, answer in answers.items()}


def test_all_processors_make_the_same_integers(told: dict[str, dict[str, Any]]) -> None:
    this, generic = told["this"], told["generic"]
    assert not generic["wide"]  # other instructions; else there is nothing to compare
    assert this["values"] == generic["values"] > 200_000
    assert this["integers"] == generic["integers"]


@pytest.mark.parametrize("name", ["this", "generic"])
def test_nothing_is_fused_or_reordered(told: dict[str, dict[str, Any]], name: str) -> None:
    found = told[name]
    assert found["planted free"] == 2  # such flags would be seen
    assert min(found["rounded"][kernel] for kernel in ("_fill", "_solve", "_expected_products", "trace", "_clip")) > 5
    assert found["free"] == []
    assert found["fused"] == []


def test_a_fused_instruction_would_be_seen(told: dict[str, dict[str, Any]]) -> None:
    if not told["this"]["wide"]:
        pytest.skip("this processor has no AVX, and perhaps no fused multiply-add")
    assert told["this"]["planted fused"]
    assert not told["generic"]["planted fused"]


if __name__ == "__main__":
    print(json.dumps(tell()))
