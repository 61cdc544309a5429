"""Translate committed offsets from the source to the target, with the basis for each.

One or several source partitions may feed a target partition (fan-in, or keys that choose the
partition). The translated offset is always the lowest target offset of any record that the group
has not consumed, so nothing is skipped. Consumed records after it are counted as reread; with one
source partition there are none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple

import numpy as np

from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.intervals import FOREVER
from k2ktui.engine.mapping.range_columns import count_below, count_consumed
from k2ktui.engine.mapping.ranges import NOT_FOUND, MappingRanges
from k2ktui.engine.mapping.replica import (
    FoundRecords,
    Lookup,
    Replica,
    TargetLog,
    TargetPartition,
    is_mapping_complete,
    may_precede,
    target_partitions_of,
)
from k2ktui.engine.records.gaps import RETURNED
from k2ktui.engine.records.state import MOST_LANDED, Position, SourcePartition
from k2ktui.text import counted


class Basis(StrEnum):
    """Why a translation can be trusted, from best to worst.

    ``CHOSEN`` is no translation: an operator has set the row of a plan.
    """

    EXACT = "exact"
    END = "end"
    AHEAD = "ahead"
    BOUNDED = "bounded"
    UNMAPPED = "unmapped"
    CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of a group's position for one target partition.

    Attributes:
        target: the target partition.
        sources: the source partitions that feed it and that the group has committed.
        offset: target offset to commit; None if it cannot be determined.
        basis: why the offset can be trusted.
        reread: upper bound of the records read again; None if unknown.
        skipped: upper bound of the records never read; None if unknown.
        reason: what an operator should know; may be empty.
    """

    target: TargetPartition
    sources: tuple[SourcePartition, ...]
    offset: int | None
    basis: Basis
    reread: int | None = 0
    skipped: int | None = 0
    reason: str = ""

    def unmapped(self, reason: str) -> Translation:
        """Return it without an offset, for this reason."""
        return Translation(self.target, self.sources, None, Basis.UNMAPPED, None, None, reason)


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """A source offset with its translation, as ``k2ktui translate --json`` prints it.

    Attributes:
        topic, partition: the source partition.
        offset: the source offset that was translated.
        target_topic: where the partition's records go; empty if it is not replicated.
        target_partition: the same; None if it is not replicated.
        translated_offset: target offset to continue at; None if it cannot be determined.
        basis: why the offset can be trusted.
        reread: upper bound of the records read again; None if unknown.
        skipped: upper bound of the records never read; None if unknown.
        reason: what an operator should know; may be empty.
    """

    topic: str
    partition: int
    offset: int
    target_topic: str
    target_partition: int | None
    translated_offset: int | None
    basis: Basis
    reread: int | None
    skipped: int | None
    reason: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether nothing is read again and nothing is skipped: the basis is exact or end."""
        return self.basis in (Basis.EXACT, Basis.END)


def list_translated(
    commits: Mapping[SourcePartition, int], translations: Iterable[Translation]
) -> tuple[TranslatedOffset, ...]:
    """Return a row for each source offset and target partition that it leads to.

    Offsets that are translated together (several source partitions feed one target partition)
    have the same target offset. An offset of a partition that is not replicated has a row, too.
    """
    translated = [
        TranslatedOffset(
            topic=source.topic,
            partition=source.partition,
            offset=commits[source],
            target_topic=row.target[0],
            target_partition=row.target[1],
            translated_offset=row.offset,
            basis=row.basis,
            reread=row.reread,
            skipped=row.skipped,
            reason=row.reason,
        )
        for row in translations
        for source in row.sources
    ]
    placed = {(row.topic, row.partition) for row in translated}
    for source in sorted(commits):
        if (source.topic, source.partition) not in placed:
            why = f"{source} is not replicated"
            where = source.topic, source.partition, commits[source]
            translated.append(
                TranslatedOffset(*where, "", None, None, Basis.UNMAPPED, None, None, why)
            )
    return tuple(translated)


@dataclass(frozen=True, slots=True)
class _Partial:
    """The translation for one source partition; fields as in ``Translation``."""

    offset: int | None
    basis: Basis
    reread: int | None = 0
    skipped: int | None = 0
    reason: str = ""


def _unmapped(reason: str) -> _Partial:
    return _Partial(None, Basis.UNMAPPED, None, None, reason)


class _Proof(Enum):
    """What positions prove about a target partition where mapping records are missing.

    ``WHOLE``: one source partition feeds it, and nothing but the source chooses the partition.
    ``BOUND``: several may, so that records of one lie among those of others. ``NONE``: records of
    both directions lie there.
    """

    NONE = 0
    BOUND = 1
    WHOLE = 2


_NO_SOURCES: frozenset[SourcePartition] = frozenset()
_NO_TARGETS: frozenset[TargetPartition] = frozenset()
_INTERLEAVED = (
    "records of several source partitions may lie here, and the mapping topic does not hold them"
)
# From best to worst; a translation from several partitions has the worst basis among them.
_CERTAIN = (Basis.EXACT, Basis.END, Basis.AHEAD)
_ORDER = (Basis.EXACT, Basis.END, Basis.AHEAD, Basis.BOUNDED, Basis.UNMAPPED)


def translate(
    replicas: Mapping[SourcePartition, Replica],
    commits: Mapping[SourcePartition, int],
    targets: Mapping[TargetPartition, TargetLog],
    lookup: Lookup | None = None,
    both_ways: Collection[TargetPartition] = _NO_TARGETS,
) -> list[Translation]:
    """Translate one group's committed offsets.

    I4: a translated offset is the target offset of the first record that the group has not consumed
    on the source; of several source partitions (and, in ``both_directions``, of both directions)
    the lowest. A higher one skips records. Where it cannot be proved, the basis is ``unmapped``.

    Args:
        replicas: state of each source partition's copy, including partitions without a commit
            that feed the same target partitions.
        commits: committed offset per source partition; negative means none.
        targets: bounds of every target partition that one of them feeds.
        lookup: lookups shared by many groups; None builds one for this call.
        both_ways: target partitions with records of both directions.

    Returns:
        One row per target partition, sorted. A source partition that feeds no target partition
        has no row.
    """
    if lookup is None:
        lookup = Lookup(replicas, {source: [offset] for source, offset in commits.items()})
    feeding: dict[TargetPartition, list[SourcePartition]] = {}
    for source in sorted(commits):
        for target in sorted(target_partitions_of(replicas.get(source))):
            feeding.setdefault(target, []).append(source)
    return [
        _join_sources(
            target,
            sources,
            replicas,
            commits,
            targets.get(target),
            lookup,
            _find_proof(target, sources, replicas, lookup, both_ways),
        )
        for target, sources in sorted(feeding.items())
    ]


def _find_proof(
    target: TargetPartition,
    sources: list[SourcePartition],
    replicas: Mapping[SourcePartition, Replica],
    lookup: Lookup,
    both_ways: Collection[TargetPartition],
) -> _Proof:
    if target in both_ways:
        return _Proof.NONE
    position = replicas[sources[0]].position
    is_fixed = position is not None and position.target_partition is not None
    is_alone = len(sources) == 1 and lookup.feeds.get(target, _NO_SOURCES) <= set(sources)
    return _Proof.WHOLE if is_fixed and is_alone else _Proof.BOUND


def _join_sources(
    target: TargetPartition,
    sources: list[SourcePartition],
    replicas: Mapping[SourcePartition, Replica],
    commits: Mapping[SourcePartition, int],
    log: TargetLog | None,
    lookup: Lookup,
    proof: _Proof,
) -> Translation:
    def translate_source(source: SourcePartition) -> _Partial:
        committed = commits[source]
        first = lookup.find(source, target, committed)
        return _translate_source(replicas[source], committed, target, log, first, proof)

    if len(sources) == 1 and lookup.feeds.get(target, _NO_SOURCES) <= set(sources):
        part = translate_source(sources[0])  # the common case
        if part.offset is None:
            return Translation(target, (sources[0],), None, Basis.UNMAPPED, None, None, part.reason)
        known = part.offset, part.basis, part.reread, part.skipped
        return Translation(target, (sources[0],), *known, part.reason)
    parts = {source: translate_source(source) for source in sources}
    offsets = [part.offset for part in parts.values() if part.offset is not None]
    basis = max((part.basis for part in parts.values()), key=_ORDER.index)
    reasons = dict.fromkeys(part.reason for part in parts.values() if part.reason)
    if not offsets or any(part.offset is None for part in parts.values()):
        reason = "; ".join(reasons)
        return Translation(target, tuple(sources), None, Basis.UNMAPPED, None, None, reason)
    offset = min(offsets)
    reread = _sum_known(part.reread for part in parts.values())
    skipped = _sum_known(part.skipped for part in parts.values())
    again = sum(
        _count_consumed_between(replicas[s], target, commits[s], offset, part.offset)
        for s, part in parts.items()
        if part.offset is not None and part.offset != offset
    )
    if again and reread is not None:
        reread += again
        basis = max(basis, Basis.BOUNDED, key=_ORDER.index)
        reasons["records of several source partitions interleave here: no single position"] = None
    uncommitted = _sources_without_commit(target, offset, set(sources), replicas, lookup)
    if uncommitted:
        basis, skipped = Basis.UNMAPPED, None
        names = ", ".join(str(source) for source in uncommitted)
        reasons[f"{names} feeds this partition too, and the group has no offset there"] = None
    return Translation(target, tuple(sources), offset, basis, reread, skipped, "; ".join(reasons))


def _sources_without_commit(
    target: TargetPartition,
    offset: int,
    committed: set[SourcePartition],
    replicas: Mapping[SourcePartition, Replica],
    lookup: Lookup,
) -> list[SourcePartition]:
    """Return the source partitions without a commit that may have records before the offset."""
    others = lookup.feeds.get(target, frozenset()) - committed
    return sorted(source for source in others if may_precede(replicas[source], target, offset))


def _sum_known(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _count_consumed_between(
    replica: Replica, target: TargetPartition, committed: int, low: int, high: int
) -> int:
    """Return how many records from ``low`` on the group has consumed on the source, at most.

    Of what the mapping does not have, each offset up to the group's own position ``high`` counts.
    """
    ranges = replica.target_ranges.get(target)
    if replica.is_incomplete and not is_mapping_complete(replica, target, low, high):
        return high - low
    return 0 if ranges is None else count_consumed(ranges.columns(), committed, low, FOREVER)


def _translate_source(
    replica: Replica,
    committed: int,
    target: TargetPartition,
    log: TargetLog | None,
    first: FoundRecords,
    proof: _Proof,
) -> _Partial:
    position = replica.position
    assert position is not None
    if committed < 0:
        return _unmapped("no offset is committed on the source")
    if replica.unusable_reason:
        return _unmapped(replica.unusable_reason)
    if replica.source_end is not None and committed > max(replica.source_end, position.offset):
        return _unmapped(past_end_reason(replica.source_end))
    if position.target_partition is None and len(position.landed) >= MOST_LANDED:
        proof = _Proof.NONE  # the position does not name the others
    part = _translate_in_log(_Case(replica, position, committed, target, log, first, proof))
    return part if part.offset is None else _check_end(part, log, first)


def past_end_reason(end: int) -> str:
    """Return what is said of a group that has committed past the source's high watermark."""
    return (
        f"the group has committed past the source's end ({end}): the source has lost records, or "
        "the offset was set by hand; which records it has read is unknown, and auto.offset.reset "
        "decides where it continues on the source"
    )


