"""Batches with schema ids on their way: looked up first, then mapped, stopped or passed through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from kafka.partitioner.default import murmur2

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.schemas.ids import (
    OnUnknownSchema,
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    SchemaRule,
    encode_schema_id,
)
from k2ktui.errors import ConnectionFailed, Refused
from k2ktui.kafka.wire.cluster import Loop, Signal
from k2ktui.log.batch import split_batches
from k2ktui.log.rebuild import build_batches
from k2ktui.log.record import KafkaRecord, TimestampType, record_at
from k2ktui.log.records import decode_records, make_records
from k2ktui.log.schema_id_columns import UsedId
from k2ktui.replication.copying import known_schemas, lookups
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.lookups import SchemaLookups
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    DeadLetterTarget,
    FaultKind,
    Route,
)

SOURCE = SourcePartition("orders", 0)
REFUSED_ID, UNKNOWN_ID = 66, 99
_PARTITIONS = 3
DEAD_LETTERS = DeadLetterTarget("copy.dead-letter", 1, 1 << 20)
_Sent = tuple[bytes | None, bytes | None]


@dataclass
class Registries:
    """Answers as registries would: ids grow by 100."""

    asked: list[int] = field(default_factory=list)
    down: bool = False
    unknown: int = UNKNOWN_ID

    def map_id(self, topic: str, part: SchemaPart, schema_id: SchemaId) -> int | None:
        assert (topic, schema_id.form) == (SOURCE.topic, SchemaIdForm.PREFIX)
        if self.down:
            raise ConnectionFailed("the registry does not answer", hint="Start it.")
        self.asked.append(schema_id.value)
        if schema_id.value == REFUSED_ID:
            raise Refused("schema 66 is not registered", hint="Run k2ktui schemas apply.")
        return None if schema_id.value == self.unknown else schema_id.value + 100


@dataclass
class Lap:
    """A lap of one partition."""

    reader: PartitionReader
    router: BatchRouter
    lookups: SchemaLookups
    loop: Loop
    signal: Signal

    def route(self) -> list[OutgoingBatch]:
        """Route everything, looking up what must be known; stop when nothing can be routed."""
        batches: list[OutgoingBatch] = []
        while self.reader.ready and self.reader.fault is None:
            routed = self.router.route(self.reader)
            if routed is None:
                self.settle()
                continue
            batches += routed
        return batches

    def settle(self) -> None:
        self.lookups.settle([self.reader])
        if self.reader.unresolved:
            self.loop.run(lambda: self.signal.wait(10))
            self.lookups.settle([self.reader])


@pytest.fixture
def registries() -> Registries:
    return Registries()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def lap(
    loop: Loop,
    registries: Registries,
    batches: list[list[_Sent]],
    on_unknown: OnUnknownSchema = "fail",
    *,
    codec: int = 0,
    by_key: bool = False,
) -> Lap:
    known = KnownSchemas(lambda: registries.map_id)
    rule = SchemaRule(on_unknown=on_unknown)
    route = Route(
        CopyPath.RECORD,
        "copy",
        None if by_key else 0,
        _PARTITIONS,
        schemas=rule,
        keeps_batches=not by_key,
        dead_letters=DEAD_LETTERS if on_unknown == "deadLetter" else None,
    )
    position = Position(0, 0, -1, "", 1, 0, "copy", 0)
    assignment = Assignment(SOURCE, position, route)
    reader = PartitionReader(assignment)
    reader.receive(log(batches, codec), [])
    signal = Signal(loop)
    return Lap(
        reader, BatchRouter("p", known=known), SchemaLookups(loop, known, signal), loop, signal
    )


def log(batches: list[list[_Sent]], codec: int) -> bytes:
    data, base = b"", 0
    for records in batches:
        rows = [(n, 1000 + n, key, value) for n, (key, value) in enumerate(records)]
        (built,) = build_batches(make_records(rows), codec, 1 << 20)
        built.data[:8] = base.to_bytes(8, "big")
        data += built.data
        base += len(records)
    return data


def avro(number: int, data: bytes = b"data") -> bytes:
    return encode_schema_id(SchemaId(SchemaIdForm.PREFIX, number)) + data


def values(routed: list[OutgoingBatch]) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return partition, key and value of all copies."""
    return [
        (partition, record.key, record.value) for partition, _, record in written(routed, "copy")
    ]


def letters(routed: list[OutgoingBatch]) -> list[tuple[int, bytes | None, dict[str, bytes | None]]]:
    """Return source offset, value and headers of all dead letters."""
    letters = []
    for partition, offset, record in written(routed, DEAD_LETTERS.topic):
        assert partition == DEAD_LETTERS.partition
        letters.append((offset, record.value, dict(record.headers)))
    return letters


