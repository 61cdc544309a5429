"""Read source records and their copies inside a Spark task; knows no pipeline and no state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from k2ktui.engine.mapping.intervals import FOREVER
from k2ktui.engine.mapping.range_columns import I64, RangeColumns
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.errors import K2kError
from k2ktui.log.content import AbsenceReason, ContentReader, KafkaRecord
from k2ktui.log.fetcher import ConsumerOptions
from k2ktui.log.listing import LogLister, OffsetState
from k2ktui.tables.columns import CONTENTS, TABLES, Row, make_batch
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FOREVER", "CopyRanges", "CopyState", "RecordsTask", "read_records"]

# Records of a batch, and seconds to read them from each cluster.
_BATCH_RECORDS = 2000
_READ_S = 60.0

# A target partition and an offset there.
_Spot = tuple[TargetPartition, int]


class CopyState(StrEnum):
    """What is known of a source record's copy."""

    COPIED = "copied"
    DELETED = "deleted on the target"
    MISSING = "missing on the target"
    WAITING = "not copied yet"
    BEFORE_START = "before the start"
    LEFT_OUT = "left out"
    UNKNOWN = "mapping unknown"


@dataclass(frozen=True, slots=True)
class CopyRanges:
    """Where records of a task landed on one target partition."""

    target: TargetPartition
    columns: RangeColumns


@dataclass(frozen=True, slots=True)
class RecordsTask:
    """Source offsets of one partition to read, and all that is known of their copies.

    Attributes:
        topic, partition: on the source.
        first, end: offsets ``[first, end)``.
        copies: where records of them landed.
        overwritten: source offsets ``[first, end)`` whose copies the target has lost.
        start: source offset at which the pipeline began.
        position: the replicated position.
        known_from: lowest source offset whose mapping is known.
        holes: source offsets ``[first, end)`` whose mapping is lost or damaged.
    """

    topic: str
    partition: int
    first: int
    end: int
    copies: tuple[CopyRanges, ...]
    overwritten: tuple[tuple[int, int], ...]
    start: int
    position: int
    known_from: int
    holes: tuple[tuple[int, int], ...]

    def find_spots(self, offsets: Sequence[int]) -> dict[int, _Spot]:
        """Return where each record landed, of those that are mapped."""
        asked = np.array(offsets, dtype=np.int64)
        spots: dict[int, _Spot] = {}
        for copy in self.copies:
            columns = copy.columns
            row = np.searchsorted(columns.source + columns.count, asked, side="right")
            inside = np.flatnonzero(row < len(columns))
            rows = row[inside]
            begins: I64 = columns.source[rows]
            hit = begins <= asked[inside]
            landed = columns.target[rows] + asked[inside] - begins
            pairs = zip(asked[inside][hit].tolist(), landed[hit].tolist(), strict=True)
            spots |= {offset: (copy.target, there) for offset, there in pairs}
        return spots

    def explain_unmapped(self, offset: int) -> CopyState:
        """Return what is known of a record that no range maps."""
        if offset >= self.position:
            return CopyState.WAITING
        if offset < self.start:
            return CopyState.BEFORE_START
        if any(first <= offset < end for first, end in self.overwritten):
            return CopyState.MISSING
        if offset < self.known_from or any(a <= offset < b for a, b in self.holes):
            return CopyState.UNKNOWN
        return CopyState.LEFT_OUT


