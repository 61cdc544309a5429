"""The line that ``:`` opens: a command by name, with completion and the session's history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from k2ktui.console.commands import Command, NoCommand, complete, find, shared_beginning
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone

_LISTED = 8
_HINT = "tab completes, up: earlier, esc closes"


class CommandLine(Dialog[None]):
    """One line at the foot of the screen; what it can become is listed above it.

    A name that is no command leaves it open, so that it can be corrected.

    Args:
        commands: what can be done on the screen below.
        history: what was typed in this session, the oldest first; the line adds to it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("tab", "complete(1)", "Complete", priority=True),
        Binding("shift+tab", "complete(-1)", "Complete", priority=True),
        Binding("up", "earlier(-1)", "Earlier"),
        Binding("down", "earlier(1)", "Later"),
    ]

    def __init__(self, commands: Sequence[Command], history: list[str]) -> None:
        super().__init__()
        self._commands, self._history = commands, history
        self._at = len(history)
        # What tab walks through, and what was typed before it.
        self._walked: list[str] = []
        self._set = ""

    def compose(self) -> ComposeResult:
        """Yield the list, and the line below it."""
        with Vertical(id="command"):
            yield TextLines(id="command-list")
            with Horizontal(id="command-line"):
                yield Static(":", id="command-sign")
                yield Input(id="command-input", select_on_focus=False)
                yield TextLines(id="command-hint")

    def on_mount(self) -> None:
        """List all commands, and focus the line."""
        self.query_one("#command-hint", TextLines).show([(Cell(_HINT, Tone.MUTED),)])
        self._list()
        self.query_one(Input).focus()

    def on_resize(self) -> None:
        """List as many commands as there is room for."""
        self.query_one("#command-hint").display = self.app.size.width >= 2 * len(_HINT)
        self._list()

    # Completion

    def _list(self) -> None:
        lines = complete(self.query_one(Input).value, self._commands)
        most = max(2, min(_LISTED, self.app.size.height // 3))
        shown = lines[: most if len(lines) <= most else most - 1]
        width = max((cell_len(line) for line, _ in shown), default=0)
        listed: list[Line] = [
            (Cell(f" {line:<{width}}  ", Tone.ACCENT), Cell(title, Tone.MUTED))
            for line, title in shown
        ]
        if len(lines) > len(shown):
            rest = ", ".join(line for line, _ in lines[len(shown) :])
            listed.append((Cell(f" {rest}", Tone.MUTED),))
        self.query_one("#command-list", TextLines).show(listed)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if event.value != self._set:
            self._walked = []
        self._list()

    def _put(self, text: str) -> None:
        entry = self.query_one(Input)
        self._set = text
        entry.value = text
        entry.cursor_position = len(text)

    def action_complete(self, by: int) -> None:
        """Complete what was typed; pressed again, walk through what it can become."""
        if self._walked:
            at = self._walked.index(self._set) if self._set in self._walked else -1
            self._put(self._walked[(at + by) % len(self._walked)])
            return
        typed = self.query_one(Input).value
        lines = [line for line, _ in complete(typed, self._commands)]
        if not lines:
            return
        shared = shared_beginning(lines)
        if len(lines) == 1:
            takes = next(
                (bool(command.arguments) for command in self._commands if command.name == shared),
                False,
            )
            self._put(f"{shared} " if takes else shared)
        elif len(shared) > len(typed.lstrip()):
            self._put(shared)
        else:
            self._walked = lines
            self._put(lines[0 if by > 0 else -1])

    def action_earlier(self, by: int) -> None:
        """Show what was typed earlier in this session, or later."""
        self._at = max(0, min(len(self._history), self._at + by))
        self._walked = []
        self._put(self._history[self._at] if self._at < len(self._history) else "")

    # Running

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if self.is_over:
            return
        if not text:
            self.dismiss()
            return
        try:
            command, argument = find(text, self._commands)
        except NoCommand as error:
            self.query_one("#command-list", TextLines).show([(Cell(f" {error}", Tone.BAD),)])
            return
        if self._history[-1:] != [text]:
            self._history.append(text)
        self.dismiss()
        # In the app's queue, before keys that were typed behind it: it may open another screen.
        self.app.call_later(command.run, argument)

    def action_close(self) -> None:
        """Close the line; nothing was done."""
        self.dismiss()
