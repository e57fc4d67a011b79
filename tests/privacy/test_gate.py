"""No path from trips to a mechanism but the curator."""

import ast
from pathlib import Path

import dqam

HOUSE = Path(dqam.__file__).parent
ROOMS = ("sources", "read", "trips", "walks", "counting", "cities")
FORBIDDEN = (*(f"dqam.{room}" for room in ROOMS), "pyarrow", "duckdb")


def imports_of(path: Path) -> set[str]:
    """What a module imports at run time, by full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def offences(path: Path) -> list[str]:
    names = imports_of(path)
    bad = [name for name in names if any(name == room or name.startswith(room + ".") for room in FORBIDDEN)]
    if "dqam.statistics.Records" in names:
        bad.append("dqam.statistics.Records")
    return bad


def test_mechanisms_and_the_composed_quadtree_import_no_trips() -> None:
    paths = [HOUSE / "partition" / "quadtree.py", *(HOUSE / "mechanisms").rglob("*.py")]
    for path in paths:
        assert not offences(path), f"{path.name} reaches the trips: {offences(path)}"


def test_a_mechanism_that_reaches_for_trips_would_be_seen(tmp_path: Path) -> None:
    for line in ("from dqam.walks import walk", "import dqam.sources", "from dqam.statistics import Records"):
        (tmp_path / "mechanism.py").write_text(line)
        assert offences(tmp_path / "mechanism.py")


def test_a_mechanism_can_not_reach_through_the_curator() -> None:
    """Nothing outside the curator and the audit's broken mechanisms uses what the curator hides."""
    for path in HOUSE.rglob("*.py"):
        if path.name != "curator.py":
            text = path.read_text()
            assert "_records" not in text, path
            assert "curator._" not in text, path
