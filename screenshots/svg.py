"""A screen of the console as a small SVG: text as text, frames, bars and charts as shapes.

Textual's own pictures leave lines, blocks and braille to the font of whoever looks: frames have
gaps there, and bars are of another height than the text. Here they are drawn as terminals draw
them. Pictures of a film share the lines that they have in common.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape

# A cell, and where a text's baseline is in it.
_WIDE, _HIGH, _BASE = 10, 20, 15
_EDGE, _BAR = 8, 34
# Between the screens of a sheet.
_APART = 16
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_RECT = re.compile(r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"')
_TEXT = re.compile(r'<text class="terminal-(r\d+)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')
_RULE = re.compile(r"\.terminal-(r\d+) \{ fill: (#\w+);?(.*?) \}")
# Of Rich's pictures: a cell, and the first line's offsets of its background and of its text.
_RICH_WIDE, _RICH_HIGH, _RICH_RECT, _RICH_BASE = 12.2, 24.4, 1.5, 20.0
_RICH_MARGIN, _RICH_BAR, _RICH_COLOR = 18, 50, "#292929"
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
_RULES = (
    f"text{{font:16.5px {_FONTS};white-space:pre}}",
    ".b{font-weight:bold}.i{font-style:italic}.u{text-decoration:underline}",
    # The ends of lines overlap, so that frames have no seams.
    ".l{stroke-width:1.5;stroke-linecap:square}.h{stroke-width:3.5}",
    ".o{stroke-width:3.2;stroke-linecap:round;stroke-dasharray:0 5}",
)


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style: their first column, color, and CSS classes."""

    column: int
    text: str
    color: str
    classes: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a screen: its runs, and its backgrounds by first and end column."""

    runs: tuple[Run, ...]
    fills: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen at one moment."""

    columns: int
    rows: tuple[Row, ...]

    @property
    def background(self) -> str:
        """The color of most cells; Rich's if they have none."""
        cells = Counter({_RICH_COLOR: self.columns * len(self.rows)})
        for row in self.rows:
            for start, end, color in row.fills:
                cells[color] += end - start
                cells[_RICH_COLOR] -= end - start
        return cells.most_common(1)[0][0]