def _check_end(part: _Partial, log: TargetLog | None, first: FoundRecords) -> _Partial:
    """Return a translation only if the target can have what it leads to.

    What a mapping names was on the target once: an unclean leader election, or a disk restored
    from a backup, takes the end of the log away, and the target then appends there again.
    """
    assert part.offset is not None
    is_record = part.offset == first.target
    if log is None:
        why = "the target partition is unavailable: whether it still has the record is unknown"
    elif part.offset + is_record > log.written:
        why = lost_reason(part.offset, log.written)
    elif is_record and part.offset >= first.lost_from:
        why = lost_reason(part.offset, first.lost_from)
    else:
        return part
    before = part.reason if part.basis is Basis.UNMAPPED else ""
    reason = "; ".join(filter(None, (before, why)))
    return _unmapped(reason)


def lost_reason(offset: int, end: int) -> str:
    """Return what is said of a target offset that the target does not have any more."""
    return (
        f"it leads to target offset {offset}, which the target has lost: its log ended at {end} "
        "since"
    )


def _translate_in_log(case: _Case) -> _Partial:
    """Translate a commit of the copied log, as far as the mapping and the position tell."""
    replica, log = case.replica, case.log
    if replica.anchors is not None and replica.only_proven:
        return _translate_proven(replica.anchors, case.committed, log)
    if replica.anchors is not None:
        return _translate_by_anchors(replica.anchors, case.position, case.committed, log)
    part = _translate_by_mapping(case)
    if part.basis in _CERTAIN or replica.compared is None or log is None:
        return part
    landed = case.position.landed_on(case.target)
    has_lost_end = landed is not None and landed.end > log.written
    if case.proof is not _Proof.WHOLE or has_lost_end:
        return part  # its records lie among others, or it is not known which are lost
    return _translate_compared(replica.compared, case.position, case.committed, log) or part


