"""Records that wait although laps can read are a problem after 30 seconds, with its cause."""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.reports.events import Event, Note, Trouble
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.replication.reports.waiting import WaitingRecords

A, B = SourcePartition("t", 0), SourcePartition("t", 1)


class Laps:
    """Laps of one slot, two seconds each, and what is reported of them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.notes: list[str] = []
        self.trouble = ""
        notifier = ThrottledNotifier(self._take, lambda: self.now)
        self._waiting = WaitingRecords(notifier, lambda: self.now)

    def _take(self, event: Event) -> None:
        if isinstance(event, Note):
            self.notes.append(event.text)
        elif isinstance(event, Trouble):
            self.trouble = event.text

    def read(
        self,
        offset: int,
        end: int,
        seconds: int = 2,
        unread: Mapping[SourcePartition, str] | None = None,
    ) -> None:
        for _ in range(0, seconds, 2):
            self.now += 2
            positions = {A: Position(offset, 0, -1, "", 1, 0, "t", 0)}
            self._waiting.lap_read(0, [A], positions, {A: end}, unread or {})

    def fail(self) -> None:
        self.now += 2
        self._waiting.lap_failed(0)


def test_none_is_copied_although_laps_read() -> None:
    laps = Laps()
    laps.read(5, 9, seconds=30)
    assert not laps.notes
    laps.read(5, 20, seconds=4)
    assert laps.notes == [laps.trouble]
    assert "records of t-0 from offset 5 on wait" in laps.trouble
    laps.read(6, 20)
    assert not laps.trouble


def test_a_failed_lap_has_a_reason_of_its_own_and_the_time_starts_over() -> None:
    laps = Laps()
    laps.read(5, 9, seconds=28)
    laps.fail()
    laps.read(5, 9, seconds=30)
    assert not laps.notes


def test_an_idle_partition_and_what_a_transaction_holds_back_do_not_wait() -> None:
    laps = Laps()
    laps.read(9, 9, seconds=120)  # its last stable offset
    laps.read(9, 10, seconds=4)
    assert not laps.notes


def test_a_slow_copy_is_no_standstill() -> None:
    laps = Laps()
    for offset in range(20):
        laps.read(offset, 100, seconds=20)
    assert not laps.notes


def test_a_partition_that_is_not_read_has_its_reason_unless_it_is_copied_all_the_same() -> None:
    laps, quota = Laps(), {A: "a quota", B: "of another slot"}
    for offset in range(5):
        laps.read(offset, 9, seconds=20, unread=quota)
    laps.read(9, 9, seconds=120, unread=quota)
    assert not laps.notes
    laps.read(9, 10, seconds=34, unread=quota)
    assert laps.trouble.endswith("t-0: not read for 30 s or longer: a quota")
    assert len(laps.notes) == 1
