"""Records beside their copies, as columns and lines: sizes always, contents only where shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from k2ktui.log.listing import LogEntry
from k2ktui.log.record import KafkaRecord, TimestampType
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Tone
from k2ktui.sync.records.contents import ShownContent, ShownRecord
from k2ktui.sync.records.pairs import RecordPair
from k2ktui.text import safe_message, safe_text

#: In place of contents that are not shown.
MASK = "•••"
_KIB = 1024


def size_text(size: int | None) -> str:
    """Return a number of bytes; null has none."""
    if size is None:
        return "null"
    if size < 10 * _KIB:
        return f"{size:,} B"
    return f"{size / _KIB:,.0f} KiB" if size < 10 * _KIB * _KIB else f"{size / _KIB**2:,.0f} MiB"


def offsets_text(entry: LogEntry | None) -> str:
    """Return an offset, or the first and the last of several."""
    if entry is None:
        return formatting.NOT_AVAILABLE
    return f"{entry.first}" if entry.first == entry.last else f"{entry.first}…{entry.last}"


def time_text(record: KafkaRecord) -> str:
    """Return a record's timestamp in UTC with milliseconds; a dash if it has none."""
    if record.timestamp_type is TimestampType.NONE or record.timestamp_ms < 0:
        return formatting.NOT_AVAILABLE
    seconds, rest = divmod(record.timestamp_ms, 1000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:03d}"
    except (ValueError, OverflowError, OSError):
        return f"{record.timestamp_ms} ms"


def headers_size(record: KafkaRecord) -> int:
    """Return the bytes of the names and values of a record's headers."""
    return sum(
        len(name.encode("utf-8", "surrogateescape")) + len(value or b"")
        for name, value in record.headers
    )


def headers_text(record: KafkaRecord) -> str:
    """Return the number of headers, and their size."""
    if not record.headers:
        return "0"
    return f"{len(record.headers):,}, {size_text(headers_size(record))}"


def result_cell(pair: RecordPair) -> Cell:
    """Return whether source and target are equal, or what an offset is."""
    text = safe_message(pair.result, 400)
    if pair.is_wrong:
        return Cell(text, Tone.BAD)
    return Cell(text, Tone.OK if text == "equal" else Tone.MUTED)


def pair_columns(*, with_source: bool, with_target: bool) -> tuple[Column[RecordPair], ...]:
    """Return the columns of a table of records without their contents.

    Args:
        with_source: whether records of the source are listed; sizes are theirs, or the target's.
        with_target: whether records of the target are listed.
    """

    def entry(pair: RecordPair) -> LogEntry | None:
        return pair.source if with_source else pair.target

    def record_column(name: str, text: Callable[[KafkaRecord], str]) -> Column[RecordPair]:
        def cell(pair: RecordPair) -> Cell:
            listed = entry(pair)
            if listed is None or listed.record is None:
                return Cell(formatting.NOT_AVAILABLE)
            return Cell(text(listed.record))

        return Column(name, name, cell, right=True)

    columns: list[Column[RecordPair]] = [
        Column("offset", "offset", lambda p: Cell(offsets_text(entry(p))), right=True),
        record_column("time (UTC)", time_text),
        record_column("key", lambda record: size_text(_size(record.key))),
        record_column("value", lambda record: size_text(_size(record.value))),
        record_column("headers", headers_text),
    ]
    if with_source and with_target:
        columns.append(Column("target", "target", lambda pair: Cell(target_text(pair)), widest=64))
    columns.append(Column("result", "result", result_cell, widest=100))
    return tuple(columns)


def target_text(pair: RecordPair) -> str:
    """Return where a record landed, safe to print."""
    if pair.target is None or pair.target_partition is None:
        return formatting.NOT_AVAILABLE
    topic, number = pair.target_partition
    return f"{safe_text(topic, 400)}-{number}@{pair.target.first}"


def _size(data: bytes | None) -> int | None:
    return None if data is None else len(data)


def content_lines(record: KafkaRecord, shown: ShownRecord | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each part of a record; masked if it is not shown."""
    yield _part_line("key", record.key, None if shown is None else shown.key)
    yield _part_line("value", record.value, None if shown is None else shown.value)
    if shown is None:
        if record.headers:
            yield "headers", f"{MASK} {headers_text(record)}"
        return
    for name, content in shown.headers:
        yield f"header {name}", _text(content)
    more = len(record.headers) - len(shown.headers)
    if more:
        yield "headers", f"and {more:,} more"


def _part_line(name: str, data: bytes | None, content: ShownContent | None) -> tuple[str, str]:
    if data is None:
        return name, "null"
    if content is None:
        return name, f"{MASK} {size_text(len(data))}"
    return f"{name} ({content.format})", _text(content)


def _text(content: ShownContent) -> str:
    text = content.text if content.text else '""'
    if content.is_cut:
        text += f" … cut, {size_text(content.size)} in all"
    return f"{text}  [{content.note}]" if content.note else text
