"""Output to the terminal: messages and progress on standard error, answers on standard output."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from dqam.runtime.progress import Show, bar, watching

if TYPE_CHECKING:
    from dqam.geometry.trips import Trips
    from dqam.release.release import Release
    from dqam.sources import Source

NOT_PRIVATE = "NOT PRIVATE: exact figures of the raw trips. For the custodian's eyes, not for publication."
NOT_CHARGED = STOPPED = "Stopped; no file is half-written, and nothing was charged."
SHOWN = 12  # rectangles listed on a terminal

words = Console(stderr=True, highlight=False)
answers = Console(highlight=False)


# The options of the command line by the parameters of Python that errors name.
FLAGS = {"swap_axes": "--swap-axes", "sure": "--sure", "flows": "--flows"}
OPTIONS = {
    "crs": "--source-crs",  # no error asks for another CRS of the grid
    "on_error": "--on-error",
    "gap": "--max-gap",
    "memory": "--memory",
    "engine": "--engine",
    "dataset": "--dataset",
    "total": "--total",
    "epsilon": "--epsilon",
    "delta": "--delta",
    "unit": "--unit",
    "max_trips": "--max-trips",
    "mechanism": "--mechanism",
    "ledger": "--ledger",
    "blocks": "--blocks",
    "h3": "--h3",
    "confidence": "--confidence",
    "least": "--least",
}
_TEXT = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_VALUE = rf"{_TEXT}|\.\.\.|\d+(?:[./]\d+)?(?:e-?\d+)?"
_COLUMNS = re.compile(rf"\bcolumns=\{{((?:{_TEXT}|[^{{}}'\"])*)\}}")
_COLUMN = re.compile(rf"({_TEXT})\s*:\s*({_VALUE})")
_FLAG = re.compile(rf"(?<![\w/])({'|'.join(FLAGS)})=True\b")
_OPTION = re.compile(rf"(?<![\w/])({'|'.join(OPTIONS)})=({_VALUE})")  # not in a path like /unit=1/part.parquet
_SET_TOTAL = re.compile(rf"`?\bLedger\.set_total\(({_VALUE}),\s*({_VALUE}|\w+)\)`?")


def in_options(message: str, crs: str = OPTIONS["crs"]) -> str:
    """A message of the library with command-line options in place of Python parameters; `crs` is the option for CRS.

    >>> in_options("Name it, columns={'trip': 'ride id'}, or use engine='local'.")
    "Name it, --column 'trip=ride id', or use --engine local."
    """

    def columns(found: re.Match[str]) -> str:
        pairs = [
            f"{_word(role)}={_word(name) if name != '...' else 'NAME'}" for role, name in _COLUMN.findall(found[1])
        ]
        return " ".join(f"--column {shlex.quote(pair)}" for pair in pairs or ["ROLE=NAME"])

    message = _COLUMNS.sub(columns, message)
    message = _FLAG.sub(lambda found: FLAGS[found[1]], message)
    message = _SET_TOTAL.sub(lambda found: f"`dqam ledger total {_shown(found[1])} {_shown(found[2])}`", message)
    message = message.replace("`Ledger.history()`", "`dqam ledger`")
    message = message.replace("`crossings`", "--lines FILE").replace("`counts`", "--areas FILE")
    options = OPTIONS | {"crs": crs}
    return _OPTION.sub(lambda found: f"{options[found[1]]} {_shown(found[2])}", message)


def _word(value: str) -> str:
    """The text of a Python literal, or the value as it is written."""
    try:
        return str(ast.literal_eval(value)) if value[0] in "'\"" else value
    except (SyntaxError, ValueError):  # quoted, but not by Python
        return value


def _shown(value: str) -> str:
    """A value as it is typed in a shell."""
    return shlex.quote(_word(value))


def plain(error: Exception | str) -> str:
    """The text, escaped so that neither Rich nor the terminal interprets any of it."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in str(error)).replace("[", r"\[")


def itself() -> str:
    """The command as the user can call it: by its path if the shell does not find its name."""
    called = Path(sys.argv[0])
    return "dqam" if shutil.which("dqam") or called.name != "dqam" else str(called)


def progress_of(what: str) -> AbstractContextManager[Show]:
    """A progress bar that leaves room for messages."""
    return bar(what, words)


def watched(source: Source, what: str) -> Iterator[Trips]:
    """The batches of `source`, with a progress bar."""
    with watching(progress_of, what, lambda: source.progress):
        yield from source


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")(command)


def print_json(value: dict[str, Any]) -> None:
    """Print the one JSON object of --json."""
    click.echo(json.dumps(value))


def about(opened: Release, confidence: float) -> dict[str, Any]:
    """What --json says about a release, with answers of any kind."""
    provenance = opened.provenance
    return {
        "confidence": confidence,
        "private": provenance.private,
        "promise": provenance.promise,
        "epsilon": float(provenance.epsilon),
        "delta": float(provenance.delta) or None,
        "counted": provenance.counted or "all trips",
    }


def say_notes(source: Source) -> None:
    """Print what a user should know about how the source is read."""
    for note in source.notes:
        words.print(f"[yellow]Note:[/] {plain(in_options(note))}")


def say_left_out(source: Source) -> None:
    """Print what was left out of the source, and what was joined."""
    for note in source.left_out:
        words.print(note, markup=False)


def say_not_private(console: Console) -> None:
    """Print the label of all exact figures."""
    console.print(f"[bold red]{NOT_PRIVATE}[/]")
