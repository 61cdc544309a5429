"""Plan to rebuild positions that the commit topic has lost; changes nothing.

``engine/moves/recovery.py`` decides, by what this module reads: the mapping topic, the ends of
both logs, the last copies on both clusters, drills, the journal, and the transactional ids that any
run may have used. ``PositionWriter`` carries the plan out while every run is fenced.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.moves.journal import DrillKey, RunKind
from k2ktui.engine.moves.positions import (
    ACCEPT,
    PASS,
    RECOVER,
    SET,
    PositionPlan,
    Recovery,
    SourceLog,
    TargetTopicState,
    position_of,
)
from k2ktui.engine.moves.recovery import (
    Copy,
    LostPartition,
    MappingEvidence,
    TargetEnd,
    Writers,
    find_moved,
    is_unique,
    plan_recovery,
)
from k2ktui.engine.ownership.assignment_records import AssignmentFold
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.editions import Editions, edition_of_layout, merge_editions
from k2ktui.engine.records.evidence import Evidence
from k2ktui.engine.records.hold import HoldKey
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.engine.records.run_record import (
    LARGEST_SHARED_SLOTS,
    LARGEST_SLOTS,
    Run,
    has_been_cut,
)
from k2ktui.engine.records.state import MalformedRecord, SourcePartition
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.transaction_state import list_transactional_ids
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.kafka.control.reader import await_stable, require_offsets
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import CoordinatorError
from k2ktui.log.batch import Batch
from k2ktui.log.content import AbsenceReason, ContentReader, KafkaRecord, RecordRange
from k2ktui.log.fetcher import FAR_BYTES, Fetcher
from k2ktui.log.record import RecordPart
from k2ktui.progress import long_step
from k2ktui.replication.fencing_errors import clusters_changed, unreadable_moves
from k2ktui.replication.ownership.assignment_topic import AssignmentTopic
from k2ktui.replication.ownership.commit_state import CommitState, read_commit_state
from k2ktui.replication.ownership.evidence_reader import read_evidence
from k2ktui.replication.ownership.pipeline import commit_topic, read_pair
from k2ktui.sync.log_bounds import existing_topics, read_source_logs, require_bounds
from k2ktui.sync.mapping.reader import TopicReader
from k2ktui.sync.mapping.sort import MappingSorter
from k2ktui.sync.positions.copies import read_copies
from k2ktui.sync.positions.position_planner import find_target_names
from k2ktui.sync.store import PipelineState, StateStore
from k2ktui.sync.verify.changed_records import ignored_parts
from k2ktui.sync.verify.record_comparison import ComparisonOutcome, RecordComparison
from k2ktui.text import list_names, safe_text

log = logging.getLogger(__name__)

_READ_S = 60.0
_MAPPINGS_S, _TARGET_S = 900.0, 86_400.0
_ASK_S = 30.0
_JOURNAL_ENTRIES = 50
_NAMED = 5
_UNCHANGED = "Nothing was changed."
_COPIED_OF_IT = "What was copied of it"
# Ids of a slot, where the brokers do not list them: its own, and one after a transaction that
# could not end.
_IDS_OF_SLOT = 2


@dataclass(frozen=True, slots=True)
class _Reading:
    """What both clusters hold now.

    Attributes:
        pair: the clusters that answer.
        commits: what the commit topic still has.
        state, unread: what the state topic has, and why it may not be read; "" if it may.
        evidence: what earlier runs left.
        mappings: their mappings.
        damaged: source partitions with mappings that cannot be read.
        is_whole: whether the mapping topic has lost none.
        has_lost: whether the commit topic has lost records: what it does not have may be lost.
        hidden: why the end of the mapping topic could not be read yet; "" if it was.
    """

    pair: ClusterPair
    commits: CommitState
    state: PipelineState
    unread: str
    evidence: Evidence
    mappings: MappingEvidence
    damaged: frozenset[SourcePartition]
    is_whole: bool
    has_lost: bool
    hidden: str = ""


def plan_to_recover(config: PipelineConfig) -> PositionPlan:
    """Plan to rebuild the lost positions of a pipeline; changes nothing.

    Raises:
        Refused: the pipeline copies without exactly-once or mappings, the clusters are not those on
            record, or nothing is left to rebuild positions from.
        ConnectionFailed, TimedOut: a cluster did not answer: nothing can be decided.
    """
    _require_provable(config)
    source, target = source_cluster(config), target_cluster(config)
    reading = _read(config, source, target)
    logs = _read_logs(config, source, reading)
    partitions = _describe(config, target, reading, logs)
    ends = _read_ends(target, reading, partitions)
    doubts = _compare(config, source, target, partitions)
    start = config.start
    landed = _landed_ends(reading.mappings)
    moves = []
    for lost in partitions:
        if not reading.has_lost and lost.position is None and lost.mapped is None:
            continue  # a new one, whatever others have written to the target
        move = plan_recovery(
            replace(lost, doubt=doubts.get(lost.source, "")),
            landed,
            ends,
            is_whole=reading.is_whole,
            begins_early=start.kind == start.later,
        )
        if move is not None:
            moves.append(move)
    recovery, notes = _plan_rest(config, target, reading, logs)
    return PositionPlan(RECOVER, config.name, tuple(moves), tuple(notes), recovery=recovery)


def require_same(shown: PositionPlan, now: PositionPlan) -> None:
    """Refuse a plan that is another one since every run was fenced.

    Raises:
        Refused: a position, a reason, or what is recorded beside them has changed.
    """
    before, after = (
        {m.source: (m.effect, m.offset, m.before, m.why) for m in plan.moves}
        for plan in (shown, now)
    )
    changed = sorted(at for at in before.keys() | after.keys() if before.get(at) != after.get(at))
    for at in changed:
        log.info("%s was %s, and is %s", at, before.get(at), after.get(at))
    if changed or _moved_of(shown) != _moved_of(now):
        names = list_names(changed, _NAMED) or "the moved topics"
        raise Refused(
            f"what is known of {names} has changed since the plan was made",
            unchanged="No position was changed.",
            hint="Make sure that the pipeline runs nowhere, then repeat the command.",
        )


def _moved_of(plan: PositionPlan) -> frozenset[str]:
    return frozenset(one.topic for one in plan.recovery.moved) if plan.recovery else frozenset()


def _require_provable(config: PipelineConfig) -> None:
    for enabled, key, why in (
        (config.features.exactly_once, "exactlyOnce", "no run of it can be fenced"),
        (config.features.offset_mapping, "offsetMapping", "nothing says what was copied"),
    ):
        if not enabled:
            raise Refused(
                f"features.{key} of pipeline {safe_text(config.name)} is disabled: {why}",
                unchanged=_UNCHANGED,
                hint="Choose each position yourself: k2ktui offsets set -f FILE "
                "TOPIC:PARTITION:OFFSET.",
            )


def _read(config: PipelineConfig, source: Cluster, target: Cluster) -> _Reading:
    pair = read_pair(config, source, target)
    topic = target.find(config.coordination.commit.topic)
    commits, has_lost = CommitState(Run(0, 0), {}), True
    if topic is not None:
        commits = read_commit_state(target, commit_topic(config, topic.partitions), _READ_S)
        where = [(topic.name, number) for number in range(topic.partitions)]
        starts = require_offsets(target, where, OffsetSpec.earliest())
        run = commits.run
        is_cut = has_been_cut(run, {number: start for (_, number), start in starts.items()})
        has_lost = run.term == 0 or run.lost_term > 0 or is_cut
    if commits.unreadable_moves:
        raise unreadable_moves(config.coordination.commit.topic, commits.unreadable_moves)
    if changed := commits.run.pair.find_changed(pair):
        raise clusters_changed(config.name, changed)
    store, unread = StateStore(config, target), ""
    try:
        state = store.read()
    except Refused as error:
        state, unread = PipelineState(), error.message
    finally:
        store.close()
    hidden = _await_mappings(config, target)
    evidence = read_evidence(config, target, whole=True)
    mappings, damaged, is_whole = _read_mappings(config, target, evidence)
    return _Reading(
        pair, commits, state, unread, evidence, mappings, damaged, is_whole, has_lost, hidden
    )


def _await_mappings(config: PipelineConfig, target: Cluster) -> str:
    """Wait for open transactions that hide mappings; return why they still do, "" if none does."""
    name = config.offset_mapping.topic
    topic = target.find(name)
    if topic is None:
        return ""
    try:
        await_stable(target, name, topic.partitions, config.coordination.commit.sync_timeout_s)
    except TimedOut as error:
        return error.message
    return ""


def _read_mappings(
    config: PipelineConfig, target: Cluster, evidence: Evidence
) -> tuple[MappingEvidence, frozenset[SourcePartition], bool]:
    """Read all mappings up to the last stable offsets."""
    name = config.offset_mapping.topic
    reader = TopicReader(target, name)
    sorter = MappingSorter((config.coordination.commit.group,))
    mappings = MappingEvidence(evidence.cleared.of)
    try:
        topic = reader.describe()
        if topic is None:
            raise Refused(
                f"topic {safe_text(name)} does not exist on the target: what the pipeline copied "
                "is not known",
                unchanged=_UNCHANGED,
                hint="Choose each position yourself: k2ktui offsets set -f FILE "
                "TOPIC:PARTITION:OFFSET.",
            )
        numbers = range(topic.partitions)
        starts = reader.offsets(numbers, OffsetSpec.earliest())
        ends = reader.offsets(numbers, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        reader.seek(starts)
        until = monotonic() + _MAPPINGS_S
        began = sum(starts.values())
        with long_step("mapping records read", sum(ends.values()) - began) as advance:
            for received in reader.read(ends, until):
                for messages in received.values():
                    for at, chunks in sorter.sort(messages):
                        for chunk in chunks:
                            mappings.take(at, chunk)
                advance(sum(reader.next.values()) - began)
        if any(reader.next[number] < end for number, end in ends.items() if end > starts[number]):
            raise TimedOut(
                f"{safe_text(name)} could not be read to its end",
                unchanged=_UNCHANGED,
                hint="Repeat the command.",
            )
    finally:
        reader.close()
    return mappings, frozenset(sorter.damaged), not any(starts.values())


def _read_logs(
    config: PipelineConfig, source: Cluster, reading: _Reading
) -> dict[SourcePartition, SourceLog]:
    """Read the source logs of all partitions that are selected, mapped or have a position."""
    known = {*reading.mappings.sources, *reading.commits.positions}
    names = {n for n in source.topic_names() if config.topics.matches(n)}
    topics = existing_topics(source, names | {at.topic for at in known}, _COPIED_OF_IT)
    partitions = [
        SourcePartition(name, number)
        for name, topic in topics.items()
        for number in range(topic.partitions)
    ]
    return read_source_logs(source, topics, partitions, required=True)


def _describe(
    config: PipelineConfig,
    target: Cluster,
    reading: _Reading,
    logs: Mapping[SourcePartition, SourceLog],
) -> list[LostPartition]:
    """Return what is known of each partition, without what both logs say of its last copies."""
    sources = sorted({*logs, *reading.mappings.sources, *reading.commits.positions})
    names = {topic: find_target_names(config, topic) for topic in {at.topic for at in sources}}
    named = {name for targets in names.values() for name in targets}
    on_target = existing_topics(target, named, _COPIED_OF_IT)
    ids = {name: topic.topic_id for name, topic in on_target.items()}
    scatters = config.replication.sink.scatters
    moved_to = _find_moved_positions(reading.state, set(reading.mappings.sources))
    partitions = []
    for source in sources:
        number = None if scatters else source.partition
        landing = TargetTopicState.of(names[source.topic], ids, number)
        mapped = reading.mappings.span(source)
        if mapped is not None and source in reading.damaged:
            mapped = replace(mapped, is_damaged=True)
        moved = moved_to.get(source)
        if mapped is not None and moved is not None and moved[0] == mapped.end:
            moved = None
        partitions.append(
            LostPartition(
                source,
                reading.commits.positions.get(source),
                mapped,
                logs.get(source),
                landing,
                moved_to=moved,
                refused=_find_refusal(reading.state, source) if reading.has_lost else "",
            )
        )
    return partitions


def _find_moved_positions(
    state: PipelineState, sources: Collection[SourcePartition]
) -> dict[SourcePartition, tuple[int, int]]:
    """Return offset and term of the newest positions that operators have set, by the journal."""
    entries = [h for h in state.journal.values() if h.operation in (SET, PASS, ACCEPT)]
    newest: dict[SourcePartition, tuple[int, int]] = {}
    for header in entries[-_JOURNAL_ENTRIES:]:
        for part in state.entry(header.id):
            for row in part.rows:
                at = SourcePartition(row.topic, row.partition)
                position = position_of(row.after_metadata)
                if at not in sources or position is None or position.stopped:
                    continue
                known = newest.get(at)
                if known is None or position.term > known[1]:
                    newest[at] = position.offset, position.term
    return newest


def _find_refusal(state: PipelineState, source: SourcePartition) -> str:
    """Return why nothing of a topic may be copied on; "" if it may."""
    drills = sorted(key.id for key in state.unreadable if isinstance(key, DrillKey))
    if drills:
        return f"drill {drills[0]} cannot be read: which topics it has moved is not known"
    held = [key for key in state.unreadable if isinstance(key, HoldKey) and key.covers(source)]
    return "whether it is held cannot be read" if held else ""


def _landed_ends(mappings: MappingEvidence) -> dict[TargetPartition, int]:
    return {at: end for at in mappings.targets if (end := mappings.landed_end(at)) is not None}


def _read_ends(
    target: Cluster, reading: _Reading, partitions: Sequence[LostPartition]
) -> dict[TargetPartition, TargetEnd]:
    """Read the ends of all target partitions that copies are in, or may be in."""
    landed = _landed_ends(reading.mappings)
    names = {name for lost in partitions if lost.landing for name in lost.landing.topics}
    topics = existing_topics(target, names | {topic for topic, _ in landed}, _COPIED_OF_IT)
    where = [(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
    starts = target.offsets(where, OffsetSpec.earliest())
    highs = target.offsets(where, OffsetSpec.latest())
    require_bounds(target, where, starts, highs)
    asked = {
        at: (*at, max(landed[at], starts[at]))
        for at in where
        if at in landed and landed[at] <= highs[at]
    }
    with ContentReader(target) as reader:
        answers = reader.next_records(list(asked.values()), _READ_S)
    ends = {}
    for at in where:
        answer = answers[asked[at]] if at in asked else None
        if answer is not None and not isinstance(answer, KafkaRecord):
            raise TimedOut(
                f"the end of {safe_text(at[0])}-{at[1]} on the target cannot be read: "
                f"{safe_text(answer.reason)}",
                unchanged=_UNCHANGED,
                hint="Repeat the command when the target is healthy.",
            )
        next_record = answer.offset if answer is not None else None
        ends[at] = TargetEnd(starts[at], highs[at], next_record)
    return ends


def _compare(
    config: PipelineConfig, source: Cluster, target: Cluster, partitions: Sequence[LostPartition]
) -> dict[SourcePartition, str]:
    """Return why the copies of partitions are not shown to be the same on both clusters."""
    asked: list[tuple[SourcePartition, Copy]] = [
        (lost.source, copy)
        for lost in partitions
        if lost.mapped is not None and not lost.is_kept and lost.log is not None
        for copy in (*lost.mapped.firsts, *lost.mapped.last)
    ]
    read: dict[SourcePartition, dict[Copy, tuple[RecordRange, RecordRange]]] = defaultdict(dict)
    for at, copy, one, other in read_copies(source, target, asked):
        read[at][copy] = one, other
    return {
        lost.source: _judge(config, lost, read[lost.source])
        for lost in partitions
        if lost.source in read
    }


def _judge(
    config: PipelineConfig,
    lost: LostPartition,
    read: Mapping[Copy, tuple[RecordRange, RecordRange]],
) -> str:
    """Return why the last copies are not shown to be equal and unique; "" if they are."""
    assert lost.mapped is not None
    topic = lost.source.topic
    ignored = ignored_parts(config, topic)
    if {RecordPart.VALUE, RecordPart.TIMESTAMP} <= ignored:
        return "its copies cannot be compared: the pipeline changes their value and their time"
    comparison = RecordComparison(lambda _: ignored)
    contents: tuple[list[str], list[str]] = [], []
    final = lost.mapped.last[-1]
    for copy, (one, other) in sorted(read.items()):
        where = (
            f"record {copy.offset}, on the target record {copy.target_offset} of "
            f"{copy.target[0]}-{copy.target[1]},"
        )
        pair = one.records.get(copy.offset), other.records.get(copy.target_offset)
        if pair[0] is None or pair[1] is None:
            _require_read(lost.source, one, other)
            if copy == final:
                side = "source" if pair[0] is None else "target"
                return f"{where} is not on the {side} any more: nothing can be compared"
            continue
        difference = comparison.compare(topic, pair[0], pair[1])
        if difference.outcome is not ComparisonOutcome.SAME:
            return f"{where} is not the same on both clusters: {difference.why}"
        if copy in lost.mapped.last:
            contents[0].append(comparison.digest(topic, pair[0]))
            contents[1].append(comparison.digest(topic, pair[1]))
    if not all(map(is_unique, contents)):
        return (
            f"none of its last {len(contents[0])} records differs from all others: that they are "
            "equal on both clusters shows nothing"
        )
    return ""


def _require_read(source: SourcePartition, *ranges: RecordRange) -> None:
    for one in ranges:
        if not one.records and one.absence(one.first) in (
            AbsenceReason.UNREAD,
            AbsenceReason.UNSTABLE,
        ):
            raise TimedOut(
                f"the last records of {safe_text(source)} that were copied cannot be read: "
                f"{safe_text(one.unread or one.absence(one.first))}",
                unchanged=_UNCHANGED,
                hint="Repeat the command when both clusters are healthy.",
            )


def _plan_rest(
    config: PipelineConfig,
    target: Cluster,
    reading: _Reading,
    logs: Mapping[SourcePartition, SourceLog],
) -> tuple[Recovery, list[str]]:
    """Return what is rebuilt beside the positions, and notes about it."""
    notes = [note for note in (reading.unread, reading.hidden) if note]
    if not (reading.state.runners or reading.state.drills or reading.state.journal):
        notes.append(
            f"topic {safe_text(config.coordination.state.topic)} has no records of the pipeline, "
            "either: whether a drill has moved topics is not known"
        )
    if not reading.is_whole:
        if config.bidirectional_mode == "provenance":
            raise Refused(
                f"mappings of pipeline {safe_text(config.name)} have expired: some of its records "
                "on the target cannot be told from others, and the opposite pipeline would copy "
                "them back",
                unchanged=_UNCHANGED,
                hint="Choose each position yourself (k2ktui offsets set), and run only one of both "
                "directions.",
            )
        notes.append(
            "mappings have expired: a failback is refused, as not all producer ids of the pipeline "
            "are known"
        )
    moved = _find_moved(config, reading)
    if moved:
        names = list_names([one.topic for one in moved], _NAMED)
        notes.append(f"recorded as moved again, by their drills: {names}")
    ids = _read_ids(config, target)
    runners = [r for r in reading.state.runners if r.kind is RunKind.COPY]
    partitions = min(len(logs.keys() | reading.mappings.sources), LARGEST_SLOTS)
    if ids is None:
        # Each has at most as many slots as partitions.
        own = max([partitions, config.slots or 0, *(r.slots for r in runners)])
        most = min(own, LARGEST_SHARED_SLOTS)
        slots = dict.fromkeys(range(most), _IDS_OF_SLOT)
    else:
        own, slots = ids
        most = max(slots, default=-1) + 1
    before = reading.commits.run
    run = replace(
        before,
        term=max(before.term, reading.evidence.term, reading.mappings.term),
        slots=max([own, before.slots, *(r.slots for r in runners)]),
        most_shared=max(
            [most, before.most_shared, *(max(r.owned, default=-1) + 1 for r in runners)]
        ),
        layout=None,
        interrupts=None,
        pair=before.pair if before.pair.is_known else reading.pair,
        editions=merge_editions([before.editions, _read_editions(config, target)]),
        has_moved=before.has_moved or bool(moved) or bool(reading.commits.moved),
    )
    return Recovery(run, slots, moved, reading.is_whole), notes


def _find_moved(config: PipelineConfig, reading: _Reading) -> tuple[MovedTopic, ...]:
    drills = reading.state.drills.values()
    names = {
        topic: targets[0]
        for drill in drills
        for topic in drill.topics
        if (targets := find_target_names(config, topic))
    }
    try:
        return find_moved(drills, reading.commits.moved.all, names)
    except MalformedRecord as error:
        raise Refused(
            f"which topics a drill has moved cannot be read: {safe_text(error)}",
            unchanged=_UNCHANGED,
            hint="Use the release that wrote the drill.",
        ) from error


def _read_editions(config: PipelineConfig, target: Cluster) -> Editions:
    """Return the editions that members and owners name."""
    name = config.coordination.assignment.topic
    if target.find(name) is None:
        return Editions()
    topic, fold = AssignmentTopic(target, name), AssignmentFold(config.coordination.commit.group)
    try:
        topic.read(fold)
    finally:
        topic.close()
    editions = [member.edition for member in fold.members.values()]
    return Editions((*editions, edition_of_layout(fold.owners.layout)))


def _read_ids(config: PipelineConfig, target: Cluster) -> tuple[int, dict[int, int]] | None:
    """Return how many ids the pipeline and each shared slot may have used; None if unknown."""
    try:
        with Probe(wire(target.config, "producer"), target.label) as probe:
            probe.open(_ASK_S)
            ids = probe.run(lambda connection: list_transactional_ids(connection, _ASK_S))
    except CoordinatorError as error:
        raise TimedOut(
            f"the transactional ids of the target cannot be listed: {error}",
            unchanged=_UNCHANGED,
            hint="Repeat the command when all brokers of the target answer.",
        ) from error
    return None if ids is None else count_ids(config.coordination.commit.group, ids)


def count_ids(group: str, ids: Collection[str]) -> tuple[int, dict[int, int]]:
    """Return how many ids a pipeline has used, and how many each of its shared slots has.

    Args:
        group: ``coordination.commit.group``.
        ids: transactional ids, of any pipelines and programs.
    """
    pattern = re.compile(
        rf"{re.escape(group)}\.(?:slot-([0-9]{{1,4}})\.)?([0-9]{{1,5}}|driver|state)", re.ASCII
    )
    own = 0
    slots: dict[int, int] = {}
    for id_ in ids:
        match = pattern.fullmatch(id_)
        if match is None:
            continue
        used = min(int(match[2]) + 1, LARGEST_SLOTS) if match[2].isdecimal() else 0
        if match[1] is None:
            own = max(own, used)
        elif (slot := int(match[1])) < LARGEST_SHARED_SLOTS:
            slots[slot] = max(used, slots.get(slot, 1))
    return own, slots


def read_writers(config: PipelineConfig, target: Cluster) -> Writers:
    """Return whose batches the target has; reads all partitions that copies have landed in.

    Raises:
        ConnectionFailed, TimedOut: not everything could be read.
        Refused: as for :func:`plan_to_recover`.
    """
    mappings, _, _ = _read_mappings(config, target, read_evidence(config, target))
    topics = existing_topics(target, {topic for topic, _ in mappings.targets}, _COPIED_OF_IT)
    where = [at for at in sorted(mappings.targets) if at[0] in topics]
    starts = target.offsets(where, OffsetSpec.earliest())
    ends = target.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    require_bounds(target, where, starts, ends)
    scans = {at: _Scan(mappings, at, starts[at], ends[at]) for at in where if ends[at] > starts[at]}
    fetcher = Fetcher(target)
    total = sum(ends[at] - starts[at] for at in scans)
    try:
        with long_step("target offsets read for producer ids", total) as advance:
            for scan in scans.values():
                scan.report = lambda: advance(sum(one.read for one in scans.values()))
            fetcher.run(scans, _TARGET_S, FAR_BYTES)
    finally:
        fetcher.close()
    if refused := [scan.refused for scan in scans.values() if scan.refused]:
        raise TimedOut(
            f"the target cannot be read for producer ids: {safe_text(refused[0])}",
            unchanged="No position was changed.",
            hint="Repeat the command when the target is healthy.",
        )
    own = frozenset(id_ for scan in scans.values() for id_ in scan.own)
    others = frozenset(id_ for scan in scans.values() for id_ in scan.others)
    return Writers(own, others - own)


class _Scan:
    """Reads the batch headers of a target partition."""

    def __init__(
        self, mappings: MappingEvidence, at: TargetPartition, start: int, end: int
    ) -> None:
        self._firsts, self._ends = mappings.spans(at)
        self._start, self._at, self._end = start, start, end
        self.own: set[int] = set()
        self.others: set[int] = set()
        self.refused = ""
        self.report: Callable[[], object] = lambda: None

    @property
    def read(self) -> int:
        """Number of offsets that were read."""
        return self._at - self._start

    def next_offset(self) -> int | None:
        return self._at if self._at < self._end else None

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._at = max(self._at, start)

    def add_batch(self, batch: Batch) -> None:
        if batch.producer_id < 0 or not batch.is_transactional:
            return
        row = int(np.searchsorted(self._firsts, batch.last_offset, side="right")) - 1
        is_own = row >= 0 and int(self._ends[row]) > batch.base_offset
        (self.own if is_own else self.others).add(batch.producer_id)

    def add_aborted_batch(self, batch: Batch) -> None:
        """Ignore it: no reader sees its records."""

    def advance(self, offset: int) -> None:
        self._at = max(self._at, offset)
        self.report()

    def finish(self) -> None:
        self._at = max(self._at, self._end)

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self._at = self._end
