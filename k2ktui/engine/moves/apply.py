"""Check whether a plan is still valid, judge the result of each write, and reverse writes.

This module does not talk to Kafka: the caller reads the groups, calls it, writes, reads the groups
again and calls it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.mapping.replica import TargetLog, TargetPartition
from k2ktui.engine.moves.groups import ABSENT, CommittedOffset, GroupView
from k2ktui.engine.moves.pins import PinnedLog
from k2ktui.engine.moves.plan import Action, PlanRow
from k2ktui.engine.moves.written import OffsetWrite, WrittenCommits, find_ours
from k2ktui.engine.records.mapping_version import MappingVersion, is_stale, split_guard
from k2ktui.text import counted

# Version of what has none: MirrorMaker 2's checkpoints.
_UNVERSIONED = MappingVersion(0, 0)
_UNREPORTED = "found on the target; the writer did not report it"


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
class WriteResult:
    """A write with its outcome; ``reason`` may be empty if it was applied."""

    write: OffsetWrite
    outcome: WriteOutcome
    reason: str = ""


def make_writes(
    rows: Iterable[PlanRow],
    target: Mapping[str, GroupView],
    written: Mapping[str, WrittenCommits],
    prefix: str,
) -> list[OffsetWrite]:
    """Return the writes for the rows that change something, with the current commits.

    A row that stays as chosen has a write that changes nothing, by which its choice is remembered.

    Args:
        rows: rows of a plan.
        target: current state of the groups.
        written: what was written for them, read after ``target``.
        prefix: ``groups.offsetGuardPrefix``.
    """
    writes = []
    for row in rows:
        if not (row.changes or row.stays_as_chosen):
            continue
        present = target.get(row.group, ABSENT).committed((row.topic, row.partition))
        version = _version(written.get(row.group), (row.topic, row.partition), present, prefix)
        stays = present.offset if present else None, present.metadata if present else ""
        after, metadata = (row.proposed, row.metadata) if row.changes else stays
        writes.append(
            OffsetWrite(
                row.group,
                row.topic,
                row.partition,
                *stays,
                after,
                metadata,
                version,
                row.version if row.changes else version,
                row.choice,
            )
        )
    return writes


def make_deletions(
    group: str,
    view: GroupView,
    places: Iterable[tuple[str, int]],
    written: WrittenCommits | None,
    prefix: str,
) -> list[OffsetWrite]:
    """Return the writes that delete a group's committed offsets; others are as for make_writes."""
    commits = [(at, view.committed(at)) for at in places]
    return [
        OffsetWrite(
            group,
            *at,
            commit.offset,
            commit.metadata,
            None,
            "",
            before_version=_version(written, at, commit, prefix),
        )
        for at, commit in commits
        if commit is not None
    ]


def _version(
    written: WrittenCommits | None,
    at: tuple[str, int],
    commit: CommittedOffset | None,
    prefix: str,
) -> MappingVersion | None:
    if commit is None:
        return None
    announced = find_ours(written, at, commit.offset, commit.metadata, prefix)
    return announced.version if announced is not None else None


def find_taken(
    rows: Iterable[PlanRow],
    target: Mapping[str, GroupView],
    written: Mapping[str, WrittenCommits],
    prefix: str,
    *,
    guarded: bool,
    own_only: bool = False,
) -> dict[tuple[str, str, int], str]:
    """Return the rows whose offset is the same, but was committed by another since, and why.

    Args:
        rows: rows of a plan that change something; their offsets are as the plan saw them.
        target: current state of the groups.
        written: what was written for them, read after ``target``.
        prefix: ``groups.offsetGuardPrefix``.
        guarded, own_only: as in ``PlanOptions``.
    """
    taken: dict[tuple[str, str, int], str] = {}
    for row in rows:
        commit = target.get(row.group, ABSENT).committed((row.topic, row.partition))
        at = row.topic, row.partition
        version = _version(written.get(row.group), at, commit, prefix)
        further = row.current is not None and (row.proposed or 0) < row.current
        if version is None and (row.action is Action.UPDATE or (own_only and further)):
            taken[row.group, *at] = "its commit is now the application's own"
        elif guarded and row.version != _UNVERSIONED and is_stale(row.version, version):
            taken[row.group, *at] = "its offset now comes from a newer mapping"
    return taken


def find_changed_metadata(
    writes: Iterable[OffsetWrite], target: Mapping[str, GroupView], prefix: str
) -> dict[tuple[str, str, int], str]:
    """Return the writes whose offset is as before, with metadata that another has committed."""
    changed: dict[tuple[str, str, int], str] = {}
    for write in writes:
        commit = target.get(write.group, ABSENT).committed(write.at)
        if commit is None:
            continue
        now = split_guard(prefix, commit.metadata)[1]
        if now != split_guard(prefix, write.before_metadata)[1]:
            changed[write.group, write.topic, write.partition] = "its metadata is now another"
    return changed