def _translate_compared(
    compared: OffsetAnchors, position: Position, committed: int, log: TargetLog
) -> _Partial | None:
    """Translate an offset whose mapping is missing, by records that were compared; None if unknown.

    A record before it with a known target offset is a bound: nothing after it landed before it.
    Another one behind it has to be known, and on the target: else the unread records may be lost.
    """
    low, end = compared.at_or_before(committed), compared.target_end()
    if low is None or not position.start <= committed < position.offset:
        return None
    if end is None or end > log.written or compared.at_or_after(committed + 1) is None:
        return None
    gone, again = max(0, log.start - low.target), committed - low.source
    reason = "its mapping is missing; "
    reason += (
        f"the last record with a known target offset is {again} offsets before"
        if again
        else "records were compared on both clusters"
    )
    if gone:
        reason += f"; the target has deleted up to {gone} unread records"
    basis = Basis.BOUNDED if again or gone else Basis.EXACT
    return _Partial(max(low.target, log.start), basis, again, gone, reason)


def _translate_by_mapping(case: _Case) -> _Partial:
    replica, position, committed = case.replica, case.position, case.committed
    landed = case.first.target
    is_before = committed < position.start
    if is_before and (replica.source_start is None or replica.source_start < position.start):
        return _translate_before_start(case, landed)
    # Where the source retains nothing before the start, there was nothing else to copy.
    if committed < replica.known_from and not (is_before and replica.known_from == position.start):
        return _translate_before_mapping(case, landed)
    hole = _find_hole(replica, committed, case.first.source)
    if hole is not None:
        return _translate_to_first(case) or _Partial(
            landed if landed != NOT_FOUND else None,
            Basis.UNMAPPED,
            None,
            None,
            f"the mapping of source offsets {hole[0]} to {hole[1] - 1} is lost or damaged",
        )
    if landed == NOT_FOUND:
        return _translate_at_end(case)
    return _translate_to_retained(case, landed, _lost_reason(position, committed))


