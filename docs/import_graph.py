"""Draw which packages of dqam import which: python docs/import_graph.py SOURCE_FOLDER PICTURE [MODULES.md].

A package here is a package or module directly below `dqam`. Imports inside functions count; imports for type checkers
only (`if TYPE_CHECKING`) do not. `dqam/__init__.py` and `dqam/__main__.py` are left out. The third argument is a page
to write that lists all modules with the first sentence of their docstrings.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from scipy.sparse.csgraph import breadth_first_order, connected_components

# Allowed imports: a package may import the packages before it.
FLOW = (
    *("errors", "runtime", "geometry", "values", "sources", "consistency", "statistics", "privacy", "engines"),
    *("mechanisms", "release", "cities", "publishing", "experiments", "audit", "explorer", "cli"),
)
USES = {"dqam.open": "import dqam; dqam.open", "dqam.explorer": "from dqam.explorer import make_app"}
AGAINST, DIRECT, IMPLIED = "#c81e1e", "#28536b", "#d3dbe0"
EDGE = 1.7  # where lines begin and end, from the middle of a package


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that code imports from dqam, except those for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("dqam."))
        elif isinstance(node, ast.ImportFrom) and node.module == "dqam":
            yield from (f"dqam.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dqam."):
            yield str(node.module)
        yield from imports(node)


def survey(folder: Path) -> tuple[list[str], Counter[str], Counter[str], np.ndarray]:
    """Return the packages in order, their modules, their lines, and a matrix in which [i, j] means that i imports j."""
    modules, lines, pairs = Counter[str](), Counter[str](), set[tuple[str, str]]()
    for path in sorted(folder.rglob("*.py")):
        package = path.relative_to(folder).with_suffix("").parts[0]
        if package.startswith("__"):
            continue
        text = path.read_text(encoding="utf-8")
        modules[package] += 1
        lines[package] += text.count("\n")
        pairs |= {(package, name.split(".")[1]) for name in imports(ast.parse(text))}
    packages = sorted(modules, key=lambda package: FLOW.index(package) if package in FLOW else len(FLOW))
    place = {package: i for i, package in enumerate(packages)}
    matrix = np.zeros((len(packages), len(packages)), dtype=bool)
    for source, target in pairs:
        if source != target and target in place:
            matrix[place[source], place[target]] = True
    if set(packages) - set(FLOW):  # an older version: order the packages by what they reach
        order = sorted(range(len(packages)), key=lambda i: (reach(matrix)[i].sum(), knots(matrix)[i], packages[i]))
        packages, matrix = [packages[i] for i in order], matrix[np.ix_(order, order)]
    return packages, modules, lines, matrix


def reach(matrix: np.ndarray) -> np.ndarray:
    """Return which package reaches which by one import or more."""
    steps = [np.unique(np.concatenate([breadth_first_order(matrix, j)[0] for j in row.nonzero()[0]] or [[]]))
             for row in matrix]  # fmt: skip
    return np.array([np.isin(np.arange(len(matrix)), found) for found in steps])


def knots(matrix: np.ndarray) -> np.ndarray:
    """Return the strongly connected group of each package, or -1 for a package in a group of its own."""
    labels = connected_components(matrix, connection="strong")[1]
    return np.where(np.bincount(labels)[labels] > 1, labels, -1)


def draw(folder: Path, picture: Path) -> None:
    """Draw the packages in one column, the first of the flow at the bottom, with an arc for every import."""
    packages, modules, lines, matrix = survey(folder)
    groups = knots(matrix)
    tied = (groups[:, None] == groups) & (groups[:, None] >= 0)
    upward = np.triu(np.ones_like(matrix), 1)  # to a later package
    wrong = matrix & (tied | upward)
    right = matrix & ~wrong
    implied = right & (right.astype(int) @ reach(right).astype(int) > 0)
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dqam", "font.family": "sans-serif"}
    height = len(packages)
    figure, axes = plt.subplots(figsize=(8, 0.5 * height + 0.6))
    for kinds, color, width, side, order in (
        (implied, IMPLIED, 0.8, 1, 1),
        (right & ~implied, DIRECT, 1.3, 1, 2),
        (wrong, AGAINST, 1.3, -1, 3),
    ):
        for i, j in np.argwhere(kinds):
            bulge = 0.9 * abs(i - j) ** -0.2  # long arcs are flatter
            axes.add_patch(
                FancyArrowPatch(
                    (side * EDGE, i - 0.08 * np.sign(i - j)),
                    (side * EDGE, j + 0.16 * np.sign(i - j)),
                    connectionstyle=f"arc3,rad={side * np.sign(j - i) * bulge}",
                    arrowstyle="-|>",
                    mutation_scale=9,
                    color=color,
                    lw=width,
                    shrinkA=0,
                    shrinkB=0,
                    zorder=order,
                )
            )
    for i, package in enumerate(packages):
        edge = AGAINST if groups[i] >= 0 else DIRECT
        axes.add_patch(
            FancyBboxPatch((-1.6, i - 0.3), 3.2, 0.6, "round,pad=0.05", fc="white", ec=edge, lw=1.2, zorder=4)
        )
        count = f"{modules[package]} module{'s' * (modules[package] > 1)}, {lines[package]:,} lines"
        axes.text(-1.5, i, package, ha="left", va="center", weight="bold", fontsize=10, zorder=5)
        axes.text(1.5, i, count, ha="right", va="center", fontsize=8, color="#444444", zorder=5)
    key = [
        (DIRECT, "imports"),
        (IMPLIED, "imports, and also reaches through other packages"),
        (AGAINST, "imports that are not allowed"),
    ]
    axes.legend(
        [plt.Line2D([], [], color=color, lw=2) for color, _ in key],
        [words for _, words in key],
        loc="lower center",
        bbox_to_anchor=(0.5, 1),
        ncols=3,
        frameon=False,
        fontsize=8,
    )
    axes.set(xlim=(-3, 6), ylim=(-0.5, height - 0.4))
    axes.set_axis_off()
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1 - 0.4 / figure.get_figheight())
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None} if picture.suffix == ".svg" else None)
    names = [
        ", ".join(packages[i] for i in np.flatnonzero(groups == group)) for group in np.unique(groups[groups >= 0])
    ]
    print(f"packages: {height}, modules: {modules.total()}, lines: {lines.total():,}, imports: {matrix.sum()}")
    print(f"strongly connected groups of more than one package: {len(names)}", *names, sep="\n  ")
    against = [f"{packages[i]} -> {packages[j]}" for i, j in np.argwhere(wrong)]
    print(f"imports that are not allowed: {wrong.sum()}", *against, sep="\n  ")


def modules_page(folder: Path) -> str:
    """Return a page that lists the modules of each package with the first sentence of their docstrings."""
    lines = ["# Modules", "", "`make figures` writes this page from the docstrings of the source."]
    package = ""
    for path in sorted(folder.rglob("*.py"), key=lambda path: _place(path.relative_to(folder))):
        parts = path.relative_to(folder).with_suffix("").parts
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if parts[0].startswith("__") or (parts[-1] == "__init__" and not words):
            continue
        if parts[0] != package:
            package = parts[0]
            lines += ["", f"## {package}", ""]
        name = ".".join(("dqam", *parts)).removesuffix(".__init__")
        sentence = re.split(r"(?<=[.?])\s", " ".join((words or "").split()))[0]
        end = "" if sentence.endswith((".", "?")) else "."
        lines.append(f"- `{name}`: {sentence}{end}" if sentence else f"- `{name}`")
    return "\n".join(lines) + "\n"


def _place(path: Path) -> tuple[int, str]:
    package = path.with_suffix("").parts[0]
    return FLOW.index(package) if package in FLOW else len(FLOW), str(path)


def loaded(folder: Path, code: str) -> int:
    """Return how many modules of dqam a fresh Python has loaded after some code."""
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); {code}; print(sum(m[:5] == 'dqam.' for m in sys.modules))"
    )
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    source, picture = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    draw(source / "dqam", picture)
    for page in map(Path, sys.argv[3:]):
        page.write_text(modules_page(source / "dqam"), encoding="utf-8")
    for name, code in USES.items():
        print(f"modules loaded by {name}: {loaded(source, code)}")
