"""Confirmation before a cluster is changed: a key counts once what it will do has been drawn."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.strip import Strip
from textual.widgets import Button, Input

from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone, name
from k2ktui.text import safe_message

T = TypeVar("T")
_SHARE = 0.94  # of the screen's height, as in the style sheet
# Frame, title, field, buttons and the lines between them.
_OTHER_LINES = 10
# Frame and spaces around the title of the field.
_FRAME = 4
_LISTED = 8


def list_first(items: Sequence[T], text: Callable[[T], str]) -> list[str]:
    """Return lines of a dialog: the first of many items, safe to show, and how many more.

    The text of an item that is not listed is not asked for: there may be thousands.
    """
    more = [f"  … and {len(items) - _LISTED:,} more"] if len(items) > _LISTED else []
    return [*(f"  {safe_message(text(item))}" for item in items[:_LISTED]), *more]


def dialog_height(screen_height: int) -> int:
    """Return the largest height of a dialog in lines."""
    return int(screen_height * _SHARE)


class _SeenLines(TextLines):
    """Lines that know since when each of them is on the screen."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._drawn: dict[int, tuple[Line, float]] = {}

    def render_line(self, y: int) -> Strip:
        """Draw one line, and note when it was drawn first as it is now."""
        line = self.lines[y] if y < len(self.lines) else ()
        if y not in self._drawn or self._drawn[y][0] != line:
            self._drawn[y] = (line, time.monotonic())
        return super().render_line(y)

    def draw_again(self) -> None:
        """Draw all lines again: another screen was in front of them."""
        self._drawn.clear()
        self.refresh()

    def were_drawn(self, at: float) -> bool:
        """Return whether all lines that have room were drawn, as they are now, before a time."""
        if not self.lines:
            return True
        place = self.screen.find_widget(self)
        if place.region.height != len(self.lines):
            return False  # not laid out yet
        first = place.visible_region.y - place.region.y
        for y, line in enumerate(self.lines[first : first + place.visible_region.height], first):
            drawn, since = self._drawn.get(y, ((), at))
            if drawn != line or since >= at:
                return False
        return True


class _Button(Button, inherit_bindings=False):
    """A button whose dialog decides what presses it.

    With the focus it has brackets, which are seen without any color.
    """

    def __init__(self, text: str, *, id: str, disabled: bool = False) -> None:
        super().__init__(Content(f"  {text}  "), id=id, disabled=disabled)
        self._text = text
        # When the mouse button went down for the click that follows.
        self._down_at = 0.0

    def on_focus(self) -> None:
        """Mark it."""
        self.label = Content(f"[ {self._text} ]")

    def on_blur(self) -> None:
        """Remove the mark."""
        self.label = Content(f"  {self._text}  ")

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Note when it was aimed at."""
        self._down_at = event.time

    def on_click(self, event: events.Click) -> None:
        """Let the dialog decide, in place of Textual's button."""
        event.stop()
        event.prevent_default()
        down_at, self._down_at = self._down_at, 0.0
        if isinstance(self.screen, Confirm):
            self.screen.press_button(self, "click", down_at)


