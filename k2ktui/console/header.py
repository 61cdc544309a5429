"""The frame of every screen: the pair as a drawing and the data's age, then tabs and the path."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.message import Message

from k2ktui.console.pair_drawing import draw_pair
from k2ktui.console.session import Session, who
from k2ktui.console.widgets.styled_text import fit
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.access import is_production
from k2ktui.present.formatting import NOT_YET, Cell, Glyphs, Line, Tone, age, name, utc_time
from k2ktui.present.pair_state import pair_tone, pair_word
from k2ktui.watch.feed import Feed
from k2ktui.watch.model import ClusterView, PartName, View, cluster_names
from k2ktui.watch.player import Player

_WIDE = 100
_LONGEST_CLUSTER = 40
# Two short names with their signs and an arrow.
_LEAST_DRAWING = 20
_TABS_LINE = 1


def header(session: Session, view: View | None, width: int, glyphs: Glyphs) -> Line:
    """Return the header: the pipeline pair, the user, the access mode and the age of the data."""
    may = session.access
    mode = "READ-WRITE" if may.writable else "READ-ONLY"
    recording = session.recorder is not None and not session.recorder.error
    # The widths count after the replacement of signs: in ASCII, an ellipsis takes two cells.
    right = [
        Cell(who() if width >= 70 else who().split("@")[0], Tone.MUTED),
        Cell(f" {mode} ", Tone.WARN if may.writable else Tone.OK),
        *([Cell("REC ", Tone.BAD)] if recording else []),
        *(
            Cell(glyphs.text(cell.text), cell.tone)
            for cell in _age(session.feed, view, glyphs, wide=width >= _WIDE)
        ),
    ]
    space = width - sum(cell_len(cell.text) for cell in right) - 4
    pair, environment = glyphs.text(name(session.pair.pipeline, 40)), ""
    if session.pair.environment:
        environment = glyphs.text(f" {name(session.pair.environment)}")
    in_production = is_production(session.pair.environment)
    if not in_production:
        pair, environment = f"{pair}{environment}", ""
    word = pair_word(view.pair_state) if view is not None else ""
    if view is not None and word and view.part(PartName.STATE).stale:
        word = f"{glyphs.stale}{word}"
    state = Cell(f"  {word}" if word else "", pair_tone(view.pair_state) if view else Tone.MUTED)
    # The word of production stays, however narrow the terminal is.
    most = max(4, space - 2 - cell_len(environment))
    pair = fit(pair, min(cell_len(pair), most), ellipsis=glyphs.text("…")) + environment
    room = space - cell_len(pair) - 2
    if room < cell_len(state.text) + _LEAST_DRAWING:
        state = Cell("")  # the banner says it, too
    room -= cell_len(state.text)
    drawn = [Cell("")]
    if not session.shows_fleet:
        names = shown_clusters(session, view)
        drawn = draw_pair(view, names, session.feed.now(), max(0, room), glyphs)
    blank = max(0, room - sum(cell_len(cell.text) for cell in drawn))
    return (
        Cell(f" {pair} ", Tone.PRODUCTION if in_production else Tone.CHIP),
        Cell("  "),
        *drawn,
        state,
        Cell(" " * (blank + 2)),
        *right,
    )


def shown_clusters(session: Session, view: View | None) -> tuple[str, str]:
    """Return the names of source and target as they are shown."""
    source, target = (view.source, view.target) if view else (ClusterView(), ClusterView())
    names = cluster_names(session.pair, source.address, target.address)
    first, second = (name(cluster, _LONGEST_CLUSTER) or NOT_YET for cluster in names)
    return first, second


def _age(feed: Feed, view: View | None, glyphs: Glyphs, *, wide: bool) -> list[Cell]:
    if isinstance(feed, Player):
        at = feed.times[feed.number]
        place = f"replay {feed.number + 1}/{len(feed.times)} {utc_time(at)}"
        place += " UTC" if wide else ""
        return [Cell(place + (" paused" if feed.paused else ""), Tone.INFO)]
    if view is None:
        return [Cell(NOT_YET, Tone.MUTED)]
    if not view.parts:  # the table of pipelines: each row has an age of its own
        return [Cell("paused" if feed.paused else "", Tone.MUTED)]
    ages = [view.age(part, feed.now()) for part in (PartName.SOURCE, PartName.TARGET)]
    known = [seconds for seconds in ages if seconds is not None]
    # MirrorMaker 2's part, used for comparison, is not part of the pipeline.
    stale = any(view.part(part).stale for part in PartName if part is not PartName.COMPARISON)
    text = age(max(known)) if known else NOT_YET
    if stale:
        text = f"{glyphs.stale}{text}"
    if feed.paused:
        text += " paused"
    late = stale or feed.paused or (bool(known) and max(known) > 3 * feed.interval)
    return [Cell(text, Tone.WARN if late else Tone.MUTED)]


Tab = tuple[str, str, bool]


def tabs(entries: Sequence[Tab], width: int) -> Line:
    """Return the screens' keys and titles; ``entries`` are (key, title, whether it is active)."""
    for letters in (20, 5, 0):
        cells: list[Cell] = []
        for key, title, active in entries:
            label = f"{title if active else title[:letters]} ".lstrip()
            if active:
                cells.append(Cell(f" {key} {label}", Tone.ACTIVE))
                continue
            parts = (Cell(f" {key} ", Tone.ACCENT), Cell(label, Tone.MUTED))
            cells.append(Cell(f" {key} {label}", Tone.MUTED, parts))
        if sum(cell_len(cell.text) for cell in cells) <= width:
            break
    return tuple(cells)


def breadcrumbs(titles: Sequence[str], width: int, glyphs: Glyphs) -> Line:
    """Return the path of open screens; if it is too long, its middle is left out."""
    shown = [name(title, 80) for title in titles]
    text = glyphs.text(_SEPARATOR.join(shown))
    if cell_len(text) > width and len(shown) > 2:
        text = glyphs.text(_SEPARATOR.join([shown[0], NOT_YET, *shown[-1:]]))
    return (
        Cell(" "),
        Cell(fit(text, min(cell_len(text), width), ellipsis=glyphs.text("…")), Tone.INFO),
    )


_SEPARATOR = " \u203a "


def tab_at(line: Line, x: int) -> int | None:
    """Return the index of the tab that covers a column of the line of tabs; None if none does."""
    for number, cell in enumerate(line):
        if 0 <= x < cell_len(cell.text):
            return number
        x -= cell_len(cell.text)
    return None


class HeaderBar(TextLines):
    """Header, tabs and path."""

    class TabClicked(Message):
        """A tab was clicked.

        Attributes:
            number: its index.
        """

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def on_click(self, event: events.Click) -> None:
        """Report a click on a tab."""
        at = event.get_content_offset(self)
        if at is None or at.y != _TABS_LINE or len(self.lines) <= _TABS_LINE:
            return
        number = tab_at(self.lines[_TABS_LINE], at.x)
        if number is not None:
            self.post_message(self.TabClicked(number))