class _Case(NamedTuple):
    """One committed offset of one source partition, on one target partition."""

    replica: Replica
    position: Position
    committed: int
    target: TargetPartition
    log: TargetLog | None
    first: FoundRecords
    proof: _Proof

    @property
    def ranges(self) -> MappingRanges | None:
        """The mapping on this target partition."""
        return self.replica.target_ranges.get(self.target)

    @property
    def is_interleaved(self) -> bool:
        """Whether records of other source partitions may lie among those of this one."""
        return self.proof is _Proof.BOUND


def _translate_by_anchors(
    anchors: OffsetAnchors, position: Position, committed: int, log: TargetLog | None
) -> _Partial:
    """Translate by anchors: between two of them, the first is the safest."""
    low = anchors.at_or_before(committed)
    if log is None:
        return _unmapped("the target partition is unavailable")
    if low is None:
        high = anchors.at_or_after(committed)
        if high is None:
            return _unmapped("the target offset of every record is unknown")
        why = f"the target offset of records before offset {high.source} is unknown"
        return _Partial(log.start, Basis.BOUNDED, max(0, high.target - log.start), 0, why)
    offset, again = max(low.target, log.start), committed - low.source
    ahead = max(0, committed - position.offset)
    if not again:
        how = "records were compared on both clusters" if anchors.is_compared(committed) else ""
        return _Partial(offset, Basis.EXACT, reason=how)
    if ahead == again:
        return _Partial(offset, Basis.AHEAD, ahead, 0, _ahead_reason(ahead))
    reason = f"the last record with a known target offset is {again} offsets before"
    return _Partial(offset, Basis.BOUNDED, again, 0, reason)


