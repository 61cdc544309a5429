"""Columns of tables of consumer groups, and what resuming on the target would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.members import GroupMember, describe_assigned
from k2ktui.engine.moves.groups import Finding, GroupRow, MemberRow
from k2ktui.engine.moves.ratings import GroupSide, GroupSummary, Rating, RereadEstimate, rate
from k2ktui.engine.trend import Direction
from k2ktui.present import formatting
from k2ktui.present.columns import (
    Column,
    descending,
    figure_column,
    group_column,
    partition_column,
    sentence_column,
    text_column,
)
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.text import counted, duration, safe_text
from k2ktui.watch.model import PartName, View

# So that a column seldom changes its width.
_SECONDS, _CATCHES_UP = 7, 11
# Columns whose values come from the groups' commits on the source, and from any reading of groups.
_OF_COMMITS = frozenset(
    {
        *("status", "source", "lag", "behind", "catches-up", "skips", "rereads", "moved-skips"),
        *("moved-rereads", "ours", "basis", "divergence", "bar", "translated", "reread", "skipped"),
        *("reread-now", "skipped-now", "states", "why"),
    }
)
_OF_GROUPS = _OF_COMMITS | {"target", "parts"}
_Timed = TypeVar("_Timed", GroupSummary, GroupRow)


def rereads_text(now: RereadEstimate, after: RereadEstimate) -> str:
    """Return the effect of resuming on the target, as committed now and after a move."""
    unknown = f"; unknown for {now.unknown:,}" if now.unknown else ""
    texts = [
        f"{counted(effect.skipped, 'record')} skipped, {effect.records:,} re-read"
        for effect in (now, after)
    ]
    return f"as committed now {texts[0]}{unknown}; after a move {texts[1]}"


def mappings_lines(view: View) -> Iterator[str]:
    """Yield how long a pipeline's mappings live that groups need; nothing if it is not known."""
    at = view.mappings_expire_at
    if view.pair.mirror or not view.has_run or at is None:
        return
    left = duration(max(0.0, at - view.taken_at))
    yield f"mappings that groups need: the first expires in {left}"


def side_text(side: GroupSide) -> str:
    """Return a group's state and number of members on one cluster."""
    if not side.state:
        return formatting.NOT_AVAILABLE
    members = "" if side.members is None else f" {side.members}"
    return f"{safe_text(side.state, 24)}{members}"


def member_columns() -> tuple[Column[MemberRow], ...]:
    """Return the columns of a table of members."""
    return (
        group_column(lambda row: row.group),
        text_column("cluster", lambda row: row.side, left=True),
        text_column("client id", lambda row: _known_text(row.member.client_id), left=True),
        text_column("instance id", lambda row: _known_text(row.member.instance_id), left=True),
        text_column("host", lambda row: _known_text(row.member.host), left=True),
        text_column("reads", lambda row: _reads(row.member), left=True),
    )


def _known_text(text: str) -> str:
    return safe_text(text, 100) or formatting.NOT_AVAILABLE


def _reads(member: GroupMember) -> str:
    return describe_assigned(member.assigned) or formatting.NOT_AVAILABLE


def summary_columns(glyphs: Glyphs, *, compared: bool = False) -> tuple[Column[GroupSummary], ...]:
    """Return the columns of a table of groups; ``compared`` adds those of MirrorMaker 2."""
    return (
        group_column(lambda g: g.group, width=14, widest=64),
        _status_column(glyphs, lambda g: g.rating),
        Column("source", "source", lambda g: Cell(side_text(g.source)), rank=3, width=8),
        Column("target", "target", lambda g: Cell(side_text(g.target)), rank=5, width=8),
        figure_column("parts", "parts", lambda g: g.partitions, rank=7),
        figure_column("lag", "lag", lambda g: g.lag, rank=4),
        figure_column("behind", "behind", lambda g: g.lag_s, cell=_behind, width=_SECONDS, rank=8),
        _catches_up_column(lambda g: g.lag, glyphs, rank=8),
        figure_column(
            "skips",
            "skips",
            lambda g: g.skips,
            cell=lambda g: _now(g, g.skips, Tone.BAD if g.ahead else Tone.WARN),
        ),
        figure_column(
            "moved-skips",
            "skips after move",
            lambda g: g.moved_skips,
            cell=lambda g: _moved(g, g.moved_skips),
            rank=1,
        ),
        figure_column(
            "rereads",
            "re-reads",
            lambda g: g.rereads,
            cell=lambda g: _now(g, g.rereads, Tone.WARN),
            rank=1,
        ),
        *(_AGAIN if compared else (_MOVED_REREADS,)),
        Column("basis", "basis", _bases, rank=6, width=8, widest=40),
    )


