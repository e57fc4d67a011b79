"""What goes to the terminal: words and progress to standard error, answers to standard output."""

from __future__ import annotations

import json
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
    from dqam.sources import Source

NOT_PRIVATE = "NOT PRIVATE: exact figures of the raw trips. For the custodian's eyes, not for publication."
NOT_CHARGED = STOPPED = "Stopped; no file is half-written, and nothing was charged."
SHOWN = 12  # rectangles listed on a terminal

words = Console(stderr=True, highlight=False)
answers = Console(highlight=False)


def plain(error: Exception | str) -> str:
    """The words, with nothing in them taken as markup or by the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in str(error)).replace("[", r"\[")


def itself() -> str:
    """The command as its user would call it again: by its path, where the shell does not find its name."""
    called = Path(sys.argv[0])
    return "dqam" if shutil.which("dqam") or called.name != "dqam" else str(called)


def progress_of(what: str) -> AbstractContextManager[Show]:
    """A progress bar, beside which words may be printed."""
    return bar(what, words)


def watched(source: Source, what: str) -> Iterator[Trips]:
    """The batches of `source`, with a progress bar."""
    with watching(progress_of, what, lambda: source.progress):
        yield from source


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")(command)


def print_json(value: dict[str, Any]) -> None:
    """The one JSON object of --json."""
    click.echo(json.dumps(value))


def say_notes(source: Source) -> None:
    """What was noticed in the file."""
    for note in source.notes:
        words.print(f"[yellow]Note:[/] {plain(note)}")


def say_left_out(source: Source) -> None:
    """What was not used of the file, and what was joined."""
    for note in source.left_out:
        words.print(note, markup=False)


def say_not_private(console: Console) -> None:
    """The label of everything exact."""
    console.print(f"[bold red]{NOT_PRIVATE}[/]")
