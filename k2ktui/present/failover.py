"""What a failover now would do, as cells of a screen and as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k2ktui.engine.drill.pair_state import describe_final_loss
from k2ktui.engine.moves.failover import GroupEstimate, MoveOutcome, NamedMove
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present.formatting import (
    NOT_AVAILABLE,
    NOT_YET,
    Cell,
    Glyphs,
    Tone,
    age,
    duration,
    number,
    seconds,
    tone_of,
)
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartName, View

NOTHING_LEFT = "nothing is left to fail over: every topic was moved to the target"
# Names of one kind in a line of text; programs read all of them in --json.
_MOST_NAMES = 20


# What a move means for groups, as a cell and in a sentence; the worst first, after what is done.
_KINDS = {
    MoveOutcome.MOVED: (Severity.OK, "moved", "moved"),
    MoveOutcome.LOSES: (Severity.BAD, "would lose {lost}", "that would lose {records}"),
    MoveOutcome.LOST_ALREADY: (Severity.WARN, "lost {gone} already", "that lost {gone} already"),
    MoveOutcome.UNMOVABLE: (Severity.BAD, "cannot move", "that cannot be moved"),
    MoveOutcome.UNKNOWN: (Severity.UNKNOWN, "unknown", "unknown"),
    MoveOutcome.STOP_FIRST: (Severity.WARN, "to stop first", "to stop first"),
    MoveOutcome.NOT_COPIED: (Severity.INFO, "not copied yet", "not copied yet"),
    MoveOutcome.SAFE: (Severity.OK, "safe to move", "safe to move"),
}
# Cells where there is little room.
_SHORT = {
    MoveOutcome.LOSES: "loses {lost}",
    MoveOutcome.STOP_FIRST: "stop first",
    MoveOutcome.SAFE: "safe",
}
# A sentence begins with the best.
_IN_A_SENTENCE = (*list(MoveOutcome)[:-2], MoveOutcome.LOST_ALREADY, MoveOutcome.LOSES)
_HEADINGS = {
    MoveOutcome.LOSES: "Would lose records by a move",
    MoveOutcome.LOST_ALREADY: (
        "Lost records already, which a move skips: both clusters have deleted them"
    ),
    MoveOutcome.UNMOVABLE: "Cannot be moved",
    MoveOutcome.UNKNOWN: "Effect of a move unknown",
    MoveOutcome.STOP_FIRST: "To stop first",
    MoveOutcome.NOT_COPIED: "Not copied yet",
}
_VERDICTS = {
    MoveOutcome.LOSES: SeverityLabel(Severity.BAD, "no, loses records"),
    MoveOutcome.UNMOVABLE: SeverityLabel(Severity.BAD, "no"),
    MoveOutcome.UNKNOWN: SeverityLabel(Severity.UNKNOWN, "not known"),
    MoveOutcome.NOT_COPIED: SeverityLabel(Severity.WARN, "not yet"),
    MoveOutcome.STOP_FIRST: SeverityLabel(Severity.WARN, "not yet"),
    MoveOutcome.LOST_ALREADY: SeverityLabel(Severity.WARN, "look first"),
}


def failover_verdict(groups: GroupEstimate) -> SeverityLabel:
    """Return whether a failover now is safe for every group, by the worst of them."""
    verdicts = (verdict for outcome, verdict in _VERDICTS.items() if groups.count(outcome))
    return next(verdicts, SeverityLabel(Severity.OK, "safe"))


def group_cells(
    view: View, glyphs: Glyphs, names: int = 0, *, is_short: bool = False
) -> list[Cell]:
    """Return the groups by what a failover now would do to them.

    Args:
        view: what is shown.
        glyphs: the character set.
        names: groups of each kind that are named, at most.
        is_short: whether there is little room.
    """
    groups = view.failover.groups
    if groups is None:
        failed = view.part(PartName.GROUPS).error
        return [Cell(NOT_AVAILABLE if failed else NOT_YET)]
    old = glyphs.stale if view.groups_stale else ""
    if not groups.total:
        return [Cell(f"{old}no group to move", Tone.MUTED)]
    cells = []
    for outcome, (severity, text, _) in _KINDS.items():
        if count := groups.count(outcome):
            text = _SHORT.get(outcome, text) if is_short else text
            named = groups.of(outcome) if names else []
            # The number of a single group is that of its kind.
            who = f": {list_moves(named, names, numbers=count > 1)}" if named else ""
            what = f"{glyphs.status[severity]} {count:,} {_with_records(text, groups)}"
            cell = Cell(f"{what}{who}", tone_of(severity))
            cells += [glyphs.aged(cell) if view.groups_stale else cell, Cell("  ")]
    if groups.reread_records:
        cells.append(Cell(f"{old}{groups.reread_records:,} read again", Tone.WARN))
    return cells


def _with_records(text: str, groups: GroupEstimate) -> str:
    """Return a text with the numbers of records that groups lose, and have lost already."""
    gone = sum(move.gone_records for move in groups.of(MoveOutcome.LOST_ALREADY))
    records = counted(groups.lost_records, "record")
    return text.format(lost=f"{groups.lost_records:,}", records=records, gone=f"{gone:,}")


def list_moves(moves: Sequence[NamedMove], most: int, *, numbers: bool = True) -> str:
    """Return the first groups, with what a move would lose, and the number of further ones."""
    shown = ", ".join(_named(move, numbers=numbers) for move in moves[:most])
    more = len(moves) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


def _named(move: NamedMove, *, numbers: bool) -> str:
    facts = []
    if numbers and move.outcome in (MoveOutcome.LOSES, MoveOutcome.LOST_ALREADY):
        if move.lost_records:
            facts.append(f"{move.lost_records:,}")
        if move.gone_records:
            both = "" if move.outcome is MoveOutcome.LOST_ALREADY else " lost already"
            facts.append(f"{move.gone_records:,}{both}")
    if move.active and move.outcome is not MoveOutcome.STOP_FIRST:
        facts.append("stop first")
    name = safe_text(move.group, 60)
    return f"{name} ({', '.join(facts)})" if facts else name


def loss_cells(view: View, now: float, glyphs: Glyphs) -> list[Cell]:
    """Return the records that are not copied, and how old the groups' commits are."""
    failover = view.failover
    if failover.failed_over:
        return [Cell(describe_final_loss(view.pair_state), Tone.HEADING)]
    known = all(view.part(p).taken_at is not None for p in (PartName.SOURCE, PartName.TARGET))
    records = Cell(number(failover.rpo_records, known=known), Tone.HEADING)
    cells = [
        glyphs.aged(records) if view.copy_stale else records,
        Cell(" not copied" if failover.rpo_records is None else _not_copied(failover.rpo_records)),
    ]
    if failover.rpo_records and failover.rpo_s is not None:
        cells.append(Cell(f", oldest {seconds(failover.rpo_s)}"))
    cells += [Cell(f"  {text}", Tone.WARN) for text in view.missed_rpo]
    if failover.held_partitions:
        held = number(failover.held_records, known=known)
        cells.append(Cell(f"  {held} more held", Tone.MUTED))
    if failover.unknown_partitions:
        cells.append(Cell(f"  {failover.unknown_partitions:,} unknown", Tone.UNKNOWN))
    if failover.commits_at is not None:
        tone = Tone.WARN if view.groups_stale else Tone.MUTED
        old = glyphs.stale if view.groups_stale else ""
        cells.append(Cell(f"  commits {old}{age(max(0.0, now - failover.commits_at))} old", tone))
    return cells


