"""Positions and partitions that an operator types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.moves.positions_text import parse_partitions, parse_positions
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError

topics = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}", fullmatch=True)


def test_arguments() -> None:
    positions = parse_positions(["orders:0:120", "a.b-c_d:7:0", "orders:0:0120"])
    assert positions == {SourcePartition("orders", 0): 120, SourcePartition("a.b-c_d", 7): 0}
    assert parse_positions([]) == {}
    assert parse_partitions(["a", "b:2"]) == {("a", None), ("b", 2)}
    with pytest.raises(ConfigError) as caught:
        parse_partitions([":1", "a:x", "b:", "c"])
    assert len(caught.value.message.splitlines()) == 3


def test_all_bad_arguments_are_reported_at_once() -> None:
    bad = {
        "orders": "expected three parts between colons, found 1",
        "orders:0": "found 2",
        "a:b:0:1": "found 4",
        ":0:1": "the topic name is not valid",
        "..:0:1": "the topic name is not valid",
        "o" * 250 + ":0:1": "the topic name is not valid",
        "orders:x:1": "the partition is not a whole number",
        "orders:-1:1": "the partition is not a whole number",
        "orders:0:": "the offset is not a whole number",
        "orders:0:-1": "the offset is not a whole number",
        "orders:0:1_000": "the offset is not a whole number",
        "orders:0:\u0661": "the offset is not a whole number",
        "orders:0: 1": "the offset is not a whole number",
        "orders:2147483648:1": "the partition is too large",
        "orders:0:9223372036854775808": "the offset is too large",
        "orders:0:" + "9" * 5000: "the offset is too large",
        "\x1b[31m:0:1": "the topic name is not valid",
        "": "an empty argument: expected three parts",
    }
    with pytest.raises(ConfigError) as caught:
        parse_positions([*bad, "orders:0:1", "orders:0:2"])
    lines = caught.value.message.split("\n")
    assert "twice" in lines.pop()
    for line, words in zip(lines, bad.values(), strict=True):
        assert words in line and line.isprintable() and len(line) < 200


@given(topics, st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 63) - 1))
def test_any_position_can_be_typed(topic: str, partition: int, offset: int) -> None:
    expected = {SourcePartition(topic, partition): offset}
    assert parse_positions([f"{topic}:{partition}:{offset}"]) == expected


@given(st.lists(st.text() | st.text(":0a.-"), max_size=4))
def test_any_argument_is_read_or_refused(words: list[str]) -> None:
    try:
        positions = parse_positions(words)
    except ConfigError as error:
        assert error.hint
    else:
        assert {at.topic for at in positions} == {text.split(":")[0] for text in words}
