"""Check whether a plan is still valid, judge the result of each write, and reverse writes.

This module does not talk to Kafka: the caller reads the groups, calls it, writes, reads the groups
again and calls it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.groups import ABSENT, CommittedOffset, GroupView
from k2ktui.engine.guard import MappingVersion, is_stale, split_guard
from k2ktui.engine.plan import Action, PlanRow
from k2ktui.engine.written import WrittenCommits, find_ours
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
class OffsetWrite:
    """A change of one committed offset on the target: the current and the new offset.

    ``after`` None deletes the committed offset. The versions are of the mappings that the offsets
    were made from, None for an offset that is not ours.
    """

    group: str
    topic: str
    partition: int
    before: int | None
    before_metadata: str
    after: int | None
    after_metadata: str
    before_version: MappingVersion | None = None
    after_version: MappingVersion | None = None

    @property
    def at(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A write with its result; ``why`` may be empty if it was applied."""

    write: OffsetWrite
    result: WriteOutcome
    why: str = ""


def make_writes(
    rows: Iterable[PlanRow],
    target: Mapping[str, GroupView],
    written: Mapping[str, WrittenCommits],
    prefix: str,
) -> list[OffsetWrite]:
    """Return the writes for the rows that change something, with the current commits.

    Args:
        rows: rows of a plan.
        target: current state of the groups.
        written: what was written for them, read after ``target``.
        prefix: ``groups.offsetGuardPrefix``.
    """
    found = []
    for row in rows:
        if not row.changes:
            continue
        present = _committed(target.get(row.group, ABSENT), row.topic, row.partition)
        found.append(
            OffsetWrite(
                row.group,
                row.topic,
                row.partition,
                present.offset if present else None,
                present.metadata if present else "",
                row.proposed,
                row.metadata,
                _version(written.get(row.group), (row.topic, row.partition), present, prefix),
                row.version,
            )
        )
    return found


def _committed(view: GroupView, topic: str, partition: int) -> CommittedOffset | None:
    there = view.offsets.get((topic, partition))
    return there if there is not None and there.offset >= 0 else None


def _version(
    written: WrittenCommits | None,
    at: tuple[str, int],
    commit: CommittedOffset | None,
    prefix: str,
) -> MappingVersion | None:
    if commit is None:
        return None
    found = find_ours(written, at, commit.offset, commit.metadata, prefix)
    return found.version if found is not None else None


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
    found: dict[tuple[str, str, int], str] = {}
    for row in rows:
        commit = _committed(target.get(row.group, ABSENT), row.topic, row.partition)
        at = row.topic, row.partition
        version = _version(written.get(row.group), at, commit, prefix)
        further = row.current is not None and (row.proposed or 0) < row.current
        if version is None and (row.action is Action.UPDATE or (own_only and further)):
            found[row.group, *at] = "its commit is now the application's own"
        elif guarded and row.version != _UNVERSIONED and is_stale(row.version, version):
            found[row.group, *at] = "its offset now comes from a newer mapping"
    return found


def find_changed_metadata(
    writes: Iterable[OffsetWrite], target: Mapping[str, GroupView], prefix: str
) -> dict[tuple[str, str, int], str]:
    """Return the writes whose offset is as before, with metadata that another has committed."""
    found: dict[tuple[str, str, int], str] = {}
    for write in writes:
        commit = _committed(target.get(write.group, ABSENT), write.topic, write.partition)
        if commit is None:
            continue
        now = split_guard(prefix, commit.metadata)[1]
        if now != split_guard(prefix, write.before_metadata)[1]:
            found[write.group, write.topic, write.partition] = "its metadata is now another"
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
        if unread := view.unread((topic, partition)):
            found[group, topic, partition] = unread
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
    unread = "the offset could not be read back" if view is None else view.unread(write.at)
    if view is None or unread:
        return WriteResult(write, WriteOutcome.UNKNOWN, unread)
    there = _committed(view, write.topic, write.partition)
    now = there.offset if there is not None else None
    if now != write.after:
        return WriteResult(
            write, WriteOutcome.CHANGED, f"right after the write it was {_offset_text(now)}"
        )
    if there is not None and there.metadata != write.after_metadata:
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
    there = _committed(view, write.topic, write.partition)
    now = there.offset if there is not None else None
    if write.before == write.after == now and there is not None:
        # Only the metadata was to change.
        if there.metadata == write.after_metadata:
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
        for w in (each.write for each in written if each.result is WriteOutcome.APPLIED)
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
