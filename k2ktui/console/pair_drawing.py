"""The pair as a drawing: source, what flows, target; a stopped pipeline is a broken arrow."""

from __future__ import annotations

from rich.cells import cell_len

from k2ktui.console.widgets.styled_text import fit
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.jobs.run_rows import current_run
from k2ktui.present.formatting import NOT_YET, Cell, Glyphs, Tone, number, tone_of
from k2ktui.present.runs import judge_run
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import judge_mirror_flow, state_time

_LEAST_NAME = 4


def judge_cluster(view: View, part: PartName) -> SeverityLabel:
    """Rate a cluster by the last attempt to read it."""
    state = view.part(part)
    if state.error:
        return SeverityLabel(Severity.BAD, "down")
    if state.is_paused:
        return SeverityLabel(Severity.UNKNOWN, "not polled")
    if state.stale:
        return SeverityLabel(Severity.UNKNOWN, "silent")
    if state.taken_at is None:
        return SeverityLabel(Severity.INFO, "connecting")
    return SeverityLabel(Severity.OK, "up")


def judge_flow(view: View, now: float) -> SeverityLabel:
    """Rate the copying by the heartbeats of its runs; only Jobs also shows this host's jobs."""
    part = PartName.TARGET if view.pair.mirror else PartName.STATE
    if view.part(part).taken_at is None:
        return SeverityLabel(Severity.UNKNOWN, NOT_YET)
    if view.part(part).stale:
        return SeverityLabel(Severity.UNKNOWN, "not known")
    if view.pair.mirror:
        return judge_mirror_flow(view, now)
    if view.pair.equal_offsets:
        return SeverityLabel(Severity.INFO, "other program")
    at = state_time(view, now)
    run = current_run((), view.runners, view.pair.pipeline, at, RunKind.COPY)
    return SeverityLabel(Severity.INFO, "no run") if run is None else judge_run(run)


def draw_pair(
    view: View | None, names: tuple[str, str], now: float, room: int, glyphs: Glyphs
) -> list[Cell]:
    """Return source, arrow and target in at most ``room`` cells.

    With less room, the arrow first loses its unit and words, then its rate, then names are cut.
    """
    for form in (_WORDS, _SHORT, _SIGNS):
        cells = _draw(view, names, now, glyphs, form)
        if _width(cells) <= room:
            return cells
    names_room = room - (_width(cells) - sum(cell_len(name) for name in names))
    if names_room < 2 * _LEAST_NAME:
        return [Cell("")]
    ellipsis = glyphs.text("…")
    longest = max(names_room // 2, names_room - min(cell_len(name) for name in names))
    cut = [fit(name, min(cell_len(name), longest), ellipsis=ellipsis) for name in names]
    if sum(map(cell_len, cut)) > names_room:
        cut = [fit(name, names_room // 2, ellipsis=ellipsis) for name in cut]
    return _draw(view, (cut[0], cut[1]), now, glyphs, _SIGNS)


_WORDS, _SHORT, _SIGNS = range(3)


def _draw(
    view: View | None, names: tuple[str, str], now: float, glyphs: Glyphs, form: int
) -> list[Cell]:
    source, target = names
    if view is None:
        return [Cell(source, Tone.HEADING), Cell(f" {glyphs.arrow} "), Cell(target, Tone.HEADING)]
    left = _health(judge_cluster(view, PartName.SOURCE), glyphs, form)
    right = _health(judge_cluster(view, PartName.TARGET), glyphs, form)
    return [
        Cell(f"{source} ", Tone.HEADING),
        left,
        Cell(" "),
        *_arrow(view, now, glyphs, form),
        Cell(" "),
        right,
        Cell(f" {target}", Tone.HEADING),
    ]


def _health(verdict: SeverityLabel, glyphs: Glyphs, form: int) -> Cell:
    sign = glyphs.status[verdict.severity]
    is_plain = verdict.severity is Severity.OK or form == _SIGNS
    return Cell(sign if is_plain else f"{sign} {verdict.word}", tone_of(verdict.severity))


def _arrow(view: View, now: float, glyphs: Glyphs, form: int) -> list[Cell]:
    verdict = judge_flow(view, now)
    flows = verdict.severity is Severity.OK
    if glyphs.ascii:
        line, head = ("=" if flows else "."), ">"
    else:
        line, head = ("━" if flows else "╌"), ("▶" if flows else "▷")
    long = {_WORDS: 4, _SHORT: 2, _SIGNS: 1}[form]
    tone = tone_of(verdict.severity)
    if flows:
        if form == _SIGNS:
            return [Cell(line * 2 + head, tone)]
        unit = " records/s" if form == _WORDS else "/s"
        text = f"{number(view.totals.rate, known=len(view.points) > 1)}{unit}"
        return [
            Cell(f"{line * long} ", tone),
            Cell(text, Tone.HEADING),
            Cell(f" {line * long}{head}", tone),
        ]
    sign = glyphs.status[verdict.severity]
    word = sign if form == _SIGNS else f" {sign} {verdict.word} "
    return [Cell(f"{line * long}{word}{line * long}{head}", tone)]


def _width(cells: list[Cell]) -> int:
    return sum(cell_len(cell.text) for cell in cells)
