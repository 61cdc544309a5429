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

    def copied(text: Callable[[FleetRow], str]) -> Callable[[FleetRow], Cell]:
        """Return the cell of a figure of the copy: after a failover there is none."""

        def cell(row: FleetRow) -> Cell:
            if row.pair_state.moved:
                return Cell(NOT_AVAILABLE, Tone.MUTED)
            return glyphs.aged(Cell(text(row))) if row.stale & _COPY else Cell(text(row))

        return _once_read(cell)

    def written(cell: Callable[[PipelineSummary, FleetRow], Cell]) -> Callable[[FleetRow], Cell]:
        """Return the cell of a summary, which is marked if nobody has written one lately."""

        def shown(row: FleetRow) -> Cell:
            if row.summary is None:
                return Cell(NOT_AVAILABLE, Tone.MUTED)
            of_row, age = cell(row.summary, row), row.summary_age(now()) or 0.0
            return glyphs.aged(of_row) if age > SUMMARY_OLD_S else of_row

        return _once_read(shown)

    def rpo(row: FleetRow) -> Cell:
        """Return the age of what a failover now would lose; after one, what it has lost."""
        if row.pair_state.moved:
            lost = row.pair_state.rpo_records
            return Cell(NOT_AVAILABLE if lost is None else counted(lost, "record"), Tone.MUTED)
        return at_risk(row)

    def rehearsed(row: FleetRow) -> Cell:
        """Return the age of the last rehearsal, with its findings if it had any."""
        if row.rehearsal is None:
            is_unknown = PartName.STATE in row.stale
            return Cell(NOT_AVAILABLE, Tone.MUTED) if is_unknown else Cell("never", Tone.WARN)
        age = formatting.age(max(0.0, now() - row.rehearsal.at))
        if not row.rehearsal.findings:
            return Cell(age)
        text = f"{age}, {counted(row.rehearsal.findings, 'finding')}"
        return glyphs.mark(SeverityLabel(Severity.WARN, text))

    at_risk = copied(lambda row: formatting.seconds(0.0 if row.rpo_records == 0 else row.rpo_s))
    lag = copied(lambda row: formatting.number(row.lag))
    behind = copied(lambda row: formatting.seconds(row.behind_s))
    coverage = written(lambda _, row: Cell(formatting.share(row.coverage)))
    groups = written(lambda summary, _: _groups(summary, glyphs))
    run = _once_read(lambda row: glyphs.mark(row.run))
    return (
        Column(
            "pipeline",
            "pipeline",
            lambda row: Cell(formatting.name(row.pair.pipeline, 200), Tone.HEADING),
            lambda row: row.pair.pipeline,
            width=10,
            widest=40,
        ),
        _cluster("from", lambda row: row.pair.source),
        _cluster("to", lambda row: row.pair.target),
        Column("run", "run", run, lambda row: -row.run.severity, width=7),
        Column("lag", "lag", lag, _by(lambda row: row.lag), right=True, width=6),
        Column(
            "behind", "behind", behind, _by(lambda row: row.behind_s), right=True, width=7, rank=2
        ),
        Column(
            "coverage",
            "coverage",
            coverage,
            lambda row: 2.0 if row.coverage is None else row.coverage,
            right=True,
            width=8,
            rank=3,
        ),
        Column("groups", "groups", groups, _worst_group, width=8),
        Column(
            "rpo", "RPO", _once_read(rpo), _by(lambda row: row.rpo_s), right=True, width=6, rank=1
        ),
        Column(
            "rehearsed",
            "rehearsed",
            _once_read(rehearsed),
            lambda row: 0.0 if row.rehearsal is None else row.rehearsal.at,
            right=True,
            width=9,
            rank=1,
        ),
        Column("problem", "problem", _problem, width=10, rank=4, widest=SENTENCE),
    )


def _once_read(cell: Callable[[FleetRow], Cell]) -> Callable[[FleetRow], Cell]:
    """Return the cell of a row that was read; nothing is known of one that was not."""
    return lambda row: Cell(NOT_YET, Tone.MUTED) if row.taken_at is None else cell(row)


def _cluster(heading: str, name: Callable[[FleetRow], str]) -> Column[FleetRow]:
    def cell(row: FleetRow) -> Cell:
        return Cell(formatting.name(name(row), 40))

    return Column(heading, heading, cell, name, width=6, rank=6)


def _by(figure: Callable[[FleetRow], float | None]) -> Callable[[FleetRow], float]:
    """Return a sort key that puts the largest figures first, and unknown ones last."""

    def key(row: FleetRow) -> float:
        value = descending(figure(row))
        return 1.0 if value is None else value

    return key


def _groups(summary: PipelineSummary, glyphs: Glyphs) -> Cell:
    """Return the number of groups with the worst status, of all; only that of all if it is good."""
    if not summary.groups:
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