def row_columns(glyphs: Glyphs) -> tuple[Column[GroupRow], ...]:
    """Return the columns of a table of group-partitions."""
    return (
        group_column(lambda r: r.group),
        partition_column(lambda r: (r.topic, r.partition)),
        _status_column(glyphs, rate),
        figure_column(
            "divergence",
            "diverges",
            lambda r: None if r.divergence is None else abs(r.divergence),
            cell=_divergence,
        ),
        figure_column("source", "source", lambda r: r.source_offset, rank=3),
        figure_column("lag", "lag", lambda r: r.lag_records, rank=5),
        figure_column(
            "behind", "behind", lambda r: r.lag_s, cell=_behind_row, width=_SECONDS, rank=5
        ),
        _catches_up_column(lambda r: r.lag_records, glyphs, rank=7),
        figure_column("target", "target now", lambda r: r.target_offset, rank=2),
        figure_column("translated", "translated", lambda r: r.translated_offset, rank=1),
        Column("basis", "basis", _basis, lambda r: r.basis, rank=4, width=8),
        figure_column("skipped-now", "skips now", lambda r: r.skipped_now, rank=8),
        figure_column("skipped", "skips after move", lambda r: r.skipped, rank=8),
        figure_column("reread-now", "re-reads now", lambda r: r.reread_now, rank=9),
        figure_column("reread", "re-reads after move", lambda r: r.reread, rank=10),
        Column("states", "states", lambda r: Cell(_states(r), Tone.MUTED), rank=11, widest=30),
        sentence_column(
            "why", lambda r: r.reason, heading="note", longest=400, width=4, rank=12, widest=100
        ),
    )


def _status_column(glyphs: Glyphs, rating: Callable[[_Timed], Rating]) -> Column[_Timed]:
    """Return the column of a rating, the worst first."""

    def cell(row: _Timed) -> Cell:
        return glyphs.mark(rating(row).value)

    return Column("status", "status", cell, lambda row: -rating(row).severity, width=11)


def _catches_up_column(
    lag: Callable[[_Timed], int | None], glyphs: Glyphs, *, rank: int
) -> Column[_Timed]:
    """Return the column of the trend of a lag, and when it will be 0."""
    return Column(
        "catches-up",
        "catches up",
        lambda row: _trend(row.direction, lag(row), row.eta_s, glyphs),
        lambda row: descending(row.eta_s),
        width=_CATCHES_UP,
        rank=rank,
    )


def _behind(group: GroupSummary) -> Cell:
    if group.lag_s is None:
        return Cell(formatting.seconds(None, known=not group.untimed), Tone.MUTED)
    # The records of unknown age may be older.
    return Cell(f"{formatting.AT_LEAST if group.untimed else ''}{formatting.seconds(group.lag_s)}")


def _behind_row(row: GroupRow) -> Cell:
    is_pending = row.lag_records is not None and row.finding is not Finding.MOVED
    return Cell(formatting.seconds(row.lag_s, known=not is_pending))


