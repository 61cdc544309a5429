"""Frames: a panel is an idea, with its title in the upper edge and a note in the lower one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.severity import Severity
from k2ktui.present.formatting import Line
from k2ktui.text import safe_text

# The corners and blanks around a text in the edge of a frame; of a rule, whose note follows its
# title after two blanks.
_CORNERS, _RULE = 6, 4
_LONGEST = 200
# From so many cells on, parts stand beside each other; with so many lines, in whole frames.
WIDE, HIGH = 120, 32
_MARKS = {Severity.BAD: "-bad", Severity.WARN: "-warn"}


def is_wide(screen: Screen[Any]) -> bool:
    """Return whether parts of a screen stand beside each other.

    By its size: Textual sets the class ``-wide`` after the screen's own handlers of a new size, so
    what these lay out by the class would be for the earlier size.
    """
    return screen.size.width >= WIDE


def side_width(screen: Screen[Any]) -> int:
    """Return the cells of a panel beside a table, with its frame; as in the style sheet."""
    return max(44, min(80, round(screen.size.width * 0.36)))


def is_framed(screen: Screen[Any]) -> bool:
    """Return whether panels of a screen have whole frames; see :func:`is_wide`."""
    return is_wide(screen) and screen.size.height >= HIGH


class Panel(Container):
    """A frame around widgets.

    The frame of the panel with the focus has the accent color, that of one with a problem the color
    of the worst. On a low or narrow terminal it is a rule on top, and the note follows the title.

    Args:
        title: of the upper edge; names in it are sanitized.
        children: what it frames.
        note: of the lower edge: a count, a window.
        id: of the widget.
    """

    def __init__(
        self, title: str, *children: Widget, note: str = "", id: str | None = None
    ) -> None:
        super().__init__(*children, id=id)
        self._title = title
        self._note: tuple[str, ...] = (note,)

    def on_mount(self) -> None:
        """Write the edges."""
        self._write()

    def on_resize(self) -> None:
        """Move the note if the lower edge has come or gone."""
        self._write()

    @property
    def title_text(self) -> str:
        """The title."""
        return self._title

    def label(self, title: str, *note: str) -> None:
        """Set the title and the parts of the note; last parts that do not fit are left out."""
        if (title, note) != (self._title, self._note):
            self._title, self._note = title, note
            self._write()

    def mark(self, severity: Severity | None) -> None:
        """Give the frame the color of a problem; none below a warning, or if it is unknown."""
        for level, name in _MARKS.items():
            self.set_class(level is severity, name)

    def _write(self) -> None:
        # As content: names may look like markup.
        title = safe_text(self._title, _LONGEST)
        has_lower_edge = self.styles.border_bottom[0] not in ("", "none")
        taken = _CORNERS if has_lower_edge else cell_len(title) + _RULE
        room = self.outer_size.width - taken if self.outer_size else _LONGEST
        note = safe_text(_fitting(self._note, room, glyphs_of(self).text(" …")), _LONGEST)
        if note and not has_lower_edge:
            title, note = f"{title}  {note}", ""
        if self.border_title != Content(title):
            self.border_title = Content(title)
        if self.border_subtitle != Content(note):
            self.border_subtitle = Content(note)


def _fitting(parts: Sequence[str], room: int, more: str) -> str:
    """Return the parts that fit, followed by ``more`` if some do not."""
    shown = list(parts)
    text = "".join(shown).strip()
    while len(shown) > 1 and cell_len(text) > room:
        shown.pop()
        text = "".join(shown).strip() + more
    return text


class Tile(Panel):
    """A panel with a few lines: a figure, and its shape below it."""

    def compose(self) -> ComposeResult:
        """Yield the lines."""
        yield TextLines()

    def show(self, lines: Sequence[Line], severity: Severity | None = None) -> None:
        """Show lines; the severity colors the frame."""
        self.mark(severity)
        self.query_one(TextLines).show(lines)

    @property
    def text(self) -> str:
        """The shown text."""
        return self.query_one(TextLines).text

    @property
    def room(self) -> tuple[int, int]:
        """Cells and lines of the content."""
        size = self.content_size
        return size.width, size.height
