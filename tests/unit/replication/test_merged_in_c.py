"""With the core in C, the same records are copied of the same answers as without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.log.batch import APPEND_TIME, CONTROL, TRANSACTIONAL, CorruptBatch, split_batches
from k2ktui.log.records import decode_records
from k2ktui.native.binding import Core
from k2ktui.replication.copying import batch_router
from k2ktui.replication.copying.batch_origins import BatchOrigins, Origin
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.size_limits import split_refused
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    Fault,
    FaultKind,
    Route,
    SizeLimit,
)
from tests.support.records.made_batches import DAMAGED, RECORDS, WHOLE, Made, Record, alike, log
from tests.support.records.native_library import in_c, in_python
from tests.support.schedule.examples import examples

SOURCE = SourcePartition("t", 0)
Aborted = list[tuple[int, int]]


class Owners(BatchOrigins):
    """Who owns producer ids, without reading it from a topic."""

    def __init__(self, owners: Mapping[int, Origin]) -> None:
        self.owners = dict(owners)

    def origin(self, producer_id: int) -> Origin:
        return self.owners.get(producer_id, Origin.NATIVE)


def marker(producer: int, *, commits: bool) -> Made:
    """A control batch: a transaction of this producer ends."""
    key = b"\0\0\0\1" if commits else b"\0\0\0\0"
    return Made((Record(key, b"\0" * 6),), 0, CONTROL | TRANSACTIONAL, producer)


MARKERS = st.builds(lambda producer, commits: marker(producer, commits=commits),
                    st.integers(0, 2), st.booleans())  # fmt: skip
EPOCHS = st.sampled_from((3, 3, 3, 4, -1))
ORDINARY = st.builds(
    lambda records, producer, transactional, epoch: Made(
        records, 0, TRANSACTIONAL if transactional else 0, producer, epoch=epoch
    ),
    st.lists(RECORDS, min_size=1, max_size=4).map(tuple),
    st.integers(0, 2),
    st.booleans(),
    EPOCHS,
)


def reader_of(
    position: int,
    refused: int | None = None,
    origins: BatchOrigins | None = None,
    limit: SizeLimit | None = None,
) -> PartitionReader:
    fault = None if refused is None else Fault(SOURCE, FaultKind.TOO_LARGE, "", "", refused)
    begin = Position(position, 0, -1, "", 1, 0, "t", 0)
    route = Route(CopyPath.VERBATIM, "t", 0, 3)
    return PartitionReader(Assignment(SOURCE, begin, route, None, limit, fault), origins)


def records_of(sent: OutgoingBatch) -> list[object]:
    """Return the records of a batch with their source offsets; its bytes if it is damaged."""
    (batch,) = split_batches(bytes(sent.data))
    assert batch.crc_ok() or not sent.checksum_known
    try:
        records = decode_records(batch)
    except CorruptBatch:  # copied as it is: the target refuses it
        return [(sent.first_source, sent.count, bytes(batch.view[21:]))]
    if sent.sources is None:
        sources = list(range(sent.first_source, sent.first_source + sent.count))
    else:
        sources = sent.sources.tolist()
    tails = map(bytes, records.tails)
    return list(zip(sources, records.timestamps.tolist(), tails, strict=True))


def drain(reader: PartitionReader, copied: list[object]) -> int:
    """Route what can be routed; return how many batches were sent."""
    number = 0
    while reader.can_be_routed:
        sent = BatchRouter("p").route(reader)
        if sent is None:
            break
        for outgoing in sent:
            copied += records_of(outgoing)
            number += 1
    return number


def outcome(
    reader: PartitionReader,
    answers: Sequence[bytes],
    aborted: Aborted,
    owners: Owners | None = None,
) -> tuple[list[object], int]:
    """Return all that is seen of a copy, and the number of batches that were sent."""
    copied: list[object] = []
    seen: list[object] = []
    sent = 0
    for number, answer in enumerate(answers):
        before = reader.ready_bytes
        assert reader.receive(answer, aborted) == reader.ready_bytes - before
        seen.append((reader.fetched, reader.leader_epoch, reader.fault, len(reader.ready)))
        seen.append((reader.next_timestamp, reader.ready_bytes, sorted(reader.undecided)))
        seen.append([(batch.base_offset, bytes(batch.view)) for batch in reader.ready])
        if number % 2:
            sent += drain(reader, copied)
        if reader.fault is not None:
            break
    if owners is not None:
        owners.owners = dict.fromkeys(owners.owners, Origin.OPPOSITE) | {1: Origin.NATIVE}
        seen.append((reader.apply_origins(), len(reader.ready), sorted(reader.undecided)))
    sent += drain(reader, copied)
    seen.append((copied, reader.handed, reader.fault, reader.state, reader.ready_bytes))
    return seen, sent


def parts_of(batches: Sequence[Made], cuts: Sequence[int]) -> list[bytes]:
    """Return the answers that have these batches, cut before some of them."""
    encoded = log(list(batches))
    bounds = [0, *sorted({cut % len(encoded) for cut in cuts}), len(encoded)]
    return [b"".join(encoded[a:b]) for a, b in pairwise(bounds)]


_ONE = Record(None, None, (), 0, 0)
# The second batch begins before the end of the first, as no broker writes it.
_OVERLAPPING = [Made((_ONE,)), Made((_ONE,) * 3, before=-2), Made((_ONE,)), Made((_ONE,))]


@example(_OVERLAPPING, None, 0, None, [], None, [], None)
@given(
    st.lists(WHOLE | DAMAGED | ORDINARY | MARKERS, min_size=1, max_size=12)
    | st.lists(ORDINARY, min_size=3, max_size=16),
    st.none() | st.integers(0, 4),
    st.integers(0, 60),
    st.none() | st.integers(10, 90),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=3),
    st.none() | st.dictionaries(st.integers(0, 2), st.sampled_from(list(Origin))),
    st.lists(st.integers(0, 20), max_size=3),
    st.none() | st.builds(SizeLimit, st.integers(100, 9000), st.integers(100, 9000)),
)
@settings(max_examples=examples(300), deadline=None)
def test_the_same_records_from_any_answers(
    batches: list[Made],
    codec: int | None,
    position: int,
    refused: int | None,
    aborted: Aborted,
    owners: dict[int, Origin] | None,
    cuts: list[int],
    limit: SizeLimit | None,
) -> None:
    answers = parts_of(alike(batches, codec), cuts)
    if refused is not None:
        refused = max(refused, position)
    results = []
    for way in (in_python, in_c):
        known = None if owners is None else Owners(owners)
        with way():
            reader = reader_of(position, refused, known, limit)
            results.append(outcome(reader, answers, aborted, known)[0])
    assert results[0] == results[1]


def some(
    count: int, codec: int = 0, flags: int = 0, producer: int = -1, epoch: int = 3
) -> list[Made]:
    records = tuple(Record(b"k%d" % n, b"v" * 50) for n in range(5))
    return [Made(records, codec, flags, producer, epoch=epoch) for _ in range(count)]


@contextmanager
def only_in_c() -> Iterator[None]:
    """Let the product use the core, and merge nothing in Python."""
    with in_c(), mock.patch.object(batch_router, "locate_run", None):
        yield


def sent_in_c(
    batches: Sequence[Made], aborted: Aborted | None = None, reader: PartitionReader | None = None
) -> list[OutgoingBatch]:
    """Return what is sent with the core, without the path in Python."""
    reader = reader or reader_of(0)
    sent: list[OutgoingBatch] = []
    with only_in_c():
        reader.receive(b"".join(log(list(batches))), aborted or [])
        while reader.ready:
            sent += BatchRouter("p").take_next(reader)
    return sent


def spans(sent: Sequence[OutgoingBatch]) -> list[tuple[int, int]]:
    """Return first source offset and number of records of each."""
    return [(outgoing.first_source, outgoing.count) for outgoing in sent]


@pytest.mark.parametrize("codec", range(5))
def test_small_batches_become_one(codec: int) -> None:
    (sent,) = sent_in_c(some(60, codec))
    assert (sent.count, sent.first_source, sent.sources) == (300, 10, None)
    assert sent.rebuilt and sent.checksum_known


def test_records_of_an_aborted_transaction_are_in_no_merge() -> None:
    """I2: their batches look like the others; only the answer's list tells them."""
    batches = [
        *some(3, flags=TRANSACTIONAL, producer=1),
        *some(3, flags=TRANSACTIONAL, producer=2),
        *some(3, flags=TRANSACTIONAL, producer=1),
        marker(2, commits=False),
        *some(3, flags=TRANSACTIONAL, producer=2),
        marker(1, commits=True),
        *some(1),
    ]
    sent = sent_in_c(batches, [(2, 20)])
    copied = [row for outgoing in sent for row in records_of(outgoing)]
    offsets = [row[0] for row in copied if isinstance(row, tuple)]
    assert offsets == [*range(10, 25), *range(40, 55), *range(56, 71), *range(72, 77)]
    assert len(sent) == 1, "the others are merged in C, too"


