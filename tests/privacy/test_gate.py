"""No path from trips to a mechanism but the curator."""

import ast
from pathlib import Path

import pytest

import dqam

SOURCE = Path(dqam.__file__).parent
LIBRARIES = {
    *("__future__", "collections.abc", "dataclasses", "fractions", "functools", "heapq", "math", "statistics"),
    *("typing", "itertools", "numba", "numpy", "numpy.typing", "scipy.ndimage"),
}
QUESTIONS = {
    *("CROSSING", "MASS", "MOST_CAP", "MOST_TRIPS", "SHADOW", "Question", "WalkSums"),
    *("CellShares", "Crossings", "DistinctCounts", "Endpoints", "GroupShares", "L1Buckets", "LengthQuantile"),
    *(
        "PairCounts",
        "PersonTrips",
        "PrivTree",
        "QueryErrors",
        "QueryTotals",
        "ShadowQuantile",
        "ShadowSums",
        "Sliced",
        "TripCount",
        "UniformityCosts",
    ),
}
# what a mechanism may import from dqam; whole modules where none of their names leads to a trip
ALLOWED: dict[str, set[str] | None] = {
    "dqam.errors": None,
    "dqam.geometry.arrays": None,
    "dqam.geometry.flow_table": {"MOST_VARIANCE", "Ends", "FlowSlices", "FlowTable", "coarse_places"},
    "dqam.geometry.grid": {"Grid"},
    "dqam.geometry.hilbert": {"hilbert_order"},
    "dqam.geometry.histogram": {"SpatialHistogram", "TwoScaleHistogram"},
    "dqam.geometry.lattice": None,
    "dqam.geometry.rectangles": {"sized_rectangles"},
    "dqam.geometry.sliced_histogram": {"Patterns", "interpolation"},
    "dqam.geometry.regions": {"Partition", "children", "coverage", "node_bounds", "places", "quadtree_depth"},
    "dqam.values.guarantee": None,
    "dqam.values.slice_uncertainty": {"ShareNoise"},
    "dqam.values.uncertainty": None,
    "dqam.privacy.budget": None,
    "dqam.runtime.threads": {"ahead", "each_span"},
    "dqam.privacy.curator": {"Curator"},
    "dqam.privacy.noise": {"WIDEST"},
    "dqam.statistics": QUESTIONS,
    "dqam.statistics.buckets": {"MOST_CELLS"},
    "dqam.statistics.person_trips": {"KEPT_WEIGHT"},
}
FORBIDDEN = {"Aggregates", "InMemory", "Part", "eval", "exec", "vars", "__import__", "__dict__", "getattr", "open"}


def offences(path: Path) -> list[str]:
    """What a module imports, or names, beyond what it may."""
    bad = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            bad += [alias.name for alias in node.names if alias.name not in LIBRARIES]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            own = module.startswith(("dqam.mechanisms", "dqam.consistency"))
            names = ALLOWED.get(module, set())
            for alias in node.names:
                known = module in LIBRARIES or own or (module in ALLOWED and (names is None or alias.name in names))
                if node.level or alias.name == "*" or not known:
                    bad.append(f"{module}.{alias.name}")
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in FORBIDDEN:
                bad.append(name)
    return bad


def guarded() -> list[Path]:
    """Mechanisms, and their steps in other packages."""
    steps = [SOURCE / "geometry" / f"{name}.py" for name in ("hilbert", "lattice", "regions")]
    return [*steps, *(SOURCE / "consistency").rglob("*.py"), *(SOURCE / "mechanisms").rglob("*.py")]


def test_mechanisms_know_the_curator_and_no_trips() -> None:
    assert len(guarded()) > 10
    for path in guarded():
        assert not offences(path), f"{path.name} reaches beyond the curator: {offences(path)}"


@pytest.mark.parametrize(
    "line",
    [
        "from dqam.geometry.walks import walk",
        "import dqam.sources",
        "import dqam",
        "from dqam.privacy.aggregates import Aggregates",
        "from dqam.privacy.aggregates import InMemory",
        "from dqam.statistics import *",
        "from dqam.statistics.aggregate import Part",
        "from dqam.statistics.distinct import DistinctTrips",
        "from dqam.privacy.curator import Aggregates",
        "from dqam.statistics.buckets import L1Buckets",
        "from dqam.experiments.printed import PRINTED",
        "from dqam.audit.pairs import walks_of",
        "from dqam.geometry.tally import spread_mass",
        "from dqam.privacy.noise import SeededNoise",
        "import importlib",
        "import pandas",
        "x = vars(curator)",
        "x = curator.__dict__",
    ],
)
def test_a_mechanism_that_reaches_for_trips_would_be_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "mechanism.py").write_text(line)
    assert offences(tmp_path / "mechanism.py")


def test_a_mechanism_cannot_reach_through_the_curator() -> None:
    """Nothing outside the curator and the audit's broken mechanisms uses what the curator hides."""
    for path in SOURCE.rglob("*.py"):
        if path.name != "curator.py":
            text = path.read_text()
            assert "_aggregates" not in text, path
            assert "curator._" not in text, path
