"""The demo's output: progress, the pipeline's file, and the live table.

It uses Rich on a terminal and plain lines elsewhere. A closed terminal does not disturb the demo's
shutdown.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.syntax import Syntax
from rich.table import Table

from k2ktui.demo.table import TopicLine, render
from k2ktui.progress import ProgressStep

_PLAIN_SECONDS = 5.0
_PLAIN_WIDTH = 120


class Show(Protocol):
    """Updates the live table; ``beside`` are more tables, shown below it."""

    def __call__(
        self, lines: Sequence[TopicLine], note: str, beside: Sequence[Table] = ()
    ) -> None: ...


class Screen:
    """The demo's output; ``console`` is a Rich console, on standard output by default."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _console()
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        seconds = time.monotonic() - self._begun
        with _if_it_is_there():
            self._console.print(f"{seconds:5.1f} s  {text}", markup=False, soft_wrap=True)

    def show_file(self, path: Path, text: str) -> None:
        """Print the path of the pipeline's file, and its YAML text if there is one."""
        self.say(f"The pipeline's file: {path}")
        if not text:
            return
        with _if_it_is_there():
            if self._console.is_terminal:
                self._console.print(Syntax(text, "yaml", background_color="default"))
            else:
                self._console.print(text, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def busy(self, text: str) -> Iterator[Callable[[ProgressStep], None]]:
        """Show progress while a block runs; yields a function that reports steps."""
        if not self._console.is_terminal:
            yield self._plain_steps(text)
            return
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
        )
        bar = progress.add_task(text, total=None)

        def report(step: ProgressStep) -> None:
            total = step.total or None
            progress.update(bar, description=step.text, completed=step.done, total=total)

        with _live(progress):
            yield report

    def _plain_steps(self, text: str) -> Callable[[ProgressStep], None]:
        said = [text]
        self.say(text)

        def report(step: ProgressStep) -> None:
            if step.text != said[-1]:
                said.append(step.text)
                self.say(step.text)

        return report

    @contextlib.contextmanager
    def live(self) -> Iterator[Show]:
        """Show the live table while a block runs; yields a function that updates it."""
        if not self._console.is_terminal:
            yield self._plain_table()
            return
        table = Live(console=self._console, auto_refresh=False)

        def show(lines: Sequence[TopicLine], note: str, beside: Sequence[Table] = ()) -> None:
            with _if_it_is_there():
                tables = Group(render(lines, note, self._console.width), *beside)
                table.update(tables, refresh=True)

        with _live(table):
            yield show

    def _plain_table(self) -> Show:
        last = [0.0]

        def show(lines: Sequence[TopicLine], note: str, beside: Sequence[Table] = ()) -> None:
            if time.monotonic() - last[0] >= _PLAIN_SECONDS:
                last[0] = time.monotonic()
                self.say("" if lines else note)
                if lines:
                    with _if_it_is_there():
                        self._console.print(render(lines, "", self._console.width), *beside)

        return show


class _LastingConsole(Console):
    """A Rich console that does not end the process when the reader of its output is gone."""

    def on_broken_pipe(self) -> None:
        """Print nothing from now on; Rich raises SystemExit, also in the middle of a shutdown."""
        self.quiet = True
        # Otherwise what is still buffered fails again when Python exits.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        with contextlib.suppress(OSError, ValueError):
            os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


def _console() -> Console:
    console = _LastingConsole(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH  # a file or a pipe has no width
    return console


@contextlib.contextmanager
def _live(display: Progress | Live) -> Iterator[None]:
    with _if_it_is_there():
        display.start()
    try:
        yield
    finally:
        with _if_it_is_there():
            display.stop()


@contextlib.contextmanager
def _if_it_is_there() -> Iterator[None]:
    # On a closed terminal every write fails, and shutdown must not depend on one.
    with contextlib.suppress(OSError, ValueError):
        yield