def read_records(
    task: RecordsTask, source: ConsumerOptions, target: ConsumerOptions, *, contents: bool
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each source record, with its copy.

    Args:
        task: what to read.
        source, target: how to connect.
        contents: whether keys, values and headers are columns, too.

    Raises:
        K2kError: a cluster does not answer, or a log cannot be read.
    """
    columns = {**TABLES["records"], **(CONTENTS if contents else {})}
    with LogLister(source) as lister, ContentReader(target) as reader:
        for records in _read_source(lister, task):
            spots = task.find_spots([record.offset for record in records])
            copies = _read_copies(reader, spots)
            rows = [_make_row(task, record, spots, copies, contents) for record in records]
            yield make_batch(columns, rows)


def _read_source(lister: LogLister, task: RecordsTask) -> Iterator[list[KafkaRecord]]:
    at = task.first
    while at < task.end:
        count = min(_BATCH_RECORDS, task.end - at)
        entries = lister.list_from((task.topic, task.partition), at, count, _READ_S)
        last = entries[-1]
        if last.state is OffsetState.UNREAD and last.first == at:
            raise _unreadable("source", task.topic, task.partition, at, last.reason)
        records = [e.record for e in entries if e.record is not None and e.first < task.end]
        if records:
            yield records
        if last.state is OffsetState.NOT_WRITTEN:
            return
        at = last.first if last.state is OffsetState.UNREAD else last.last + 1


def _read_copies(
    reader: ContentReader, spots: Mapping[int, _Spot]
) -> dict[_Spot, KafkaRecord | CopyState]:
    """Return what the target has where records landed: the copy, or why there is none."""
    copies: dict[_Spot, KafkaRecord | CopyState] = {}
    spans = list(_spans(sorted(set(spots.values()))))
    where = [((*target, first), end - first) for target, first, end in spans]
    for (target, first, end), read in zip(spans, reader.stretches(where, _READ_S), strict=True):
        if read.unread:
            raise _unreadable("target", *target, read.unread_from, read.unread)
        for offset in range(first, end):
            record = read.records.get(offset)
            if record is None:
                is_deleted = read.absence(offset) is AbsenceReason.DELETED
                state = CopyState.DELETED if is_deleted else CopyState.MISSING
            copies[target, offset] = state if record is None else record
    return copies


def _spans(spots: Sequence[_Spot]) -> Iterator[tuple[TargetPartition, int, int]]:
    """Yield the consecutive offsets ``[first, end)`` of each target partition."""
    open_span: tuple[TargetPartition, int, int] | None = None
    for target, offset in spots:
        if open_span is not None and open_span[0] == target and open_span[2] == offset:
            open_span = (target, open_span[1], offset + 1)
            continue
        if open_span is not None:
            yield open_span
        open_span = (target, offset, offset + 1)
    if open_span is not None:
        yield open_span


def _make_row(
    task: RecordsTask,
    record: KafkaRecord,
    spots: Mapping[int, _Spot],
    copies: Mapping[_Spot, KafkaRecord | CopyState],
    contents: bool,
) -> Row:
    spot = spots.get(record.offset)
    copy = task.explain_unmapped(record.offset) if spot is None else copies[spot]
    copied = copy if isinstance(copy, KafkaRecord) else None
    row = {
        "topic": task.topic,
        "partition": task.partition,
        "offset": record.offset,
        "timestamp": _time(record),
        "key_bytes": _size(record.key),
        "value_bytes": _size(record.value),
        "copy": str(CopyState.COPIED if copied is not None else copy),
        "target_topic": spot and spot[0][0],
        "target_partition": spot and spot[0][1],
        "target_offset": spot and spot[1],
        "target_timestamp": copied and _time(copied),
        "target_key_bytes": copied and _size(copied.key),
        "target_value_bytes": copied and _size(copied.value),
    }
    if contents:
        row |= {
            "key": record.key,
            "value": record.value,
            "headers": _headers(record),
            "target_key": copied and copied.key,
            "target_value": copied and copied.value,
            "target_headers": copied and _headers(copied),
        }
    return row


def _time(record: KafkaRecord) -> int | None:
    return None if record.timestamp_ms < 0 else record.timestamp_ms * 1000


def _size(data: bytes | None) -> int | None:
    return None if data is None else len(data)


def _headers(record: KafkaRecord) -> list[dict[str, object]]:
    """Return the headers; bytes of a name that are not UTF-8 become U+FFFD."""
    return [
        {
            "key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
            "value": value,
        }
        for name, value in record.headers
    ]


def _unreadable(side: str, topic: str, partition: int, offset: int, reason: str) -> K2kError:
    return K2kError(
        f"{safe_text(topic)}-{partition} cannot be read on the {side} from offset {offset}: "
        f"{safe_message(reason)}",
        hint="Repeat the query; k2ktui check -f FILE shows whether the cluster answers.",
    )
