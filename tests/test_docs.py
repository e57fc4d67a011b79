"""The documentation: its commands and Python examples are run, its tables recomputed, its links and names checked.

In README.md, docs/tutorial.md and docs/howto.md the `dqam` lines of blocks marked `sh`, and all `python` blocks, are
run one after the other in an empty folder, with fewer trips. Blocks marked `bash` are only checked for commands and
options that exist: they take too long or need something that is not there.
"""

import math
import pkgutil
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import dqam
from dqam import cities
from dqam.cli import cli
from dqam.mechanisms.flux_rules import delta_helps
from dqam.publishing.forecast_table import measured_table
from dqam.release.formatting import error_in_words
from dqam.values.guarantee import Promise
from tests.commands import run

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FEWER = {"20000": "2000"}  # trips


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    code: str

    @property
    def commands(self) -> list[tuple[list[str], int]]:
        """The arguments of each `dqam` line, and the exit code that it should have."""
        lines = [line for line in self.code.replace("\\\n", "").splitlines() if line.startswith("dqam ")]
        codes = [re.search(r"# exit code (\d)", line) for line in lines]
        arguments = [shlex.split(line, comments=True)[1:] for line in lines]
        return [(words, int(code[1]) if code else 0) for words, code in zip(arguments, codes, strict=True)]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])


def table(page: Path, header: str) -> list[list[str]]:
    """The rows below the header of a table."""
    lines = page.read_text(encoding="utf-8").partition(header)[2].splitlines()[2:]
    end = next(i for i, line in enumerate(lines) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


@pytest.mark.parametrize("pages", [["README.md"], ["docs/tutorial.md", "docs/howto.md"]], ids=["readme", "docs"])
def test_what_is_shown_runs(pages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DQAM_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for name in pages:
        shared: dict[str, object] = {}
        for block in blocks(ROOT / name):
            if block.language == "sh":
                for arguments, code in block.commands:
                    if arguments[0] != "serve":
                        few = ["--sure"] if "person" in arguments and arguments[0] == "publish" else []
                        done = run(*(FEWER.get(word, word) for word in arguments), *few)
                        assert done.returncode == code, f"{name}:{block.line}: {arguments}: {done.stdout}{done.stderr}"
            elif block.language == "python":
                program = compile("\n" * block.line + block.code, str(block.page), "exec")
                try:
                    exec(program, {} if name == "docs/howto.md" else shared)
                except ModuleNotFoundError as error:
                    if str(error.name).startswith("dqam"):  # others are extras
                        raise


def without_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist_with_these_options(page: Path) -> None:
    for block in blocks(page):
        if block.language in ("sh", "bash"):
            for arguments, _ in block.commands:
                command: click.Command = cli
                while isinstance(command, click.Group) and arguments and arguments[0] in command.commands:
                    command, arguments = command.commands[arguments[0]], arguments[1:]
                assert command is not cli, f"{page.name}:{block.line}: {arguments}"
                if arguments != ["--help"]:
                    command.make_context(command.name, list(arguments))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in slugs, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist(page: Path) -> None:
    """Modules, what is in them, and paths of the repository that a page mentions."""
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"^(?:from|import) (dqam[\w.]*)", text, re.MULTILINE))
    names |= set(re.findall(r"`(dqam(?:\.\w+)+)\b(?!\.nc)", without_blocks(page)))
    names |= set(re.findall(r"^::: (dqam[\w.]+)$", text, re.MULTILINE))
    for name in names:
        pkgutil.resolve_name(name)
    for path in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_folder_of_our_machines_is_named(page: Path) -> None:
    assert not re.search(r"\.\./shared|/work/|/home/\w|/tmp/\w", page.read_text(encoding="utf-8"))


