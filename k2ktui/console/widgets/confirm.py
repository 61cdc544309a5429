"""Confirmation before a cluster is changed: a name must be typed, and Enter confirms nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input

from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone, name
from k2ktui.text import safe_message

_SHARE = 0.94  # of the screen's height, as in the style sheet
# Frame, title, field, buttons and the lines between them.
_OTHER_LINES = 10


def dialog_height(screen_height: int) -> int:
    """Return the largest height of a dialog in lines."""
    return int(screen_height * _SHARE)


class _SpaceButton(Button, inherit_bindings=False):
    """A button that only the space bar presses; Enter is too often pressed by habit.

    With the focus it has brackets, which are seen without any color.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "press", "Press")]

    def __init__(self, text: str, *, id: str, disabled: bool = False) -> None:
        super().__init__(Content(f"  {text}  "), id=id, disabled=disabled)
        self._text = text

    def on_focus(self) -> None:
        """Mark it."""
        self.label = Content(f"[ {self._text} ]")

    def on_blur(self) -> None:
        """Remove the mark."""
        self.label = Content(f"  {self._text}  ")


class _NameInput(Input):
    """The field for the name."""

    async def on_key(self, event: events.Key) -> None:
        """Leave the field on Tab and Enter, if the name is right."""
        if event.key in ("tab", "enter"):
            event.stop()
            event.prevent_default()
            screen = self.screen
            if isinstance(screen, Confirm):
                screen.leave_field()


class Confirm(Dialog[bool]):
    """A dialog whose result is whether the operator agreed.

    The focus starts on the field for the name, and stays there until it holds the name: a wrong
    name, Tab and space would otherwise press Cancel. The button is enabled only then, so that keys
    meant for the previous screen change nothing.

    Args:
        title: what will happen.
        lines: the details: what is changed, what is not, how to undo it; texts and lines of one
            cell are wrapped.
        typed: the name that must be typed, such as the pipeline's.
        label: label of the button that confirms, a verb.
        canceled: what is said after it was closed without an agreement.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel"),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("pageup", "scroll(-8)", "Page up", show=False),
        Binding("pagedown", "scroll(8)", "Page down", show=False),
    ]

    def __init__(
        self,
        title: str,
        lines: Sequence[str | Line],
        typed: str,
        label: str,
        *,
        canceled: str = "Nothing was changed.",
    ) -> None:
        super().__init__()
        self._title, self._lines, self._typed, self._label = title, lines, typed, label
        self._canceled = canceled

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="confirm"):
            yield TextLines(id="confirm-title")
            with VerticalScroll(id="confirm-text", can_focus=False):
                yield TextLines(id="confirm-lines")
            yield TextLines(id="confirm-state")
            yield _NameInput(id="confirm-name", select_on_focus=False)
            with Horizontal(id="confirm-buttons"):
                yield _SpaceButton(self._label, id="confirm-do", disabled=True)
                yield _SpaceButton("Cancel", id="confirm-cancel")

    def on_mount(self) -> None:
        """Show the texts and focus the field."""
        self.query_one("#confirm-title", TextLines).show([(Cell(self._title, Tone.HEADING),)])
        self._ask()

    def on_resize(self) -> None:
        """Wrap the details, and give them the lines that the rest of the dialog leaves."""
        self._show()
        self.give_room()

    def give_room(self) -> None:
        """Let the details scroll in what the rest leaves: the buttons are always on the screen."""
        state = len(self.query_one("#confirm-state", TextLines).lines)
        height = dialog_height(self.app.size.height) - _OTHER_LINES - state
        self.query_one("#confirm-text").styles.max_height = max(1, height)

    def _show(self) -> None:
        """Show the details."""
        lines: list[Line] = []
        for detail in self._lines:
            line = (Cell(detail),) if isinstance(detail, str) else detail
            if len(line) == 1:
                parts = textwrap.wrap(safe_message(line[0].text), self.text_width) or [""]
                lines += [(Cell(part, line[0].tone),) for part in parts]
            else:
                lines.append(line)
        self.query_one("#confirm-lines", TextLines).show(lines)

    def _ask(self) -> None:
        """Focus the field, with what to type as its title."""
        field = self.query_one(Input)
        # As content, because a name may look like markup.
        field.border_title = Content(f"type {name(self._typed, 60)} to {self._label.lower()}")
        self._show_next("")
        field.focus()

    def why_not_yet(self) -> str:
        """Return why the button is disabled whatever is typed; empty if it is not."""
        return ""

    @property
    def matches(self) -> bool:
        return self.query_one(Input).value.strip() == self._typed

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self._show_next("")

    def _next_key(self) -> str:
        """Return which key comes next, where the focus is now."""
        focused = self.focused.id if self.focused is not None else ""
        after = {"confirm-do": "space applies; Esc cancels", "confirm-cancel": "space cancels"}
        return after.get(focused or "", "then Tab and space; Esc cancels")

    def _show_next(self, wrong: str) -> None:
        """Show at the foot of the field what comes next, or why Tab does nothing."""
        why_not = self.why_not_yet()
        text = wrong or (f"{why_not}; Esc cancels" if why_not else self._next_key())
        field = self.query_one(Input)
        field.set_class(bool(wrong), "-wrong")
        field.border_subtitle = Content(text)

    def update_button(self) -> None:
        """Enable the button if the name matches, and nothing else prevents it."""
        ready = self.matches and not self.why_not_yet()
        self.query_one(Input).set_class(ready, "-matches")
        self.query_one("#confirm-do").disabled = not ready
        self._show_next("")

    def leave_field(self) -> None:
        """Focus the button if it can be pressed; otherwise stay, and say why."""
        self.update_button()
        if not self.matches:
            self._show_next("this is not the name; Esc cancels")
        elif not self.why_not_yet():
            # At once: the next key may be queued behind this one.
            self.set_focus(self.query_one("#confirm-do"))

    @on(Input.Changed)
    def _typed_more(self) -> None:
        self.update_button()

    @on(Button.Pressed, "#confirm-cancel")
    def _cancelled(self) -> None:
        self.cancel(False)

    @on(Button.Pressed, "#confirm-do")
    def _pressed(self) -> None:
        if self.matches and not self.why_not_yet():
            self.dismiss(True)

    def what_canceling_means(self) -> str:
        """Return what is said after the dialog was closed without an agreement."""
        return self._canceled

    def action_scroll(self, by: int) -> None:
        """Scroll the details by lines."""
        self.query_one("#confirm-text").scroll_relative(y=by, animate=False)

    def action_cancel(self) -> None:
        """Close the dialog without a change."""
        self.cancel(False)
