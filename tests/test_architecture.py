"""Which package may import which, as docs/architecture.md says, including imports inside functions.

A package here is a package or module directly below `dqam`. Imports for type checkers only do not count.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import dqam

SOURCE = Path(dqam.__file__).parent
TESTS = Path(__file__).parent
BASE = {"errors", "runtime", "geometry"}
# what each package may import, besides itself
ALLOWED_IMPORTS: dict[str, set[str]] = {
    "errors": set(),
    "runtime": {"errors"},
    "geometry": {"errors", "runtime"},
    "values": {"errors", "geometry"},
    "sources": BASE,
    "consistency": {"errors", "geometry"},
    "statistics": BASE,
    "privacy": {"errors", "geometry", "values", "statistics"},
    "engines": {*BASE, "sources", "statistics", "privacy"},
    "mechanisms": {"errors", "runtime", "geometry", "values", "consistency", "statistics", "privacy"},
    "release": {*BASE, "values"},
    "cities": BASE,
    "publishing": {
        *BASE,
        *("values", "sources", "statistics", "privacy", "engines", "mechanisms", "release", "cities"),
    },
    "experiments": {
        *BASE,
        *("sources", "consistency", "statistics", "privacy", "mechanisms", "release", "cities"),
    },
    "audit": {
        *BASE,
        *("values", "sources", "statistics", "privacy", "mechanisms", "publishing", "experiments"),
    },
    "explorer": {"errors", "runtime", "geometry", "release"},
}
ALLOWED_IMPORTS["cli"] = set(ALLOWED_IMPORTS)
# modules that have functions or classes and no tests of their own
UNTESTED = {"errors": "four exceptions without code of their own"}
# tests of what several modules do together, or of the project
TOGETHER = {
    "engines": {"agreement"},
    "explorer": {"fuzz", "page", "page_flows", "page_flows_without_server", "page_slices", "page_without_server"},
    "mechanisms": {"accuracy", "fingerprints", "replay"},
    "oracles": {"shapely_and_movingpandas"},
    "privacy": {"gate"},
    "privacy/ledger": {"concurrency"},
    "publishing": {"edges"},
    "release": {"company", "gis"},
    "runtime": {"processors"},
    ".": {"architecture", "benchmarks", "docs"},
}


def module_names(source: Path) -> dict[str, Path]:
    """All modules below `dqam`, by dotted name without that prefix."""
    found = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: path for name, path in found.items() if name not in ("", "__main__")}


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Every import of something of dqam: the module, and the name taken from it or an empty one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "dqam")
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not followed"
            if (node.module or "").split(".")[0] == "dqam":
                yield from ((str(node.module), alias.name) for alias in node.names)
        yield from imported(node)


def imports_between(source: Path) -> set[tuple[str, str]]:
    """All imports between modules; of the package itself only its version may be taken."""
    modules, found = module_names(source), set()
    for name, path in modules.items():
        for module, taken in imported(ast.parse(path.read_text(encoding="utf-8"))):
            inner = module.removeprefix("dqam").lstrip(".")
            target = f"{inner}.{taken}".strip(".")
            if target not in modules:
                target = inner
            if target:
                found.add((name, target))
            else:
                assert name.startswith("cli") or taken == "__version__", f"{name} imports {taken or 'all'} of dqam"
    return found


def test_every_import_is_allowed() -> None:
    wrong = [
        (one, other)
        for one, other in sorted(imports_between(SOURCE))
        if (package := one.split(".")[0]) != (target := other.split(".")[0]) and target not in ALLOWED_IMPORTS[package]
    ]
    assert not wrong


def test_allowed_imports_have_no_cycle_and_are_all_used() -> None:
    """Each package imports only packages before it; whatever may be imported is."""
    seen: set[str] = set()
    for package, before in ALLOWED_IMPORTS.items():
        assert before <= seen | {package}, package
        seen.add(package)
    used = {(one.split(".")[0], other.split(".")[0]) for one, other in imports_between(SOURCE)}
    allowed = {(one, other) for one, before in ALLOWED_IMPORTS.items() for other in before if one not in ("cli", other)}
    assert not allowed - used
    assert {name.split(".")[0] for name in module_names(SOURCE)} == set(ALLOWED_IMPORTS)


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = sorted(module_names(SOURCE))
    matrix = np.zeros((len(names), len(names)), bool)
    for one, other in imports_between(SOURCE):
        if one != other and not one.startswith(f"{other}."):  # a package is loaded before its modules anyway
            matrix[names.index(one), names.index(other)] = True
    groups = connected_components(matrix, connection="strong")[1]
    circles = [[names[i] for i in np.flatnonzero(groups == group)] for group in set(groups.tolist())]
    assert not [circle for circle in circles if len(circle) > 1]


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("release", "from dqam.mechanisms import MECHANISMS"),
        ("release", "def f():\n    from dqam.privacy.curator import Curator"),
        ("geometry", "import dqam.privacy.noise"),
        ("explorer", "from dqam import publishing"),
    ],
)
def test_an_import_that_is_not_allowed_would_be_seen(tmp_path: Path, package: str, line: str) -> None:
    for name in ("mechanisms", "privacy", "publishing", package):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "privacy" / "curator.py").write_text("")
    (tmp_path / "privacy" / "noise.py").write_text("")
    (tmp_path / package / "odd.py").write_text(line)
    ((one, other),) = imports_between(tmp_path)
    assert one == f"{package}.odd"
    assert other.split(".")[0] not in ALLOWED_IMPORTS[package]


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import dqam; dqam.open", {"errors", "runtime", "geometry", "values", "release"}),
        ("from dqam.explorer import make_app", {"errors", "runtime", "geometry", "values", "release", "explorer"}),
    ],
)
def test_what_is_loaded_to_open_and_to_show_a_release(code: str, allowed: set[str]) -> None:
    """No mechanism, no curator, no reader of trips; and no compiler."""
    show = "import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", f"{code}; {show}"], capture_output=True, text=True, check=True)
    modules = loaded.stdout.split()
    assert {name.split(".")[1] for name in modules if name.startswith("dqam.")} <= allowed
    assert not {"numba", "pyarrow", "duckdb", "sqlalchemy", "opendp", "xarray", "matplotlib", "pandas"} & set(modules)


def test_no_module_is_too_long_to_read_in_one_sitting() -> None:
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in module_names(SOURCE).items()}
    assert max(lengths.values()) <= 400, max(lengths, key=lambda name: lengths[name])


def mirror_of(source: Path, path: Path) -> Path:
    """The test file of a module, from the folder of tests; a package's own code is tested in `test_init.py`."""
    inner = path.relative_to(source)
    return inner.with_name(f"test_{'init' if inner.stem == '__init__' else inner.stem}.py")


def untested(source: Path, tests: Path) -> set[str]:
    """Modules that define a function or a class and have no test file."""
    return {
        path.relative_to(source).with_suffix("").as_posix()
        for path in source.rglob("*.py")
        if any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        )
        and not (tests / mirror_of(source, path)).exists()
    }


def test_every_module_has_its_test_file() -> None:
    assert untested(SOURCE, TESTS) == set(UNTESTED)


def test_every_test_file_has_its_module() -> None:
    mirrored = {mirror_of(SOURCE, path) for path in SOURCE.rglob("*.py")}
    together = {Path(folder, f"test_{name}.py") for folder, names in TOGETHER.items() for name in names}
    assert {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} <= mirrored | together
    assert all((TESTS / path).exists() for path in together)


def test_a_module_without_its_test_file_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "src" / "package").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "src" / "package" / "aliases.py").write_text("Pair = tuple[int, int]\n")
    (tmp_path / "src" / "package" / "code.py").write_text("def f() -> None: ...\n")
    assert untested(tmp_path / "src", tmp_path / "tests") == {"package/code"}
