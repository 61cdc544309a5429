"""Leaving the console: the dialog that asks first when leaving ends something."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button

from k2ktui.console.session import LeaveChoice
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone, name
from k2ktui.text import safe_message

LEAVE = LeaveChoice("l", "Leave", "", 0)
_STAY = "stay"


class LeaveDialog(Dialog[int | None]):
    """Asks how to leave; the result is that of the choice, None to stay.

    The focus starts on Stay, so that a key pressed once too often ends nothing.

    Args:
        pipeline: its name.
        work: what this session runs, as sentences.
        choices: the ways to leave.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,s", "stay", "Stay"),
        Binding("right,down", "app.focus_next", "Next", show=False),
        Binding("left,up", "app.focus_previous", "Previous", show=False),
    ]

    def __init__(self, pipeline: str, work: Sequence[str], choices: Sequence[LeaveChoice]) -> None:
        super().__init__()
        self._pipeline, self._work, self._choices = pipeline, work, choices

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="leave"):
            yield TextLines(id="leave-lines")
            with Horizontal(id="leave-buttons"):
                for choice in self._choices:
                    yield Button(f"{choice.label} ({choice.key})", id=f"leave-{choice.key}")
                yield Button("Stay (s)", id=_STAY)

    def on_mount(self) -> None:
        """Focus Stay."""
        self.query_one(f"#{_STAY}").focus()

    def on_resize(self) -> None:
        """Wrap the texts for the new width."""
        lines: list[Line] = [(Cell(f"Leave {name(self._pipeline, 60)}?", Tone.HEADING),), ()]
        effects = [f"{choice.label}: {choice.effect}" for choice in self._choices if choice.effect]
        for text in (*self._work, *effects):
            lines += [(Cell(part),) for part in textwrap.wrap(safe_message(text), self.text_width)]
        self.query_one(TextLines).show(lines)

    def on_key(self, event: events.Key) -> None:
        """Choose by letter."""
        chosen = next((choice for choice in self._choices if choice.key == event.key), None)
        if chosen is not None:
            event.stop()
            self.dismiss(chosen.result)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        results = {f"leave-{choice.key}": choice.result for choice in self._choices}
        self.dismiss(results.get(str(event.button.id)))

    def action_stay(self) -> None:
        """Close the dialog; the console stays open."""
        self.dismiss(None)
