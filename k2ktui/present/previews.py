"""A preview of a transform on a screen: its table, and a record before and after, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.log.record import KafkaRecord
from k2ktui.present.columns import Column
from k2ktui.present.formatting import NOT_AVAILABLE, Cell, Glyphs, Line, Tone
from k2ktui.replication.preview_records import PreviewOutcome, PreviewRow
from k2ktui.text import safe_message, safe_text

_SEVERITY = {
    PreviewOutcome.COPIED: Severity.OK,
    PreviewOutcome.LEFT_OUT: Severity.INFO,
    PreviewOutcome.SKIPPED: Severity.WARN,
    PreviewOutcome.DEAD_LETTER: Severity.WARN,
    PreviewOutcome.STOPS: Severity.BAD,
}
_LONGEST = 4_000
_BYTES = 32
_GAP = 2
_LABEL = 18
_FIELDS = 200


def is_problem(row: PreviewRow) -> bool:
    """Whether a step fails for the record."""
    return _SEVERITY[row.outcome] >= Severity.WARN


def preview_columns(glyphs: Glyphs) -> tuple[Column[PreviewRow], ...]:
    """Return the columns of the table of records, which show nothing of their contents."""
    return (
        Column(
            "partition",
            "partition",
            lambda row: Cell(str(row.source.partition)),
            lambda row: (row.source.partition, row.before.offset),
            right=True,
        ),
        Column(
            "offset",
            "offset",
            lambda row: Cell(f"{row.before.offset:,}"),
            lambda row: row.before.offset,
            right=True,
        ),
        Column(
            "time",
            "time (UTC)",
            lambda row: Cell(_time(row.before.timestamp_ms)),
            lambda row: row.before.timestamp_ms,
            width=19,
            rank=2,
        ),
        Column(
            "outcome",
            "outcome",
            lambda row: glyphs.mark(SeverityLabel(_SEVERITY[row.outcome], str(row.outcome))),
            lambda row: row.outcome,
            width=21,
        ),
        Column("step", "step or target", lambda row: Cell(_reason(row)), widest=60),
    )


def _reason(row: PreviewRow) -> str:
    return safe_message(row.step or (f"to {row.target}" if row.target else ""), 300)


def _time(at_ms: int) -> str:
    if at_ms < 0:
        return NOT_AVAILABLE  # a record without a timestamp has -1
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a timestamp is whatever its producer wrote
        return NOT_AVAILABLE


def compare_records(row: PreviewRow, shown: PreviewRow, width: int) -> list[Line]:
    """Return a record before and after, side by side.

    Args:
        row: the record.
        shown: what is shown of it: the same, or masked.
        width: width of the lines in cells.
    """
    before, after = _parts(row.before), _parts(row.after)
    left, right = _parts(shown.before), _parts(shown.after)
    labels = list(dict.fromkeys([*before, *after]))
    more = [_parts(record) for record in shown.further]
    room = min(_LABEL, max(map(cell_len, labels), default=0), width // 4)
    side = (width - room - 2 * _GAP) // 2
    lines: list[Line] = [
        (
            Cell(_pad("", room)),
            Cell(_pad("before", side), Tone.HEADING),
            Cell("after" if row.after is not None else _why(row), Tone.HEADING),
        )
    ]
    for label in labels:
        changed = row.after is not None and before.get(label) != after.get(label)
        tone = Tone.INFO if changed else Tone.PLAIN
        texts = left.get(label, "" if row.after is None else NOT_AVAILABLE)
        result = "" if row.after is None else right.get(label, NOT_AVAILABLE)
        for number, (one, two) in enumerate(
            zip_longest(_wrap(texts, side), _wrap(result, side), fillvalue="")
        ):
            name = _fit(label, room) if not number else ""
            lines.append(
                (
                    Cell(_pad(name, room), Tone.MUTED),
                    Cell(_pad(one, side), Tone.PLAIN),
                    Cell(two, tone),
                )
            )
    for number, parts in enumerate(more, 2):
        lines.append((Cell(_pad("", room + side + _GAP)), Cell(f"after ({number})", Tone.HEADING)))
        for label, text in parts.items():
            for row_number, part in enumerate(_wrap(text, side)):
                name = "" if row_number else _fit(label, room)
                lines.append(
                    (
                        Cell(_pad(name, room), Tone.MUTED),
                        Cell(_pad("", side)),
                        Cell(part, Tone.INFO),
                    )
                )
    return lines


def _why(row: PreviewRow) -> str:
    return f"{row.outcome}: {safe_message(row.step, 200)}"


def _parts(record: KafkaRecord | None) -> dict[str, str]:
    """Return the parts of a record, with a part for each field of a JSON object."""
    if record is None:
        return {}
    parts = {**_fields("key", record.key), **_fields("value", record.value)}
    for name, value in record.headers:
        label = f"header {safe_text(name, 200)}"
        number = 2
        while label in parts:
            label = f"header {safe_text(name, 200)} ({number})"
            number += 1
        parts[label] = _text(value)
    return parts


def _fields(part: str, data: bytes | None) -> dict[str, str]:
    try:
        value_of_json = json.loads(data or b"")
        if isinstance(value_of_json, dict) and 0 < len(value_of_json) <= _FIELDS:
            return {
                f"{part}.{safe_text(name, 200)}": _cut(
                    value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                )
                for name, value in value_of_json.items()
            }
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        pass
    return {part: _text(data)}


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return _cut(data.decode())
    except UnicodeDecodeError:
        more = "…" if len(data) > _BYTES else ""
        return f"{len(data):,} bytes: {data[:_BYTES].hex()}{more}"


def _cut(text: str) -> str:
    more = len(text) - _LONGEST
    return safe_text(text[:_LONGEST]) + (f"… and {more:,} more characters" if more > 0 else "")


def _wrap(text: str, width: int) -> Sequence[str]:
    return chop_cells(text, width) if text else ("",)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text) + _GAP)


def _fit(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return chop_cells(text, max(1, width - 1))[0] + "…"
