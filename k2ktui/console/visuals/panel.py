"""Frames: a panel is an idea, with its title in the upper edge and a note in the lower one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widget import Widget

from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.present.formatting import Line
from k2ktui.text import safe_text
from k2ktui.watch.severity import Severity

_MARKS = {Severity.BAD: "-bad", Severity.WARN: "-warn"}


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
        self._title, self._note = title, note

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

    def label(self, title: str, note: str = "") -> None:
        """Set title and note."""
        if (title, note) != (self._title, self._note):
            self._title, self._note = title, note
            self._write()

    def mark(self, severity: Severity | None) -> None:
        """Give the frame the color of a problem, or none below a warning."""
        for each, name in _MARKS.items():
            self.set_class(each is severity, name)

    def _write(self) -> None:
        # As content: names may look like markup.
        title, note = safe_text(self._title, 200), safe_text(self._note, 200)
        has_lower_edge = self.styles.border_bottom[0] not in ("", "none")
        if note and not has_lower_edge:
            title, note = f"{title}  {note}", ""
        if self.border_title != Content(title):
            self.border_title = Content(title)
        if self.border_subtitle != Content(note):
            self.border_subtitle = Content(note)


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
