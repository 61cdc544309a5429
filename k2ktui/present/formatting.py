"""How values are displayed: numbers, ages, and status as glyph, word and tone.

An unknown value is never shown as zero: ``…`` is not yet known, ``—`` is not available, ``≈`` is
stale; ``≥`` is at least, where a part of a sum is not known.

A tone is a name to which the theme assigns a color. Every name from Kafka must pass through
``safe_text`` before it is displayed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.text import duration as duration
from k2ktui.text import moment as moment
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.engine.trend import Direction

NOT_YET, NOT_AVAILABLE, STALE, AT_LEAST = "…", "—", "≈", "≥"
_LONGEST = 512


class Tone(StrEnum):
    """The meaning of a text; styled by ``tone--…`` in the style sheet."""

    PLAIN = "plain"
    OK = "ok"
    INFO = "info"
    WARN = "warn"
    UNKNOWN = "unknown"
    BAD = "bad"
    MUTED = "muted"
    HEADING = "heading"
    ACCENT = "accent"
    CHIP = "chip"
    PRODUCTION = "production"
    ACTIVE = "active"


_TONES = {
    Severity.OK: Tone.OK,
    Severity.INFO: Tone.INFO,
    Severity.WARN: Tone.WARN,
    Severity.UNKNOWN: Tone.UNKNOWN,
    Severity.BAD: Tone.BAD,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A short text and its tone; one of several tones has ``parts``, whose texts are its text."""

    text: str
    tone: Tone = Tone.PLAIN
    parts: tuple[Cell, ...] = ()


Line = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs of one character set; terminals without Unicode get ``ASCII``."""

    status: tuple[str, str, str, str, str]
    # In the order of Direction.
    directions: tuple[str, str, str, str]
    bars: str
    shades: str
    arrow: str
    sorted_up: str
    sorted_down: str
    stale: str
    ascii: bool = False

    def mark(self, verdict: SeverityLabel) -> Cell:
        """Return a status as a glyph and a word."""
        text = f"{self.status[verdict.severity]} {verdict.word}".lstrip()
        return Cell(text, tone_of(verdict.severity))

    def aged(self, cell: Cell) -> Cell:
        """Return a stale value, marked so that it looks stale in any theme.

        A status that is not a problem loses its glyph; one that is a problem keeps it.
        """
        text = cell.text
        if cell.parts:
            return Cell(text, Tone.MUTED, tuple(Cell(part.text, Tone.MUTED) for part in cell.parts))
        if not text.strip() or text.startswith((NOT_AVAILABLE, NOT_YET, STALE)):
            return cell
        worse = self.status[Severity.WARN :]
        sign, _, word = text.partition(" ")
        if word and sign in worse:
            return Cell(f"{sign} {STALE}{word}", cell.tone)
        if word and sign in self.status:
            return Cell(f"{STALE} {word}", Tone.MUTED)
        tone = cell.tone if cell.tone in (Tone.WARN, Tone.BAD, Tone.UNKNOWN) else Tone.MUTED
        return Cell(f"{STALE}{text}", tone)

    def direction(self, direction: Direction) -> str:
        """Return the sign of a value's trend; a blank while the trend is unknown."""
        return self.directions[list(type(direction)).index(direction)]

    def spark(self, values: Sequence[float | None], width: int) -> str:
        """Return the last values as bars from 0 to the largest; unknown values are gaps."""
        shown = list(values)[-width:]
        largest = max((v for v in shown if v is not None), default=0.0)
        top = len(self.bars) - 1
        return "".join(
            " " if v is None else self.bars[0 if largest <= 0 else round(v / largest * top)]
            for v in shown
        )

    def text(self, text: str) -> str:
        """Return a program text with its signs replaced by those of this character set."""
        if not self.ascii:
            return text
        return text.translate(_PLAIN)


_PLAIN = str.maketrans(
    {"…": "..", "—": "-", "≈": "~", "→": ">", "\u203a": ">", "·": "|", "\u2013": "-"}
    | {"\u00d7": "x", "▲": "^", "▼": "v", "≥": ">="}
)
UNICODE = Glyphs(
    ("●", "○", "▲", "?", "✗"), ("↗", "↘", "→", " "), "▁▂▃▄▅▆▇█", " ░▒▓█", "→", "▲", "▼", "≈"
)
ASCII = Glyphs(
    ("+", "-", "!", "?", "X"),
    ("/", "\\", "-", " "),
    "_.-=+*%#",
    " .:+#",
    "->",
    "^",
    "v",
    "~",
    True,
)

# Text output has words alone: programs read it.
WORDS = replace(UNICODE, status=("",) * 5)


def tone_of(severity: Severity) -> Tone:
    """Return the tone of a severity."""
    return _TONES[severity]


def name(value: object, limit: int = _LONGEST) -> str:
    """Return a name from Kafka, sanitized for display."""
    return safe_text(value, limit)


def message(value: object, limit: int = _LONGEST) -> str:
    """Return a message, with its names escaped, sanitized for display."""
    return safe_message(value, limit)


def number(value: float | None, *, known: bool = True) -> str:
    """Return a count or an offset; ``known`` is False if its part of the view is not yet read."""
    if value is None:
        return NOT_AVAILABLE if known else NOT_YET
    return f"{value:,.0f}"


def at_least(value: int, unknown: int) -> str:
    """Return a sum; ``unknown`` is the number of parts that are not in it."""
    return f"{AT_LEAST if unknown else ''}{value:,}"


def signed(value: int | None) -> str:
    """Return a difference with its sign."""
    return NOT_AVAILABLE if value is None else f"{value:+,}" if value else "0"


def share(value: float | None, *, known: bool = True) -> str:
    """Return a fraction (0 to 1) as a percentage; less than 1 is never rounded up to 100 %."""
    if value is None:
        return NOT_AVAILABLE if known else NOT_YET
    percent = 100 * value
    return f"{min(percent, 99.9) if value < 1 else percent:.1f} %"


def seconds(value: float | None, *, known: bool = True) -> str:
    """Return a delay in seconds as text."""
    if value is None:
        return NOT_AVAILABLE if known else NOT_YET
    return duration(value, tenths=True)


def utc_time(at: float) -> str:
    """Return the time of day in UTC."""
    return time.strftime("%H:%M:%S", time.gmtime(at))


def age(value: float | None) -> str:
    """Return an age in coarse steps, so that a fresh value is not redrawn every second."""
    if value is None:
        return NOT_YET
    if value < 60:
        step = 10 * (int(value) // 10 + 1)
        return f"<{step} s"
    return duration(value - value % (10 if value < 600 else 60))


def short_age(value: float) -> str:
    """Return an age in its largest unit alone, for a cell of a table."""
    return "<1 m" if value < 60 else " ".join(duration(value).split()[:2])
