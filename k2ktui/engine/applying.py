"""Whether a plan still holds, what became of each row, and how it is taken back.

Nothing here talks to Kafka: the caller reads groups, asks, writes, reads again and asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.groups import ABSENT, GroupView
from k2ktui.engine.plan import PlanRow


class WriteOutcome(StrEnum):
    """What became of a row."""

    APPLIED = "applied"
    MOVED = "moved"
    REFUSED = "refused"
    CHANGED = "changed"
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OffsetWrite:
    """One committed offset on the target: what is there, and what is to be there.

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
    """A write with its result; ``why`` is empty for what was applied."""

    write: OffsetWrite
    result: WriteOutcome
    why: str = ""


def make_writes(
    rows: Iterable[PlanRow], target: Mapping[str, GroupView], metadata: Mapping[PlanRow, str]
) -> list[OffsetWrite]:
    """Return the writes of a plan's rows that change something, with what is there now."""
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
    """Return which group-partitions are not as they were, and why they must not be written.

    Args:
        expected: committed offset on the target that the decision rested on, per group, topic and
            partition; None for none.
        target: the groups now.
    """
    found: dict[tuple[str, str, int], str] = {}
    for (group, topic, partition), offset in expected.items():
        view = target.get(group, ABSENT)
        there = view.offsets.get((topic, partition))
        now = there.offset if there is not None and there.offset >= 0 else None
        if view.error:
            found[group, topic, partition] = view.error
        elif not view.empty:
            found[group, topic, partition] = f"the group is {view.state} on the target now"
        elif now != offset:
            found[group, topic, partition] = f"its committed offset is {_said(now)} now"
    return found


def _said(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def check_written(
    writes: Iterable[OffsetWrite],
    refused: Mapping[OffsetWrite, str],
    target: Mapping[str, GroupView],
) -> list[WriteResult]:
    """Compare what was written with what is there.

    Args:
        writes: everything that was sent.
        refused: what the brokers refused, and why.
        target: the groups as they are afterwards.
    """
    return [_judged(write, refused.get(write, ""), target.get(write.group)) for write in writes]


def _judged(write: OffsetWrite, refused: str, view: GroupView | None) -> WriteResult:
    if refused:
        return WriteResult(write, WriteOutcome.REFUSED, refused)
    if view is None or view.error:
        return WriteResult(
            write, WriteOutcome.UNKNOWN, view.error if view else "it could not be read back"
        )
    there = view.offsets.get((write.topic, write.partition))
    now = there.offset if there is not None and there.offset >= 0 else None
    if now != write.after:
        return WriteResult(write, WriteOutcome.CHANGED, f"right afterwards it was {_said(now)}")
    if not view.empty:
        why = f"applied, but the group became {view.state} meanwhile: check where it reads"
        return WriteResult(write, WriteOutcome.CHANGED, why)
    return WriteResult(write, WriteOutcome.APPLIED)


def judge_unreported(write: OffsetWrite, view: GroupView) -> WriteResult:
    """Judge by what is there what became of a write whose writer has not told.

    Args:
        write: what was meant to be written.
        view: its group on the target now.
    """
    if view.error:
        return WriteResult(write, WriteOutcome.UNKNOWN, view.error)
    there = view.offsets.get((write.topic, write.partition))
    now = there.offset if there is not None and there.offset >= 0 else None
    if now == write.after:
        return WriteResult(write, WriteOutcome.APPLIED, "found there; the writer did not tell")
    if now == write.before:
        return WriteResult(write, WriteOutcome.NOT_WRITTEN, "it is as it was before")
    return WriteResult(write, WriteOutcome.UNKNOWN, f"it is {_said(now)} now")


def reverse_writes(written: Iterable[WriteResult]) -> list[OffsetWrite]:
    """Return the writes that take applied ones back."""
    return [
        OffsetWrite(
            w.group, w.topic, w.partition, w.after, w.after_metadata, w.before, w.before_metadata
        )
        for w in (each.write for each in written if each.result is WriteOutcome.APPLIED)
    ]