def test_transactions_of_this_pipeline_are_merged_beside_those_of_the_opposite_one() -> None:
    """Who wrote them is known later: they do not wait as rows, and are merged in C all the same."""
    owners = Owners({1: Origin.UNDECIDED, 2: Origin.UNDECIDED})
    reader = reader_of(0, origins=owners)
    batches = [
        *some(3, flags=TRANSACTIONAL, producer=1),
        *some(3),
        *some(3, flags=TRANSACTIONAL, producer=2),
        *some(2),
        *some(3, flags=TRANSACTIONAL, producer=1),
    ]
    with in_c():
        reader.receive(b"".join(log(batches)), [])
        assert not reader.can_be_routed
        owners.owners = {1: Origin.NATIVE, 2: Origin.OPPOSITE}
        reader.apply_origins()
    with only_in_c():
        assert reader.can_be_routed
        (sent,) = BatchRouter("p").take_next(reader)
    offsets = [row[0] for row in records_of(sent) if isinstance(row, tuple)]
    assert offsets == [*range(10, 40), *range(55, 80)]
    assert reader.state.left_out == ((40, 45), (45, 50), (50, 55))


def test_answers_of_one_batch_each_are_merged_while_they_wait() -> None:
    reader = reader_of(0)
    with only_in_c():
        for encoded in log(some(7)):
            reader.receive(encoded, [])
        assert spans(BatchRouter("p").take_next(reader)) == [(10, 35)]


