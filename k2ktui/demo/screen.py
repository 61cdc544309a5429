"""What the demo prints: lines with the seconds since its start, and how far a long step is.

A closed terminal, or a reader that has ended, does not disturb the demo's shutdown.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator

from k2ktui.progress import Progress, ProgressStep, ProgressTexts


class Screen:
    """The demo's output.

    Args:
        status: replaces the text of a line that does not stay, "" clears it; none by default.
    """

    def __init__(self, status: Callable[[str], None] = lambda text: None) -> None:
        self._status, self._begun = status, time.monotonic()
        self._is_gone = False

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        self.show([f"{time.monotonic() - self._begun:5.1f} s  {text}"])

    def show(self, lines: Iterable[str]) -> None:
        """Print lines as they are, with escapes for what the terminal's encoding does not have."""
        self._status("")
        for line in lines:
            self._print(line)

    def _print(self, line: str) -> None:
        if self._is_gone:
            return
        try:
            print(line, flush=True)
        except UnicodeEncodeError:
            self._print(line.encode("ascii", "backslashreplace").decode())
        except (OSError, ValueError):
            # Every further write would fail too, and shutdown must not depend on one.
            self._is_gone = True

    @contextlib.contextmanager
    def busy(self, text: str) -> Iterator[Progress]:
        """Print what begins, and each further step; yields what tells how far a step is."""
        self.say(text)
        said, shown = text, ProgressTexts(self._status)

        def report(step: ProgressStep) -> None:
            nonlocal said
            if step.text != said:
                said = step.text
                self.say(said)
            if step.done or step.total:
                shown(step)

        try:
            yield report
        finally:
            self._status("")