def written(routed: list[OutgoingBatch], topic: str) -> Iterator[tuple[int, int, KafkaRecord]]:
    """Yield partition, source offset and record of what goes to a topic."""
    for outgoing in routed:
        name, partition = outgoing.target
        (batch,) = split_batches(outgoing.data)
        records = decode_records(batch)
        assert len(records) == outgoing.count
        sources = outgoing.sources
        for row in range(len(records)) if name == topic else ():
            source = outgoing.first_source + row if sources is None else int(sources[row])
            yield partition, source, record_at(records, row, TimestampType.CREATE)


@pytest.mark.parametrize("codec", [0, 3])
def test_ids_are_looked_up_once_and_replaced(
    loop: Loop, registries: Registries, codec: int
) -> None:
    sent: list[list[_Sent]] = [[(None, avro(1)), (avro(2), None)], [(None, avro(1))]]
    one = lap(loop, registries, sent, codec=codec)
    assert one.router.route(one.reader) is None
    assert (one.reader.handed, one.reader.can_be_routed) == (0, False)
    assert values(one.route()) == [(0, None, avro(101)), (0, avro(102), None), (0, None, avro(101))]
    assert sorted(registries.asked) == [1, 2]
    assert one.reader.handed == 3


def test_small_batches_are_merged_as_without_ids(loop: Loop, registries: Registries) -> None:
    one = lap(loop, registries, [[(None, avro(1, b"%d" % n))] for n in range(6)])
    routed = one.route()
    assert [value for _, _, value in values(routed)] == [avro(101, b"%d" % n) for n in range(6)]
    assert len(routed) == 1


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("by_key", [False, True])
def test_an_unknown_id_stops_before_its_record(
    loop: Loop, registries: Registries, codec: int, by_key: bool
) -> None:
    sent: list[list[_Sent]] = [
        [(None, avro(1))],
        [(None, avro(2)), (None, avro(UNKNOWN_ID)), (None, avro(3))],
        [(None, avro(4))],
    ]
    one = lap(loop, registries, sent, codec=codec, by_key=by_key)
    assert [value for _, _, value in values(one.route())] == [avro(101), avro(102)]
    reader, fault = one.reader, one.reader.fault
    assert fault is not None
    assert (fault.kind, fault.offset) == (FaultKind.SCHEMA, 2)
    assert "the value at offset 2 has the schema id 99" in fault.message
    assert (reader.handed, reader.fetched, reader.ready_bytes) == (2, 2, 0)
    assert reader.position(1, 0, 0).offset == 2


def test_passed_through_records_are_counted(loop: Loop, registries: Registries) -> None:
    sent: list[list[_Sent]] = [[(None, avro(UNKNOWN_ID)), (None, avro(1)), (None, avro(99))]]
    one = lap(loop, registries, sent, "passthrough")
    assert [value for _, _, value in values(one.route())] == [avro(99), avro(101), avro(99)]
    (unknown,) = one.router.unknown
    assert (unknown.count, unknown.last, unknown.schema_id) == (2, 2, UNKNOWN_ID)
    assert one.reader.fault is None


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("by_key", [False, True])
def test_dead_letters_are_as_on_the_source_and_have_no_mapping(
    loop: Loop, registries: Registries, codec: int, by_key: bool
) -> None:
    """A key whose id is known stays as it is with a value whose id is not."""
    sent: list[list[_Sent]] = [
        [(None, avro(1)), (avro(2), avro(99)), (None, avro(3))],
        [(avro(99), avro(1))],
    ]
    one = lap(loop, registries, sent, "deadLetter", codec=codec, by_key=by_key)
    routed = one.route()
    assert [value for _, _, value in values(routed)] == [avro(101), avro(103)]
    assert [source for _, source, _ in written(routed, "copy")] == [0, 2]
    keys = [record.key for _, _, record in written(routed, DEAD_LETTERS.topic)]
    assert keys == [avro(2), avro(99)]
    (first, second) = letters(routed)
    assert (first[:2], second[:2]) == ((1, avro(99)), (3, avro(1)))
    assert first[2] == {
        "__k2k.error.step": b"schemaMapping.value",
        "__k2k.error.cause": b"the value has the schema id 99, which the source's registry does "
        b"not have for values, or of a type that is not mapped",
        "__k2k.error.pipeline": b"p",
        "__k2k.error.topic": b"orders",
        "__k2k.error.partition": b"0",
        "__k2k.error.offset": b"1",
    }
    assert second[2]["__k2k.error.step"] == b"schemaMapping.key"
    for outgoing in routed:
        assert outgoing.owner is not None
        outgoing.owner.acknowledge(outgoing, 0)
    mapped = [
        offset
        for record in one.reader.mappings("p", 1)
        for offset in (
            *(span.source for span in record.ranges for _ in range(span.count)),
            *(offset for run in record.runs for offset in run.sources),
        )
    ]
    assert sorted(mapped) == [0, 2]
    assert (one.reader.handed, one.reader.fault) == (4, None)
    unknown = one.router.unknown
    assert sum(missing.count for missing in unknown) == 2
    assert {missing.dead_letter_topic for missing in unknown} == {DEAD_LETTERS.topic}


