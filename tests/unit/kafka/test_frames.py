"""Frames against the library's own encoding and decoding of the same messages."""

from __future__ import annotations

import uuid
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import InvalidReceiveError, KafkaProtocolError
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from k2ktui.kafka.wire import fetch_response, produce_request
from k2ktui.kafka.wire.zero_copy import ZeroCopyConnection

LIMIT = 10 << 20
I16 = st.integers(-(1 << 15), (1 << 15) - 1)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
RECORDS = st.one_of(
    st.none(), st.binary(min_size=1, max_size=300), st.integers(60_000, 70_000).map(bytes)
)

PART = FetchResponse.FetchableTopicResponse.PartitionData


@st.composite
def fetch_partitions(draw: st.DrawFn) -> Any:
    diverging = draw(st.booleans())
    more = (
        {"diverging_epoch": PART.EpochEndOffset(epoch=draw(I32), end_offset=draw(I64))}
        if diverging
        else {}
    )
    return PART(
        partition_index=draw(I32),
        error_code=draw(I16),
        high_watermark=draw(I64),
        last_stable_offset=draw(I64),
        log_start_offset=draw(I64),
        aborted_transactions=draw(
            st.none()
            | st.lists(
                st.builds(PART.AbortedTransaction, producer_id=I64, first_offset=I64), max_size=3
            )
        ),
        preferred_read_replica=draw(I32),
        records=draw(RECORDS),
        **more,
    )


