"""The path of a batch against a model of the target: what is in a transaction, in which order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.future import Future
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest

from k2ktui.engine.records.state import (
    Position,
    SourcePartition,
    read_commit_record,
    read_mapping_record,
)
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import Loop, PartitionLeader, Signal, TopicInfo
from k2ktui.kafka.wire.produce_request import ProducedPartition, ProducedTopic, ProduceResponse
from k2ktui.log.batch import split_batches
from k2ktui.log.rebuild import build_batches
from k2ktui.log.record import TimestampType, record_at
from k2ktui.log.records import decode_records, make_records
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.lap_failures import LAP_FAILURES, JoinRefused
from k2ktui.replication.copying.outgoing_batch import TargetPartition
from k2ktui.replication.copying.partition_reader import make_readers
from k2ktui.replication.copying.slot_settings import CommitPolicy
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    FaultKind,
    LapOutcome,
    Route,
    SlotTask,
    StateTopics,
)
from k2ktui.replication.copying.transaction_writer import TransactionWriter
from tests.support.schedule.examples import examples

PARTITIONS = 3
STATE = StateTopics("p", "g", 4, "commits", 1, "mappings", 2)
UNAUTHORIZED = 29
_SEQUENCE_AT = 53  # in a batch

Stored = tuple[bytes | None, bytes | None]


@dataclass
class Target:
    """A target cluster with one broker, which answers the requests of a transaction.

    Attributes:
        loop: answers arrive through it, ``late`` seconds after the request.
        logs: records by partition, those of the open transaction included; None is a marker.
        joined: what the open transaction has.
        committed: the length of each log at the last commit.
        refused: error codes by partition, of the coordinator.
        splits: batches of more records than this are too large.
    """

    loop: Loop
    late: float = 0.0
    refused: dict[TargetPartition, int] = field(default_factory=dict)
    splits: int = 1000
    logs: dict[TargetPartition, list[Stored | None]] = field(
        default_factory=lambda: defaultdict(list)
    )
    joined: set[TargetPartition] = field(default_factory=set)
    committed: dict[TargetPartition, int] = field(default_factory=dict)
    sequences: dict[TargetPartition, int] = field(default_factory=lambda: defaultdict(int))
    joins: int = 0
    unanswered: int = 0

    async def metadata(self, topics: Any) -> dict[str, TopicInfo]:
        leaders = {number: PartitionLeader(1, 0) for number in range(PARTITIONS)}
        return {topic: TopicInfo(0, "", leaders) for topic in topics}

    def version_of(self, _: Any) -> int:
        return 7

    async def coordinator(self, name: str, timeout: float = 0.0) -> int:
        return 1

    def outage(self) -> None:
        return None

    async def send(self, request: Any, node: int, timeout: float = 0.0) -> Any:
        if isinstance(request, AddPartitionsToTxnRequest):
            topics = request.v3_and_below_topics
            asked = {(topic.name, number) for topic in topics for number in topic.partitions}
            assert asked, "a request without partitions"
            assert not asked & self.joined, "each joins once"
            codes = {target: self.refused.get(target, 0) for target in asked}
            if not any(codes.values()):
                self.joined |= asked
                self.joins += 1
            return SimpleNamespace(
                results_by_topic_v3_and_below=[
                    SimpleNamespace(
                        name=name,
                        results_by_partition=[
                            SimpleNamespace(partition_index=number, partition_error_code=code)
                        ],
                    )
                    for (name, number), code in codes.items()
                ]
            )
        assert isinstance(request, EndTxnRequest) and request.committed
        assert not self.unanswered, "a batch is not acknowledged"
        for target in self.joined:
            self.logs[target].append(None)
        self.committed = {target: len(log) for target, log in self.logs.items()}
        self.joined.clear()
        return SimpleNamespace(error_code=0)

    def post(self, request: Any, node: int) -> Any:
        answers = []
        for topic in request.topic_data:
            for part in topic.partition_data:
                target = (topic.name, part.index)
                assert target in self.joined, "sent before its partition has joined"
                answers.append((target, *self._append(target, bytes(part.records))))
        future = Future()
        self.unanswered += 1

        def answer() -> None:
            self.unanswered -= 1
            topics = [
                ProducedTopic(name, [ProducedPartition(number, code, base, "")])
                for (name, number), code, base in answers
            ]
            future.success(ProduceResponse(topics, 0))

        self.loop.net.call_later(self.late, answer)
        return future

    def _append(self, target: TargetPartition, data: bytes) -> tuple[int, int]:
        """Append a batch; return the error code and its base offset."""
        (batch,) = split_batches(data)
        records = decode_records(batch)
        sequence = int.from_bytes(data[_SEQUENCE_AT : _SEQUENCE_AT + 4], "big")
        if sequence != self.sequences[target]:
            return 45, -1
        if len(records) > self.splits:
            return 10, -1
        self.sequences[target] += len(records)
        if target[0] in (STATE.commit_topic, STATE.mapping_topic):
            assert self.unanswered == 0 or self._holds_state(), "a copy is not acknowledged"
        log = self.logs[target]
        base = len(log)
        for row in range(len(records)):
            record = record_at(records, row, TimestampType.CREATE)
            log.append((record.key, record.value))
        return 0, base

    def rows(self, topic: str) -> list[Stored]:
        """Return the records of a topic."""
        logs = [log for (name, _), log in self.logs.items() if name == topic]
        return [row for log in logs for row in log if row is not None]

    def _holds_state(self) -> bool:
        """Whether the open transaction has mapping ranges or positions."""
        own = (STATE.commit_topic, STATE.mapping_topic)
        return any(
            len(log) > self.committed.get(target, 0)
            for target, log in self.logs.items()
            if target[0] in own
        )


class Lap:
    """A lap of three partitions, from what was fetched to what is committed.

    Args:
        target: where it writes.
        path: of each partition's records; they keep their partition on the verbatim path.
    """

    def __init__(self, target: Target, path: CopyPath) -> None:
        keeps = path is CopyPath.VERBATIM
        assignments = tuple(
            Assignment(
                SourcePartition("t", number),
                Position(0, 0, -1, "", 1, 0, "t", number if keeps else None),
                Route(path, "t", number if keeps else None, PARTITIONS),
            )
            for number in range(PARTITIONS)
        )
        task = SlotTask(0, Producer("p.0", 1, 1), True, STATE, CommitPolicy(9.0), assignments)
        self.target = target
        self.readers, landed = make_readers(task)
        wire: Any = target
        self.writer = TransactionWriter(
            task,
            wire,
            Signal(target.loop),
            self.readers,
            landed,
            {reader: reader.assignment.route.every_target for reader in self.readers},
        )
        self.router = BatchRouter("p")
        self.sent: dict[SourcePartition, list[Stored]] = {
            reader.source: [] for reader in self.readers
        }

    def fetch(self, number: int, count: int) -> None:
        reader = self.readers[number]
        first = len(self.sent[reader.source])
        rows = [
            (first + n, 5, b"%d" % (n % 4), b"%d:%d" % (number, first + n)) for n in range(count)
        ]
        (built,) = build_batches(make_records(rows), 0, 1 << 20)
        built.data[:8] = first.to_bytes(8, "big")
        reader.receive(bytes(built.data), [])
        self.sent[reader.source] += [(key, value) for _, _, key, value in rows]

    async def transaction(self, fetched: list[tuple[int, int]]) -> None:
        """Copy what was fetched: pairs of a partition and a number of records."""
        for number, count in fetched:
            self.fetch(number, count)
        for reader in self.readers:
            while reader.can_be_routed:
                self.writer.add(reader, self.router.take_next(reader))
        await self.writer.send()
        dirty = [reader for reader in self.readers if reader.dirty]
        if dirty:
            await self.writer.commit(dirty)


def mapped(target: Target) -> dict[tuple[SourcePartition, int], tuple[TargetPartition, int]]:
    """Return where the committed mapping says that each source offset is."""
    where: dict[tuple[SourcePartition, int], tuple[TargetPartition, int]] = {}
    for record in (read_mapping_record(*row) for row in target.rows(STATE.mapping_topic)):
        for source, offset in record.pairs():
            assert (record.source, source) not in where, "mapped twice"
            landed = (record.target_topic, record.target_partition), offset
            where[record.source, source] = landed
    return where


fetches = st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 5)), max_size=6)


@given(
    st.lists(fetches, min_size=1, max_size=4),
    st.sampled_from(list(CopyPath)),
    st.sampled_from((0.0, 0.001)),
    st.sampled_from((1000, 2)),
)
@settings(max_examples=examples(40), deadline=None)
def test_what_was_fetched_is_committed_once_in_order_and_mapped(
    transactions: list[list[tuple[int, int]]], path: CopyPath, late: float, splits: int
) -> None:
    """I1 and I3; the model refuses what is sent or committed too early."""
    loop = Loop()
    target = Target(loop, late, splits=splits)
    try:
        lap = Lap(target, path)
        for fetched in transactions:
            loop.run(partial(lap.transaction, fetched))
            assert not target.joined, "nothing is left open"
        result = lap.writer.end_lap(None, bounds={}, unread={}, skipped=())
    finally:
        loop.close()
    assert target.joins == result.stats.transactions, "one request of partitions for each"
    where = mapped(target)
    committed = {row[1]: row[2] for row in map(_commit, target.rows(STATE.commit_topic))}
    for reader in lap.readers:
        sent = lap.sent[reader.source]
        assert reader.committed == len(sent)
        if sent:
            assert committed[reader.source] == result.positions[reader.source].offset == len(sent)
        landed = [where[reader.source, offset] for offset in range(len(sent))]
        assert [target.logs[at][offset] for at, offset in landed] == sent
        for at in {at for at, _ in landed}:
            offsets = [offset for other, offset in landed if other == at]
            assert offsets == sorted(offsets), "the order of the source"
    assert len(target.rows("t")) == sum(map(len, lap.sent.values())), "nothing twice"


def _commit(row: Stored) -> tuple[str, SourcePartition | None, int]:
    group, source, position = read_commit_record(*row)
    assert isinstance(position, Position)
    return group, source, position.offset


def test_a_partition_that_may_not_join_stops_alone_and_nothing_is_sent() -> None:
    loop = Loop()
    target = Target(loop, refused={("t", 1): UNAUTHORIZED})
    try:
        lap = Lap(target, CopyPath.VERBATIM)
        with pytest.raises(JoinRefused) as refused:
            loop.run(lambda: lap.transaction([(0, 2), (1, 2)]))
        result = lap.writer.end_lap(refused.value, bounds={}, unread={}, skipped=())
    finally:
        loop.close()
    assert isinstance(refused.value, LAP_FAILURES)
    assert not any(target.logs.values())
    assert (result.outcome, dict(result.positions)) == (LapOutcome.FAILED, {})
    (fault,) = result.faults
    assert (fault.source, fault.kind) == (SourcePartition("t", 1), FaultKind.UNAUTHORIZED)
