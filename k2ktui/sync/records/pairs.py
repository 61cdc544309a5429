"""List records of a source partition with their copies, which the mapping names."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from k2ktui.engine.mapping.replica import Lookup, Replica, TargetPartition
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.log.content import AbsenceReason, ContentReader
from k2ktui.log.listing import LogEntry, LogLister, OffsetState
from k2ktui.log.record import RecordPart
from k2ktui.sync.flow import Flow
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.sync.moves.snapshot import SnapshotReader
from k2ktui.sync.verify.changed_records import ignored_parts, leaves_records_out
from k2ktui.sync.verify.record_comparison import (
    NOT_REPLICATED,
    Compaction,
    Comparison,
    ComparisonOutcome,
    RecordComparison,
)
from k2ktui.sync.verify.schema_id_comparison import open_record_comparison

log = logging.getLogger(__name__)

Side = Literal["source", "target", "both"]

# A target partition and an offset there.
_Spot = tuple[TargetPartition, int]

_COMPARED = (RecordPart.KEY, RecordPart.VALUE, RecordPart.HEADERS, RecordPart.TIMESTAMP)
_ABSENT = {
    AbsenceReason.DELETED: OffsetState.DELETED,
    AbsenceReason.UNSTABLE: OffsetState.OPEN,
    AbsenceReason.UNREAD: OffsetState.UNREAD,
}


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """An offset of a partition; of the source, unless only the target's records are listed."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class RecordPair:
    """What one record, or some offsets, are on each cluster.

    Attributes:
        source: on the source; None if only the target is listed.
        target: on the target; None if no offset there is known.
        target_partition: the target's topic and partition; None as ``target``.
        compared: whether both are the same record; None without two records.
        why_no_copy: why a source record has no offset on the target; "" if it has one.
    """

    source: LogEntry | None
    target: LogEntry | None = None
    target_partition: TargetPartition | None = None
    compared: Comparison | None = None
    why_no_copy: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the copy differs, or the target has lost it."""
        differs = self.compared is not None and self.compared.outcome is ComparisonOutcome.DIFFERENT
        return differs or (self.target is not None and self.target.state is OffsetState.LOST)

    @property
    def result(self) -> str:
        """Whether source and target are equal, or why that is not known; not yet safe to print."""
        if self.compared is not None:
            same = self.compared.outcome is ComparisonOutcome.SAME
            return "equal" if same else f"{self.compared.outcome}: {self.compared.why}"
        if self.source is not None and self.source.record is None:
            return self.source.meaning
        if self.target is not None and self.target.record is None:
            return self.target.meaning if self.source is None else f"target: {self.target.meaning}"
        return self.why_no_copy


@dataclass(frozen=True, slots=True)
class RecordListing:
    """Records before and from a position on.

    Attributes:
        place: the position.
        side: which clusters' records are listed.
        before: what is before it, in the order of the log.
        following: what is at the position and after it.
        notes: messages for the operator.
    """

    place: RecordPlace
    side: Side
    before: tuple[RecordPair, ...]
    following: tuple[RecordPair, ...]
    notes: tuple[str, ...] = ()

    @property
    def pairs(self) -> tuple[RecordPair, ...]:
        """All of them, in the order of the log."""
        return self.before + self.following


def list_records(
    flow: Flow, place: RecordPlace, side: Side, *, before: int, count: int, timeout: float = 30.0
) -> RecordListing:
    """List the records around a position; changes nothing on either cluster.

    Args:
        flow: the pipeline, or another program's flow.
        place: the position; on the target if ``side`` is ``target``.
        side: which clusters' records are listed; ``both`` finds copies by the mapping.
        before: number of records before the position.
        count: number of records from the position on.
        timeout: seconds for reading the logs.

    Raises:
        ConnectionFailed, TimedOut: a cluster whose records are listed does not answer.
        ConfigError: client properties cannot be used.
    """
    until = monotonic() + timeout
    label = "target" if side == "target" else "source"
    cluster = target_cluster(flow.config) if side == "target" else source_cluster(flow.config)
    log.info(
        "listing %d records before and %d from %s-%d@%d on (%s)",
        *(before, count, place.topic, place.partition, place.offset, label),
    )
    earlier, following = _list(cluster, place, before, count, until)
    if side == "both":
        pairs, notes = _pair(flow, place, [*earlier, *following], until)
    elif side == "target":
        at = (place.topic, place.partition)
        pairs, notes = [RecordPair(None, entry, at) for entry in (*earlier, *following)], ()
    else:
        pairs, notes = [RecordPair(entry) for entry in (*earlier, *following)], ()
    parted = len(earlier)
    return RecordListing(place, side, tuple(pairs[:parted]), tuple(pairs[parted:]), notes)


@dataclass(frozen=True, slots=True)
class GroupRecords:
    """Records around a group's position.

    Attributes:
        listing: those of the source, with their copies.
        target: those around the group's commit on the target, where that is another record than
            the copy of the source's; None where it is the same, or there is no commit.
    """

    listing: RecordListing
    target: RecordListing | None = None


def list_group_records(flow: Flow, row: GroupRow, records: int) -> GroupRecords:
    """List the last records that a group has read of a partition, and the next unread ones.

    Args:
        flow: the pipeline, or another program's flow.
        row: the group's position on the partition; it has a commit on the source.
        records: number of records in each direction.

    Raises:
        ConnectionFailed, TimedOut, ConfigError: as for :func:`list_records`.
    """
    assert row.source_offset is not None
    place = RecordPlace(row.topic, row.partition, row.source_offset)
    listing = list_records(flow, place, "both", before=records, count=records)
    commit, number = row.target_offset, row.target_partition
    if commit is None or number is None or commit == row.translated_offset:
        return GroupRecords(listing)
    there = RecordPlace(row.target_topic, number, commit)
    return GroupRecords(listing, list_records(flow, there, "target", before=records, count=records))


def _list(
    cluster: Cluster, place: RecordPlace, before: int, count: int, until: float
) -> tuple[list[LogEntry], list[LogEntry]]:
    at = (place.topic, place.partition)
    with LogLister(cluster) as lister:
        earlier = (
            lister.list_before(at, place.offset, before, until - monotonic()) if before else []
        )
        following = lister.list_from(at, place.offset, count, until - monotonic()) if count else []
    return earlier, following


def _pair(
    flow: Flow, place: RecordPlace, entries: Sequence[LogEntry], until: float
) -> tuple[list[RecordPair], tuple[str, ...]]:
    """Return the entries with their copies, and notes."""
    at = SourcePartition(place.topic, place.partition)
    offsets = [entry.first for entry in entries if entry.record is not None]
    if not offsets:
        return [RecordPair(entry) for entry in entries], ()
    snapshots = SnapshotReader(flow, for_plans=False)
    try:
        copies = snapshots.find_copies({at: offsets})
    except NothingCopied as error:
        return [_without_copy(entry, error.message) for entry in entries], ()
    finally:
        snapshots.close()
    replica = copies.replicas.get(at)
    is_equal = flow.has_equal_offsets
    spots = (_find_equal if is_equal else _find_spots)(replica, at, offsets)
    copied = _read_copies(target_cluster(flow.config), spots, until)
    with open_record_comparison(flow.config) as records:
        pairs = [
            _compare(at, entry, spots[entry.first], copied[entry.first], records)
            if entry.first in spots and entry.record is not None
            else _without_copy(entry, _explain(flow, at, replica, entry.first))
            for entry in entries
        ]
    return pairs, (*copies.notes, *_parts_not_compared(flow, place.topic))


def _parts_not_compared(flow: Flow, topic: str) -> list[str]:
    ignored = ignored_parts(flow.config, topic)
    parts = [str(part) for part in _COMPARED if part in ignored]
    return [f"not compared, as the pipeline changes it: {', '.join(parts)}"] if parts else []


def _find_spots(
    replica: Replica | None, at: SourcePartition, offsets: Sequence[int]
) -> dict[int, _Spot]:
    """Return where each record landed, of those that are mapped, and not overwritten since."""
    if replica is None or replica.unusable_reason:
        return {}
    lookup = Lookup({at: replica}, {at: offsets})
    spots = {}
    for offset in offsets:
        for target in replica.target_ranges:
            landed = lookup.find(at, target, offset)
            if landed.source == offset and landed.target < landed.lost_from:
                spots[offset] = (target, landed.target)
    return spots


def _find_equal(
    replica: Replica | None, at: SourcePartition, offsets: Sequence[int]
) -> dict[int, _Spot]:
    """Return where records are whose offsets were proven to be equal."""
    if replica is None or replica.unusable_reason or replica.position is None:
        return {}
    anchors, copy = replica.anchors, (replica.position.target_topic, at.partition)
    assert anchors is not None
    return {offset: (copy, offset) for offset in offsets if anchors.is_compared(offset)}


def _read_copies(cluster: Cluster, spots: Mapping[int, _Spot], until: float) -> dict[int, LogEntry]:
    """Return what is on the target where each record landed, by the record's source offset."""
    places = [((*target, landed), 1) for target, landed in spots.values()]
    compaction = Compaction(cluster)
    copied = {}
    with ContentReader(cluster) as reader:
        ranges = reader.stretches(places, max(0.0, until - monotonic()))
    for (offset, (target, landed)), read in zip(spots.items(), ranges, strict=True):
        record = read.records.get(landed)
        if record is not None:
            copied[offset] = LogEntry(landed, landed, OffsetState.RECORD, record)
            continue
        why = read.absence(landed)
        state = _ABSENT.get(why, OffsetState.LOST)
        if why is AbsenceReason.NONE and compaction.may(target[0]):
            state = OffsetState.COMPACTED
        reason = read.unread if state is OffsetState.UNREAD else ""
        copied[offset] = LogEntry(landed, landed, state, reason=reason)
    return copied


