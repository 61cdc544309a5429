"""Which commits on the target are ours.

A commit holds an offset and the application's metadata, byte for byte, and no mark of ours. So the
commits that k2ktui writes are recorded on the state topic, in one record per consumer group.

- *Before* a commit, its offset, metadata and mapping version are added to the record. The current
  commit stays in the record if it was ours. So after a crash, either of the two is recognized as
  ours, and an application's commit never is.
- *After* it, the commits are read back. The record then keeps the current commit, and those that
  other writers have announced and not read back yet: ``sync`` beside ``apply``, or a process that
  was suspended, may still carry them out.

A commit that equals one of the record is ours: a newer mapping corrects it, an older one leaves it
alone. Any other commit is the application's own.

What an operator chose for a partition is in the record, too, from the announcement on: after a
crash, the row is left alone rather than translated over. This module does not access Kafka.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from k2ktui.engine.moves.choice import Choice
from k2ktui.engine.records.mapping_version import MappingVersion, split_guard

Partition = tuple[str, int]
Commit = tuple[int, str]
"""What is committed: an offset and its metadata."""

# Longer metadata is recorded as a digest: a group of 1,000 partitions fits into one record.
_RECORDED_CHARACTERS = 64
_DIGEST = "sha256:"
# A process commits what it announced within minutes, or never: it has crashed.
PENDING_MS = 3_600_000
LARGEST_NUMBER = (1 << 53) - 1


def recorded_metadata(metadata: str) -> str:
    """Return what a record holds of a commit's metadata; equal for equal metadata only."""
    if len(metadata) <= _RECORDED_CHARACTERS and not metadata.startswith(_DIGEST):
        return metadata
    return _DIGEST + hashlib.sha256(metadata.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class WrittenCommit:
    """A commit that was written, or is about to be.

    Attributes:
        offset: the committed offset.
        metadata: its metadata, as :func:`recorded_metadata`.
        version: version of the mapping that it was made from.
        writer: the process that announced it; "" once that process has read it back.
        at_ms: when it was announced, epoch milliseconds.
    """

    offset: int
    metadata: str
    version: MappingVersion
    writer: str = ""
    at_ms: int = 0

    @property
    def pending(self) -> bool:
        """Whether its writer has not read it back yet."""
        return bool(self.writer)

    def is_late(self, now_ms: int) -> bool:
        """Whether its writer must have ended without a result."""
        return self.pending and now_ms - self.at_ms > PENDING_MS


@dataclass(frozen=True, slots=True)
class WrittenCommits:
    """What was written for one consumer group.

    Attributes:
        consumer_group: name of the group.
        number: one more than that of the record it is based on. Two records of one number were
            written at the same time: what is in either holds, and has the next number.
        commits: the commits of each target partition.
        choices: what operators chose for target partitions instead of the translated offsets.
    """

    consumer_group: str
    number: int = 0
    commits: Mapping[Partition, tuple[WrittenCommit, ...]] = field(default_factory=dict)
    choices: Mapping[Partition, Choice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetWrite:
    """A change of one committed offset on the target: the current and the new offset.

    ``after`` None deletes the committed offset. The versions are of the mappings that the offsets
    were made from, None for an offset that is not ours. ``choice`` is what an operator chose
    instead of the translated offset; None ends an earlier choice.
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
    choice: Choice | None = None

    @property
    def at(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def commit_before(self) -> Commit | None:
        """The current commit; None for none."""
        return None if self.before is None else (self.before, self.before_metadata)

    @property
    def commit_after(self) -> Commit | None:
        """The new commit; None if it is deleted."""
        return None if self.after is None else (self.after, self.after_metadata)

    @property
    def changes_nothing(self) -> bool:
        """Whether only a choice is remembered, or forgotten."""
        return (self.before, self.before_metadata) == (self.after, self.after_metadata)


@dataclass(frozen=True, slots=True)
class Ours:
    """A commit of ours, as found on the target.

    Attributes:
        version: version of the mapping that it was made from.
        overwrote_newer: a commit made from a newer mapping was seen there before: a process that
            had been suspended has overwritten it.
    """

    version: MappingVersion
    overwrote_newer: bool = False


def find_ours(
    written: WrittenCommits | None, at: Partition, offset: int, metadata: str, prefix: str
) -> Ours | None:
    """Return what is known of a commit on the target, None if it is the application's own.

    Args:
        written: the record of its group, read after the commit was.
        at: target partition.
        offset, metadata: the commit.
        prefix: ``groups.offsetGuardPrefix``, with which earlier releases marked their commits.
    """
    marked, _ = split_guard(prefix, metadata)
    if marked is not None:
        return Ours(marked)
    known = written.commits.get(at, ()) if written is not None else ()
    text = recorded_metadata(metadata)
    equal = [
        commit.version for commit in known if (commit.offset, commit.metadata) == (offset, text)
    ]
    if not equal:
        return None
    version = max(equal)
    return Ours(version, any(not commit.pending and commit.version > version for commit in known))


def announce(
    known: WrittenCommits | None,
    group: str,
    writes: Iterable[OffsetWrite],
    writer: str,
    now_ms: int,
    *,
    is_current: bool = False,
) -> WrittenCommits | None:
    """Return the record to write before commits, None if it is written already.

    Args:
        known: the newest record of the group.
        group: the consumer group.
        writes: what is to be committed.
        writer: id of this process.
        now_ms: current time.
        is_current: whether nobody has written a record since before the commits were read; then
            entries that were read back and are no longer the current commit can go.
    """
    recorded = dict(known.commits) if known is not None else {}
    choices = dict(known.choices) if known is not None else {}
    missing = False
    for write in writes:
        if write.choice is not None and choices.get(write.at) != write.choice:
            choices[write.at] = write.choice
            missing = True
        of_partition = recorded.get(write.at, ())
        new = _next(write, writer, now_ms)
        if new is None or new in of_partition:
            continue
        missing = True
        kept = [
            other
            for other in of_partition
            if not (other.writer == writer and _made_by(other, write))
            and (other.pending or not is_current or _equals(other, write.commit_before))
        ]
        recorded[write.at] = (*kept, new)
    return _record(known, group, recorded, choices) if missing else None


def read_back(
    known: WrittenCommits | None,
    group: str,
    results: Iterable[tuple[OffsetWrite, Commit | None, bool]],
    writer: str,
    now_ms: int,
    looked: WrittenCommits | None = None,
    announced: WrittenCommits | None = None,
) -> WrittenCommits | None:
    """Return the record to write after commits, None if it would say the same.

    Args:
        known: the newest record of the group.
        group: the consumer group.
        results: each write, what is committed now, and whether its outcome is known: it was
            carried out, or refused.
        writer: id of this process.
        now_ms: current time.
        looked: the record when this process decided what to commit. A commit from a newer mapping
            that another process has read back since stays: this process was too late, and its own
            commit must be corrected.
        announced: the record before this process committed, None for ``known``. Commits that others
            have read back since stay: one of them may be the current commit by now, and without its
            entry it would count as the application's own.
    """
    before = dict(known.commits) if known is not None else {}
    recorded = dict(before)
    results = list(results)
    choices = _read_back_choices(known, results, looked)
    earlier = announced if announced is not None else known
    for write, now, is_known in results:
        kept: list[WrittenCommit] = []
        expected = looked.commits.get(write.at, ()) if looked is not None else ()
        replaced = earlier.commits.get(write.at, ()) if earlier is not None else ()
        for other in recorded.pop(write.at, ()):
            is_ours = other.writer == writer and _made_by(other, write)
            if _equals(other, now):
                kept.append(replace(other, writer="", at_ms=0) if is_ours else other)
            elif other.pending:
                if not other.is_late(now_ms) and not (is_ours and is_known):
                    kept.append(other)
            elif other not in replaced or (
                other not in expected and _is_newer(other, write) and now == write.commit_after
            ):
                kept.append(other)
        made = _next(write, "", 0)
        if made is not None and _equals(made, now):
            kept.append(made)
        if kept:
            recorded[write.at] = _newest(kept)
    is_same = recorded == before and choices == (known.choices if known is not None else {})
    return None if is_same else _record(known, group, recorded, choices)


def _read_back_choices(
    known: WrittenCommits | None,
    results: Iterable[tuple[OffsetWrite, Commit | None, bool]],
    looked: WrittenCommits | None,
) -> dict[Partition, Choice]:
    """Return the choices that hold after commits; arguments as for :func:`read_back`."""
    choices = dict(known.choices) if known is not None else {}
    for write, now, is_known in results:
        is_done = now == write.commit_after or write.commit_before == write.commit_after
        if write.choice is None and is_done:
            choices.pop(write.at, None)
        if write.choice is None or is_done or not is_known:
            continue
        # It was refused: what was chosen before holds.
        if choices.get(write.at) == write.choice:
            del choices[write.at]
        if looked is not None and write.at in looked.choices:
            choices.setdefault(write.at, looked.choices[write.at])
    return choices


def _newest(commits: Iterable[WrittenCommit]) -> tuple[WrittenCommit, ...]:
    """Leave out what was read back and is the same as another, made from an older mapping."""
    newest: dict[tuple[int, str] | WrittenCommit, WrittenCommit] = {}
    for commit in commits:
        same = commit if commit.pending else (commit.offset, commit.metadata)
        before = newest.get(same)
        if before is None or commit.version > before.version:
            newest[same] = commit
    return tuple(newest.values())


def merge(earlier: WrittenCommits, later: WrittenCommits) -> WrittenCommits:
    """Merge two records of one group, given in the order of the log."""
    if later.number > earlier.number:
        return later
    # Neither writer knew the other's record: any announced commit may still be carried out, and any
    # that was read back may be the current one.
    equal = later.number == earlier.number
    merged = dict(earlier.commits)
    for at, commits in later.commits.items():
        known = merged.get(at, ())
        more = [commit for commit in commits if (equal or commit.pending) and commit not in known]
        if known or more:
            merged[at] = (*known, *more)
    first, second = (earlier, later) if equal else (later, earlier)
    choices = {**first.choices, **second.choices}
    # A record based on the earlier one alone must not replace both: it would drop a commit that a
    # late process has announced and is about to write.
    number = earlier.number + (merged != earlier.commits or choices != earlier.choices)
    return WrittenCommits(later.consumer_group, min(number, LARGEST_NUMBER), merged, choices)


def join(newest: WrittenCommits | None, mine: WrittenCommits) -> WrittenCommits | None:
    """Return the record to write because others hold more than this process has written, or None.

    The topic is compacted: an entry that is only in an older record is soon gone. If the last
    record is another process's, its content is written once more, which changes nothing.

    Args:
        newest: the group's merged record, read after ``mine`` was written.
        mine: the record that this process has written.
    """
    if newest is None:
        return None
    both = merge(newest, mine)
    more = any(set(commits) - set(mine.commits.get(at, ())) for at, commits in both.commits.items())
    more = more or both.choices != mine.choices
    return _record(both, both.consumer_group, both.commits, both.choices) if more else None


def _record(
    known: WrittenCommits | None,
    group: str,
    commits: Mapping[Partition, tuple[WrittenCommit, ...]],
    choices: Mapping[Partition, Choice],
) -> WrittenCommits:
    number = min(known.number + 1, LARGEST_NUMBER) if known is not None else 1
    return WrittenCommits(group, number, commits, choices)


def choice_in_force(
    written: WrittenCommits | None, at: Partition, source: str, current: int | None
) -> Choice | None:
    """Return what was chosen for a partition, if it still holds; None without a choice.

    Args:
        written: the record of the group.
        at: target partition.
        source: the source commits now; a choice ends when they move.
        current: offset committed on the target now; a chosen offset that is gone holds no longer.
    """
    choice = written.choices.get(at) if written is not None else None
    if choice is None or choice.source != source:
        return None
    return choice if choice.leaves_out or current is not None else None


def _next(write: OffsetWrite, writer: str, now_ms: int) -> WrittenCommit | None:
    if write.commit_after is None or write.after_version is None:
        return None
    offset, metadata = write.commit_after
    return WrittenCommit(offset, recorded_metadata(metadata), write.after_version, writer, now_ms)


def _made_by(written: WrittenCommit, write: OffsetWrite) -> bool:
    return _equals(written, write.commit_after) and written.version == write.after_version


def _is_newer(written: WrittenCommit, write: OffsetWrite) -> bool:
    return write.after_version is not None and written.version > write.after_version


def _equals(written: WrittenCommit, commit: Commit | None) -> bool:
    return commit is not None and (written.offset, written.metadata) == (
        commit[0],
        recorded_metadata(commit[1]),
    )
