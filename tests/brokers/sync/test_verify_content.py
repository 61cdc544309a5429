"""Content proof: what is the same, what is not, and what is unknown, on real clusters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import RecordPart
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.verify.groups import (
    PIECE_RECORDS,
    ComparisonOutcome,
    ContentCheck,
    GroupPosition,
    Verification,
    VerificationTotals,
    count_mapped_in_memory,
    sample_ranges,
    verify,
)
from k2ktui.sync.verify.record_comparison import RecordComparison
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_before,
    eventually,
    open_transaction,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.records.traffic import mixture

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
Span = tuple[int, int, int]


def cluster(node: KafkaNode, label: str) -> Cluster:
    common = {"bootstrap.servers": node.bootstrap}
    return Cluster(ClusterConfig(kafka=KafkaClients(common=common)), label)


def replica(target: TargetPartition, spans: Sequence[Span], **more: object) -> Replica:
    ranges = MappingRanges()
    for span in spans:
        ranges.append(*(np.array([number], dtype=np.int64) for number in span))
    position = Position(ranges.end or 0, 0, -1, "", 1, 0, *target)
    return Replica(position, {target: ranges}, **more)  # type: ignore[arg-type]


@dataclass
class Copy:
    """Two topics, one the copy of the other, three records of the target's own before it."""

    source: KafkaNode
    target: KafkaNode
    records: Sequence[Out]
    spans: list[Span] = field(default_factory=list)
    here: str = ""
    there: str = ""

    def __post_init__(self) -> None:
        self.here = self.here or create_topic(self.source)
        self.there = self.there or create_topic(self.target)
        produce(self.source, self.here, self.records)
        produce(self.target, self.there, [Out(b"own", b"own%d" % n) for n in range(3)])
        produce(self.target, self.there, self.records)
        self.spans = self.spans or [(0, 3, len(self.records))]

    @property
    def at(self) -> SourcePartition:
        return SourcePartition(self.here, 0)

    def row(self, source: int, target: int, group: str = "g") -> GroupPosition:
        return GroupPosition(group, self.at, source, (self.there, 0), target)

    def mapping(self, **more: object) -> dict[SourcePartition, Replica]:
        return {self.at: replica((self.there, 0), self.spans, **more)}

    def verify(self, *rows: tuple[int, int], mapped: bool = True, **more: object) -> Verification:
        return verify(
            cluster(self.source, "source"),
            cluster(self.target, "target"),
            [self.row(*row) for row in rows],
            replicas=self.mapping() if mapped else {},
            **more,  # type: ignore[arg-type]
        )

    def one(self, source: int, target: int, **more: object) -> ContentCheck:
        return self.verify((source, target), **more).checks[0]  # type: ignore[arg-type]


def stamped(count: int) -> list[Out]:
    now = int(time.time() * 1000)
    return [Out(b"v%d" % i, b"k%d" % i, timestamp=now + i) for i in range(count)]


@pytest.fixture
def copy(source: KafkaNode, target: KafkaNode) -> Copy:
    return Copy(source, target, stamped(20))


def outcome(check: ContentCheck) -> tuple[ComparisonOutcome, str]:
    return check.outcome, check.why


@pytest.mark.parametrize("mapped", [True, False])
def test_positions_that_are_right(copy: Copy, mapped: bool) -> None:
    verified = copy.verify(*((n, n + 3) for n in range(21)), mapped=mapped)
    assert verified.positions == VerificationTotals(same=21)
    assert outcome(verified.checks[20]) == (ComparisonOutcome.SAME, "both at the end")
    assert verified.checks[4].hashes[0] == verified.checks[4].hashes[1] != ""
    assert verified.checks[20].hashes == ("", "")
    assert verified.as_json()["positions"] == {
        "same": 21,
        "re-reads": 0,
        "different": 0,
        "could-not-check": 0,
    }


