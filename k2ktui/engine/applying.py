"""Check whether a plan is still valid, judge the result of each write, and reverse writes.

This module does not talk to Kafka: the caller reads the groups, calls it, writes, reads the groups
again and calls it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.groups import ABSENT, GroupView
from k2ktui.engine.plan import PlanRow
from k2ktui.text import counted


class WriteOutcome(StrEnum):
    """Outcome of writing a row."""

    APPLIED = "applied"
    MOVED = "moved"
    REFUSED = "refused"
    CHANGED = "changed"
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"


def results_text(counts: Mapping[str, int]) -> str:
    """Return the counts of outcomes, such as ``3 rows applied, 1 row refused``."""
    return ", ".join(f"{counted(count, 'row')} {word}" for word, count in counts.items())


def undo_text(counts: Mapping[str, int]) -> str:
    """Return the outcomes of an undo as a sentence, such as ``3 rows undone.``"""
    others = {word: n for word, n in counts.items() if word != WriteOutcome.APPLIED}
    more = f", {results_text(others)}" if others else ""
    return f"{counted(counts.get(WriteOutcome.APPLIED, 0), 'row')} undone{more}."


@dataclass(frozen=True, slots=True)
class OffsetWrite:
    """A change of one committed offset on the target: the current and the new offset.

    ``after`` None deletes the committed offset.
    """

    group: str
    topic: str
    partition: int
    before: int | None
    before_metadata: str
    after: int | None
    after_metadata: str


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A write with its result; ``why`` may be empty if it was applied."""

    write: OffsetWrite
    result: WriteOutcome
    why: str = ""


def make_writes(
    rows: Iterable[PlanRow], target: Mapping[str, GroupView], metadata: Mapping[PlanRow, str]
) -> list[OffsetWrite]:
    """Return the writes for the rows that change something, with the current commits."""
    found = []
    for row in rows:
        if not row.changes:
            continue
        there = target.get(row.group, ABSENT).offsets.get((row.topic, row.partition))
        present = there if there is not None and there.offset >= 0 else None
        found.append(
            OffsetWrite(
                row.group,
                row.topic,
                row.partition,
                present.offset if present else None,
                present.metadata if present else "",
                row.proposed,
                metadata[row],
            )
        )
    return found


def find_conflicts(
    expected: Mapping[tuple[str, str, int], int | None], target: Mapping[str, GroupView]
) -> dict[tuple[str, str, int], str]:
    """Return the group-partitions that changed, and why they must not be written.

    Args:
        expected: committed offset on the target at the time of the decision, per group, topic and
            partition; None for none.
        target: current state of the groups.
    """
    found: dict[tuple[str, str, int], str] = {}
    for (group, topic, partition), offset in expected.items():
        view = target.get(group, ABSENT)
        there = view.offsets.get((topic, partition))
        now = there.offset if there is not None and there.offset >= 0 else None
        if view.error:
            found[group, topic, partition] = view.error
        elif not view.empty:
            found[group, topic, partition] = f"the group is now {view.state} on the target"
        elif now != offset:
            found[group, topic, partition] = f"its committed offset is now {_offset_text(now)}"
    return found


def _offset_text(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def check_written(
    writes: Iterable[OffsetWrite],
    refused: Mapping[OffsetWrite, str],
    target: Mapping[str, GroupView],
) -> list[WriteResult]:
    """Compare the writes with the commits read back.

    Args:
        writes: all writes that were sent.
        refused: the writes that the brokers refused, with the reason.
        target: state of the groups after the writes.
    """
    return [
        _judge_write(write, refused.get(write, ""), target.get(write.group)) for write in writes
    ]


def _judge_write(write: OffsetWrite, refused: str, view: GroupView | None) -> WriteResult:
    if refused:
        return WriteResult(write, WriteOutcome.REFUSED, refused)
    if view is None or view.error:
        return WriteResult(
            write, WriteOutcome.UNKNOWN, view.error if view else "the offset could not be read back"
        )
    there = view.offsets.get((write.topic, write.partition))
    now = there.offset if there is not None and there.offset >= 0 else None
    if now != write.after:
        return WriteResult(
            write, WriteOutcome.CHANGED, f"right after the write it was {_offset_text(now)}"
        )
    if not view.empty:
        why = f"applied, but the group became {view.state} during the write: check its position"
        return WriteResult(write, WriteOutcome.CHANGED, why)
    return WriteResult(write, WriteOutcome.APPLIED)


def judge_unreported(write: OffsetWrite, view: GroupView) -> WriteResult:
    """Infer the result of a write without a recorded result from the current commit.

    Args:
        write: the intended write.
        view: current state of its group on the target.
    """
    if view.error:
        return WriteResult(write, WriteOutcome.UNKNOWN, view.error)
    there = view.offsets.get((write.topic, write.partition))
    now = there.offset if there is not None and there.offset >= 0 else None
    if now == write.after:
        return WriteResult(
            write, WriteOutcome.APPLIED, "found on the target; the writer did not report it"
        )
    if now == write.before:
        return WriteResult(write, WriteOutcome.NOT_WRITTEN, "the offset is unchanged")
    return WriteResult(write, WriteOutcome.UNKNOWN, f"the offset is now {_offset_text(now)}")


def reverse_writes(written: Iterable[WriteResult]) -> list[OffsetWrite]:
    """Return the writes that undo the applied ones."""
    return [
        OffsetWrite(
            w.group, w.topic, w.partition, w.after, w.after_metadata, w.before, w.before_metadata
        )
        for w in (each.write for each in written if each.result is WriteOutcome.APPLIED)
    ]
