"""Help for the current screen: what it shows, its keys with their ids, its signs."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content

from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.visuals.panel import WIDE
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.footer import key_name, rank_of_key, sorted_bindings
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.severity import Severity
from k2ktui.present.formatting import Cell, Line, Tone, tone_of
from k2ktui.text import safe_text

_WORDS = {
    Severity.OK: "healthy",
    Severity.INFO: "in progress; nothing to do",
    Severity.WARN: "needs attention, not urgent",
    Severity.UNKNOWN: "unknown",
    Severity.BAD: "records would be lost or skipped, or nothing is copied",
}
_WIDEST = 150
_SIGN = 4  # the cells of a sign and the blanks around it
_HEADINGS = (
    "Keys of this screen, with their ids for keys.yaml",
    "Keys of every table",
    "Keys of every screen",
)


class Help(Dialog[None]):
    """The help of a screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "close", "Close"),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, of: ConsoleScreen) -> None:
        super().__init__()
        self._of = of

    def compose(self) -> ComposeResult:
        """Yield the scrollable text."""
        with VerticalScroll(id="help") as frame:
            frame.border_title = Content(self._title())
            frame.border_subtitle = "Esc closes, j and k scroll"
            with Container(id="help-columns"):
                yield TextLines(id="help-lines")
                yield TextLines(id="help-keys")

    def on_mount(self) -> None:
        """Focus the text, so that keys scroll it."""
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        """Fill in the text, beside each other or below each other as there is room."""
        wide = self.app.size.width >= WIDE
        columns = self.query_one("#help-columns")
        columns.styles.layout = "horizontal" if wide else "vertical"
        frame = self.query_one(VerticalScroll)
        frame.set_class(wide, "-two")
        room = min(_WIDEST, self.app.size.width * 96 // 100 - 6)
        width = max(30, (room - 4) // 2) if wide else self.text_width
        about, keys, signs = self._about(width), self._keys(width), self._signs(width)
        # Beside each other, what the screen shows and the keys; below each other, the signs last.
        first = [*about, *(signs if wide else ())]
        self.query_one("#help-lines", TextLines).show(first)
        self.query_one("#help-keys", TextLines).show([*keys, *(() if wide else signs)][:-1])

    def _title(self) -> str:
        entry = next((e for e in self._of.console.entries if e.id == self._of.ENTRY), None)
        named = [part for part in (entry.title if entry else "", self._of.crumb) if part]
        return safe_text(": ".join(["Help", *named]), 80)

    def _about(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for paragraph in (self._of.HELP or "").strip().split("\n\n"):
            text = " ".join(paragraph.split())
            lines += [(Cell(part),) for part in textwrap.wrap(text, width)]
            lines.append(())
        may = self._of.session.access
        if not may.writable:
            lines += [(Cell(f"Changes are off: {may.reason}.", Tone.WARN),), ()]
        return lines

    def _signs(self, width: int) -> list[Line]:
        glyphs = glyphs_of(self)
        lines: list[Line] = [(Cell("Signs", Tone.HEADING),)]
        for severity, words in _WORDS.items():
            first, *rest = textwrap.wrap(words, width - _SIGN)
            lines.append((Cell(f"  {glyphs.status[severity]} ", tone_of(severity)), Cell(first)))
            lines += [(Cell(" " * _SIGN + text),) for text in rest]
        for sign, words in (
            ("…", "not known yet"),
            ("—", "not available"),
            ("≈", "stale: read by an earlier poll, shown with its age"),
        ):
            lines.append((Cell(f"  {sign} ", Tone.MUTED), Cell(words)))
        return [*lines, ()]

    def _keys(self, width: int) -> list[Line]:
        """Return the keys: the screen's own, those of every table, those of every screen."""
        lines: list[Line] = []
        before = -1
        for active in sorted_bindings(self._of):
            binding = active.binding
            if not binding.description or binding.system or not binding.id:
                continue
            if binding.id.startswith("screen."):
                continue  # listed by title below
            if rank_of_key(binding) != before:
                before = rank_of_key(binding)
                lines += [*([()] if lines else []), (Cell(_HEADINGS[before], Tone.HEADING),)]
            tone = Tone.PLAIN if active.enabled else Tone.MUTED
            key = key_name(self.app, binding, plain=glyphs_of(self).ascii)
            text = f"  {key:<10} {binding.description:<18}"
            lines.append((Cell(text, tone), Cell(binding.id, Tone.MUTED)))
        for entry in self._of.console.entries:
            text = f"  {entry.key:<10} {entry.title:<18}"
            lines.append((Cell(text), Cell(entry.key_id, Tone.MUTED)))
        return [*lines, ()]

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_close(self) -> None:
        """Close the help."""
        self.dismiss()