def test_groups_at_one_position_share_its_proof(copy: Copy) -> None:
    rows = [copy.row(5, 8, f"g{n}") for n in range(300)] + [copy.row(6, 8, "late")]
    verified = verify(cluster(copy.source, "source"), cluster(copy.target, "target"), rows)
    assert [check.group for check in verified.checks] == [row.group for row in rows]
    assert verified.positions == VerificationTotals(same=300, different=1)


@pytest.mark.parametrize(
    ("row", "mapped", "words"),
    [
        ((5, 9), True, "landed at 8, before the committed offset: it would be skipped"),
        ((5, 23), True, "landed at 8, before the committed offset: it would be skipped"),
        ((5, 9), False, "key differs"),
        ((20, 22), False, "the source has no record left, the target has one at 22"),
    ],
)
def test_positions_that_are_wrong(
    copy: Copy, row: tuple[int, int], mapped: bool, words: str
) -> None:
    check = copy.one(*row, mapped=mapped)
    assert check.outcome is ComparisonOutcome.DIFFERENT and words in check.why


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((5, 7), "at 7, is before the first unread one, at 8"),
        ((20, 22), "no record left, the target has one at 22, before the first unread one"),
    ],
)
def test_positions_that_only_read_again(copy: Copy, row: tuple[int, int], words: str) -> None:
    """With the mapping it is known that nothing is skipped: no finding."""
    check = copy.one(*row)
    assert check.outcome is ComparisonOutcome.REREADS and words in check.why


def test_equal_records_at_another_place(source: KafkaNode, target: KafkaNode) -> None:
    """Heartbeats that are all alike: only the mapping sees that two of them would be read again."""
    copy = Copy(source, target, [Out(b"alive", timestamp=int(time.time() * 1000))] * 10)
    assert copy.one(5, 6, mapped=False).outcome is ComparisonOutcome.SAME
    assert copy.one(5, 6).outcome is ComparisonOutcome.REREADS
    assert copy.one(5, 8).outcome is ComparisonOutcome.SAME


def test_lag_is_no_mistake(copy: Copy) -> None:
    produce(copy.source, copy.here, [b"new"])
    for mapped in (True, False):
        for row in ((20, 23), (21, 23)):
            expected = (ComparisonOutcome.COULD_NOT_CHECK, "not replicated yet")
            at_end = (ComparisonOutcome.SAME, "both at the end")
            assert outcome(copy.one(*row, mapped=mapped)) == (expected if row[0] == 20 else at_end)
    check = copy.one(20, 22)
    assert check.outcome is ComparisonOutcome.DIFFERENT and "is not replicated yet" in check.why


def test_aborted_and_open_transactions(source: KafkaNode, target: KafkaNode) -> None:
    here, there, records = create_topic(source), create_topic(target), stamped(10)
    produce(source, here, records[:5])
    produce_transaction(source, here, mixture(1, 30, 1), commit=False)
    (at, *_) = produce_transaction(source, here, records[5:8])
    produce(target, there, records[:5])
    (landed, *_) = produce_transaction(target, there, records[5:8])
    open_here = open_transaction(source, here, records[8:])
    copy = Copy(source, target, [], [(0, 0, 5), (at, landed, 3)], here, there)

    # The target's own three records come last here: they are a difference, not lag.
    positions = [(5, 5), (7, 5), (at, landed), (at + 1, landed + 1)]
    assert copy.verify(*positions, sample=5).positions == VerificationTotals(same=4)
    assert copy.verify(*positions, sample=5).records == VerificationTotals(same=8)
    assert copy.one(at + 3, landed + 4).outcome is ComparisonOutcome.DIFFERENT
    open_here.abort_transaction(TIMEOUT)


def test_what_an_open_transaction_hides_on_the_target(copy: Copy) -> None:
    held = open_transaction(copy.target, copy.there, [b"x"])
    produce(copy.source, copy.here, [b"new"])
    produce(copy.target, copy.there, [b"new"])
    copy.spans = [(0, 3, 20), (20, 24, 1)]
    check = copy.one(20, 23)
    assert (
        check.outcome is ComparisonOutcome.COULD_NOT_CHECK
        and "an open transaction hides" in check.why
    )
    verified = copy.verify(sample=9)
    assert verified.records == VerificationTotals(same=20, could_not_check=1)
    assert "open transaction" in verified.checks[1].why
    held.abort_transaction(TIMEOUT)


