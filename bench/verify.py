"""Read a target topic as any consumer would, and count what is there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from bench import orders, payments
from bench.clusters import end_offsets
from bench.model import Values

_CHUNK = 10_000
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Found:
    """Records that a read_committed reader finds.

    Attributes:
        records: their number.
        distinct: how many different sequence numbers, or keys of masked payments, they carry.
        below: how many lie below the offsets that were asked about.
    """

    records: int
    distinct: int
    below: int


@dataclass(frozen=True, slots=True)
class _Part:
    bootstrap: str
    topic: str
    ends: tuple[tuple[int, int], ...]
    marks: tuple[int, ...]
    values: Values
    schema_id: int


def count(
    bootstrap: str,
    topic: str,
    marks: Sequence[int],
    processes: int = 2,
    values: Values = "text",
    schema_id: int = 0,
) -> Found:
    """Read everything that is visible now, several partitions at a time.

    Args:
        bootstrap: ``host:port``.
        topic: all of its partitions are read.
        marks: an offset for each partition, for ``below``.
        processes: how many readers.
        values: what the records are.
        schema_id: the id that orders must have; those with another one do not count as distinct.
    """
    ends = list(enumerate(end_offsets(bootstrap, topic, len(marks))))
    parts = [
        _Part(bootstrap, topic, tuple(ends[number::processes]), tuple(marks), values, schema_id)
        for number in range(processes)
    ]
    with multiprocessing.get_context("spawn").Pool(processes) as workers:
        read_parts = workers.map(_read, parts, chunksize=1)
    numbers = np.concatenate([one for one, _, _ in read_parts])
    records, below = sum(one for _, one, _ in read_parts), sum(one for _, _, one in read_parts)
    return Found(records, len(np.unique(numbers)), below)


def _read(part: _Part) -> tuple[np.ndarray, int, int]:
    """Return the sequence numbers, the number of records, and that of those below the marks."""
    left = {number: end for number, end in part.ends if end}
    marks = np.array(part.marks, dtype=np.int64)
    chunks = [np.empty(0, dtype=">u8")]
    number_of_records = below = 0
    consumer = _consumer(part.bootstrap)
    try:
        consumer.assign([TopicPartition(part.topic, number, OFFSET_BEGINNING) for number in left])
        while left:
            messages = consumer.consume(_CHUNK, 0.5)
            records = _records(messages, left)
            if records:
                number_of_records += len(records)
                chunks.append(_sequence_numbers(records, part))
                offsets = np.fromiter((m.offset() for m in records), np.int64)
                numbers = np.fromiter((m.partition() for m in records), np.int64)
                below += int((offsets < marks[numbers]).sum())
    finally:
        consumer.close()
    return np.concatenate(chunks), number_of_records, below


def _records(messages: list[Message], left: dict[int, int]) -> list[Message]:
    """Sort out the records; a partition that is read to its end leaves ``left``."""
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            if message.offset() >= left.get(message.partition(), 0):
                left.pop(message.partition(), None)
        else:
            raise RuntimeError(str(error))
    return records


def _sequence_numbers(records: list[Message], part: _Part) -> np.ndarray:
    if part.values == "schemas":
        begin, first = orders.prefix(part.schema_id), orders.ID_BYTES
        numbers = [m.value()[first : first + 8] for m in records if m.value()[:first] == begin]
        return np.frombuffer(b"".join(numbers), dtype=">u8")
    if part.values == "perf":
        # Random letters: of a million records no two begin with the same 16.
        halves = np.frombuffer(b"".join(m.value()[:16] for m in records), dtype=">u8")
        mixed: np.ndarray = halves[::2] * _ODD ^ halves[1::2]
        return mixed
    if part.values == "json":
        keys = [m.key() for m in records if payments.is_masked(m.value())]
        return np.frombuffer(b"".join(keys), dtype=">u8")
    return np.frombuffer(b"".join(m.value()[:8] for m in records), dtype=">u8")


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 3,
            "group.id": "bench-verify",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "queued.min.messages": 500_000,
            "queued.max.messages.kbytes": 256 << 10,
        }
    )
