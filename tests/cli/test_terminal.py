"""The command line speaks of options, the library of parameters."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import dqam
from dqam.cli import cli
from dqam.cli.terminal import FLAGS, OPTIONS, in_options, plain

ROOT = Path(dqam.__file__).parent


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("name it, columns={'trip': 'NAME'}.", "name it, --column trip=NAME."),
        ("columns={'lon': 'east', 'lat': 'north'} for points", "--column lon=east --column lat=north for points"),
        ("leave it out, columns={'time': ''}.", "leave it out, --column time=."),
        ("columns={'trip': ...} or columns={...}", "--column trip=NAME or --column ROLE=NAME"),
        ("columns={'trip': \"a rider's id}\"}", "--column 'trip=a rider'\"'\"'s id}'"),
        ("crs='EPSG:28355', or crs='EPSG:...'.", "--source-crs EPSG:28355, or --source-crs EPSG:...."),
        ("exchange them with swap_axes=True.", "exchange them with --swap-axes."),
        ("or leave such rows out with on_error='drop'.", "or leave such rows out with --on-error drop."),
        ("or publish anyway with sure=True.", "or publish anyway with --sure."),
        ("give it in metres, gap='500m'.", "give it in metres, --max-gap 500m."),
        ("give more memory=... or use engine='local'.", "give more --memory ... or use --engine local."),
        ("dataset='Porto taxis' and total=2.5.", "--dataset 'Porto taxis' and --total 2.5."),
        ("publish with delta=1e-8, or delta=2.5e-7.", "publish with --delta 1e-8, or --delta 2.5e-7."),
        ("publish with delta='1/300000000'.", "publish with --delta 1/300000000."),
        ("change it with Ledger.set_total('taxis', 3).", "change it with `dqam ledger total taxis 3`."),
        ("see `Ledger.history()`.", "see `dqam ledger`."),
        ("`Ledger.set_total('my taxis', EPSILON)`", "`dqam ledger total 'my taxis' EPSILON`"),
    ],
)
def test_parameters_become_options(message: str, expected: str) -> None:
    assert in_options(message) == expected


@pytest.mark.parametrize(
    "message", ["/data/unit=1/part.parquet does not exist", "assure=True", "subtotal=3", "crs = 'x'"]
)
def test_other_words_stay(message: str) -> None:
    assert in_options(message) == message


def test_every_option_exists() -> None:
    def options(command: click.Command) -> Iterator[str]:
        for parameter in command.params:
            yield from parameter.opts
        if isinstance(command, click.Group):
            for each in command.commands.values():
                yield from options(each)

    assert set(FLAGS.values()) | set(OPTIONS.values()) | {"--column"} <= set(options(cli))
    ledger = cli.commands["ledger"]
    assert isinstance(ledger, click.Group)
    assert [parameter.name for parameter in ledger.commands["total"].params[:2]] == ["name", "epsilon"]


def named_options(path: Path) -> list[str]:
    """Texts of a module, without its docstrings, that name an option of a command."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and re.search(r"--[A-Za-z]", node.value)
    ]


def test_the_library_names_no_options() -> None:
    modules = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ("cli", "experiments")]
    found = {path.relative_to(ROOT).as_posix(): named_options(path) for path in modules}
    assert not {name: texts for name, texts in found.items() if texts}


def test_the_scan_sees_options_in_any_text(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Not --this."""\ndef f(x):\n    """Nor --this."""\n    return f"{x} needs --sure", "-- no", "a--"\n'
    )
    assert named_options(path) == [" needs --sure"]


def test_text_of_files_is_no_markup() -> None:
    assert plain("[red]a\x1b[0m") == r"\[red]a?\[0m"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (r"over total='\x'.", "over --total " + shlex.quote(r"'\x'") + "."),
        (r"columns={'trip': '\N{zz}'}.", "--column " + shlex.quote(r"trip='\N{zz}'") + "."),
        ("dataset='a\0b'.", "--dataset " + shlex.quote("'a\0b'") + "."),
    ],
)
def test_texts_that_python_cannot_read_stay_as_they_are(message: str, expected: str) -> None:
    assert in_options(message) == expected
