"""Reads what earlier runs of a pipeline left on the target beside its positions.

A start asks only if the commit topic has lost records (``Run.lost_term``), and ``offsets recover``
before it rebuilds them. Nothing is written.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from confluent_kafka.admin import OffsetSpec
from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.moves.journal import DrillKey, RunnerKey, StateKey, WrittenKey
from k2ktui.engine.moves.journal import Runner as RunnerRecord
from k2ktui.engine.moves.journal_format import read_state_key, read_state_value
from k2ktui.engine.moves.written import WrittenCommits
from k2ktui.engine.ownership.assignment_records import AssignmentFold
from k2ktui.engine.records.cleared import Cleared, ClearedKey, ClearedTerms
from k2ktui.engine.records.evidence import Evidence, MappedUpTo, Trace
from k2ktui.engine.records.run_record import LARGEST_TERM
from k2ktui.engine.records.state import MalformedRecord, SourcePartition, read_mapping_key
from k2ktui.errors import ClusterRefused, TimedOut
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.transaction_state import TransactionState, describe_transaction
from k2ktui.kafka.client_errors import NOT_AUTHORIZED
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.reader import (
    ControlRecord,
    read_committed,
    read_records,
    require_offsets,
    stable_ends,
    written_ends,
)
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.topic_description import is_missing
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Wire
from k2ktui.replication.ownership.epochs import transactional_id
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

# The mapping topic may have gigabytes: it is read completely only if anything else says that the
# pipeline has run, or if nothing else could say it.
_READ_S, _MAPPINGS_S, _ASK_S = 30.0, 900.0, 10.0
_LAST_MAPPINGS = 2_000
# Number of slots of either scheme whose ids are asked for: if any has copied, one of these has.
_SLOTS_ASKED = 10
_EMPTY = "Empty"
# A first start that was killed before its run record leaves ids without a transaction, with an
# epoch for each attempt.
_USED_EPOCH = 3
_TERM = re.compile(rb'"term":([0-9]{1,13})[,}]')
_COVERS = re.compile(rb'"covers":\[([0-9]{1,19}),([0-9]{1,19}),')
_KINDS = (RunnerKey, DrillKey, WrittenKey, ClearedKey)


def read_evidence(config: PipelineConfig, target: Cluster, *, whole: bool = False) -> Evidence:
    """Read what the runs of a pipeline's commit group left on the target.

    Args:
        config: the pipeline.
        target: its target cluster.
        whole: read all mappings, even if nothing else says that the pipeline has run.

    Raises:
        ConnectionFailed, TimedOut: the target did not answer.
    """
    return _EvidenceReader(config, target).read(whole=whole)


@dataclass(slots=True)
class _Remains:
    """What was read so far; see ``Evidence``."""

    terms: dict[Trace, int] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    cleared: dict[str, Cleared] = field(default_factory=dict)
    mapped: dict[SourcePartition, MappedUpTo] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def add(self, trace: Trace, term: int = 0) -> None:
        self.terms[trace] = max(term, self.terms.get(trace, 0))


class _EvidenceReader:
    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._config, self._target = config, target
        self._group = config.coordination.commit.group
        self._remains = _Remains()

    def read(self, *, whole: bool) -> Evidence:
        coordination = self._config.coordination
        state_topic, mapping_topic = coordination.state.topic, self._config.offset_mapping.topic
        topics = self._describe({state_topic, mapping_topic, coordination.assignment.topic})
        state, mappings = topics.get(state_topic), topics.get(mapping_topic)
        has_state = False
        if state is not None:
            with self._unless_refused(state_topic):
                has_state = self._read_state(state)
        if (assignment := topics.get(coordination.assignment.topic)) is not None:
            with self._unless_refused(assignment.name):
                self._read_owners(assignment)
        can_tell = self._ask_transactions()
        if mappings is not None:
            with self._unless_refused(mapping_topic):
                self._read_mappings(mappings, _LAST_MAPPINGS)
                if whole or self._remains.terms or not (has_state or can_tell):
                    self._read_mappings(mappings, None)
        remains = self._remains
        log.info(
            "evidence of earlier runs of %s: %s",
            safe_text(self._group),
            ", ".join(f"{trace} (term {term})" for trace, term in remains.terms.items()) or "none",
        )
        cleared = ClearedTerms(remains.cleared.values())
        return Evidence(remains.mapped, remains.terms, remains.sources, cleared, remains.unread)

    @contextmanager
    def _unless_refused(self, topic: str) -> Iterator[None]:
        """Go on without a topic that the principal may not read: copying needs only to write it."""
        try:
            yield
        except ClusterRefused as error:
            self._remains.unread[topic] = error.message

    def _describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
        """Describe control topics; those that are missing or may not be read are left out."""
        topics: dict[str, TopicDescription] = {}
        for name, topic in self._target.describe(sorted(names)).items():
            if isinstance(topic, TopicDescription):
                topics[name] = topic
            elif topic.code() in NOT_AUTHORIZED:
                self._remains.unread[name] = safe_text(topic.str())
            elif not is_missing(topic):
                raise TimedOut(
                    f"topic {safe_text(name)} cannot be described on the target: "
                    + safe_text(topic.str()),
                    unchanged="Nothing was changed.",
                    hint="Check the target cluster's health, then try again.",
                )
        return topics

    def _read_state(self, topic: TopicDescription) -> bool:
        """Read heartbeats, drills, written commits and what was cleared.

        Returns:
            Whether the topic holds what it was given: it has records, and lost none at its start.
        """
        keys: dict[bytes, StateKey | None] = {}
        newest: dict[StateKey, bytes] = {}
        count = 0
        for record in read_committed(self._target, topic.name, topic.partitions, _READ_S):
            count += 1
            raw = record.key or b""
            if raw not in keys:
                keys[raw] = self._read_state_key(raw)
            key = keys[raw]
            if key is None:
                continue
            if record.value is None:
                newest.pop(key, None)
            else:
                newest[key] = record.value
        for key, value in newest.items():
            self._take_state(key, value)
        where = [(topic.name, number) for number in range(topic.partitions)]
        starts = require_offsets(self._target, where, OffsetSpec.earliest())
        return count > 0 and not any(starts.values())

    def _read_state_key(self, raw: bytes) -> StateKey | None:
        try:
            _, key = read_state_key(raw, self._group)
        except MalformedRecord:
            return None
        return key if isinstance(key, _KINDS) else None

    def _take_state(self, key: StateKey, value: bytes) -> None:
        remains = self._remains
        try:
            record = read_state_value(key, value)
        except MalformedRecord:
            return  # what it says is unknown
        if isinstance(record, Cleared):
            remains.cleared[record.topic] = record
        elif isinstance(record, Drill):
            remains.add(Trace.DRILLS)
        elif isinstance(record, WrittenCommits):
            commits = (commit for of_one in record.commits.values() for commit in of_one)
            for commit in commits:
                remains.add(Trace.WRITTEN, commit.version.term)
        elif isinstance(record, RunnerRecord) and 0 < record.term <= LARGEST_TERM:
            remains.add(Trace.HEARTBEATS, record.term)
            if record.source:
                remains.sources[record.term] = record.source

    def _read_owners(self, topic: TopicDescription) -> None:
        fold = AssignmentFold(self._group)
        ends = written_ends(self._target, topic.name, topic.partitions)
        for entry in read_records(
            self._target, topic.name, ends, _READ_S, isolation="read_uncommitted"
        ):
            fold.take(entry.key, entry.value)
        if fold.owners.generation:
            self._remains.add(Trace.OWNERS)

    def _ask_transactions(self) -> bool:
        """Ask the coordinators for the ids of slots; return whether they can say it.

        They know an id for a week after its last use. Brokers before 3.0 do not say.
        """
        slots = range(max(_SLOTS_ASKED, self._config.slots or 0))
        ids = [transactional_id(self._group, slot) for slot in slots]
        ids += [transactional_id(f"{self._group}.slot-{slot}", 0) for slot in slots]
        try:
            with Probe(wire(self._target.config, "producer"), self._target.label) as probe:
                probe.open(_ASK_S)
                if probe.too_old_for({DescribeTransactionsRequest: 0}):
                    return False
                states, has_asked = probe.run(lambda connection: _describe(connection, ids))
        except (NotSent, OutcomeUnknown) as error:
            raise TimedOut(
                f"the target's transaction coordinator did not answer: {error}",
                unchanged="Nothing was changed.",
                hint="Check the target cluster's health, then try again.",
            ) from error
        if any(state.name != _EMPTY or state.epoch >= _USED_EPOCH for state in states):
            self._remains.add(Trace.TRANSACTIONS)
        return has_asked and self._config.features.exactly_once

    def _read_mappings(self, topic: TopicDescription, last: int | None) -> None:
        """Read the terms and ends of this pipeline's mappings.

        Args:
            topic: the mapping topic.
            last: read so many records at the end of each partition; None for all.
        """
        ends = stable_ends(self._target, topic.name, topic.partitions)
        since: Mapping[int, int] | None = None
        if last is not None:
            where = [(topic.name, number) for number in ends]
            starts = require_offsets(self._target, where, OffsetSpec.earliest())
            since = {p: max(starts[topic.name, p], end - last) for p, end in ends.items()}
        keys: dict[bytes, SourcePartition | None] = {}
        for record in read_committed(
            self._target, topic.name, topic.partitions, _MAPPINGS_S, ends=ends, since=since
        ):
            self._take_mapping(record, keys)

    def _take_mapping(
        self, record: ControlRecord, keys: dict[bytes, SourcePartition | None]
    ) -> None:
        raw, value = record.key or b"", record.value or b""
        if raw not in keys:
            keys[raw] = self._read_mapping_key(raw)
        source = keys[raw]
        term, covers = _TERM.search(value), _COVERS.search(value)
        if source is None or term is None or int(term[1]) > LARGEST_TERM:
            return
        newest = MappedUpTo(int(term[1]), int(covers[2]) if covers else 0)
        self._remains.add(Trace.MAPPINGS, newest.term)
        before = self._remains.mapped.get(source)
        # A repeat of old mappings has their term, and never counts before newer ones.
        if before is None or (newest.term, newest.end) > (before.term, before.end):
            self._remains.mapped[source] = newest

    def _read_mapping_key(self, raw: bytes) -> SourcePartition | None:
        try:
            group, source = read_mapping_key(raw)
        except MalformedRecord:
            return None
        return source if group == self._group else None


async def _describe(connection: Wire, ids: Collection[str]) -> tuple[list[TransactionState], bool]:
    """Return the states of the ids that are known, and whether there was time to ask for all."""
    states, until = list[TransactionState](), monotonic() + _ASK_S
    for id_ in ids:
        left = until - monotonic()
        if left <= 0:
            return states, False
        state = await describe_transaction(connection, id_, left)
        if state is not None:
            states.append(state)
    return states, True
