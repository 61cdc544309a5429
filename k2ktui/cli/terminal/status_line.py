"""What a long command does at the moment, on the last line of a terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from k2ktui.progress import ProgressTexts, listening

_CLEAR = "\r\x1b[K"


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
            with contextlib.suppress(OSError):  # what is going on goes on without it
                sys.stderr.write(_CLEAR + text)
                sys.stderr.flush()


@contextlib.contextmanager
def shown_progress() -> Iterator[None]:
    """Show the long steps of a block on a line of its own while they run."""
    utf = (getattr(sys.stderr, "encoding", None) or "").lower().startswith("utf")
    with StatusLine() as line, listening(ProgressTexts(line.show, ascii_only=not utf)):
        yield
