"""Slots that runs share, on a real broker: each is fenced by itself, or all at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.state import Run
from k2ktui.errors import TimedOut
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.transaction_state import describe_transaction
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.fencing_errors import LayoutChanged, Superseded
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.ownership.record_store import RecordStore
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    await_stable,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
)
from tests.support.pipelines.copied import Copied


def _pair(copied: Copied) -> ClusterPair:
    # The target's id is its own: the driver's connections compare it.
    return ClusterPair("cluster-a", copied.target.cluster_id, "m")


class Drivers:
    """The drivers of a test, closed at its end."""

    def __init__(self, copied: Copied, closing: ExitStack) -> None:
        self._copied, self._closing = copied, closing

    def whole(self, *, copies: bool = True) -> Ownership:
        pair = _pair(self._copied) if copies else None
        options = wire(self._copied.config.target, "producer")
        ownership = make_ownership(self._copied.config, self._copied.cluster, options, 1, pair)
        self._closing.callback(ownership.close, fence=False)
        return ownership

    def divide(self, slots: int) -> str:
        """Divide the pipeline into slots; return the id of the layout."""
        ownership = self.whole()
        ownership.divide(slots)
        return ownership.publish_layout().id

    def slot(self, slot: int, layout: str) -> Ownership:
        ownership = self.whole().of_slot(slot, layout)
        self._closing.callback(ownership.close, fence=False)
        return ownership

    def take_slot(self, slot: int, layout: str) -> Ownership:
        ownership = self.slot(slot, layout)
        ownership.take_over(1)
        return ownership


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


@pytest.fixture
def drivers(copied: Copied) -> Iterator[Drivers]:
    with ExitStack() as closing:
        yield Drivers(copied, closing)


def runs(copied: Copied) -> list[tuple[dict[str, object], dict[str, object]]]:
    """Return key and value of every run record written so far, oldest first."""
    await_stable(copied.target, copied.commits)
    records = read_all(copied.target, copied.commits)
    parsed = [
        (json.loads(record.key or b""), json.loads(record.value or b"")) for record in records
    ]
    return [(key, value) for key, value in parsed if "run" in key or "slotRun" in key]


def state_of(copied: Copied, name: str) -> tuple[int, int]:
    """Return producer id and epoch of a transactional id."""
    with Probe(wire(copied.config.target, "producer"), "target") as probe:
        probe.open(TIMEOUT)
        state = probe.run(lambda connection: describe_transaction(connection, name, TIMEOUT))
    assert state is not None
    return state.producer_id, state.epoch


def test_a_run_takes_one_slot_over_and_leaves_the_others(drivers: Drivers) -> None:
    layout = drivers.divide(2)
    first, other = drivers.take_slot(0, layout), drivers.take_slot(1, layout)
    assert first.renew(0).transactional_id.endswith(".slot-0.0")  # type: ignore[union-attr]
    assert other.renew(0).transactional_id.endswith(".slot-1.0")  # type: ignore[union-attr]
    second = drivers.take_slot(0, layout)
    with pytest.raises(Superseded):
        first.renew(0)
    second.renew(0)
    other.renew(0)
    assert second.run.term > first.run.term


def test_a_driver_of_the_whole_pipeline_fences_all_slots(drivers: Drivers) -> None:
    """Also those of earlier layouts that had more; no run can take one over any longer."""
    old = drivers.divide(3)
    stale = drivers.take_slot(2, old)
    layout = drivers.divide(2)
    with pytest.raises(Superseded):
        stale.renew(0)
    shared = [drivers.take_slot(slot, layout) for slot in range(2)]
    alone = drivers.whole()
    alone.take_over(1)
    for ownership in shared:
        with pytest.raises(Superseded):
            ownership.renew(0)
    for slot in range(2):
        with pytest.raises(LayoutChanged, match="divided again, or a run copies it alone"):
            drivers.take_slot(slot, layout)
    alone.renew(0)
    assert alone.run.term > max(ownership.run.term for ownership in shared)


def test_a_driver_whose_takeover_fails_halfway_owns_nothing(
    drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not write that it fences the shared slots: it must take over again."""
    drivers.divide(2)
    alone = drivers.whole()
    alone.take_over(1)
    assert not alone.must_take_over

    def fail(*_: object) -> None:
        raise TimedOut("no answer")

    with monkeypatch.context() as failing:
        failing.setattr(alone, "begin_term", fail)
        with pytest.raises(TimedOut):
            alone.take_over(1)
    assert alone.must_take_over
    alone.take_over(1)
    alone.renew(0)


