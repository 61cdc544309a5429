"""A few lines of text with tones; a line is redrawn only if it has changed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Region, Size
from textual.strip import Strip

from k2ktui.console._textual import lay_out_again
from k2ktui.console.widgets.styled_text import StyledText, plain
from k2ktui.present.formatting import Line


class TextLines(StyledText):
    """Shows lines; its height is their number unless the style sheet sets another one."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """The shown lines."""
        return self._lines

    @property
    def text(self) -> str:
        """The shown text, without tones."""
        return "\n".join(plain(line) for line in self._lines)

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the shown lines."""
        before, self._lines = self._lines, tuple(lines)
        if len(before) != len(self._lines):
            lay_out_again(self)
            return
        for y, (old, new) in enumerate(zip(before, self._lines, strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        line = self._lines[y] if y < len(self._lines) else ()
        return self.strip_of(line, self.size.width)