def _translate_proven(anchors: OffsetAnchors, committed: int, log: TargetLog | None) -> _Partial:
    """Translate an offset that was compared; nothing is known of others."""
    low = anchors.at_or_before(committed)
    if log is None:
        return _unmapped("the target partition is unavailable")
    if low is None or not anchors.is_compared(committed):
        return _unmapped("it is not proven to have an equal offset on the target")
    if low.target < log.start:
        return _unmapped("the target has deleted its record")
    return _Partial(low.target, Basis.EXACT, reason="records were compared on both clusters")


def _find_hole(replica: Replica, committed: int, first: int) -> tuple[int, int] | None:
    """Return the hole that may contain the first unread record, before the first known one."""
    for hole in replica.holes:
        if hole[1] > committed and (first == NOT_FOUND or hole[0] < first):
            return hole
    return None


def _lost_reason(position: Position, committed: int) -> str:
    for gap in position.gaps:
        if gap.first <= committed < gap.end and gap.reason != RETURNED:
            return f"source offsets {gap.first} to {gap.end - 1} were lost ({gap.reason})"
    return ""


def _translate_at_end(case: _Case) -> _Partial:
    """Translate for a group that has consumed everything copied, or more."""
    replica, position, committed, log = case.replica, case.position, case.committed, case.log
    ranges = case.ranges
    if ranges is not None and (ranges.end or 0) <= position.start:
        ranges = None  # another program copied these records before the start
    offset = ranges.target_end if ranges is not None else None
    known_end = ranges.end if ranges is not None else None
    if replica.behind and committed < position.offset:
        return _translate_unread(position, committed, offset, known_end)
    lost = sum(high - low for low, high in replica.holes if low >= (known_end or 0))
    # After a move back, copies at or after the position may be there, and their mapping may not.
    has_copies = position.offset > position.start and position.landed_on(case.target) is not None
    missing = offset is None and (replica.complete_from is not None or has_copies)
    if missing or lost or replica.behind:
        end = _find_landed_end(case, offset)
        if end is not None:
            return _translate_to_landed_end(case, end)
    if replica.behind and known_end is not None and known_end < position.offset:
        return _translate_unread(position, committed, offset, known_end)
    if missing:
        why = "the target offset of the last record is not in the mapping topic"
        return _unmapped(why)
    if offset is None:
        if log is None:
            return _unmapped("the target partition is unavailable")
        offset = log.end  # nothing was copied yet: new records are appended from here on
    else:
        offset = _next_retained(offset, log)
    ahead = max(0, committed - max(position.offset, known_end or 0))
    if lost:
        why = f"the mapping of the last {lost} source offsets is lost or damaged; they are re-read"
        return _Partial(offset, Basis.BOUNDED, lost + ahead, 0, why)
    if not ahead:
        return _Partial(offset, Basis.END)
    return _Partial(offset, Basis.AHEAD, ahead, 0, _ahead_reason(ahead))


