"""Warnings above every screen: unreachable clusters, invalid user files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from k2ktui.console.session import Session
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.drill.pair_state import PairPhase
from k2ktui.engine.severity import Severity
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone, age, duration, message
from k2ktui.present.pair_state import is_plain, pair_text, short_pair_text
from k2ktui.watch.model import PartName, View

_NOTES = 3
_LONGEST_CAUSE = 48


@dataclass(frozen=True, slots=True)
class BannerItem:
    """A warning.

    Attributes:
        line: the short cause, and what it means for the figures.
        text: the whole text.
    """

    line: Line
    text: str


def banner(
    session: Session, view: View | None, notes: list[str], glyphs: Glyphs
) -> list[BannerItem]:
    """Return the warnings about a view, and the notes of the session."""
    items = [_warning(glyphs, note, note) for note in notes[:_NOTES]]
    if view is None:
        return items
    now = session.feed.now()
    if view.pair_state.phase is not PairPhase.UNKNOWN and not is_plain(view.pair_state):
        sign = glyphs.status[Severity.INFO]
        line = (Cell(f"{sign} {message(short_pair_text(view))}", Tone.INFO),)
        items.append(BannerItem(line, pair_text(view)))
    items += [_paused(glyphs)] if session.feed.paused and not session.feed.replay else []
    for part in PartName:
        state = view.part(part)
        if state.error:
            items.append(_unread(view, part, now, glyphs))
        elif state.pending_s > 3 * session.feed.interval or (
            state.stale and not state.is_paused and part is not PartName.COMPARISON
        ):
            text = f"{part}: no answer for {duration(state.pending_s)}"
            items.append(_warning(glyphs, text, text))
    if view.source_down and not view.part(PartName.GROUPS).error:
        old = "" if view.commits_at is None else age(now - view.commits_at)
        text = f"source groups: a copy on the target is shown, {glyphs.stale}{old} old"
        items.append(_warning(glyphs, text, f"{text}. {view.source_down}"))
    if session.recorder and session.recorder.error:
        items.append(_warning(glyphs, session.recorder.error, session.recorder.error))
    return items


def _paused(glyphs: Glyphs) -> BannerItem:
    mark = f"{glyphs.status[Severity.WARN]} paused"
    text = f"no figure ({glyphs.stale}) is renewed, and no problem is reported; p continues"
    return BannerItem((Cell(mark, Tone.WARN), Cell(f": {text}", Tone.MUTED)), f"paused: {text}")


def _unread(view: View, part: PartName, now: float, glyphs: Glyphs) -> BannerItem:
    """Return the warning that a part of the view was not read."""
    state = view.part(part)
    old = age(view.age(part, now))
    kept = f"values {glyphs.stale}{old} old" if state.taken_at else "nothing is known"
    severity, tone, subject = Severity.BAD, Tone.BAD, str(part)
    if part is PartName.COMPARISON:
        severity, tone, subject = Severity.WARN, Tone.WARN, "MirrorMaker 2"
    text = f"{glyphs.status[severity]} {subject}: {short_cause(state.error)}"
    return BannerItem(
        (Cell(text, tone), Cell(f"; {kept}", Tone.MUTED)), f"{subject}: {state.error}\n{kept}"
    )


def _warning(glyphs: Glyphs, text: str, whole: str) -> BannerItem:
    line = (Cell(f"{glyphs.status[Severity.WARN]} {message(text)}", Tone.WARN),)
    return BannerItem(line, whole)


def short_cause(error: str) -> str:
    """Return the first clause of an error text, cut if it is long."""
    text = message(error)
    for end in (". ", "; ", "\n"):
        text = text.partition(end)[0]
    text = text.rstrip(".")
    if len(text) > _LONGEST_CAUSE:
        text = text[: _LONGEST_CAUSE - 1].rstrip() + "…"
    return text


class BannerLines(TextLines):
    """The warnings; takes the focus (Tab) only while there are any."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Whole text", id="banner.open"),
    ]

    def __init__(self) -> None:
        super().__init__(id="banner")
        self._items: Sequence[BannerItem] = ()

    def show_items(self, items: Sequence[BannerItem], more: Sequence[Line]) -> None:
        """Show warnings, and lines without a longer text below them."""
        self._items = items
        if self.can_focus and not items and self.has_focus:
            self.screen.focus_next()
        self.can_focus = bool(items)
        self.show([*(item.line for item in items), *more])

    def on_click(self, event: events.Click) -> None:
        """Show the whole texts."""
        self.action_open()

    def action_open(self) -> None:
        """Show the whole texts."""
        if self._items:
            self.app.push_screen(TextDialog("Warnings", [item.text for item in self._items]))
