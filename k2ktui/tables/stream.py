"""The table ``ranges`` as a stream: mappings as they are written, by their place in the topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.mapping.log import MappingChunk
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import target_cluster
from k2ktui.sync.mapping.reader import TopicReader
from k2ktui.sync.mapping.sort import MappingSorter
from k2ktui.tables.query import Query
from k2ktui.tables.spark_bases import SimpleDataSourceStreamReader
from k2ktui.text import safe_text

_READ_S = 30.0
# Rows of a micro-batch, which Spark holds in memory.
_MOST_ROWS = 200_000

_StreamOffset = dict[str, int]
_Row = tuple[Any, ...]


class RangesStream(SimpleDataSourceStreamReader):  # type: ignore[misc]
    """Reads the mapping topic; a stream's offset is the next offset of each of its partitions.

    Repeats of mappings, which the pipeline writes before retention deletes them, are left out.

    Args:
        query: names the pipeline's file.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._mappings: _MappingTopic | None = None

    def initialOffset(self) -> _StreamOffset:
        """Return the beginning of the topic, which is read from its oldest record."""
        return {}

    def read(self, start: _StreamOffset) -> tuple[Iterator[_Row], _StreamOffset]:
        """Return new rows, at most about 200,000, and the offset after them."""
        rows, end = self._open().read(start, None)
        return iter(rows), end

    def readBetweenOffsets(self, start: _StreamOffset, end: _StreamOffset) -> Iterator[_Row]:
        """Return the rows of an earlier micro-batch again."""
        rows, _ = self._open().read(start, end)
        return iter(rows)

    def _open(self) -> _MappingTopic:
        if self._mappings is None:
            self._mappings = _MappingTopic(self._query)
        return self._mappings


class _MappingTopic:
    """The mapping topic of a pipeline; connected once for all micro-batches."""

    def __init__(self, query: Query) -> None:
        self._wants = query.wants
        config = query.open_flow().config
        self._topic = config.offset_mapping.topic
        self._reader = TopicReader(target_cluster(config), self._topic)
        self._sorter = MappingSorter((config.coordination.commit.group,))

    def read(
        self, start: Mapping[str, int], end: Mapping[str, int] | None
    ) -> tuple[list[_Row], _StreamOffset]:
        """Return the rows from ``start`` on, and the offset reached.

        Args:
            start: next offset by number of the partition; one that is missing begins at its oldest.
            end: where to stop; None for what is committed now, or a part of it.

        Raises:
            K2kError: mappings to read were deleted, or could not be read.
        """
        topic = self._reader.describe()
        if topic is None:
            return [], dict(start)
        numbers = range(topic.partitions)
        begins = self._find_begins(start, self._reader.offsets(numbers, OffsetSpec.earliest()))
        if end is None:
            ends = self._reader.offsets(numbers, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        else:
            ends = {number: end.get(str(number), 0) for number in numbers}
        rows: list[_Row] = []
        self._reader.seek(begins)
        for received in self._reader.read(ends, monotonic() + _READ_S):
            for number, messages in received.items():
                wanted = [m for m in messages if (m.offset() or 0) < ends[number]]
                for source, chunks in self._sorter.sort(wanted):
                    if self._wants(source.topic, source.partition):
                        for chunk in chunks:
                            rows.extend(_rows(source, chunk))
            if end is None and len(rows) > _MOST_ROWS:
                break
        reached = {n: min(self._reader.next[n], max(ends[n], begins[n])) for n in numbers}
        if end is not None and any(reached[number] < ends[number] for number in numbers):
            raise K2kError(
                f"topic {safe_text(self._topic)} was not read to its end within {_READ_S:g} s",
                hint="Start the query again; it continues from its checkpoint.",
            )
        return rows, {str(number): offset for number, offset in reached.items()}

    def _find_begins(self, start: Mapping[str, int], oldest: Mapping[int, int]) -> dict[int, int]:
        begins = {}
        for number, first in oldest.items():
            begins[number] = start.get(str(number), first)
            if begins[number] < first:
                raise K2kError(
                    f"topic {safe_text(self._topic)}, partition {number}: the mappings from offset "
                    f"{begins[number]} to {first} were deleted before the stream read them",
                    hint="Start the query with a new checkpoint, or read the table without stream.",
                )
        return begins


def _rows(source: SourcePartition, chunk: MappingChunk) -> Iterator[_Row]:
    if chunk.again:
        return
    columns, target = chunk.columns, chunk.target
    numbers = (columns.source, columns.count, columns.target, columns.further)
    for offset, count, landed, further in zip(*(n.tolist() for n in numbers), strict=True):
        yield (
            *(source.topic, source.partition, offset, count),
            *(target[0], target[1], landed, further, chunk.covers.first),
        )
