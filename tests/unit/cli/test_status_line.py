"""The line of a long command: on a terminal only, and gone at the end."""

from __future__ import annotations

import pytest

from k2ktui.cli.terminal.notes import StatusLine, shown_progress
from k2ktui.progress import long_step


class Terminal:
    """A stderr that is a terminal, or not."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal, self.written = terminal, ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None: ...


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_sees_the_steps(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    stderr = Terminal(terminal=terminal)
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("COLUMNS", "20")
    with StatusLine() as line:
        line.show("sampled ranges: 3 of 20 compared")
    if terminal:
        assert stderr.written == "\r\x1b[Ksampled ranges: 3 o\r\x1b[K"
    else:
        assert stderr.written == ""


def test_steps_that_are_not_shown_leave_the_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Terminal(terminal=True)
    monkeypatch.setattr("sys.stderr", stderr)
    with shown_progress(), long_step("mapping records read", 10) as advance:
        advance(10)
    assert stderr.written == ""
