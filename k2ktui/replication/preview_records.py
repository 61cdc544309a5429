"""What a preview of a transform shows: records before and after, masked or not, and as JSON."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from k2ktui.engine.records.state import SourcePartition
from k2ktui.log.record import KafkaRecord


class PreviewOutcome(StrEnum):
    """What happens to a record."""

    COPIED = "copied"
    LEFT_OUT = "left out"
    SKIPPED = "skipped"
    DEAD_LETTER = "dead letter"
    STOPS = "stops the partition"


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A record before and after.

    Attributes:
        source: its partition.
        before: the record on the source.
        after: its copy, the first one of several; None if it is not copied, because of ``step``.
        outcome: what happens to it.
        step: the step that decides that.
        further: the other records that are made of it.
        target: where an expression sends it: a topic, and the partition as far as it is known.
    """

    source: SourcePartition
    before: KafkaRecord
    after: KafkaRecord | None
    outcome: PreviewOutcome
    step: str = ""
    further: tuple[KafkaRecord, ...] = ()
    target: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """The newest records of a topic, before and after."""

    topic: str
    target: str
    does: str
    rows: tuple[PreviewRow, ...]


def mask_record(record: KafkaRecord) -> KafkaRecord:
    """Return a record whose letters and digits are replaced, except the names of JSON fields."""
    headers = tuple((name, _mask(value)) for name, value in record.headers)
    return replace(record, key=_mask(record.key), value=_mask(record.value), headers=headers)


def _mask(data: bytes | None) -> bytes | None:
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return b"?" * len(data)
    try:
        content = json.loads(text)
        if isinstance(content, (dict, list)):
            return json.dumps(_mask_json(content), separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        pass
    return _mask_text(text).encode()


def _mask_json(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _mask_json(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_mask_json(value) for value in content]
    if content is None or isinstance(content, bool):
        return content
    return _mask_text(str(content))


def _mask_text(text: str) -> str:
    return re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "9", text))


def mask_preview(preview: Preview) -> Preview:
    """Return a preview with masked records."""

    def mask(row: PreviewRow) -> PreviewRow:
        after = mask_record(row.after) if row.after is not None else None
        further = tuple(map(mask_record, row.further))
        return replace(row, before=mask_record(row.before), after=after, further=further)

    return replace(preview, rows=tuple(map(mask, preview.rows)))


def preview_json(preview: Preview) -> dict[str, Any]:
    """Return a preview as ``k2ktui transform preview --json`` prints it."""
    return {
        "topic": preview.topic,
        "target": preview.target,
        "transform": preview.does,
        "records": [
            {
                "partition": row.source.partition,
                "offset": row.before.offset,
                "outcome": str(row.outcome),
                "step": row.step,
                "target": row.target,
                "before": _plain_record(row.before),
                "after": _plain_record(row.after) if row.after is not None else None,
                "further": [_plain_record(record) for record in row.further],
            }
            for row in preview.rows
        ],
    }


def _plain_record(record: KafkaRecord) -> dict[str, Any]:
    return {
        "key": plain_bytes(record.key),
        "value": plain_bytes(record.value),
        "headers": [[name, plain_bytes(value)] for name, value in record.headers],
        "timestamp": record.timestamp_ms,
    }


def plain_bytes(data: bytes | None) -> Any:
    """Return a key or value for JSON: its text, None, or its base64 if it is not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
