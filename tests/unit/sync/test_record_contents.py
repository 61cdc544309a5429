"""What producers write is shown as text that controls nothing, within a limit."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from k2ktui.log.record import KafkaRecord
from k2ktui.sync.records.contents import (
    SHOWN_BYTES,
    SHOWN_HEADERS,
    ContentFormat,
    show_content,
    show_record,
)
from k2ktui.sync.records.schema_decoder import NotDecoded, _require_bounded
from k2ktui.text import safe_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=9,
)


@given(st.binary(max_size=200), st.sampled_from(ContentFormat))
def test_no_bytes_reach_the_terminal(data: bytes, wanted: ContentFormat) -> None:
    shown = show_content(data, wanted)
    assert shown.text == safe_message(shown.text) and shown.text.isprintable()
    assert shown.size == len(data) and not shown.is_cut
    if shown.format is ContentFormat.HEX:
        assert bytes.fromhex(shown.text) == data


@given(st.text(max_size=100), st.text(max_size=100))
def test_different_texts_look_different(one: str, other: str) -> None:
    shown = [show_content(text.encode(), ContentFormat.TEXT).text for text in (one, other)]
    assert (shown[0] == shown[1]) == (one == other)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.sampled_from((None, 1, 4)))
def test_json_keeps_its_tokens(value: object, indent: int | None) -> None:
    encoded = json.dumps(value, indent=indent).encode()  # ASCII, so that nothing is escaped
    shown = show_content(encoded, ContentFormat.JSON)
    assert shown.format is ContentFormat.JSON
    assume(not shown.is_cut)
    assert json.loads(shown.text) == value and "\n" not in shown.text


def test_numbers_are_not_rounded() -> None:
    text = '{"a": 1.10, "b": 12345678901234567890, "c": 1e3}'
    assert show_content(text.encode()).text == text


@pytest.mark.parametrize("data", [b'{"a": 1, "a": 2}', b"[1,", b"[NaN]", b"[" * 100_000, b"{}\xff"])
def test_what_only_resembles_json_is_not_json(data: bytes) -> None:
    assert show_content(data).format is not ContentFormat.JSON


def test_a_large_value_and_many_headers_are_cut() -> None:
    headers = tuple((f"h{n}", b"x" * 5000) for n in range(SHOWN_HEADERS + 5))
    for value in (b"x" * (1 << 20), b"\0" * (1 << 20), b"[" + b"1," * (1 << 18) + b"1]"):
        shown = show_record(KafkaRecord(0, None, value, headers, 0))
        assert shown.value.is_cut and shown.value.size == len(value)
        assert len(shown.value.text) <= 3 * SHOWN_BYTES
        assert len(shown.headers) == SHOWN_HEADERS and shown.headers[0][1].is_cut
    assert show_record(KafkaRecord(0, None, None, (), 0)).value.text == "null"


def test_a_cut_inside_a_character_is_still_text() -> None:
    value = ("ä" * SHOWN_BYTES).encode()[1:]
    shown = show_record(KafkaRecord(0, None, b"x" + value[1:], (), 0)).value
    assert shown.format is ContentFormat.TEXT and shown.is_cut


def record_of(*types: object) -> dict[str, object]:
    fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": record_of("null", "null")},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        record_of(["null", "R"]),
        record_of({"type": "map", "values": {"type": "array", "items": "R"}}),
    ],
)
def test_schemas_that_a_few_bytes_could_blow_up_are_not_used(schema: object) -> None:
    with pytest.raises(NotDecoded):
        _require_bounded(schema, {}, ())


@pytest.mark.parametrize(
    "schema",
    [
        "null",
        ["null", "string"],
        {"type": "array", "items": ["null", "long"]},
        {"type": "map", "values": "null"},
        record_of("null", {"type": "enum", "name": "E", "symbols": ["A"]}, "E"),
    ],
)
def test_other_schemas_are(schema: object) -> None:
    _require_bounded(schema, {}, ())