def _next_retained(offset: int, log: TargetLog | None) -> int:
    """Return an offset that the target retains: after control records if nothing else follows."""
    if log is None:
        return offset
    if log.clear_from is not None and log.clear_from <= offset:
        return max(offset, log.end)
    return max(offset, log.start)


def _ahead_reason(ahead: int) -> str:
    return f"the group is {counted(ahead, 'offset')} past what was copied, and reads that again"


def _find_landed_end(case: _Case, mapped_end: int | None) -> int | None:
    """Return the target offset after the last copy, as the position says; None if it does not.

    Args:
        case: a group that has consumed everything copied.
        mapped_end: the end that the mapping names, which may be an earlier one.
    """
    if case.proof is _Proof.NONE:
        return None
    end = case.position.end_of_copies(case.target)
    return None if end is None or end < (mapped_end or 0) else end


def _translate_to_landed_end(case: _Case, end: int) -> _Partial:
    offset = _next_retained(end, case.log)
    ahead = max(0, case.committed - case.position.offset)
    reason = _ahead_reason(ahead) if ahead else ""
    if case.is_interleaved:
        return _Partial(offset, Basis.BOUNDED, ahead, 0, reason or _INTERLEAVED)
    return _Partial(offset, Basis.AHEAD if ahead else Basis.END, ahead, 0, reason)


def _translate_to_first(case: _Case) -> _Partial | None:
    """Translate for a group that has read no copied record; None if it may have read one.

    It needs only where the first copy landed. Where the position does not say that, the target's
    log start offset is before it.
    """
    position, committed, log = case.position, case.committed, case.log
    if case.proof is _Proof.NONE or log is None:
        return None
    landed, first = position.landed_on(case.target), position.first_landed_on(case.target)
    has_read = committed > (position.start if first is None else max(position.start, first.source))
    if has_read:
        return None
    if landed is not None and landed.end > log.written:
        return _unmapped(lost_reason(landed.end, log.written))
    if first is None or landed is None:
        # The first copy is not after the span that holds the last one.
        latest = log.end if landed is None else landed.first
        reasons = ["where the first copy landed is not known; none is before the log start offset"]
        gone = log.start
        if position.end_of_copies(case.target) is not None:
            gone = min(gone, position.offset - position.start)
        return _at_first(case, Basis.BOUNDED, log.start, max(0, latest - log.start), gone, reasons)
    gone = max(0, log.start - first.target)
    offset = max(first.target, log.start)
    if case.is_interleaved:
        return _at_first(case, Basis.BOUNDED, offset, 0, gone, [_INTERLEAVED])
    return _at_first(case, Basis.EXACT, offset, 0, gone, [])


def _at_first(
    case: _Case, basis: Basis, offset: int, again: int, gone: int, reasons: list[str]
) -> _Partial:
    if gone:
        reasons = [*reasons, f"the target may have deleted up to {gone} unread records"]
    reasons = [_lost_reason(case.position, case.committed), *reasons]
    return _Partial(offset, basis, again, gone, "; ".join(filter(None, reasons)))


def _translate_unread(
    position: Position, committed: int, offset: int | None, known_end: int | None
) -> _Partial:
    """Translate where the newest mappings below the position are not readable yet."""
    why = "the mapping topic is behind: an open transaction holds back the latest records"
    if offset is None or known_end is None:
        return _unmapped(why)
    again = max(0, min(committed, position.offset) - known_end)
    return _Partial(offset, Basis.BOUNDED, again, 0, why)