def test_logs_that_lost_their_heads(copy: Copy) -> None:
    delete_before(copy.source, copy.here, 4)
    delete_before(copy.target, copy.there, 9)
    verified = copy.verify((2, 5), (4, 7), (8, 11), sample=1)
    assert outcome(verified.checks[0]) == (
        ComparisonOutcome.COULD_NOT_CHECK,
        "source: below the log start offset 4",
    )
    assert outcome(verified.checks[1]) == (
        ComparisonOutcome.COULD_NOT_CHECK,
        "target: below the log start offset 9",
    )
    assert verified.checks[2].outcome is ComparisonOutcome.SAME
    assert verified.records == VerificationTotals(same=14, could_not_check=6)
    assert verified.ranges == VerificationTotals(same=1)
    assert (
        "6 could not be checked: target: it is below the log start offset" in verified.checks[3].why
    )


def compact(node: KafkaNode, topic: str, gone: int) -> None:
    def done() -> bool:
        produce(node, topic, [Out(b"end", unique_name("end").encode())])
        return all(got.offset != gone for got in read_all(node, topic))

    eventually(done, f"{topic} is compacted")


@pytest.mark.slow
def test_compaction_is_no_mistake(source: KafkaNode, target: KafkaNode) -> None:
    """On either side; but what no compaction explains is still one."""
    records = stamped(6)
    records[3] = Out(b"newer", records[1].key, timestamp=records[3].timestamp)
    here = Copy(source, target, records, here=create_topic(source, config=COMPACTED))
    there = Copy(source, target, records, there=create_topic(target, config=COMPACTED))
    compact(source, here.here, 1)
    compact(target, there.there, 4)

    check = here.one(1, 4)
    assert outcome(check) == (
        ComparisonOutcome.COULD_NOT_CHECK,
        "the source no longer holds the record",
    )
    assert here.one(2, 5).outcome is ComparisonOutcome.SAME
    assert here.one(1, 3).outcome is ComparisonOutcome.REREADS
    assert here.one(1, 6).outcome is ComparisonOutcome.DIFFERENT
    assert "compaction may be why" in here.one(1, 4, mapped=False).why
    verified = here.verify(sample=1)
    assert verified.records == VerificationTotals(same=5, could_not_check=1)
    assert verified.checks[0].why == "1 could not be checked: source: no longer there (compaction)"

    check = there.one(1, 4)
    assert outcome(check) == (
        ComparisonOutcome.COULD_NOT_CHECK,
        "the record at 1 landed at 4, and was compacted away there",
    )
    assert there.verify(sample=1).records == VerificationTotals(same=5, could_not_check=1)


def test_a_record_that_is_lost_on_the_target(copy: Copy) -> None:
    """The mapping says that one more record landed than the target holds."""
    produce(copy.source, copy.here, [b"lost"] * 2)
    copy.spans = [(0, 3, 21)]
    assert "log ends before that" in copy.one(20, 23).why
    verified = copy.verify(sample=1)
    assert verified.records == VerificationTotals(same=20, different=1)
    assert verified.checks[0].outcome is ComparisonOutcome.DIFFERENT
    assert "source offset 20: on the target, at 23: it is beyond the high watermark" in (
        verified.checks[0].why
    )

    produce_transaction(copy.target, copy.there, [b"x"], commit=False)
    assert "landed at 23, where the target has no record" in copy.one(20, 23).why
    assert copy.verify(sample=1).records == VerificationTotals(same=20, different=1)