def test_no_slot_can_be_taken_before_the_layout_is_ready(drivers: Drivers) -> None:
    ownership = drivers.whole()
    ownership.divide(2)
    assert ownership.run.layout is not None
    with pytest.raises(LayoutChanged):
        drivers.take_slot(0, ownership.run.layout.id)
    layout = ownership.publish_layout()
    drivers.take_slot(0, layout.id).renew(0)


def test_no_slot_of_an_earlier_layout_can_be_taken(drivers: Drivers) -> None:
    old = drivers.divide(2)
    drivers.divide(2)
    late = drivers.slot(0, old)
    with pytest.raises(LayoutChanged):
        late.take_over(1)


@pytest.mark.parametrize("how", ["cut", "created again", "without its end"])
def test_a_slot_is_given_up_if_the_commit_topic_loses_records_while_it_is_taken(
    how: str, copied: Copied, drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the run records were read: a partition without a position may have lost it."""
    layout, read = drivers.divide(2), RecordStore.read_written_runs
    late = drivers.slot(0, layout)

    def lose(store: RecordStore) -> list[Run]:
        found = read(store)
        if how == "cut":
            delete_before(copied.target, copied.commits, 1)
            return found
        before = read_all(copied.target, copied.commits)
        delete_topic(copied.target, copied.commits)
        create_topic(copied.target, copied.commits, 1, {"cleanup.policy": "compact"})
        if how == "without its end":  # as an unclean election leaves it: not ready
            early = next(got for got in before if got.value and b'"ready":false' in got.value)
            produce(copied.target, copied.commits, [Out(early.value, early.key, 0)])
        return found

    monkeypatch.setattr(RecordStore, "read_written_runs", lose)
    with pytest.raises(LayoutChanged):
        late.take_over(1)
    assert not [key for key, _ in runs(copied) if "slotRun" in key]


def test_a_pipeline_that_was_never_shared_is_taken_over_as_before(
    copied: Copied, drivers: Drivers
) -> None:
    before = len(runs(copied))
    drivers.whole().take_over(1)
    (run,) = runs(copied)[before:]
    assert "layout" not in run[1] and "mostShared" not in run[1]


def test_what_the_run_records_say(copied: Copied, drivers: Drivers) -> None:
    layout = drivers.divide(2)
    slot = drivers.take_slot(1, layout)
    state = copied.commit_state()
    assert state.run.layout is not None and state.run.layout.id == layout
    assert state.run.most_shared == 2 and state.run.pair == _pair(copied)
    assert state.run.term == slot.run.term, "a later driver begins a later one"
    assert slot.run == Run(
        slot.run.term,
        1,
        copied.name,
        slot.run.host,
        slot.run.started_ms,
        _pair(copied),
        registers=True,
        shared_slot=1,
    )
    keys = [key for key, _ in runs(copied)]
    assert keys[-1] == {"group": copied.name, "slotRun": 1}
    drivers.whole(copies=False).take_over(0)
    state = copied.commit_state()
    assert (
        state.run.layout is None and state.run.most_shared == 2 and state.run.pair == _pair(copied)
    )


def test_the_states_of_all_ids_show_who_takes_a_slot_over_later(
    copied: Copied, drivers: Drivers
) -> None:
    """As a drill reads them that has fenced the pipeline: those of shared slots, too."""
    layout = drivers.divide(2)
    drivers.take_slot(0, layout).renew(0)
    drill = drivers.whole()
    drill.take_over(0)
    states = drill.read_states()
    ids = {name.removeprefix(copied.name) for name in states}
    shared = {f".slot-{slot}.{id_}" for slot in range(2) for id_ in ("driver", "state", "0")}
    assert ids == {".driver", ".state", ".0"} | shared
    with pytest.raises(LayoutChanged):
        drivers.take_slot(1, layout)
    later = {name: state_of(copied, name) for name in states}
    changed = {name.removeprefix(copied.name) for name in states if states[name] != later[name]}
    assert changed == {".slot-1.driver", ".slot-1.state"}, "given up before its ids are bumped"


def test_all_of_many_slots_are_fenced(drivers: Drivers) -> None:
    """More than are fenced at the same time (fencingMaxParallelism)."""
    layout = drivers.divide(12)
    shared = [drivers.take_slot(slot, layout) for slot in range(12)]
    drivers.whole().take_over(1)
    for ownership in shared:
        with pytest.raises(Superseded):
            ownership.renew(0)
