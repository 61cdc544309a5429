"""Help for the current screen: what it shows, its signs, its keys with their ids."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Cell, Line, Tone, tone_of
from k2ktui.watch.severity import Severity

_WORDS = {
    Severity.OK: "as it should be",
    Severity.INFO: "on its way, nothing to do",
    Severity.WARN: "look at it when you can",
    Severity.UNKNOWN: "cannot be told",
    Severity.BAD: "records would be lost or skipped, or nothing is copied",
}


class Help(ModalScreen[None]):
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
        with VerticalScroll(id="help"):
            yield TextLines(id="help-lines")

    def on_mount(self) -> None:
        """Fill in the text."""
        width = max(30, min(86, self.app.size.width - 10))
        self.query_one(TextLines).show([*self._about(width), *self._signs(), *self._keys(width)])
        self.query_one(VerticalScroll).focus()

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

    def _signs(self) -> list[Line]:
        glyphs = glyphs_of(self)
        lines: list[Line] = [(Cell("Signs", Tone.HEADING),)]
        for severity, words in _WORDS.items():
            lines.append((Cell(f"  {glyphs.status[severity]} ", tone_of(severity)), Cell(words)))
        for sign, words in (
            ("…", "not known yet"),
            ("—", "not to be had"),
            ("≈", "stale: of an earlier poll, its age beside it"),
        ):
            lines.append((Cell(f"  {sign} ", Tone.MUTED), Cell(words)))
        return [*lines, ()]

    def _keys(self, width: int) -> list[Line]:
        lines: list[Line] = [(Cell("Keys, and their ids for keys.yaml", Tone.HEADING),)]
        entries = ", ".join(f"{e.key} {e.title}" for e in self._of.console.entries)
        lines += [(Cell(f"  {part}"),) for part in textwrap.wrap(entries, width - 4)]
        shown: set[str] = set()
        for active in self._of.active_bindings.values():
            binding = active.binding
            known = str(binding.id or binding.action)
            if not binding.description or binding.system or known in shown or not binding.id:
                continue
            shown.add(known)
            tone = Tone.PLAIN if active.enabled else Tone.MUTED
            key = self.app.get_key_display(binding)
            text = f"  {key:<10} {binding.description:<16}"
            lines.append((Cell(text, tone), Cell(known, Tone.MUTED)))
        return lines

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_close(self) -> None:
        """Close the help."""
        self.dismiss()