def test_changed_records_are_found(source: KafkaNode, target: KafkaNode) -> None:
    now = int(time.time() * 1000)
    two = (("h", b"1"), ("h", b"1"))
    records = [Out(b"v", b"k", headers=two, timestamp=now) for _ in range(6)]
    copy = Copy(source, target, records, [(0, 9, 6)])
    changed = [
        Out(b"v", b"k", headers=two, timestamp=now),
        Out(None, b"k", headers=two, timestamp=now),
        Out(b"v", b"", headers=two, timestamp=now),
        Out(b"v", b"k", headers=two[:1], timestamp=now),
        Out(b"v", b"k", headers=(("h", b"1"), ("h", None)), timestamp=now),
        Out(b"v", b"k", headers=two, timestamp=now + 1),
    ]
    produce(target, copy.there, changed)
    verified = copy.verify(*((n, n + 9) for n in range(6)), sample=1)
    assert verified.positions == VerificationTotals(same=1, different=5)
    assert [check.why.split(" (")[0] for check in verified.checks[1:6]] == [
        "value differs",
        "key differs",
        "number of headers differs",
        "header 2 differs",
        "timestamp differs",
    ]
    assert verified.records == VerificationTotals(same=1, different=5)
    assert "2 more differ" in verified.checks[6].why
    parts = [RecordPart.TIMESTAMP, RecordPart.HEADERS]
    verified = copy.verify(sample=1, records=RecordComparison(lambda _: parts))
    assert verified.records == VerificationTotals(same=4, different=2)


def test_partitions_that_meet(copy: Copy) -> None:
    """Several sources on one target: its next record may be another source's."""
    other = create_topic(copy.source)
    produce(copy.source, other, [b"other"])
    rows = [copy.row(5, 8), GroupPosition("g", SourcePartition(other, 0), 0, (copy.there, 0), 9)]
    verified = verify(cluster(copy.source, "source"), cluster(copy.target, "target"), rows)
    assert verified.positions == VerificationTotals(same=1, could_not_check=1)
    assert "several partitions" in verified.checks[1].why


def test_another_log_than_the_one_that_was_copied(copy: Copy) -> None:
    known = copy.mapping(unusable_reason="the topic was created again")
    rows = [copy.row(5, 9)]
    verified = verify(
        cluster(copy.source, "source"),
        cluster(copy.target, "target"),
        rows,
        replicas=known,
        sample=2,
    )
    assert {check.why for check in verified.checks} == {"the topic was created again"}
    assert verified.records == VerificationTotals(could_not_check=20)


def test_no_time_and_no_broker(copy: Copy) -> None:
    unreachable = Cluster(
        ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": "127.0.0.1:1"})), "source"
    )
    with pytest.raises(ConnectionFailed):
        verify(unreachable, cluster(copy.target, "target"), [copy.row(5, 8)], timeout=1)


def test_samples_are_drawn_evenly_and_repeatably() -> None:
    spans = [(0, 0, 2500), (3000, 2600, 1), (4000, 2700, 1000)]
    known = {
        SourcePartition("a", 0): replica(("t", 0), spans),
        SourcePartition("a", 1): replica(("t", 1), [(7, 9, 1001)]),
    }
    assert sum(count_mapped_in_memory(replica) for replica in known.values()) == 3501 + 1001
    every = sample_ranges(known, 1000, 1)
    pieces = [
        (p.pair.source.partition, p.pair.source_offset, p.pair.target_offset, p.count)
        for p in every
    ]
    assert pieces == [
        (0, 0, 0, 1000),
        (0, 1000, 1000, 1000),
        (0, 2000, 2000, 500),
        (0, 3000, 2600, 1),
        (0, 4000, 2700, 1000),
        (1, 7, 9, 1000),
        (1, 1007, 1009, 1),
    ]
    assert PIECE_RECORDS == 1000
    assert sample_ranges(known, 3, 5) == sample_ranges(known, 3, 5) != sample_ranges(known, 3, 6)
    drawn = {piece for seed in range(60) for piece in sample_ranges(known, 2, seed)}
    assert drawn == set(every)
    assert sample_ranges({}, 10, 1) == sample_ranges(known, 0, 1) == []
