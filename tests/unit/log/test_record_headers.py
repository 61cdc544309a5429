"""Header rules: what the target gets of a record's headers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.replication import HeaderRule
from k2ktui.engine.java_patterns import NameSelection
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.header_names import (
    EVERY_HEADER,
    HeaderNames,
    HeaderRules,
    OriginHeader,
)
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.record import Header, TimestampType, record_at
from k2ktui.log.record_headers import change_headers
from k2ktui.log.records import Records, encode_nullable
from k2ktui.log.varints import encode_varint

SOURCE = SourcePartition("pay", 3)
NAMES = st.one_of(st.sampled_from(["a", "b", "t-1", "t-2", ""]), st.text(max_size=3))
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=3)), max_size=6)


def tail(headers: list[Header], key: bytes | None = b"k", value: bytes | None = None) -> bytes:
    encoded = b"".join(
        encode_nullable(name.encode("utf-8", "surrogateescape")) + encode_nullable(content)
        for name, content in headers
    )
    return encode_nullable(key) + encode_nullable(value) + encode_varint(len(headers)) + encoded


def changed(
    headers: list[Header], rules: HeaderRules, origin: OriginHeader | None = None, offset: int = 7
) -> list[Header]:
    """The headers that a record with these gets on the target."""
    at = np.array([offset], dtype=np.int64)
    changed_records = change_headers(Records(at, at, [tail(headers)]), rules, SOURCE, "p", origin)
    record = record_at(changed_records, 0, TimestampType.CREATE)
    assert (record.key, record.value) == (b"k", None)
    return list(record.headers)


def rules(**keys: Any) -> HeaderRules:
    """What the record path gets of a rule of the file."""
    rule = HeaderRule.model_validate(keys)
    return HeaderRules(False, rule.added, rule.names, tuple((rule.add or {}).items()))


def test_headers_are_kept_dropped_renamed_and_added() -> None:
    sent: list[Header] = [("t-1", b"1"), ("x", b"2"), ("t-2", None), ("t-1", b"3"), ("t-9", b"")]
    assert changed(sent, rules(keep="t-.*")) == [h for h in sent if h[0] != "x"]
    assert changed(sent, rules(drop=["x", "t-9"])) == [*sent[:1], *sent[2:4]]
    assert changed(sent, rules(rename={"t-(1)": "u$1-$1", "t-.": "t"})) == [
        ("u1-1", b"1"),
        ("x", b"2"),
        ("t", None),
        ("u1-1", b"3"),
        ("t", b""),
    ]
    assert changed(sent, rules(add={"x": "new", "site": 1})) == [
        *sent,
        ("x", b"new"),
        ("site", b"1"),
    ]
    every = rules(keep="t-.*", drop=["t-9"], rename={"t-2": "two"}, add={"t-9": "added"})
    assert changed(sent, every) == [
        ("t-1", b"1"),
        ("two", None),
        ("t-1", b"3"),
        ("t-9", b"added"),
    ]


def test_each_tracing_header_of_a_rule() -> None:
    tracing = {"pipeline": "n", "topic": "t", "offset": "o", "partition": "p"}
    added = changed([("a", b"")], rules(tracing=tracing, add={"c": "d"}))
    assert added[:2] == [("a", b""), ("c", b"d")]
    assert sorted(added[2:]) == [("n", b"p"), ("o", b"7"), ("p", b"3"), ("t", b"pay")]


def test_names_that_are_not_utf_8_are_kept_byte_by_byte() -> None:
    odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert changed([(odd, b"v"), ("x", b"")], rules(drop=["x"])) == [(odd, b"v")]
    assert changed([(odd, b"v")], rules(rename={"(.*)": "a$1"})) == [("a" + odd, b"v")]


def test_the_origin_is_neither_dropped_nor_renamed() -> None:
    origin = OriginHeader("from", "here", ("there", "earlier"), False)
    every = rules(keep="t", rename={".*": "x"})
    sent: list[Header] = [("from", b"far"), ("t", b"1"), ("u", b"2")]
    assert changed(sent, every, origin) == [("from", b"far"), ("x", b"1"), ("from", b"here")]


@given(HEADERS, st.sets(NAMES), st.sets(NAMES), st.dictionaries(st.sampled_from("ab"), NAMES))
def test_rules_against_a_model(
    sent: list[Header], keep: set[str], drop: set[str], rename: dict[str, str]
) -> None:
    names = HeaderNames(
        NameSelection(None, tuple(keep)),
        NameSelection(None, tuple(drop)),
        tuple((a, b.replace("$", "")) for a, b in rename.items()),
    )
    expected = [
        (rename.get(name, name).replace("$", "") if name in rename else name, value)
        for name, value in sent
        if name in keep and name not in drop
    ]
    assert changed(sent, HeaderRules(names=names)) == expected


def test_no_rule_changes_no_byte() -> None:
    at = np.array([1], dtype=np.int64)
    records = Records(at, at, [b"not a record"])
    assert change_headers(records, HeaderRules(), SOURCE, "p") is records
    assert HeaderRule().names == EVERY_HEADER


@pytest.mark.parametrize("cut", [1, 2, 3, 5])
def test_a_damaged_record_is_corrupt(cut: int) -> None:
    at = np.array([1], dtype=np.int64)
    damaged = tail([("t-1", b"12345678")])[:-cut]
    with pytest.raises(CorruptBatch):
        change_headers(Records(at, at, [damaged[:3]]), rules(drop="x"), SOURCE, "p")
