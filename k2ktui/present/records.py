"""Records beside their copies, as columns and lines: sizes always, contents only where shown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len, chop_cells

from k2ktui.log.listing import LogEntry, OffsetState
from k2ktui.log.record import KafkaRecord, TimestampType
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.sync.records.contents import ShownContent, ShownRecord
from k2ktui.sync.records.pairs import RecordListing, RecordPair
from k2ktui.text import counted, safe_message, safe_text

#: In place of contents that are not shown.
MASK = "***"
_KIB = 1024
_GAP = 2
# From this width of one side on, times have their date.
_DATED = 48
_CONTENT_LINES = 12

#: Returns what is in a record of the source or of the target.
Show = Callable[[KafkaRecord, str], ShownRecord]


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
    """Return the number of headers and their size, such as ``2 of 13 B``."""
    if not record.headers:
        return "0"
    return f"{len(record.headers):,} of {size_text(headers_size(record))}"


def sizes_text(record: KafkaRecord) -> str:
    """Return the sizes of a record's key, value and headers."""
    key, value = size_text(_size(record.key)), size_text(_size(record.value))
    return f"key {key}, value {value}, headers {headers_text(record)}"


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


def listing_object(
    pipeline: str, listing: RecordListing, show: Show | None = None
) -> dict[str, Any]:
    """Return the object that ``k2ktui records --json`` prints; masked without ``show``."""
    place = listing.place
    return {
        "pipeline": pipeline,
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "side": listing.side,
        "shown": show is not None,
        "records": [_pair_object(pair, listing, show) for pair in listing.pairs],
        "notes": list(listing.notes),
    }


def _pair_object(pair: RecordPair, listing: RecordListing, show: Show | None) -> dict[str, Any]:
    place = listing.place
    return {
        "source": _entry_object(pair.source, (place.topic, place.partition), "source", show),
        "target": _entry_object(pair.target, pair.target_partition, "target", show),
        "outcome": str(pair.compared.outcome) if pair.compared else None,
        "reason": pair.compared.why if pair.compared else pair.why_no_copy,
    }


def _entry_object(
    entry: LogEntry | None, at: tuple[str, int] | None, side: str, show: Show | None
) -> dict[str, Any] | None:
    if entry is None or at is None:
        return None
    body: dict[str, Any] = {
        "topic": at[0],
        "partition": at[1],
        "first_offset": entry.first,
        "last_offset": entry.last,
        "state": str(entry.state),
        "reason": entry.reason,
    }
    record = entry.record
    if record is None:
        return body
    body |= {
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": str(record.timestamp_type),
        "key_size": _size(record.key),
        "value_size": _size(record.value),
        "header_count": len(record.headers),
        "headers_size": headers_size(record),
    }
    if show is not None:
        shown = show(record, side)
        body |= {
            "key": _content_object(shown.key),
            "value": _content_object(shown.value),
            "headers": [{"name": name, **_content_object(value)} for name, value in shown.headers],
        }
    return body


def _content_object(content: ShownContent) -> dict[str, Any]:
    is_null = content.size is None
    return {
        "format": None if is_null else str(content.format),
        "text": None if is_null else content.text,
        "size": content.size,
        "cut": content.is_cut,
        "note": content.note,
    }


def side_by_side(
    listing: RecordListing,
    target: RecordListing | None,
    width: int,
    glyphs: Glyphs,
    show: Show | None = None,
) -> list[Line]:
    """Return a group's records before and after its position, on source and target.

    Args:
        listing: the source's records with their copies.
        target: the target's records around the group's commit there, where that is another record;
            None if the copies are what the group reads there.
        width: of the lines, in cells.
        glyphs: the character set.
        show: returns the contents; None masks them.
    """
    side = (width - _GAP) // 2
    there = listing if target is None else target
    lines = _row([(Cell("Source", Tone.HEADING),)], [(Cell("Target", Tone.HEADING),)], side)
    for title, left, right in (
        ("read", listing.before, there.before),
        ("next, unread", listing.following, there.following),
    ):
        lines.append((Cell(title, Tone.INFO),))
        blocks = [
            [_entry_lines(pair, name, side, glyphs, show) for pair in pairs]
            for name, pairs in (("source", left), ("target", right))
        ]
        if title == "read" and target is not None:
            # Both read their last records last, so these stand beside each other.
            longest = max(map(len, blocks))
            blocks = [[*[[]] * (longest - len(some)), *some] for some in blocks]
        for one, other in zip_longest(*blocks, fillvalue=[]):
            lines += _row(one, other, side)
        if not any(blocks):
            lines.append((Cell("none", Tone.MUTED),))
    return lines


def _row(left: list[Line], right: list[Line], side: int) -> list[Line]:
    """Return two blocks of lines beside each other."""
    rows: list[Line] = []
    for one, other in zip_longest(left, right, fillvalue=()):
        used = sum(cell_len(cell.text) for cell in one)
        rows.append((*one, Cell(" " * (side + _GAP - used)), *other))
    return rows


def _entry_lines(
    pair: RecordPair, side: str, width: int, glyphs: Glyphs, show: Show | None
) -> list[Line]:
    entry = pair.source if side == "source" else pair.target
    if entry is None:
        return _wrapped(pair.why_no_copy, width, glyphs, Tone.MUTED)
    offsets = offsets_text(entry)
    if entry.record is None:
        tone = Tone.BAD if entry.state is OffsetState.LOST else Tone.MUTED
        return _wrapped(f"{offsets} {entry.meaning}", width, glyphs, tone)
    at = time_text(entry.record)
    head = [Cell(f"{offsets}  ", Tone.HEADING), Cell(at if width >= _DATED else at[11:] or at)]
    lines: list[Line] = []
    if side == "target" and pair.compared is not None:
        result = result_cell(pair)
        if result.text == "equal":
            head += [Cell("  "), Cell("equal", Tone.OK)]
        else:
            lines += _wrapped(result.text, width, glyphs, result.tone)
    if show is None:
        key, value = (size_text(_size(data)) for data in (entry.record.key, entry.record.value))
        sizes = f"{MASK} key {key}, value {value}, headers {len(entry.record.headers):,}"
        masked = textwrap.wrap(sizes, max(1, width))
        return [tuple(head), *lines, *((Cell(part, Tone.MUTED),) for part in masked)]
    for name, text in content_lines(entry.record, show(entry.record, side)):
        lines += _wrapped(f"{name}: {text}", width, glyphs, Tone.PLAIN)
    return [tuple(head), *lines]


def _wrapped(text: str, width: int, glyphs: Glyphs, tone: Tone) -> list[Line]:
    parts = chop_cells(glyphs.text(safe_message(text)), max(1, width))
    if len(parts) > _CONTENT_LINES:
        more = len(parts) - _CONTENT_LINES + 1
        parts = [*parts[: _CONTENT_LINES - 1], glyphs.text(f"… {counted(more, 'more line')}")]
    return [(Cell(part, tone),) for part in parts]