def find_conflicts(
    expected: Mapping[tuple[str, str, int], int | None], target: Mapping[str, GroupView]
) -> dict[tuple[str, str, int], str]:
    """Return the group-partitions that changed, and why they must not be written.

    Args:
        expected: committed offset on the target at the time of the decision, per group, topic and
            partition; None for none.
        target: current state of the groups.
    """
    conflicts: dict[tuple[str, str, int], str] = {}
    for (group, topic, partition), offset in expected.items():
        view = target.get(group, ABSENT)
        current = view.committed((topic, partition))
        now = None if current is None else current.offset
        if unread := view.unread((topic, partition)):
            conflicts[group, topic, partition] = unread
        elif not view.empty:
            conflicts[group, topic, partition] = f"the group is now {view.state} on the target"
        elif now != offset:
            conflicts[group, topic, partition] = f"its committed offset is now {_offset_text(now)}"
    return conflicts


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
    if write.changes_nothing:
        return WriteResult(write, WriteOutcome.APPLIED)
    unread = "the offset could not be read back" if view is None else view.unread(write.at)
    if view is None or unread:
        return WriteResult(write, WriteOutcome.UNKNOWN, unread)
    commit = view.committed(write.at)
    now = commit.offset if commit is not None else None
    if now != write.after:
        return WriteResult(
            write, WriteOutcome.CHANGED, f"right after the write it was {_offset_text(now)}"
        )
    if commit is not None and commit.metadata != write.after_metadata:
        return WriteResult(
            write, WriteOutcome.CHANGED, "right after the write its metadata was another"
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
    if unread := view.unread(write.at):
        return WriteResult(write, WriteOutcome.UNKNOWN, unread)
    commit = view.committed(write.at)
    now = commit.offset if commit is not None else None
    if write.before == write.after == now and commit is not None:
        # Only the metadata was to change.
        if commit.metadata == write.after_metadata:
            return WriteResult(write, WriteOutcome.APPLIED, _UNREPORTED)
        return WriteResult(write, WriteOutcome.NOT_WRITTEN, "its metadata is another")
    if now == write.after:
        return WriteResult(write, WriteOutcome.APPLIED, _UNREPORTED)
    if now == write.before:
        return WriteResult(write, WriteOutcome.NOT_WRITTEN, "the offset is unchanged")
    return WriteResult(write, WriteOutcome.UNKNOWN, f"the offset is now {_offset_text(now)}")


def reverse_writes(written: Iterable[WriteResult]) -> list[OffsetWrite]:
    """Return the writes that undo the applied ones."""
    return [
        OffsetWrite(
            w.group,
            w.topic,
            w.partition,
            w.after,
            w.after_metadata,
            w.before,
            w.before_metadata,
            w.after_version,
            w.before_version,
        )
        for w in (result.write for result in written if result.outcome is WriteOutcome.APPLIED)
    ]


def without_mark(write: OffsetWrite, prefix: str) -> OffsetWrite:
    """Return a write that does not put back the mark of an earlier release.

    Args:
        write: the write.
        prefix: ``groups.offsetGuardPrefix``.
    """
    marked, bare = split_guard(prefix, write.after_metadata)
    if marked is None:
        return write
    return replace(write, after_metadata=bare, after_version=write.after_version or marked)


def log_objections(
    rows: Iterable[PlanRow],
    pins: Sequence[PinnedLog],
    logs: Mapping[TargetPartition, TargetLog],
    topic_ids: Mapping[str, str],
) -> dict[tuple[str, str, int], str]:
    """Return why rows must no longer be applied, by group, topic and partition.

    Args:
        rows: the rows to apply.
        pins: the partitions as they were when the plan was made.
        logs: current bounds of these partitions.
        topic_ids: ids of the topics that exist now.
    """
    by_place = {pin.at: pin for pin in pins}
    objections = {}
    for row in rows:
        at = (row.topic, row.partition)
        why = _objection(by_place.get(at), row.proposed, logs.get(at), topic_ids.get(row.topic))
        if why:
            objections[row.group, row.topic, row.partition] = why
    return objections


def _objection(
    pin: PinnedLog | None, proposed: int | None, log: TargetLog | None, topic_id: str | None
) -> str:
    if pin is None:
        return "the plan has no log bounds for it"
    if topic_id is None:
        return "the topic no longer exists"
    if pin.topic_id and topic_id and pin.topic_id != topic_id:
        return "the topic was deleted and created again: its offsets start over"
    if log is None:
        return "its log bounds are unavailable"
    if pin.end is not None and log.end < pin.end:
        return f"its log ends at {log.end:,}, before its end of {pin.end:,} in the plan"
    if proposed is None:
        return ""
    if proposed > log.end:
        return f"its log ends at {log.end:,}, before the proposed offset"
    if proposed < log.start and (pin.start is None or log.start > pin.start):
        return (
            f"records were deleted up to {log.start:,} since: the group would skip "
            f"{log.start - max(proposed, pin.start or 0):,} more than was shown"
        )
    return ""
