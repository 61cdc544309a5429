"""The live feed: parts are read side by side, and one that hangs or fails holds up no other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.errors import K2kError, TimedOut
from k2ktui.watch import poller
from k2ktui.watch.assemble import Assembler
from k2ktui.watch.facts import Facts, Known
from k2ktui.watch.feed import MIN_INTERVAL_S
from k2ktui.watch.model import PartName, View
from k2ktui.watch.pipeline_reader import PipelineReader
from k2ktui.watch.poller import Poller
from tests.support.clusters.kafka import eventually
from tests.support.console.views import beside_mirrormaker, usual

TIMEOUT = 120.0
_SHORT_GRACE_S = 0.3


class Scripted:
    """Reads what a made pipeline says; can be made to fail, or to wait."""

    def __init__(self, name: PartName, log: list[PartName]) -> None:
        self.name, self._log = name, log
        self.made = beside_mirrormaker()
        self.error: Exception | None = None
        self.free = threading.Event()
        self.free.set()
        self.closed = False
        self.known: Known = {}
        self.last: Facts | None = None

    def read(self, known: Known) -> Facts:
        self._log.append(self.name)
        self.known = known
        self.free.wait()
        if self.error:
            raise self.error
        self.last = self.made.facts()[self.name]
        return self.last

    def close(self) -> None:
        self.closed = True


class Rig:
    """A poller over scripted readers, and the views that it shows."""

    def __init__(self) -> None:
        self.asked: list[PartName] = []
        self.readers = {name: Scripted(name, self.asked) for name in PartName}
        self.poller = Poller(PipelineReader(self.readers, Assembler(usual().pair)))
        self._views: queue.SimpleQueue[View] = queue.SimpleQueue()

    def start(self) -> None:
        self.poller.start(self._views.put)

    def view(self) -> View:
        return self._views.get(timeout=TIMEOUT)

    def until(self, name: PartName, error: str) -> View:
        """The first view in which a part has an error, or none."""
        while (view := self.view()).part(name).error != error:
            pass
        return view


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    # A round ends when all have answered, however long a busy machine takes for that.
    monkeypatch.setattr(poller, "_GRACE_S", TIMEOUT)
    made = Rig()
    yield made
    for reader in made.readers.values():
        reader.free.set()
    made.poller.close()


def test_a_round_is_one_view(rig: Rig) -> None:
    rig.start()
    view = rig.view()
    assert all(view.part(name).taken_at for name in PartName)
    assert view.totals.lag_records == 1200


def test_reading_begins_without_a_listener_which_gets_a_view_at_once(rig: Rig) -> None:
    rig.poller.interval = TIMEOUT * 10
    rig.poller.begin()
    eventually(lambda: all(reader.last for reader in rig.readers.values()), "all parts are read")
    asked = list(rig.asked)
    rig.start()
    view = rig.view()
    assert all(view.part(name).taken_at for name in PartName)
    assert rig.asked == asked, "what was read before is shown"


def test_a_listener_that_joins_a_round_gets_the_view_that_ends_it(rig: Rig) -> None:
    groups = rig.readers[PartName.GROUPS]
    groups.free.clear()
    rig.poller.begin()
    eventually(lambda: rig.readers[PartName.SOURCE].last is not None, "the others are read")
    rig.start()
    groups.free.set()
    view = rig.view()
    assert all(view.part(name).taken_at for name in PartName)


def test_positions_that_arrive_late_in_a_round_make_the_source_read_again_before_the_next(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_GRACE_S", _SHORT_GRACE_S)
    monkeypatch.setattr(poller, "_APART_S", TIMEOUT)
    rig.poller.interval = TIMEOUT * 10
    target = rig.readers[PartName.TARGET]
    target.free.clear()
    rig.poller.begin()
    eventually(lambda: PartName.SOURCE in rig.asked, "the source is read without positions")
    rig.start()
    target.free.set()
    while PartName.TARGET not in rig.readers[PartName.SOURCE].known:
        rig.view()
    assert rig.readers[PartName.SOURCE].known[PartName.TARGET] is target.last


def test_the_source_is_read_after_the_target_and_knows_what_it_said(rig: Rig) -> None:
    rig.start()
    rig.view()
    assert rig.asked.index(PartName.TARGET) < rig.asked.index(PartName.SOURCE)
    assert PartName.TARGET in rig.readers[PartName.SOURCE].known


def test_the_source_is_read_after_a_slow_target_not_beside_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.poller.interval = TIMEOUT * 10  # no other round asks the source
    rig.start()
    rig.view()
    monkeypatch.setattr(poller, "_GRACE_S", _SHORT_GRACE_S)
    target = rig.readers[PartName.TARGET]
    target.free.clear()
    rig.poller.refresh()
    while not rig.view().part(PartName.TARGET).pending_s:
        pass
    assert rig.asked.count(PartName.SOURCE) == 1, "its end would be older than the position"
    target.free.set()
    while rig.asked.count(PartName.SOURCE) < 2:
        rig.view()
    assert rig.readers[PartName.SOURCE].known[PartName.TARGET] is target.last


def test_positions_that_arrive_after_the_source_was_read_make_it_read_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_GRACE_S", _SHORT_GRACE_S)
    target = rig.readers[PartName.TARGET]
    target.free.clear()
    rig.start()
    rig.view()
    assert PartName.TARGET not in rig.readers[PartName.SOURCE].known
    rig.poller.pause(True)
    target.free.set()
    while PartName.TARGET not in rig.readers[PartName.SOURCE].known:
        rig.view()


def test_a_part_that_fails_keeps_its_values_and_the_others_continue(rig: Rig) -> None:
    rig.start()
    rig.view()
    rig.readers[PartName.SOURCE].error = TimedOut("the source is away")
    rig.poller.refresh()
    view = rig.until(PartName.SOURCE, "the source is away")
    assert view.part(PartName.SOURCE).stale
    assert view.totals.lag_records == 1200
    rig.readers[PartName.SOURCE].error = None
    rig.poller.refresh()
    rig.until(PartName.SOURCE, "")


def test_a_fault_of_ours_is_reported_and_blinds_no_other_part(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    rig.readers[PartName.GROUPS].error = ZeroDivisionError()
    rig.start()
    view = rig.view()
    assert "internal error in k2ktui" in view.part(PartName.GROUPS).error
    assert view.totals.lag_records == 1200
    for _ in range(2):
        rig.poller.refresh()
        rig.view()
    assert len(list(tmp_path.rglob("*.txt"))) == 1, "one that comes back has one report"


@pytest.mark.parametrize("hung", list(PartName))
def test_a_part_that_hangs_is_reported_and_asked_once(
    rig: Rig, hung: PartName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_GRACE_S", _SHORT_GRACE_S)
    rig.readers[hung].free.clear()
    rig.start()
    others = [name for name in PartName if name is not hung]
    view = rig.view()
    while not all(view.part(name).taken_at for name in others):
        view = rig.view()
    assert view.part(hung).taken_at is None
    rig.poller.refresh()
    while not (view := rig.view()).part(hung).pending_s:
        pass
    assert rig.asked.count(hung) == 1
    rig.readers[hung].free.set()
    while not (view := rig.view()).part(hung).taken_at:
        pass


def test_paused_it_reads_only_when_asked(rig: Rig) -> None:
    rig.poller.interval = TIMEOUT * 10
    rig.start()
    rig.view()
    rig.poller.pause(True)
    rig.poller.interval = 0.0  # due at any time
    asked = len(rig.asked)
    rig.poller.refresh()
    rig.view()
    assert len(rig.asked) == asked + len(PartName)
    rig.poller.pause(False)
    rig.view()
    assert len(rig.asked) > asked + len(PartName)


def test_the_comparison_is_read_less_often_unless_somebody_asks(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_PACE_S", {PartName.COMPARISON: 1e9})
    rig.poller.interval = 0.0
    rig.start()
    while rig.asked.count(PartName.GROUPS) < 3:
        rig.view()
    assert rig.asked.count(PartName.COMPARISON) == 1
    rig.poller.refresh()
    while rig.asked.count(PartName.COMPARISON) < 2:
        rig.view()


def test_a_long_error_is_cut_by_the_poller_only(rig: Rig) -> None:
    rig.readers[PartName.SOURCE].error = K2kError("x" * 600)
    rig.start()
    assert rig.view().part(PartName.SOURCE).error == "x" * 499 + "…"
    reader = PipelineReader(rig.readers, Assembler(usual().pair))
    reader.read(PartName.SOURCE)
    assert reader.view().part(PartName.SOURCE).error == "x" * 600


def test_no_interval_is_below_the_least() -> None:
    made = Poller(PipelineReader({}, Assembler(usual().pair)), 0.1)
    assert made.interval == MIN_INTERVAL_S
    made.set_interval(1)
    assert made.interval == MIN_INTERVAL_S


def test_closing_closes_the_readers(rig: Rig) -> None:
    rig.start()
    rig.view()
    rig.poller.close()
    # It does not wait for them for long.
    eventually(lambda: all(reader.closed for reader in rig.readers.values()), "all are closed")