def test_all_modules_are_listed() -> None:
    """`make figures` writes this page."""
    found = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for path in (SOURCE / "dqam").glob("*/**/*.py")
        if path.name != "__init__.py" or path.read_text(encoding="utf-8").startswith('"""')
    }
    listed = re.findall(
        r"^- `(dqam\.[\w.]+)`", (ROOT / "docs" / "modules.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(listed) == found | {"dqam.errors"}


def test_pictures_are_small_and_shown() -> None:
    words = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < 250_000, picture.name
        assert f"images/{picture.name})" in words, picture.name


def test_the_notebook_runs_and_shows_pictures(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    saved = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    text = (ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8")
    assert not re.search(r"/work/|/home/\w|/tmp/\w|\"stderr\"", text)
    assert len(text) < 500_000
    fresh = nbformat.from_dict(saved)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell["outputs"] = []
    nbclient.NotebookClient(fresh, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for notebook in (saved, fresh):  # what it shows now, and what readers see
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        assert {output.output_type for output in outputs} == {"execute_result", "display_data"}
        (page,) = [
            output.data["text/html"] for output in outputs if "<img" in output.get("data", {}).get("text/html", "")
        ]
        assert 'src="data:image/png;base64,' in page
        assert "release.flow(origin, destination)" in page
        assert "Differentially private for one trip, epsilon = 1." in page
        assert sum("image/png" in output.data for output in outputs) == 3
        words = outputs[-1].data["text/plain"]
        assert words.startswith("<Difference: ")
        assert words.count("epsilon = 1.") == 2


def test_citations_agree() -> None:
    """The README, the citation file and the package name the same paper, authors and version."""
    citation, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "README.md"))
    names = zip(re.findall(r"given-names: (.*)", citation), re.findall(r"family-names: (.*)", citation), strict=True)
    one_line = " ".join(readme.replace("\n>", "").split())
    assert all(f"{given} {family}" in one_line for given, family in names)
    titles = re.findall(r'^ +title: "(.*)"', citation, re.MULTILINE)
    assert len(titles) == 1
    assert titles[0] in one_line
    assert f"\nversion: {dqam.__version__}\n" in citation


def test_what_epsilon_means() -> None:
    rows = table(ROOT / "docs" / "choosing.md", "| epsilon | odds change by at most | 1 % sure before | 10 % | 50 % |")
    assert [row[0] for row in rows] == ["0.1", "0.5", "1", "2", "4"]
    for epsilon, odds, *after in rows:
        factor = math.exp(float(epsilon))
        assert odds == f"{factor:.3g} times"
        assert after == [f"{p * factor / (1 - p + p * factor) * 100:.1f} %" for p in (0.01, 0.1, 0.5)]


def test_how_good_a_map_will_be() -> None:
    """`python -m benchmarks.forecast_table --data DIR` writes this table, and the plan in the tutorial."""
    rows = table(ROOT / "docs" / "choosing.md", "| signal | all | 2 to 4 | 5 to 8 | 9 to 16 | 17 to 32 | 33 to 64 |")
    bands, measured = ["all", "2-4", "5-8", "9-16", "17-32", "33-64", "65-128"], measured_table()
    page = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    assert f"The tables were measured with version {measured.version}. " in page
    assert [row[0] for row in rows][::2] == ["100", "1,000", "10,000", "100,000", "1,000,000"]
    for signal, *shown in rows:
        found = [measured.error(band, float(signal.replace(",", ""))) for band in bands]
        assert shown == [error_in_words(one.error, one.low, one.high).replace("\xa0", " ") for one in found]


def test_what_a_delta_buys() -> None:
    """`python -m benchmarks.forecast_table --only docs` writes this table."""
    header = "| trips | epsilon | delta | all | 2 to 4 | 5 to 8 | 9 to 16 | 17 to 32 | 33 to 64 | 65 to 128 |"
    rows, bands = table(ROOT / "docs" / "choosing.md", header), header.replace(" to ", "-").strip("| ").split(" | ")[3:]
    sizes = ["1,000", "10,000", "100,000", "1,000,000", "10,000,000"]
    assert [row[:2] for row in rows] == [[size, epsilon] for size in sizes for epsilon in ("0.1", "1")]
    for trips, epsilon, delta, *shown in rows:
        n, promise = float(trips.replace(",", "")), Promise.of(epsilon, "1e-8")
        assert promise.rho is not None
        precision, eps = math.sqrt(2 * promise.rho), float(promise.epsilon)
        used = delta_helps(n * eps, eps, precision)
        assert delta == ("1e-8" if used else "no delta used")
        found = [(measured_table(), n * eps)] + [(measured_table(concentrated=True), n * precision)] * used
        for band, errors in zip(bands, shown, strict=True):
            words = [error_in_words(measured.error(band, signal).error) for measured, signal in found]
            assert errors == " → ".join(words).replace("\xa0", " ")
        beyond = [signal > measured.signals[-1] for measured, signal in found]
        assert all(beyond) if [trips, epsilon] == rows[-1][:2] else not any(beyond)


def test_the_tutorial_shows_what_its_plan_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cities.write_parquet(cities.city_trips(10, 0), tmp_path / "city.parquet", 10)
    page = list(blocks(ROOT / "docs" / "tutorial.md"))
    (at,) = (i for i, block in enumerate(page) if block.language == "sh" and "--plan" in block.code)
    ((arguments, _),) = page[at].commands
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert page[at + 1].code.split() == done.stdout.split()
