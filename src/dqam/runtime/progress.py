"""Progress of long tasks: callbacks that receive the fraction done, and a progress bar on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Show = Callable[[float], None]  # takes the fraction that is done, 0 to 1
Progress = Callable[[str], AbstractContextManager[Show]]  # takes a description of the work

EVERY = 0.2  # seconds between two updates


def quiet(what: str) -> AbstractContextManager[Show]:
    """Show nothing."""
    return nullcontext(lambda share: None)


@contextmanager
def bar(what: str, console: Console | None = None) -> Iterator[Show]:
    """Show a bar on standard error if that is a terminal or a notebook; it disappears at the end of the block."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.percentage:>3.0f} %"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    console = console or Console(stderr=True)
    seen = console.is_terminal or console.is_jupyter
    with progress.Progress(*columns, console=console, transient=True, disable=not seen) as shown:
        task = shown.add_task(what.replace("[", r"\["), total=1.0)
        yield lambda share: shown.update(task, completed=share)


@contextmanager
def polling(look: Callable[[], None], every: float = EVERY) -> Iterator[None]:
    """Call `look` every `every` seconds in a separate thread while the block runs."""
    done = Event()

    def poll() -> None:
        while not done.wait(every):
            look()

    watcher = Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextmanager
def watching(progress: Progress, what: str, share: Callable[[], float]) -> Iterator[None]:
    """Show the result of `share()`, the fraction that is done, while the block runs."""
    with progress(what) as show, polling(lambda: show(share())):
        yield