def test_a_schema_that_the_target_lacks_is_no_dead_letter(
    loop: Loop, registries: Registries
) -> None:
    """It stops the partition; dead letters before it are written."""
    sent: list[list[_Sent]] = [
        [(None, avro(UNKNOWN_ID)), (None, avro(REFUSED_ID)), (None, avro(UNKNOWN_ID))]
    ]
    one = lap(loop, registries, sent, "deadLetter")
    routed = one.route()
    assert values(routed) == [] and [offset for offset, _, _ in letters(routed)] == [0]
    fault = one.reader.fault
    assert fault is not None and (fault.offset, one.reader.handed) == (1, 1)


@pytest.mark.parametrize("by_key", [False, True])
def test_a_passed_id_that_is_registered_meanwhile_is_replaced(
    loop: Loop, registries: Registries, by_key: bool
) -> None:
    """A producer registers before it writes: what comes later has a schema."""
    one = lap(loop, registries, [[(None, avro(99))]], "passthrough", by_key=by_key)
    assert [value for _, _, value in values(one.route())] == [avro(99)]
    registries.unknown = 0
    one.reader.receive(log([[(None, b"")], [(None, avro(99))]], 0), [])
    assert [value for _, _, value in values(one.route())][-1] == avro(199)


def test_a_schema_that_the_target_lacks_stops_whatever_is_passed_through(
    loop: Loop, registries: Registries
) -> None:
    """Its id may be that of another schema on the target."""
    sent: list[list[_Sent]] = [
        [(None, avro(UNKNOWN_ID)), (None, avro(REFUSED_ID)), (None, avro(1))]
    ]
    one = lap(loop, registries, sent, "passthrough")
    assert [value for _, _, value in values(one.route())] == [avro(99)]
    fault = one.reader.fault
    assert fault is not None and fault.offset == 1
    assert "schema 66 is not registered" in fault.message
    assert fault.hint.startswith("Run k2ktui schemas apply.")
    assert [missing.count for missing in one.router.unknown] == [1]


def test_the_partition_follows_from_the_key_on_the_target(
    loop: Loop, registries: Registries
) -> None:
    """As for a producer on the target, which writes that id."""
    sent: list[list[_Sent]] = [[(avro(1, b"%d" % n), b"v") for n in range(20)]]
    one = lap(loop, registries, sent, by_key=True)
    copies = values(one.route())
    assert {partition for partition, _, _ in copies} == set(range(_PARTITIONS))
    for partition, key, _ in copies:
        assert key is not None and key.startswith(avro(101, b""))
        assert partition == (murmur2(key) & 0x7FFFFFFF) % _PARTITIONS


def test_registries_that_do_not_answer_hold_back_and_then_stop(
    loop: Loop, registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    registries.down = True
    one = lap(loop, registries, [[(None, avro(1))]])
    assert one.router.route(one.reader) is None
    one.settle()
    assert one.reader.fault is None and one.reader.ready
    monkeypatch.setattr(lookups, "PATIENCE_S", -1.0)
    assert one.lookups.settle([one.reader]) > 0
    fault = one.reader.fault
    assert fault is not None and fault.kind is FaultKind.UNAVAILABLE
    assert "the registry does not answer" in fault.message
    assert (one.reader.handed, one.reader.fetched, fault.offset) == (0, 0, 0)


def test_registries_that_answer_again_continue(
    loop: Loop, registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "_RETRY_S", 0.0)
    registries.down = True
    one = lap(loop, registries, [[(None, avro(1))]])
    assert one.router.route(one.reader) is None
    one.settle()
    registries.down = False
    assert values(one.route()) == [(0, None, avro(101))]


def test_an_unknown_id_is_looked_up_again(
    loop: Loop, registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been registered meanwhile."""
    monkeypatch.setattr(known_schemas, "_UNKNOWN_S", -1.0)
    known = KnownSchemas(lambda: registries.map_id)
    used = SchemaPart.VALUE, SchemaId(SchemaIdForm.PREFIX, UNKNOWN_ID)
    found: list[Mapping[UsedId, int | None]] = []
    for _ in range(2):
        loop.run(lambda: known.look_up(loop, [(SOURCE.topic, used)]))
        found.append(dict(known.of(SOURCE.topic)))
        known.forget_unknown()
    assert found == [{used: None}] * 2
    assert registries.asked == [UNKNOWN_ID] * 2
    assert not known.of(SOURCE.topic)