def _compare(
    at: SourcePartition,
    entry: LogEntry,
    spot: _Spot,
    copy: LogEntry,
    records: RecordComparison,
) -> RecordPair:
    compared = None
    if entry.record is not None and copy.record is not None:
        compared = records.compare(at.topic, entry.record, copy.record)
    return RecordPair(entry, copy, spot[0], compared)


def _without_copy(entry: LogEntry, why: str) -> RecordPair:
    return RecordPair(entry, why_no_copy=why if entry.record is not None else "")


def _explain(flow: Flow, at: SourcePartition, replica: Replica | None, offset: int) -> str:
    """Return why a record has no offset on the target."""
    if replica is None or replica.position is None:
        return "not replicated"
    if replica.unusable_reason:
        return replica.unusable_reason
    if offset >= replica.position.offset:
        return NOT_REPLICATED
    if flow.has_equal_offsets:
        return "not proven to have an equal offset on the target"
    if replica.anchors is not None:
        return "MirrorMaker 2 keeps no offset of this record"
    if offset < replica.position.start:
        return "before the offset at which the pipeline began"
    if replica.behind or offset < replica.known_from:
        return "its mapping is not known"
    if any(first <= offset < end for first, end in replica.holes):
        return "its mapping is lost"
    if leaves_records_out(flow.config, at.topic) or flow.config.bidirectional_mode:
        return "left out by the pipeline"
    return "not copied: the pipeline was moved past it"