def read(picture: str) -> Screen:
    """Return the screen that a picture by Textual shows."""
    styles = {}
    for name, color, rest in _RULE.findall(picture):
        classes = "b" * ("bold" in rest) + " i" * ("italic" in rest) + " u" * ("underline" in rest)
        styles[name] = (color, classes.strip())
    fills: dict[int, list[tuple[int, int, str]]] = {}
    runs: dict[int, list[Run]] = {}
    for color, x, y, width in _RECT.findall(picture):
        row = round((float(y) - _RICH_RECT) / _RICH_HIGH)
        start, cells = round(float(x) / _RICH_WIDE), round(float(width) / _RICH_WIDE)
        found = fills.setdefault(row, [])
        if found and found[-1][1:] == (start, color):
            start = found.pop()[0]
            cells = round(float(x) / _RICH_WIDE) + cells - start
        if cells:
            found.append((start, start + cells, color))
    for name, x, y, text in _TEXT.findall(picture):
        row = round((float(y) - _RICH_BASE) / _RICH_HIGH)
        plain = unescape(text).replace("\xa0", " ")
        runs.setdefault(row, []).append(Run(round(float(x) / _RICH_WIDE), plain, *styles[name]))
    width, height = (float(side) for side in _SIZE.findall(picture)[0])
    rows = tuple(
        Row(tuple(runs.get(number, ())), tuple(fills.get(number, ())))
        for number in range(round((height - _RICH_BAR) / _RICH_HIGH))
    )
    return Screen(round((width - _RICH_MARGIN) / _RICH_WIDE), rows)


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen of a film, what is pressed before it, what it shows, and for how many seconds."""

    screen: Screen
    caption: str = ""
    key: str = ""
    seconds: float = 4.0


def draw(frames: Sequence[Frame], columns: int = 0) -> str:
    """Return one SVG of screens of the same size: a still of one, a film without end of several.

    Who asks for reduced motion sees the first one. With ``columns``, it is a sheet of all of them,
    with so many side by side.
    """
    pen = _Pen(frames[0].screen)
    width, height = pen.size
    drawn = [pen.frame(frame, number, len(frames)) for number, frame in enumerate(frames)]
    back = f'<rect width="{width}" height="{height}" rx="8" fill="{pen.background}"/>\n'
    if columns:
        apart = (width + _APART, height + _APART)
        body = "\n".join(
            f'<g transform="translate({apart[0] * (n % columns)} {apart[1] * (n // columns)})">'
            f"{back}{markup}</g>"
            for n, markup in enumerate(drawn)
        )
        film: Iterable[str] = ()
        width = apart[0] * columns - _APART
        height = apart[1] * math.ceil(len(drawn) / columns) - _APART
        back = ""
    elif len(frames) > 1:
        strip = (f'<g transform="translate({n * width})">{f}</g>' for n, f in enumerate(drawn))
        body = '<g id="film">' + "\n".join(strip) + "</g>"
        film = _film_rules([frame.seconds for frame in frames], width)
    else:
        body, film = drawn[0], ()
    style = "\n".join((*_RULES, *pen.rules(), *film))
    shared = "\n".join(pen.shared)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n'
        f"<style>\n{style}\n</style>\n<defs>\n{shared}\n</defs>\n"
        f"{back}{body}\n</svg>\n"
    )


def size_of(screen: Screen) -> tuple[int, int]:
    """Return width and height of a picture of a screen, with its bar."""
    return screen.columns * _WIDE + 2 * _EDGE, len(screen.rows) * _HIGH + _BAR + _EDGE


def _film_rules(seconds: Sequence[float], width: int) -> Iterator[str]:
    whole, begun = sum(seconds), 0.0
    steps = []
    for number, part in enumerate(seconds):
        steps.append(f"{100 * begun / whole:.4g}%{{transform:translateX({-number * width}px)}}")
        begun += part
    yield "@keyframes film{" + "".join(steps) + "}"
    yield f"#film{{animation:film {whole:g}s step-end infinite}}"
    yield "@media (prefers-reduced-motion:reduce){#film{animation:none}}"


class _Pen:
    """Draws lines, each once."""

    def __init__(self, screen: Screen) -> None:
        self.background = screen.background
        # Not that of each screen: a dialog dims what is below it, but not what the bar says.
        self._strong = _strongest(screen)
        self.size = size_of(screen)
        self.shared: list[str] = []
        self._ids: dict[str, str] = {}
        self._colors: dict[str, str] = {}

    def rules(self) -> Iterator[str]:
        """Yield the CSS rules of the colors."""
        for color, name in self._colors.items():
            yield f".{name}{{fill:{color}}}.{name}s{{fill:none;stroke:{color}}}"

    def frame(self, frame: Frame, number: int, count: int) -> str:
        """Return a screen under a bar that says what it shows."""
        uses = []
        for line, row in enumerate(frame.screen.rows):
            markup = "".join(self._row(row))
            if markup:
                y = _BAR + line * _HIGH
                uses.append(f'<use href="#{self._id(markup)}" x="{_EDGE}" y="{y}"/>')
        return "".join((*self._bar(frame, number, count), *uses))

    def _bar(self, frame: Frame, number: int, count: int) -> Iterator[str]:
        gray = self._color("#7f7f7f")
        strong = self._color(self._strong)
        width = self.size[0]
        x = _EDGE + _WIDE
        if count == 1:
            yield f'<text x="{width // 2}" y="23" text-anchor="middle" class="{gray}">k2ktui</text>'
            return
        if frame.key:
            wide = len(frame.key) * _WIDE + 12
            yield (
                f'<rect x="{x}" y="7" width="{wide}" height="22" rx="4" class="{gray}s l"/>'
                f'<text x="{x + 6}" y="23" class="{strong} b">{escape(frame.key)}</text>'
            )
            x += wide + _WIDE
        yield f'<text x="{x}" y="23" class="{strong}">{escape(frame.caption)}</text>'
        place = f"{number + 1}/{count}"
        end = width - _EDGE - _WIDE
        yield f'<text x="{end}" y="23" text-anchor="end" class="{gray}">{place}</text>'

    def _id(self, markup: str) -> str:
        known = self._ids.get(markup)
        if known is None:
            known = self._ids[markup] = f"l{len(self._ids)}"
            self.shared.append(f'<g id="{known}">{markup}</g>')
        return known

    def _color(self, color: str) -> str:
        return self._colors.setdefault(color, f"c{len(self._colors)}")

    def _row(self, row: Row) -> Iterator[str]:
        paths: dict[str, list[str]] = {}
        for start, end, color in row.fills:
            if color != self.background:
                box = f"M{start * _WIDE} 0h{(end - start) * _WIDE}v{_HIGH}H{start * _WIDE}z"
                paths.setdefault(self._color(color), []).append(box)
        for name, parts in paths.items():
            yield f'<path class="{name}" d="{"".join(parts)}" shape-rendering="crispEdges"/>'
        shapes: dict[str, list[str]] = {}
        texts = []
        for run in row.runs:
            name = self._color(run.color)
            for column, text in _parts(run):
                drawn = _shapes(column, text)
                if drawn is None:
                    texts.append(_text(column, text, f"{name} {run.classes}".strip()))
                    continue
                for kind, path in drawn:
                    style = name if not kind else f"{name}s {kind}"
                    style = f'{name}" opacity="{kind}' if kind[:1] == "." else style
                    shapes.setdefault(style, []).append(path)
        for style, parts in shapes.items():
            yield f'<path class="{style}" d="{"".join(parts)}"/>'
        yield from texts


def _strongest(screen: Screen) -> str:
    """Return the color of most letters."""
    letters: Counter[str] = Counter()
    for row in screen.rows:
        for run in row.runs:
            letters[run.color] += sum(map(str.isalpha, run.text))
    return letters.most_common(1)[0][0]


def _parts(run: Run) -> Iterator[tuple[int, str]]:
    """Yield the words, and the runs of one drawn character, with their columns."""
    for match in re.finditer(_PART, run.text):
        yield run.column + match.start(), match[0]


def _text(column: int, text: str, classes: str) -> str:
    length = f' textLength="{len(text) * _WIDE}"' if len(text) > 1 else ""
    return f'<text x="{column * _WIDE}" y="{_BASE}" class="{classes}"{length}>{escape(text)}</text>'


# Weights of a frame's lines up, right, down and left: light and heavy ones.
_ARMS = {
    "─": (0, 1, 0, 1), "│": (1, 0, 1, 0), "┌": (0, 1, 1, 0), "┐": (0, 0, 1, 1),
    "└": (1, 1, 0, 0), "┘": (1, 0, 0, 1), "├": (1, 1, 1, 0), "┤": (1, 0, 1, 1),
    "┬": (0, 1, 1, 1), "┴": (1, 1, 0, 1), "┼": (1, 1, 1, 1), "━": (0, 2, 0, 2),
    "┃": (2, 0, 2, 0),
}  # fmt: skip
_ARCS = {
    "╭": "m5 20v-5q0-5 5-5", "╮": "m0 10q5 0 5 5v5", "╰": "m5 0v5q0 5 5 5", "╯": "m0 10q5 0 5-5v-5",
}  # fmt: skip
_DASHES = {"╌": "m1 10h3m2 0h3", "┄": "m0 10h2m1.5 0h2m1.5 0h2"}
_SOLID = {
    "●": "m1 10a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "■": "m1 6h8v8h-8z", "▲": "m5 5.5l4.5 9h-9z",
    "▶": "m.5 5.5l9 4.5l-9 4.5z", "◀": "m9.5 5.5l-9 4.5l9 4.5z", "◆": "m5 5l4 5l-4 5l-4-5z",
}  # fmt: skip
_HOLLOW = {
    "○": "m1.5 10a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", "□": "m1.5 6.5h7v7h-7z",
    "△": "m5 6.5l3.5 7h-7z", "▷": "m1 6.5l7.5 3.5l-7.5 3.5z", "◁": "m9 6.5l-7.5 3.5l7.5 3.5z",
}  # fmt: skip
_SHADES = {"░": ".25", "▒": ".5", "▓": ".75"}
_LOWER, _LEFT = "▁▂▃▄▅▆▇", "▉▊▋▌▍▎▏"
_MARKS = {"✗": "m1.5 5.5l7 9m0-9l-7 9", "✓": "m1 10.5l3 4l5-9"}
_BRAILLE = range(0x2800, 0x2900)
# Bits of the dots of a braille character, from the top down, left and right.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_DRAWN = "".join(
    (*_ARMS, *_ARCS, *_DASHES, *_SOLID, *_HOLLOW, *_SHADES, *_MARKS, _LOWER, _LEFT, "█▐▀")
)
_WORD = rf"[^\s\u2800-\u28ff{_DRAWN}]+"
_PART = rf"[\u2800-\u28ff]+|([{_DRAWN}])\1*|{_WORD}(?: {_WORD})*"


def _shapes(column: int, text: str) -> list[tuple[str, str]] | None:
    """Return each shape as its kind and its path; None if it is text.

    A kind is "" (solid), the opacity of a shade, or the CSS class of lines: l, h and o.
    """
    char, x, count = text[0], column * _WIDE, len(text)
    if ord(char) in _BRAILLE:
        return [("o", path) for path in _dots(x, text)]
    if char in _ARMS:
        return [_lines(x, char, count)]
    for table, kind in ((_ARCS, "l"), (_DASHES, "l"), (_HOLLOW, "l"), (_MARKS, "l"), (_SOLID, "")):
        if char in table:
            starts = range(x, x + count * _WIDE, _WIDE)
            return [(kind, "".join(_placed(table[char], start) for start in starts))]
    kind = _SHADES.get(char, "")
    if kind or char == "█":
        return [(kind, f"M{x} 0h{count * _WIDE}v{_HIGH}H{x}z")]
    if char in _LOWER:
        high = (_LOWER.index(char) + 1) * _HIGH / 8
        return [("", f"M{x} {_HIGH}h{count * _WIDE}v{-high:g}H{x}z")]
    if char == "▀":
        return [("", f"M{x} 0h{count * _WIDE}v{_HIGH // 2}H{x}z")]
    if char in _LEFT or char == "▐":
        wide = (7 - _LEFT.index(char)) * _WIDE / 8 if char in _LEFT else _WIDE / 2
        shift = 0 if char in _LEFT else _WIDE // 2
        starts = range(x + shift, x + shift + count * _WIDE, _WIDE)
        return [("", "".join(f"M{start} 0h{wide:g}v{_HIGH}h{-wide:g}z" for start in starts))]
    return None


def _placed(path: str, x: int) -> str:
    """Return a path of a cell at its place; another point before it would be drawn, too."""
    begin = re.match(r"m([\d.]+) ([\d.]+)", path)
    assert begin is not None
    return f"M{x + float(begin[1]):g} {begin[2]}{path[begin.end() :]}"


def _lines(x: int, char: str, count: int) -> tuple[str, str]:
    up, right, down, left = _ARMS[char]
    kind = "h" if 2 in _ARMS[char] else "l"
    middle = _HIGH // 2
    if char in "─━":
        return kind, f"M{x} {middle}h{count * _WIDE}"
    path = ""
    for start in range(x, x + count * _WIDE, _WIDE):
        center = start + _WIDE // 2
        top, bottom = (0 if up else middle), (_HIGH if down else middle)
        path += f"M{center} {top}V{bottom}"
        if left or right:
            path += f"M{start if left else center} {middle}H{start + _WIDE if right else center}"
    return kind, path


def _dots(x: int, text: str) -> Iterator[str]:
    """Yield a path per line of dots: dashes without length, 5 apart, in runs."""
    for number, (left, right) in enumerate(_DOTS):
        y = f"{_HIGH * (2 * number + 1) / 8:g}"
        bits = [bool(ord(char) - 0x2800 & bit) for char in text for bit in (left, right)]
        for run in re.finditer("1+", "".join("1" if bit else "0" for bit in bits)):
            start = x + 2.5 + 5 * run.start()
            yield f"M{start:g} {y}h{5 * (len(run[0]) - 1) + 0.1:g}"