@st.composite
def fetch_responses(draw: st.DrawFn, version: int) -> Any:
    topics = [
        FetchResponse.FetchableTopicResponse(
            **({"topic": draw(NAMES)} if version < 13 else {"topic_id": draw(st.uuids())}),
            partitions=draw(st.lists(fetch_partitions(), max_size=3)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return FetchResponse(
        throttle_time_ms=draw(I32),
        error_code=draw(I16),
        session_id=draw(I32),
        responses=topics,
    )


def framed(response: Any, version: int, correlation_id: int) -> bytes:
    flexible = version >= (12 if isinstance(response, FetchResponse) else 9)
    body = correlation_id.to_bytes(4, "big") + b"\0" * flexible + response.encode(version=version)
    return len(body).to_bytes(4, "big") + bytes(body)


def feed(frames: ZeroCopyConnection, data: bytes, cuts: list[int]) -> list[tuple[int, Any]]:
    """Receive bytes in pieces, never more at once than there is room for."""
    responses = []
    ends = sorted({min(cut, len(data)) for cut in accumulate(cuts)} | {len(data)})
    at = 0
    for end in ends:
        while at < end:
            room = frames.room()
            size = min(len(room), end - at)
            room[:size] = data[at : at + size]
            responses += frames.receive_bytes(room[:size])
            at += size
    return responses


def connection() -> ZeroCopyConnection:
    return ZeroCopyConnection(client_id="me", receive_message_max_bytes=LIMIT)


def seen(response: Any) -> Any:
    """What the reader uses of a fetch response."""
    return (
        response.throttle_time_ms,
        response.error_code,
        response.session_id,
        [
            (
                topic.topic or "",
                topic.topic_id.hex if topic.topic_id else uuid.UUID(int=0).hex,
                [
                    (
                        p.partition_index,
                        p.error_code,
                        p.high_watermark,
                        p.last_stable_offset,
                        p.log_start_offset,
                        [(a.producer_id, a.first_offset) for a in p.aborted_transactions or ()],
                        (p.diverging_epoch.epoch, p.diverging_epoch.end_offset)
                        if p.diverging_epoch is not None
                        else (-1, -1),
                        bytes(p.records or b""),
                    )
                    for p in topic.partitions
                ],
            )
            for topic in response.responses
        ],
    )


@pytest.mark.parametrize("version", [11, *fetch_response.VERSIONS])
@given(data=st.data())
def test_fetch_responses_are_decoded_as_the_library_does(version: int, data: st.DataObject) -> None:
    responses = data.draw(st.lists(fetch_responses(version), min_size=1, max_size=3))
    frames = connection()
    stream = b""
    for response in responses:
        request = FetchRequest(version=version)
        number = frames.send_request(request)
        stream += framed(response, version, number)
    cuts = data.draw(st.lists(st.integers(1, 50_000), max_size=20))

    received = feed(frames, stream, cuts)

    assert [number for number, _ in received] == list(range(1, len(responses) + 1))
    for (_, decoded), response in zip(received, responses, strict=True):
        plain = response.encode(version=version)
        expected = FetchResponse.decode(bytes(plain), version=version)
        assert seen(decoded) == seen(expected)


def test_records_can_be_written_in_place_and_outlive_the_frame() -> None:
    frames = connection()
    stream = b""
    for fill in (b"a", b"b"):
        for size in (100, 100_000):
            number = frames.send_request(FetchRequest(version=12))
            part = PART(partition_index=0, error_code=0, records=fill * size)
            topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])
            stream += framed(FetchResponse(responses=[topic]), 12, number)

    received = feed(frames, stream, [])

    for _, response in received:
        records = response.responses[0].partitions[0].records
        assert not records.readonly
        records[0:1] = b"x"
    texts = [bytes(r.responses[0].partitions[0].records) for _, r in received]
    assert texts == [b"x" + f * (s - 1) for f in (b"a", b"b") for s in (100, 100_000)]


@pytest.mark.parametrize("version", produce_request.VERSIONS)
@given(
    transactional_id=st.none() | NAMES,
    records=st.dictionaries(
        NAMES,
        st.lists(st.tuples(I32, st.binary(min_size=1, max_size=300)), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ),
    client=NAMES,
)
def test_produce_requests_are_the_bytes_of_the_library(
    version: int,
    transactional_id: str | None,
    records: dict[str, list[tuple[int, bytes]]],
    client: str,
) -> None:
    views = {t: [(i, memoryview(b)) for i, b in parts] for t, parts in records.items()}
    data = ProduceRequest.TopicProduceData
    theirs = ProduceRequest(
        version=version,
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30000,
        topic_data=[
            data(
                name=topic,
                partition_data=[data.PartitionProduceData(index=i, records=b) for i, b in parts],
            )
            for topic, parts in records.items()
        ],
    )
    theirs.with_header(correlation_id=7, client_id=client)

    pieces = produce_request.ProduceBatches(transactional_id, views, version).pieces(7, client)

    assert b"".join(pieces) == bytes(theirs.encode(header=True, framed=True))
    batches = [view for parts in views.values() for _, view in parts]
    assert all(any(piece is view for piece in pieces) for view in batches)


def test_an_old_broker_gets_the_request_from_the_library() -> None:
    records = {"t": [(0, memoryview(b"abc"))]}

    assert isinstance(produce_request.make_produce_request(None, records, 8), ProduceRequest)
    assert produce_request.make_produce_request(None, records, 13).API_VERSION == 11


@st.composite
def produce_responses(draw: st.DrawFn) -> Any:
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    reason = part.BatchIndexAndErrorMessage
    texts = st.none() | NAMES
    return ProduceResponse(
        throttle_time_ms=draw(I32),
        responses=[
            topic(
                name=draw(NAMES),
                partition_responses=[
                    part(
                        index=draw(I32),
                        error_code=draw(I16),
                        base_offset=draw(I64),
                        log_append_time_ms=draw(I64),
                        log_start_offset=draw(I64),
                        record_errors=[
                            reason(batch_index=draw(I32), batch_index_error_message=draw(texts))
                            for _ in range(draw(st.integers(0, 2)))
                        ],
                        error_message=draw(texts),
                    )
                    for _ in range(draw(st.integers(0, 3)))
                ],
            )
            for _ in range(draw(st.integers(0, 2)))
        ],
    )


@pytest.mark.parametrize("version", produce_request.VERSIONS)
@given(response=produce_responses(), cuts=st.lists(st.integers(1, 500), max_size=20))
def test_produce_responses_are_decoded_as_the_library_does(
    version: int, response: Any, cuts: list[int]
) -> None:
    frames = connection()
    number = frames.send_request(
        produce_request.ProduceBatches("x", {"t": [(0, memoryview(b"r"))]}, version)
    )

    ((answered, decoded),) = feed(frames, framed(response, version, number), cuts)

    assert answered == number
    assert decoded.throttle_time_ms == response.throttle_time_ms
    for ours, theirs in zip(decoded.responses, response.responses, strict=True):
        assert ours.name == theirs.name
        for mine, its in zip(ours.partition_responses, theirs.partition_responses, strict=True):
            assert (mine.index, mine.error_code) == (its.index, its.error_code)
            assert mine.base_offset == its.base_offset
            assert (mine.error_message, mine.record) == produce_request.read_refusal(its)
            texts = [its.error_message, *(r.batch_index_error_message for r in its.record_errors)]
            assert bool(mine.error_message) == any(texts)


@given(cuts=st.lists(st.integers(1, 9), max_size=50))
def test_other_answers_come_from_the_library(cuts: list[int]) -> None:
    frames = connection()
    stream = b""
    for _ in range(3):
        number = frames.send_request(MetadataRequest(version=9, topics=[]))
        stream += framed(MetadataResponse(cluster_id="c" * 50), 9, number)

    assert [r.cluster_id for _, r in feed(frames, stream, cuts)] == ["c" * 50] * 3


@given(st.binary(max_size=200))
def test_garbage_is_reported_as_such(garbage: bytes) -> None:
    frames = connection()
    frames.send_request(FetchRequest(version=13))
    data = len(garbage).to_bytes(4, "big") + garbage
    try:
        received = feed(frames, data, [])
    except KafkaProtocolError:
        return
    assert len(received) == 1  # what happens to make sense is an answer


@pytest.mark.parametrize("size", [-1, LIMIT + 1])
def test_a_frame_of_an_impossible_size_is_refused(size: int) -> None:
    frames = connection()

    with pytest.raises(InvalidReceiveError):
        feed(frames, size.to_bytes(4, "big", signed=True), [])


def test_the_answer_to_another_request_is_refused() -> None:
    frames = connection()
    number = frames.send_request(FetchRequest(version=12))

    with pytest.raises(KafkaProtocolError, match="instead of"):
        feed(frames, framed(FetchResponse(responses=[]), 12, number + 1), [])