def _translate_to_retained(case: _Case, landed: int, reason: str) -> _Partial:
    """Translate to a mapped record, which the target may have deleted since."""
    committed, ranges, log = case.committed, case.ranges, case.log
    if log is None or ranges is None:
        return _Partial(landed, Basis.EXACT, 0, 0, reason)
    reasons, gone = [reason], 0
    if landed < log.start:
        gone = count_below(ranges.present(log.written, committed), log.start)
        is_whole = is_mapping_complete(case.replica, case.target, landed, log.start)
        if case.replica.is_incomplete and not is_whole:
            gone = log.start - landed  # at most: how many of them are in a hole is unknown
        reasons.append(
            f"the target has deleted {gone} unread records (log start offset {log.start})"
        )
    lost = ranges.count_lost(log.written, committed)
    if lost:
        reasons.append(lost_records_reason(lost))
    why = "; ".join(filter(None, reasons))
    return _Partial(max(landed, log.start), Basis.EXACT, 0, gone + lost, why)


def lost_records_reason(lost: int) -> str:
    """Return what is said of unread records at the end of the target's log that it has lost."""
    return f"the target has lost {lost} unread records that were copied (its log ended before them)"


def _translate_before_takeover(ranges: MappingRanges, committed: int, log: TargetLog) -> _Partial:
    """Translate before the start, where another program copied and some records are mapped.

    No record after the last mapped record that the group has read is skipped
    (k2ktui mm2 takeover).
    """
    columns = ranges.columns()
    row = int(np.searchsorted(columns.source, committed, side="right")) - 1
    why = "another program copied the earlier records and published only single offsets"
    if row < 0:
        most = max(0, int(columns.target[0]) - log.start)
        return _Partial(log.start, Basis.BOUNDED, most, 0, why)
    behind = min(committed - int(columns.source[row]), int(columns.count[row]))
    offset = int(columns.target[row]) + behind
    again = committed - int(columns.source[row]) - behind
    gone = max(0, log.start - offset)
    if gone:
        why += f"; the target has deleted up to {gone} unread records"
    if not (again or gone):
        return _Partial(offset, Basis.EXACT)
    return _Partial(max(offset, log.start), Basis.BOUNDED, again, gone, why)


def _translate_before_mapping(case: _Case, landed: int) -> _Partial:
    """Translate a commit before the beginning of the mapping."""
    replica, log = case.replica, case.log
    to_first = _translate_to_first(case)
    if to_first is not None:
        return to_first
    if log is None:
        return _unmapped("the mapping topic does not hold its mapping")
    behind = max(0, landed - log.start) if landed != NOT_FOUND else None
    return _Partial(
        log.start,
        Basis.UNMAPPED,
        behind,
        0,
        f"the mapping topic does not hold its mapping (known from {replica.known_from} on): "
        "starting at the target's log start offset skips nothing",
    )


def _translate_before_start(case: _Case, landed: int) -> _Partial:
    """Translate a commit before the start, where the source had records to copy."""
    replica, position, committed, log = case.replica, case.position, case.committed, case.log
    ranges, is_whole = case.ranges, replica.known_from == position.start
    first = ranges.first if ranges is not None else None
    if (
        is_whole
        and ranges is not None
        and first is not None
        and first < position.start
        and log is not None
    ):
        return _translate_before_takeover(ranges, committed, log)
    offset = landed if landed != NOT_FOUND else None
    if not is_whole:  # copies before the first one that is mapped would be skipped
        offset = None if log is None else log.start
    missing = position.start - max(committed, replica.source_start or 0)
    return _Partial(
        offset,
        Basis.UNMAPPED,
        0 if is_whole else None,
        missing,
        f"the pipeline began at offset {position.start}: up to {missing} unread offsets "
        "before it were never copied",
    )