def _trend(direction: Direction, lag: int | None, eta_s: float | None, glyphs: Glyphs) -> Cell:
    """Return whether a lag rises or falls, and in what time it is 0 at this rate."""
    if lag is None:
        return Cell(formatting.NOT_AVAILABLE, Tone.MUTED)
    if direction is Direction.UNKNOWN:
        return Cell(formatting.NOT_YET, Tone.MUTED)
    text = glyphs.direction(direction)
    if direction is Direction.FALLING and eta_s is not None:
        text = f"{text} {duration(eta_s)}"
    return Cell(text, Tone.WARN if direction is Direction.RISING else Tone.PLAIN)


def _now(group: GroupSummary, value: int, tone: Tone) -> Cell:
    if group.checking and not value:
        return Cell(formatting.NOT_YET, Tone.MUTED)  # the next poll says whether it is 0
    return _known(group, value, group.unknown_now, tone)


def _moved(group: GroupSummary, value: int) -> Cell:
    return _known(group, value, group.unknown_moved, Tone.WARN)


def _known(group: GroupSummary, value: int, unknown: int, tone: Tone) -> Cell:
    """Return a sum over the known partitions; a dash if none is known."""
    is_unread = bool(group.source.error or group.target.error) and not value
    if is_unread or 0 < group.partitions <= unknown:
        return Cell(formatting.NOT_AVAILABLE, Tone.MUTED)
    return Cell(formatting.at_least(value, unknown), tone if value else Tone.MUTED)


def _again(count: RereadEstimate | None, partitions: int) -> Cell:
    if count is None:
        return Cell(formatting.NOT_YET, Tone.MUTED)
    if partitions and count.unknown + count.without >= partitions:
        return Cell(formatting.NOT_AVAILABLE, Tone.WARN)
    more = count.unknown + count.without
    text = formatting.at_least(count.records, more)
    if count.skipped:
        return Cell(f"{text}, skips {count.skipped:,}", Tone.BAD)
    return Cell(text, Tone.WARN if count.records or more else Tone.MUTED)


_MOVED_REREADS: Column[GroupSummary] = figure_column(
    "moved-rereads",
    "re-reads after move",
    lambda g: g.moved_rereads,
    cell=lambda g: _moved(g, g.moved_rereads),
    rank=7,
)
_AGAIN: tuple[Column[GroupSummary], ...] = (
    figure_column(
        "ours",
        "by k2ktui",
        lambda g: g.ours.records,
        cell=lambda g: _again(g.ours, g.partitions),
        rank=1,
    ),
    figure_column(
        "theirs",
        "by MM2",
        lambda g: None if g.theirs is None else g.theirs.records,
        cell=lambda g: _again(g.theirs, g.partitions),
    ),
)


def _basis(row: GroupRow) -> Cell:
    if row.basis is Basis.UNMAPPED:
        return Cell(str(row.basis), Tone.BAD)
    return Cell(str(row.basis), Tone.WARN if row.basis is Basis.BOUNDED else Tone.PLAIN)


def _bases(group: GroupSummary) -> Cell:
    worst = group.bases.get(Basis.UNMAPPED), group.bases.get(Basis.BOUNDED)
    tone = Tone.BAD if worst[0] else Tone.WARN if worst[1] else Tone.PLAIN
    return Cell(", ".join(f"{count:,} {basis}" for basis, count in group.bases.items()), tone)


def _divergence(row: GroupRow) -> Cell:
    if row.moved_by:
        return Cell(f"moved by {safe_text(row.moved_by, 60)}", Tone.MUTED)
    if row.chosen_by:
        return Cell(f"chosen by {safe_text(row.chosen_by, 60)}", Tone.MUTED)
    value = row.divergence
    settled = row.finding is Finding.SETTLED
    tone = Tone.BAD if value and value > 0 and settled else Tone.WARN if value else Tone.MUTED
    return Cell(formatting.signed(value), tone)


def _states(row: GroupRow) -> str:
    return f"{safe_text(row.state_source) or '—'} → {safe_text(row.state_target) or '—'}"


def stale_group_columns(view: View) -> frozenset[str]:
    """Return the ids of the stale columns in a table of groups or group-partitions."""
    if view.stale(PartName.GROUPS):
        return _OF_GROUPS
    return _OF_COMMITS if view.source_down else frozenset()
