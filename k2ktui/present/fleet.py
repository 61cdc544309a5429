"""Columns of the table of pipelines."""

from __future__ import annotations

from collections.abc import Callable

from k2ktui.engine.moves.pipeline_summary import PipelineSummary
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.fleet.model import SUMMARY_OLD_S, FleetRow
from k2ktui.present import formatting
from k2ktui.present.columns import SENTENCE, Column, descending
from k2ktui.present.formatting import NOT_AVAILABLE, NOT_YET, Cell, Glyphs, Tone
from k2ktui.text import counted, list_names
from k2ktui.watch.model import PartName

# The chart in a row shows the last five minutes.
WINDOW_S = 300.0
_NAMED = 3
_COPY = frozenset({PartName.SOURCE, PartName.TARGET})


def fleet_columns(glyphs: Glyphs, now: Callable[[], float]) -> tuple[Column[FleetRow], ...]:
    """Return the columns of a table of pipelines.

    Args:
        glyphs: the signs of the terminal.
        now: returns the time that ages are relative to, in epoch seconds.
    """
    return (
        Column(
            "pipeline",
            "pipeline",
            lambda row: Cell(formatting.name(row.pair.pipeline, 200), Tone.HEADING),
            lambda row: row.pair.pipeline,
            width=10,
            widest=40,
        ),
        Column(
            "from",
            "from",
            lambda row: Cell(formatting.name(row.pair.source, 40)),
            lambda row: row.pair.source,
            width=6,
            rank=6,
        ),
        Column(
            "to",
            "to",
            lambda row: Cell(formatting.name(row.pair.target, 40)),
            lambda row: row.pair.target,
            width=6,
            rank=6,
        ),
        Column(
            "run",
            "run",
            lambda row: _unless_unread(row, glyphs.mark(row.run)),
            lambda row: -row.run.severity,
            width=7,
        ),
        Column(
            "lag",
            "lag",
            lambda row: _copy_cell(row, glyphs, formatting.number(row.lag)),
            _by(lambda row: row.lag),
            True,
            6,
        ),
        Column(
            "behind",
            "behind",
            lambda row: _copy_cell(row, glyphs, formatting.seconds(row.behind_s)),
            _by(lambda row: row.behind_s),
            True,
            7,
            2,
        ),
        Column(
            "coverage",
            "coverage",
            lambda row: _summary_cell(row, glyphs, now(), Cell(formatting.share(row.coverage))),
            lambda row: 2.0 if row.coverage is None else row.coverage,
            True,
            8,
            3,
        ),
        Column(
            "groups",
            "groups",
            lambda row: _summary_cell(row, glyphs, now(), _groups(row.summary, glyphs)),
            _worst_group,
            width=8,
        ),
        Column("rpo", "RPO", lambda row: _rpo(row, glyphs), _by(lambda row: row.rpo_s), True, 6, 1),
        Column(
            "rehearsed",
            "rehearsed",
            lambda row: _rehearsed(row, glyphs, now()),
            lambda row: 0.0 if row.rehearsal is None else row.rehearsal.at,
            True,
            9,
            1,
        ),
        Column("problem", "problem", _problem, None, width=10, rank=4, widest=SENTENCE),
    )


def _by(figure: Callable[[FleetRow], float | None]) -> Callable[[FleetRow], float]:
    """Return a sort key that puts the largest figures first, and unknown ones last."""

    def key(row: FleetRow) -> float:
        value = descending(figure(row))
        return 1.0 if value is None else value

    return key


def _unless_unread(row: FleetRow, cell: Cell) -> Cell:
    return Cell(NOT_YET, Tone.MUTED) if row.taken_at is None else cell


