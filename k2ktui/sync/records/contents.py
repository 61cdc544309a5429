"""Keys, values and headers of records as text: JSON, text, hex, or decoded with their schema.

Any producer may have written them: what is returned cannot control a terminal, and has a limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine import strict_json
from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.log.record import KafkaRecord
from k2ktui.sync.records.schema_decoder import NotDecoded, SchemaDecoder
from k2ktui.text import safe_message, safe_text

#: Bytes of a key or value that are shown; the rest is counted.
SHOWN_BYTES = 16 << 10
#: Headers of a record that are shown.
SHOWN_HEADERS = 50
_HEADER_BYTES = 1 << 10
_JSON_BYTES = 1 << 20

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s",:]+|[,:]')
# Bytes that are not UTF-8, as safe_text writes the surrogates that stand for them.
_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")
_SPACE = frozenset(b"\t\n\r")


class ContentFormat(StrEnum):
    """How a key, value or header is shown; ``auto`` takes the first that fits, in this order."""

    AUTO = "auto"
    SCHEMA = "schema"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class ShownContent:
    """A key, value or header as text.

    Attributes:
        format: how it is shown.
        text: safe to print; "null" for none.
        size: bytes of the content; None for null.
        is_cut: whether the text ends before the content does.
        note: why it is not shown in another format; may be empty, safe to print.
    """

    format: ContentFormat
    text: str
    size: int | None
    is_cut: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """What is in a record; ``headers`` are at most ``SHOWN_HEADERS``, names safe to print."""

    key: ShownContent
    value: ShownContent
    headers: tuple[tuple[str, ShownContent], ...]


def show_record(
    record: KafkaRecord,
    wanted: ContentFormat = ContentFormat.AUTO,
    schemas: SchemaDecoder | None = None,
) -> ShownRecord:
    """Return what is in a record as text.

    Args:
        record: the record.
        wanted: how keys and values are shown where that is possible; otherwise a note says why not.
        schemas: decodes with the registry of the record's cluster; None without a registry.
    """
    return ShownRecord(
        _show_part(SchemaPart.KEY, record, wanted, schemas),
        _show_part(SchemaPart.VALUE, record, wanted, schemas),
        tuple(
            (_text(name.encode("utf-8", "surrogateescape")), show_content(value, wanted))
            for name, value in record.headers[:SHOWN_HEADERS]
        ),
    )


def show_content(data: bytes | None, wanted: ContentFormat = ContentFormat.AUTO) -> ShownContent:
    """Return a header's value as text; schemas do not describe it."""
    chosen = ContentFormat.AUTO if wanted is ContentFormat.SCHEMA else wanted
    return _show(data, chosen, _HEADER_BYTES)


def _show_part(
    part: SchemaPart, record: KafkaRecord, wanted: ContentFormat, schemas: SchemaDecoder | None
) -> ShownContent:
    data = record.key if part is SchemaPart.KEY else record.value
    note = ""
    if (
        data is not None
        and schemas is not None
        and wanted in (ContentFormat.AUTO, ContentFormat.SCHEMA)
    ):
        try:
            decoded = schemas.decode(part, data, record.headers)
        except NotDecoded as error:
            note = safe_message(error)
        else:
            if decoded is not None:
                text, is_cut = safe_message(decoded[:SHOWN_BYTES]), len(decoded) > SHOWN_BYTES
                return ShownContent(ContentFormat.SCHEMA, text, len(data), is_cut)
            if wanted is ContentFormat.SCHEMA:
                note = "no schema id"
    chosen = ContentFormat.AUTO if wanted is ContentFormat.SCHEMA else wanted
    return _show(data, chosen, SHOWN_BYTES, note)


def _show(data: bytes | None, wanted: ContentFormat, limit: int, note: str = "") -> ShownContent:
    if data is None:
        return ShownContent(ContentFormat.TEXT, "null", None, note=note)
    if wanted in (ContentFormat.AUTO, ContentFormat.JSON):
        text = _json(data)
        if text is not None:
            shown = safe_message(text[:limit])
            return ShownContent(ContentFormat.JSON, shown, len(data), len(text) > limit, note)
        if wanted is ContentFormat.JSON:
            note = note or "not JSON"
    start, is_cut = data[:limit], len(data) > limit
    if wanted is ContentFormat.TEXT or (wanted is not ContentFormat.HEX and _is_text(start)):
        return ShownContent(ContentFormat.TEXT, _text(start), len(data), is_cut, note)
    return ShownContent(ContentFormat.HEX, start.hex(" ", -4), len(data), is_cut, note)


def _json(data: bytes) -> str | None:
    """Return a JSON object or array on one line, its tokens unchanged; None for anything else."""
    if data[:1].isspace():
        data = data.lstrip()
    if data[:1] not in (b"{", b"[") or len(data) > _JSON_BYTES:
        return None
    try:
        strict_json.parse(data, largest=_JSON_BYTES)
    except strict_json.MalformedRecord:
        return None
    parts = _TOKEN.findall(data.decode())
    return "".join(f"{part} " if part in ",:" else part for part in parts)


def _is_text(data: bytes) -> bool:
    if any(byte < 0x20 and byte not in _SPACE for byte in data):
        return False
    try:
        data.decode()
    except UnicodeDecodeError as error:
        # A limit may have cut a character; four bytes are the longest.
        return error.reason == "unexpected end of data" and error.start > len(data) - 4
    return True


def _text(data: bytes) -> str:
    return _BYTE.sub(r"\\x\1", safe_text(data.decode("utf-8", "surrogateescape")))
