"""The history's records, without a cluster: what is written is read, others are passed by."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.anchors import OffsetAnchor
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import target_cluster
from k2ktui.log.record import KafkaRecord
from k2ktui.mm2.flows.formats import OffsetSync
from k2ktui.mm2.flows.history import Known, ProvenPosition, SyncHistory, encode_history
from k2ktui.mm2.flows.settings import parse_settings
from k2ktui.mm2.flows.topics import TimedOffsetSync
from k2ktui.mm2.mirror_flow import MirrorFlow

FILE = b"""
clusters = A, B, C
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
C.bootstrap.servers = c:9092
A->B.enabled = true
A->C.enabled = true
"""
NUMBERS = st.integers(0, 2**40)
SOURCES = st.builds(SourcePartition, st.text(max_size=9), st.integers(0, 3))


class Tail:
    """A tail of the topic that returns these records once."""

    def __init__(self, *records: tuple[bytes | None, bytes | None]) -> None:
        self._new = [KafkaRecord(at, *record, (), 0) for at, record in enumerate(records)]

    def read(self) -> list[KafkaRecord]:
        records, self._new = self._new, []
        return records

    def close(self) -> None:
        """Nothing is open."""


def history(flow: str, *records: tuple[bytes | None, bytes | None]) -> SyncHistory:
    config = MirrorFlow.of(parse_settings(FILE, "mm2.properties", {}).flow(flow)).config
    return SyncHistory(config, target_cluster(config), Tail(*records))


KNOWN: st.SearchStrategy[Known] = st.builds(
    lambda at, up, down, when: TimedOffsetSync(OffsetSync(at, up, down), when),
    SOURCES,
    NUMBERS,
    NUMBERS,
    NUMBERS,
) | st.builds(ProvenPosition, SOURCES, st.builds(OffsetAnchor, NUMBERS, NUMBERS), NUMBERS)


@settings(deadline=None)
@given(st.lists(KNOWN, max_size=30))
def test_what_is_written_is_read(known: list[Known]) -> None:
    records = encode_history("A->B", known)
    ours, others = history("A->B", *records), history("A->C", *records)
    assert sorted(ours.merge(()), key=repr) == sorted(known, key=repr)
    assert others.merge(()) == []
    assert ours.notes() == others.notes() == []


@settings(deadline=None)
@given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_damaged_records_are_counted(key: bytes | None, value: bytes | None) -> None:
    good = b'{"flow":"A->B","partition":0,"topic":"t"}'
    damaged = ((key, value), (good, b'{"syncs":[[1,2]],"v":1}'), (good, b'{"syncs":[],"v":2}'))
    ours = history("A->B", *damaged)
    assert ours.merge(()) == []
    assert ours.notes()
