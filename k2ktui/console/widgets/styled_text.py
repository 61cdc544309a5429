"""Shared by widgets that draw lines: styles by tone, and texts fitted to a number of cells."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from k2ktui.present.formatting import ASCII, UNICODE, Cell, Glyphs, Line, Tone
from k2ktui.text import safe_message

TONE_CLASSES = {f"tone--{tone}" for tone in Tone}


def fit(text: str, width: int, *, right: bool = False, ellipsis: str = "…") -> str:
    """Return a text of exactly ``width`` cells; an ellipsis marks a cut."""
    length = cell_len(text)
    if length > width:
        if width <= cell_len(ellipsis):
            return set_cell_size(text, width)
        return set_cell_size(text, width - cell_len(ellipsis)) + ellipsis
    return " " * (width - length) + text if right else text + " " * (width - length)


def wrap(text: str, width: int) -> list[str]:
    """Return a text on lines of at most ``width`` cells; untrusted names in it are sanitized."""
    return [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(safe_message(line), width) or [""]
    ]


def wrap_lines(text: str, width: int, tone: Tone = Tone.PLAIN) -> list[Line]:
    """Return a text as lines of one tone; see :func:`wrap`."""
    return [(Cell(part, tone),) for part in wrap(text, width)]


def drawable(text: str) -> str:
    """Return a text without control sequences; names are sanitized before they come here."""
    return text if text.isprintable() else safe_message(text)


def glyphs_of(widget: Widget) -> Glyphs:
    """Return the character set that the app was started with."""
    return ASCII if getattr(widget.app, "ascii", False) else UNICODE


class StyledText(Widget):
    """Base class of widgets whose texts have tones."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._tones: dict[Tone, Style] = {}

    def notify_style_update(self) -> None:
        """Drop the cached styles when the theme or the focus changes."""
        self._tones = {}
        super().notify_style_update()

    @property
    def glyphs(self) -> Glyphs:
        """The character set of the app."""
        return glyphs_of(self)

    def tone(self, tone: Tone) -> Style:
        """Return the style of a tone on this widget's background."""
        if tone not in self._tones:
            own = self.get_component_rich_style(f"tone--{tone}", partial=True)
            self._tones[tone] = self.rich_style + own
        return self._tones[tone]

    def strip_of(self, line: Line, width: int) -> Strip:
        """Return a line, cut or padded to a width."""
        segments, left = [], width
        for cell in (part for whole in line for part in whole.parts or (whole,)):
            text = self.glyphs.text(drawable(cell.text))
            length = cell_len(text)
            if length > left:
                text, length = fit(text, left, ellipsis=self.glyphs.text("…")), left
            segments.append(Segment(text, self.tone(cell.tone)))
            left -= length
            if left <= 0:
                break
        if left > 0:
            segments.append(Segment(" " * left, self.tone(Tone.PLAIN)))
        return Strip(segments, width).simplify()


def plain(line: Line) -> str:
    """Return a line's text without tones."""
    return "".join(cell.text for cell in line)


def text(value: str, tone: Tone = Tone.PLAIN) -> Cell:
    """Return a cell of a line."""
    return Cell(value, tone)
