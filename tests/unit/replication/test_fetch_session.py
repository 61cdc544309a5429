"""Thousands of partitions: a fetch costs work for what has changed, not for all of them."""

from __future__ import annotations

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.copying.fetch_session import FetchSession, Key
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Fault, FaultKind, Route

MOST = 1 << 20


class CountedReaders(dict[Key, PartitionReader]):
    """Readers that count how often one is looked at."""

    looked_at = 0

    def __getitem__(self, key: Key) -> PartitionReader:
        self.looked_at += 1
        return super().__getitem__(key)


def readers(count: int) -> CountedReaders:
    counted_readers = CountedReaders()
    for number in range(count):
        position = Position(0, 0, -1, "", 1, 0, "t", number)
        source, route = SourcePartition("t", number), Route(CopyPath.VERBATIM, "t", number, count)
        counted_readers["t", number] = PartitionReader(Assignment(source, position, route))
    return counted_readers


def session_of(partitions: CountedReaders) -> FetchSession:
    session = FetchSession(1)
    for key in partitions:
        session.add(key)
    return session


def test_a_fetch_looks_only_at_partitions_that_may_have_changed() -> None:
    partitions = readers(1000)
    session = session_of(partitions)
    changes = session.take_changes(partitions, MOST)
    assert changes is not None and len(changes.wanted) == 1000
    partitions.looked_at = 0
    for number in range(10):
        reader = partitions["t", number]
        reader.fetched = reader.handed = reader.committed = 5
        session.touch([("t", number)])
        changes = session.take_changes(partitions, MOST)
        assert changes is not None and list(changes.wanted) == [("t", number)]
    assert partitions.looked_at <= 30
    assert session.take_changes(partitions, MOST) == ({}, [])


def test_a_partition_with_work_is_looked_at_until_it_has_none() -> None:
    partitions = readers(2)
    session = session_of(partitions)
    session.take_changes(partitions, MOST)
    reader = partitions["t", 0]
    reader.fetched = reader.handed = 5
    session.touch([("t", 0)])
    assert session.take_changes(partitions, MOST) == ({("t", 0): reader.next_fetch}, [])
    reader.ready_bytes = MOST
    assert session.take_changes(partitions, MOST) == ({}, [("t", 0)]), "enough waits"
    reader.ready_bytes = 0
    assert session.take_changes(partitions, MOST) == ({("t", 0): reader.next_fetch}, [])
    reader.stop(Fault(reader.source, FaultKind.CORRUPT, "", "", 5))
    assert session.take_changes(partitions, MOST) == ({}, [("t", 0)])


def test_the_last_partitions_of_a_session_are_dropped_once_another_is_fetched() -> None:
    partitions = readers(2)
    session = FetchSession(1)
    session.add(("t", 0))
    session.take_changes(partitions, MOST)
    session.remove(("t", 0))
    assert session.take_changes(partitions, MOST) is None
    session.add(("t", 1))
    assert session.take_changes(partitions, MOST) == (
        {("t", 1): partitions["t", 1].next_fetch},
        [("t", 0)],
    )


def test_a_new_session_has_all_positions() -> None:
    partitions = readers(3)
    session = session_of(partitions)
    session.take_changes(partitions, MOST)
    session.restart()
    changes = session.take_changes(partitions, MOST)
    assert changes is not None and changes.wanted.keys() == partitions.keys()
