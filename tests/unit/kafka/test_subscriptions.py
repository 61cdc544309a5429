"""What a member of a consumer group reads, from the bytes that it has sent."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.kafka.wire.subscriptions import read_assignment, read_subscription

names = st.text(min_size=1, max_size=20)


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def subscription(topics: list[str], version: int = 3) -> bytes:
    own = struct.pack(">i", -1) + struct.pack(">i", 0)  # user data, owned partitions
    return struct.pack(">hi", version, len(topics)) + b"".join(map(text, topics)) + own


def assignment(parts: Mapping[str, list[int]]) -> bytes:
    rows = [
        text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in parts.items()
    ]
    return struct.pack(">hi", 1, len(parts)) + b"".join(rows) + struct.pack(">i", -1)


@given(topics=st.lists(names), version=st.integers(0, 9))
def test_all_topics_of_a_subscription_are_read(topics: list[str], version: int) -> None:
    assert read_subscription(subscription(topics, version)) == frozenset(topics)


@given(parts=st.dictionaries(names, st.lists(st.integers(0, 1000), max_size=5)))
def test_all_partitions_of_an_assignment_are_read(parts: dict[str, list[int]]) -> None:
    assert read_assignment(assignment(parts)) == {t: tuple(of) for t, of in parts.items()}


@given(topics=st.lists(names, min_size=1), data=st.data())
def test_what_ends_early_is_unknown(topics: list[str], data: st.DataObject) -> None:
    whole = struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics))
    end = data.draw(st.integers(0, len(whole) - 1))
    assert read_subscription(whole[:end]) is None
    assert read_subscription(whole) == frozenset(topics)


@given(raw=st.binary(max_size=40))
def test_any_bytes_are_read_or_unknown(raw: bytes) -> None:
    for read in (read_subscription, read_assignment):
        topics = read(raw)
        assert topics is None or all(isinstance(topic, str) for topic in topics)


def test_a_length_that_no_bytes_follow_costs_no_memory() -> None:
    assert read_subscription(struct.pack(">hi", 0, 2**31 - 1)) is None
    assert read_assignment(struct.pack(">hi", 0, -1)) is None
    assert read_assignment(b"") == {} and read_subscription(b"") is None