def _not_copied(count: int) -> str:
    return " record not copied" if count == 1 else " records not copied"


def failover_lines(view: View, now: float) -> Iterator[str]:
    """Yield what a failover now would do, as sentences; ``now`` is the reference time for ages."""
    estimate = view.failover
    if view.is_left:
        yield NOTHING_LEFT[0].upper() + NOTHING_LEFT[1:]
        return
    if estimate.groups is not None:
        yield from group_lines(estimate.groups, failed_over=estimate.failed_over)
    if estimate.failed_over:
        yield f"RPO: {describe_final_loss(view.pair_state)}"
        return
    oldest = (
        f", the oldest {seconds(estimate.rpo_s)} old"
        if estimate.rpo_records and estimate.rpo_s
        else ""
    )
    missing = (
        f"; unknown for {counted(estimate.unknown_partitions, 'partition')}"
        if estimate.unknown_partitions
        else ""
    )
    records = (
        NOT_AVAILABLE if estimate.rpo_records is None else counted(estimate.rpo_records, "record")
    )
    yield f"Not copied (RPO): {records}{oldest}{missing}"
    if estimate.held_partitions:
        of = counted(estimate.held_partitions, "partition")
        held = NOT_AVAILABLE
        if estimate.held_records is not None:
            held = counted(estimate.held_records, "record")
        yield f"Held by operators, and lost besides: {held} of {of}"
    if estimate.commits_at is not None:
        yield f"Commits of the groups: read {duration(max(0.0, now - estimate.commits_at))} ago"


def held_line(view: View) -> str:
    """Return what operators hold, which neither the lag nor the RPO counts."""
    totals = view.totals
    records = "an unknown number of records"
    if totals.held_records is not None:
        records = counted(totals.held_records, "record")
    oldest = f", the oldest {seconds(totals.held_s)} old" if totals.held_s else ""
    return (
        f"held by operators: {counted(totals.held_partitions, 'partition')}, "
        f"{records} not copied{oldest}"
    )


def objectives_line(view: View) -> str:
    """Return the objectives, and those that a failover now or the last rehearsal misses."""
    missed = ", ".join((*view.missed_rpo, *view.missed_rto)) or "none"
    return f"objectives: {view.objectives.describe()}; missed now: {missed}"


def group_lines(groups: GroupEstimate, *, failed_over: bool) -> Iterator[str]:
    """Yield the groups by what a failover now would do to them, as sentences, with names."""
    parts = [
        f"{count:,} {_with_records(_KINDS[outcome][2], groups)}"
        for outcome in _IN_A_SENTENCE
        if (count := groups.count(outcome))
    ]
    yield ("Groups: " if failed_over else "If you failed over now: ") + (
        f"{counted(groups.total, 'group')}: {', '.join(parts)}" if parts else "no group to move"
    )
    for outcome, heading in _HEADINGS.items():
        if named := groups.of(outcome):
            yield f"{heading}: {list_moves(named, _MOST_NAMES)}"
    if groups.reread_records:
        yield f"Read again after a move: {counted(groups.reread_records, 'record')}"