class Confirm(Dialog[bool]):
    """A dialog whose result is whether the operator agreed.

    The focus starts on the field for the name, and stays there until it holds the name: a wrong
    name, Tab and space would otherwise press Cancel. Enter on the right name applies what can be
    taken back. Anything else needs Tab and space, because Enter is too often pressed by habit.

    Nothing is applied unseen: a key or click counts only if it came after everything that the
    dialog shows was drawn, as it is now. Enter does not count right behind other keys, as at the
    end of a paste, nor while it repeats.

    Args:
        title: what will happen.
        lines: the details: what is changed, what is not, how to undo it; texts and lines of one
            cell are wrapped. None while they are read: :meth:`show_details` shows them.
        typed: the name that must be typed, such as the pipeline's; None for a dialog without it.
        label: label of the button that confirms, a verb.
        canceled: what is said after it was closed without an agreement.
        undoable: whether what is applied can be taken back.
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
        lines: Sequence[str | Line] | None,
        typed: str | None,
        label: str,
        *,
        canceled: str = "Nothing was changed.",
        undoable: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._lines, self._typed, self._label = title, lines, typed, label
        self._canceled, self._undoable = canceled, undoable
        self._is_withdrawn = False

    def compose(self) -> ComposeResult:
        """Build the dialog."""
        with Vertical(id="confirm"):
            yield _SeenLines(id="confirm-title")
            with VerticalScroll(id="confirm-text", can_focus=False):
                yield _SeenLines(id="confirm-lines")
            yield _SeenLines(id="confirm-state")
            if self._typed is not None:
                yield Input(id="confirm-name", select_on_focus=False)
            with Horizontal(id="confirm-buttons"):
                yield _Button(self._label, id="confirm-do", disabled=True)
                yield _Button("Cancel", id="confirm-cancel")

    def on_mount(self) -> None:
        """Show the title, and focus the field."""
        self.query_one("#confirm-title", TextLines).show([(Cell(self._title, Tone.HEADING),)])
        if self._typed is not None:
            self.query_one(Input).focus()
        self.update_button()

    def on_resize(self) -> None:
        """Wrap the details again."""
        self._show()

    def on_screen_resume(self) -> None:
        """Draw everything again: what was in front may have hidden changes."""
        for lines in self.query(_SeenLines):
            lines.draw_again()
        if self._is_withdrawn:
            self.call_after_refresh(self.withdraw)

    # Details

    def show_details(self, lines: Sequence[str | Line]) -> None:
        """Show the details that were read."""
        self._lines = lines
        if self.query("#confirm-cancel"):  # composed
            self._show()
            self.update_button()

    def withdraw(self) -> None:
        """Close it, now or when it is in front again: there is nothing to agree to."""
        self._is_withdrawn = True
        self.dismiss(False)

    def details(self) -> list[Line]:
        """Return the details, wrapped."""
        lines: list[Line] = []
        for detail in self._lines or ():
            line = (Cell(detail),) if isinstance(detail, str) else detail
            lines += self._wrapped(line[0]) if len(line) == 1 else [line]
        return lines

    def state(self) -> list[Line]:
        """Return what stands below the details."""
        return [(Cell("reading …", Tone.INFO),)] if self._lines is None else []

    def _wrapped(self, cell: Cell) -> list[Line]:
        parts = textwrap.wrap(safe_message(cell.text), self.text_width) or [""]
        return [(Cell(part, cell.tone),) for part in parts]

    def _show(self) -> None:
        """Show details and state; the details scroll in what the rest leaves."""
        self.query_one("#confirm-lines", TextLines).show([*self._ask(), *self.details()])
        state = self.query_one("#confirm-state", TextLines)
        state.show(self.state())
        height = dialog_height(self.app.size.height) - _OTHER_LINES - len(state.lines)
        self.query_one("#confirm-text").styles.max_height = max(1, height)

    def _ask(self) -> list[Line]:
        """Show what to type as the field's title; return it as details if it has no room there."""
        if self._typed is None:
            return []
        what = f"to {self._label.lower()}"
        room = self.text_width - len(f"type  {what}") - _FRAME
        whole, shown = name(self._typed, len(self._typed) * 10), name(self._typed, max(8, room))
        # As content, because a name may look like markup.
        self.query_one(Input).border_title = Content(f"type {shown} {what}")
        return [] if shown == whole else self._wrapped(Cell(f"Type {whole}", Tone.HEADING))

    # The next key

    def why_not_yet(self) -> str:
        """Return why the button is disabled whatever is typed; empty if it is not."""
        return "reading the details" if self._lines is None else ""

    @property
    def matches(self) -> bool:
        return self._typed is None or self.query_one(Input).value.strip() == self._typed

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self._show_next("")

    def _next_key(self) -> str:
        """Return which key comes next, where the focus is now."""
        focused = self.focused.id if self.focused is not None else ""
        if focused == "confirm-cancel":
            return "space cancels"
        if focused == "confirm-do":
            return f"{'Enter or space' if self._undoable else 'space'} applies; Esc cancels"
        return f"then {'Enter, or ' if self._undoable else ''}Tab and space; Esc cancels"

    def _show_next(self, wrong: str) -> None:
        """Show at the foot of the field what comes next, or why a key did nothing."""
        why_not = self.why_not_yet()
        text = f"{wrong or why_not}; Esc cancels" if wrong or why_not else self._next_key()
        foot = self.query_one("#confirm" if self._typed is None else "#confirm-name")
        foot.set_class(bool(wrong), "-wrong")
        foot.border_subtitle = Content(text)

    def update_button(self) -> None:
        """Enable the button if the name matches, and nothing else prevents it."""
        ready, button = self.matches and not self.why_not_yet(), self.query_one("#confirm-do")
        button.disabled = not ready
        if self._typed is not None:
            self.query_one(Input).set_class(ready, "-matches")
        elif ready:
            self.set_focus(button)
        self._show_next("")

    @on(Input.Changed)
    def _typed_more(self) -> None:
        self.update_button()

    def on_key(self, event: events.Key) -> None:
        """Let Tab, Enter and space do what the focus allows."""
        focused = self.focused
        if event.key == "tab" and isinstance(focused, Input):
            self._leave_field()
        elif event.key == "enter":
            if self._undoable and self.matches and focused is not self.query_one("#confirm-cancel"):
                self._agree("Enter", event.time, hasty=self.is_hasty(event))
            elif isinstance(focused, Input):
                self._leave_field()
        elif event.key == "space" and isinstance(focused, _Button):
            # Behind a name, space and Tab may arrive with it.
            hasty = self._typed is None and self.is_hasty(event)
            self.press_button(focused, "space", event.time, hasty=hasty)
        else:
            return
        event.stop()

    def _leave_field(self) -> None:
        """Focus the button if it can be pressed; otherwise stay, and say why."""
        self.update_button()
        if not self.matches:
            self._show_next("this is not the name")
        elif not self.why_not_yet():
            # At once: the next key may be queued behind this one.
            self.set_focus(self.query_one("#confirm-do"))

    def press_button(self, button: Button, how: str, at: float, *, hasty: bool = False) -> None:
        """Cancel or agree, as a key or a click at a time wants."""
        if button.id == "confirm-cancel":
            self.cancel(False)
        else:
            self._agree(how, at, hasty=hasty)

    def _agree(self, how: str, at: float, *, hasty: bool) -> None:
        if not self.matches or self.why_not_yet():
            self.update_button()
        elif hasty or not all(lines.were_drawn(at) for lines in self.query(_SeenLines)):
            self._show_next(f"wait a second, then {how}")
        else:
            self.dismiss(True)

    # Closing

    def what_canceling_means(self) -> str:
        """Return what is said after the dialog was closed without an agreement."""
        return self._canceled

    def action_scroll(self, by: int) -> None:
        """Scroll the details by lines."""
        self.query_one("#confirm-text").scroll_relative(y=by, animate=False)

    def action_cancel(self) -> None:
        """Close the dialog without a change."""
        self.cancel(False)