def test_batches_are_merged_below_the_size_that_the_target_takes() -> None:
    limit = SizeLimit(1 << 10, 20_000)
    sent = sent_in_c(some(300), reader=reader_of(0, limit=limit))
    assert all(len(outgoing.data) <= limit.uncompressed for outgoing in sent)
    assert max(outgoing.count for outgoing in sent) >= 100
    assert sum(outgoing.count for outgoing in sent) == 1500


def test_a_merged_batch_that_the_target_refuses_for_its_size_is_split() -> None:
    holed = (Record(b"k", b"v" * 50), Record(b"l", b"w" * 50, after=2))
    (sent,) = sent_in_c([Made(holed, 3, TRANSACTIONAL), *some(20, 3)])
    parts, limit = split_refused(sent, None)
    assert [row for part in parts for row in records_of(part)] == records_of(sent)
    assert len(parts) > 1 and limit.uncompressed < 10_000


def test_batches_wait_as_rows_only_where_they_may_be_merged() -> None:
    """To change their records, each must be an object; and one alone is read faster in Python."""
    changing = Route(CopyPath.RECORD, "t", None, 3)
    one, several = log(some(1))[0], b"".join(log(some(9)))
    kept = reader_of(0)
    changed = PartitionReader(replace(kept.assignment, route=changing))
    with in_c(), mock.patch.object(Core, "scan", side_effect=AssertionError):
        changed.receive(several, [])
        kept.receive(one, [])
        with pytest.raises(AssertionError):
            kept.receive(several, [])
    assert (len(changed.ready), len(kept.ready)) == (9, 1)


def test_a_merge_does_not_span_leader_epochs() -> None:
    sent = sent_in_c([*some(3, epoch=3), *some(4, epoch=4), *some(3, epoch=4, flags=APPEND_TIME)])
    assert spans(sent) == [(10, 15), (25, 35)]


def test_a_batch_that_begins_before_the_position_is_copied_from_there() -> None:
    reader = reader_of(12)
    copied: list[object] = []
    with in_c():
        reader.receive(b"".join(log(some(6))), [])
        drain(reader, copied)
    assert copied[0] == (12, 1_700_000_000_000, some(1)[0].records[2].tail())
    assert (len(copied), reader.handed) == (28, 40)


def test_damage_stops_the_partition_before_it_and_what_is_before_is_merged() -> None:
    batches = some(6, flags=APPEND_TIME)  # which cannot be copied unchanged
    batches[4] = replace(batches[4], counted=1)
    reader = reader_of(0)
    copied: list[object] = []
    with in_c():
        reader.receive(b"".join(log(batches)), [])
        assert drain(reader, copied) == 1
    assert (len(copied), reader.handed) == (20, 30)
    assert reader.fault is not None and reader.fault.offset == 30


def test_a_wrong_checksum_stops_the_partition_before_it() -> None:
    encoded = log(some(6))
    damaged = bytearray(encoded[3])
    damaged[-1] ^= 1
    encoded[3] = bytes(damaged)
    reader = reader_of(0)
    with in_c():
        reader.receive(b"".join(encoded), [])
    assert reader.fault is not None and "wrong checksum" in reader.fault.message
    assert (reader.fetched, len(reader.ready)) == (25, 3)