def _copy_cell(row: FleetRow, glyphs: Glyphs, text: str) -> Cell:
    """Return a figure of the copy: after a failover there is none."""
    if row.taken_at is None:
        return Cell(NOT_YET, Tone.MUTED)
    if row.pair_state.moved:
        return Cell(NOT_AVAILABLE, Tone.MUTED)
    cell = Cell(text)
    return glyphs.aged(cell) if row.stale & _COPY else cell


def _summary_cell(row: FleetRow, glyphs: Glyphs, now: float, cell: Cell) -> Cell:
    """Return a figure of the summary, which is marked if nobody has written it lately."""
    if row.taken_at is None:
        return Cell(NOT_YET, Tone.MUTED)
    if row.summary is None:
        return Cell(NOT_AVAILABLE, Tone.MUTED)
    return glyphs.aged(cell) if (row.summary_age(now) or 0.0) > SUMMARY_OLD_S else cell


def _groups(summary: PipelineSummary | None, glyphs: Glyphs) -> Cell:
    """Return the number of groups with the worst status, of all; only that of all if it is good."""
    if summary is None or not summary.groups:
        # The run may not see them: groups that its login may not describe are not listed.
        return Cell("none seen", Tone.MUTED)
    worst = summary.groups[0]
    text = str(summary.total)
    if worst.severity > Severity.INFO:
        text = f"{worst.count:,} of {summary.total:,} {worst.word}"
    return glyphs.mark(SeverityLabel(worst.severity, text))


def _worst_group(row: FleetRow) -> tuple[int, int]:
    if row.summary is None or not row.summary.groups:
        return 1, 0
    worst = row.summary.groups[0]
    return -worst.severity, -worst.count


def _rpo(row: FleetRow, glyphs: Glyphs) -> Cell:
    """Return the age of what a failover now would lose; after one, what it has lost."""
    if row.taken_at is None:
        return Cell(NOT_YET, Tone.MUTED)
    if row.pair_state.moved:
        lost = row.pair_state.rpo_records
        return Cell(NOT_AVAILABLE if lost is None else counted(lost, "record"), Tone.MUTED)
    text = formatting.seconds(0.0 if row.rpo_records == 0 else row.rpo_s)
    return _copy_cell(row, glyphs, text)


def _rehearsed(row: FleetRow, glyphs: Glyphs, now: float) -> Cell:
    """Return the age of the last rehearsal, with its findings if it had any."""
    if row.taken_at is None:
        return Cell(NOT_YET, Tone.MUTED)
    if row.rehearsal is None:
        if PartName.STATE in row.stale:
            return Cell(NOT_AVAILABLE, Tone.MUTED)
        return Cell("never", Tone.WARN)
    age = formatting.age(max(0.0, now - row.rehearsal.at))
    if not row.rehearsal.findings:
        return Cell(age)
    text = f"{age}, {counted(row.rehearsal.findings, 'finding')}"
    return glyphs.mark(SeverityLabel(Severity.WARN, text))


def _problem(row: FleetRow) -> Cell:
    """Return the worst problem, and the number of further ones; else what is held or moved."""
    if not row.problems:
        return Cell(_not_copied(row), Tone.MUTED)
    first = row.problems[0]
    more = f" (and {len(row.problems) - 1:,} more)" if len(row.problems) > 1 else ""
    is_said = first.kind in ("file", "groups") or first.subject == row.pair.pipeline
    subject = "" if is_said else f"{formatting.name(first.subject, 80)}: "
    message = " ".join(first.message.split())  # that of a file has a line for each key
    text = f"{subject}{formatting.message(message)}{more}"
    return Cell(text, formatting.tone_of(first.severity))


def _not_copied(row: FleetRow) -> str:
    """Return what of a pipeline is not copied on purpose."""
    if row.is_left:
        return "every topic was moved to the target: it can be retired"
    moved = [topic for topics in row.moved.values() for topic in topics]
    parts = [
        f"{word}: {list_names(names, _NAMED)}"
        for word, names in (("held", row.held), ("moved", moved))
        if names
    ]
    return "; ".join(parts)
