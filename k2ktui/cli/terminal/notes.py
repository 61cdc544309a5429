"""Notes and progress for the operator, on standard error: standard output is for results.

A note that cannot be printed ends no command: what it is about may still succeed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

import click

from k2ktui.progress import ProgressTexts, listening
from k2ktui.secret_values import hide_secrets
from k2ktui.text import safe_message

_CLEAR = "\r\x1b[K"


def print_note(note: object) -> None:
    """Print a note; names in it cannot control the terminal."""
    print_progress(note_text(note))


def print_progress(text: str) -> None:
    """Print a line about what is going on; if that is impossible, the command goes on."""
    with suppress(OSError):
        click.echo(text, err=True)


def note_text(note: object) -> str:
    """Return a note as it is printed."""
    text = "\n".join(safe_message(line) for line in hide_secrets(str(note)).split("\n"))
    return f"note: {text}"


def print_notes(notes: Iterable[object]) -> None:
    """Print notes, one per line."""
    for note in notes:
        print_note(note)


class StatusLine:
    """A line on stderr that is overwritten and disappears at the end.

    Shows nothing where stderr is not a terminal: logs and pipes get only results.
    """

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write("")

    def show(self, text: str) -> None:
        """Replace the line; ``text`` must be safe to print and is cut at the terminal's width."""
        self._write(text[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        # A line that is not there is not cleared: another program's text may stand in its place.
        if self._shown and (text or self._text):
            self._text = text
            with suppress(OSError):  # what is going on goes on without it
                sys.stderr.write(_CLEAR + text)
                sys.stderr.flush()


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show the long steps of a block on a line of its own while they run."""
    utf = (getattr(sys.stderr, "encoding", None) or "").lower().startswith("utf")
    with StatusLine() as line, listening(ProgressTexts(line.show, ascii_only=not utf)):
        yield
