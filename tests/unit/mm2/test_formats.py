"""Golden bytes of MirrorMaker 2's records, both directions, and what hostile bytes do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.records.state import SourcePartition
from k2ktui.mm2.flows import formats
from k2ktui.mm2.flows.formats import (
    Checkpoint,
    ConnectorPartition,
    ForeignRecord,
    GroupPartition,
    Heartbeat,
    OffsetSync,
)

NAMES = st.text(max_size=60)
OFFSETS = st.integers(0, 2**63 - 1)
PARTITIONS = st.integers(0, 2**31 - 1)
READERS: tuple[Callable[[bytes | None, bytes | None], Any], ...] = (
    formats.read_offset_sync,
    formats.read_checkpoint,
    formats.read_heartbeat,
    formats.read_connect_offset,
)


def test_golden_bytes() -> None:
    """As MirrorMaker 2 writes them (its reference, section 1.2)."""
    t0 = SourcePartition("t", 0)
    assert formats.offset_sync_key(t0) == bytes.fromhex("0001 74 00000000")
    sync = OffsetSync(t0, 5, 7)
    assert formats.offset_sync_value(sync) == bytes.fromhex("0000000000000005 0000000000000007")
    at = GroupPartition("g", "A.t", 1)
    assert formats.checkpoint_key(at) == bytes.fromhex("0001 67 0003 412e74 00000001")
    assert formats.checkpoint_value(Checkpoint(at, 5, 7, "m")) == bytes.fromhex(
        "0000 0000000000000005 0000000000000007 0001 6d"
    )
    beat = Heartbeat("A", "B", 1)
    assert formats.heartbeat_key(beat) == bytes.fromhex("0001 41 0001 42")
    assert formats.heartbeat_value(beat) == bytes.fromhex("0000 0000000000000001")
    position = ConnectorPartition("MirrorSourceConnector", "A", t0)
    assert formats.connect_offset_key(position) == (
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
    )
    assert formats.connect_offset_value(123) == b'{"offset":123}'


@settings(deadline=None)
@given(NAMES, NAMES, PARTITIONS, OFFSETS, OFFSETS)
def test_what_is_written_is_read(a: str, b: str, partition: int, up: int, down: int) -> None:
    """Every record reads back as itself, and without a value as a removal."""
    source = SourcePartition(a, partition)
    sync = OffsetSync(source, up, down)
    key = formats.offset_sync_key(source)
    assert formats.read_offset_sync(key, formats.offset_sync_value(sync)) == (source, sync)
    assert formats.read_offset_sync(key, None) == (source, None)
    at = GroupPartition(b, a, partition)
    checkpoint = Checkpoint(at, up, down, b)
    key = formats.checkpoint_key(at)
    assert formats.read_checkpoint(key, formats.checkpoint_value(checkpoint)) == (at, checkpoint)
    assert formats.read_checkpoint(key, None) == (at, None)
    beat = Heartbeat(a, b, up)
    key = formats.heartbeat_key(beat)
    assert formats.read_heartbeat(key, formats.heartbeat_value(beat)) == ((a, b), beat)
    assert formats.read_heartbeat(key, None) == ((a, b), None)
    position = ConnectorPartition(b, a, source)
    key = formats.connect_offset_key(position)
    assert formats.read_connect_offset(key, formats.connect_offset_value(up)) == (position, up)
    assert formats.read_connect_offset(key, None) == (position, None)


@settings(deadline=None)
@given(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=80))
def test_hostile_bytes_are_foreign(key: bytes | None, value: bytes | None) -> None:
    """Any bytes either read, or are reported as foreign; nothing else is raised."""
    for read in READERS:
        try:
            read(key, value)
        except ForeignRecord as error:
            assert str(error)


@pytest.mark.parametrize(
    ("read", "key", "value", "words"),
    [
        (formats.read_checkpoint, "0001 67 0001 74 00000000", "0001" + "00" * 18, "version 1"),
        (formats.read_checkpoint, "0001 67 0001 74 00000000", "0000" + "00" * 7, "too early"),
        (formats.read_checkpoint, "0001 67 0001 74", "00", "too early"),
        (formats.read_offset_sync, "0001 74 00000000", "00" * 17, "longer"),
        (formats.read_offset_sync, "0001 74 ffffffff", "00" * 16, "negative partition"),
        (formats.read_offset_sync, "0001 74 00000000", "ff" * 16, "negative offset"),
        (formats.read_offset_sync, "0001 ff 00000000", "00" * 16, "not UTF-8"),
        (formats.read_heartbeat, "ffff 41", "00", "too early"),
        (formats.read_heartbeat, "0001 41 0001 42", "0000" + "ff" * 8, "negative time"),
        (formats.read_heartbeat, "0001 41 0001 42", "0000" + "00" * 9, "longer"),
    ],
)
def test_damage_is_named(read: Callable[..., Any], key: str, value: str, words: str) -> None:
    """A damaged record says what is wrong with it."""
    with pytest.raises(ForeignRecord, match=words):
        read(bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (b'["c",{"topic":"t","partition":0,"cluster":"A"}]', b'{"offset":1}', "ignores it"),
        (b'["c", {"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":1}', "ignores it"),
        (b'["c",{"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":"1"}', "no offset"),
        (b'["c",{"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":true}', "no offset"),
        (b'["c",{"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":-1}', "no offset"),
        (b'["c",{"cluster":"A","partition":true,"topic":"t"}]', b'{"offset":1}', "another kind"),
        (b"{}", b'{"offset":1}', "not a connector"),
        (b"\xff", b'{"offset":1}', "not JSON"),
        (b"[" * 100_000, b'{"offset":1}', "not JSON"),
        (None, b'{"offset":1}', "missing"),
    ],
)
def test_positions_connect_would_not_find(
    key: bytes | None, value: bytes | None, words: str
) -> None:
    """A key in another order is not the key that Connect looks up."""
    with pytest.raises(ForeignRecord, match=words):
        formats.read_connect_offset(key, value)


def test_other_connectors_are_passed_by() -> None:
    """The topic is shared: checkpoint connectors keep their positions there too."""
    key = b'["MirrorCheckpointConnector",{"group":"g","partition":0,"topic":"t"}]'
    assert formats.read_connect_offset(key, b'{"offset":0}') is None
    assert formats.read_connect_offset(b'["other",{"file":"x"}]', b'{"position":3}') is None
