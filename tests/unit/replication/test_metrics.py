"""Metrics: what they read from a run's status on lag, counters and stopped partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k2ktui.config.model import MetricPrefixes
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.engine.records.state import Gap
from k2ktui.replication.copying.slot_task import FaultKind, LapOutcome, SlotResult, SlotStats
from k2ktui.replication.reports import status as status_module
from k2ktui.replication.reports.events import Rehearsed, SlotsAssigned
from k2ktui.replication.telemetry.metric import full_name
from k2ktui.replication.telemetry.metrics import CATALOG, PipelineFigures
from tests.support.pipelines.telemetry import ORDERS_0, ORDERS_1, Written, position

LAP_S = 10.0


class Clock:
    """Epoch seconds that a test moves."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Fed(Written):
    """A status, and the points read from it by metric and by their attributes."""

    def __init__(self, objectives: Objectives = NO_OBJECTIVES) -> None:
        self.clock = Clock()
        super().__init__(self.clock)
        self._figures = PipelineFigures(self.status, LAP_S, objectives)

    def read(self, name: str) -> dict[Any, float]:
        (metric,) = (m for m in CATALOG if m.name == name)
        values = {}
        for value, labels in metric.read(self._figures):
            assert labels["pipeline"] == "p"
            assert labels.keys() == {"pipeline", *metric.labels}
            rest = tuple(text for key, text in labels.items() if key != "pipeline")
            values[rest[0] if len(rest) == 1 else rest] = value
        return values


@pytest.fixture
def fed() -> Fed:
    return Fed()


O0, O1 = ("orders", 0), ("orders", 1)


def test_lag_is_of_one_moment(fed: Fed) -> None:
    """The end grows while a lap runs; the position of the lap before must not be held to it."""
    fed.survey({ORDERS_0: 1000}, {ORDERS_0: position(0)})
    fed.lap(0, offset=1000, end=1010)
    fed.survey({ORDERS_0: 6000}, {ORDERS_0: position(1000)})

    assert fed.read("position") == {O0: 1000}
    assert fed.read("start") == {O0: 5}
    assert fed.read("end") == {O0: 1010}
    assert fed.read("lag") == {O0: 10}


def test_before_the_first_lap_the_snapshot_counts(fed: Fed) -> None:
    fed.survey({ORDERS_0: 1000, ORDERS_1: 7}, {ORDERS_0: position(40)})

    assert fed.read("lag") == {O0: 960}  # nothing is known of where the other begins
    assert fed.read("end") == {O0: 1000, O1: 7}
    assert fed.read("age") == fed.read("start") == {}


def stop(fed: Fed) -> None:
    fed.stop(ORDERS_0)


def stall(fed: Fed) -> None:
    fed.clock.now += 2 * LAP_S + 11


@pytest.mark.parametrize("how", [stop, stall])
def test_lag_grows_while_a_partition_stands_still(fed: Fed, how: Callable[[Fed], None]) -> None:
    fed.lap(0, offset=1000, end=1010)
    how(fed)
    fed.survey({ORDERS_0: 6000}, {ORDERS_0: position(1000)})

    assert fed.read("lag") == {O0: 5000}
    assert fed.read("end") == {O0: 6000}


def test_lag_in_seconds_is_the_age_of_the_record_at_the_position(fed: Fed) -> None:
    written_ms = int((fed.clock.now - 30) * 1000)
    fed.lap(0, offset=1000, end=1010, next_ms=written_ms)
    fed.lap(1, offset=10, end=20)
    fed.clock.now += 4
    assert fed.read("lag.time") == {O0: 30.0}  # as when the lap ended; the other's is not known

    stop(fed)
    assert fed.read("lag.time") == {O0: 34.0}


def test_a_held_partition_has_a_lag_of_its_own(fed: Fed) -> None:
    """And no age; where its log starts is still known, so that retention stays an alarm."""
    fed.lap(0, offset=1000, end=1010)
    ends, positions = {ORDERS_0: 6000}, {ORDERS_0: position(1000)}
    fed.survey(ends, positions, held={ORDERS_0}, starts={ORDERS_0: 70})
    assert fed.read("held.lag") == {O0: 5000}
    assert fed.read("lag") == fed.read("lag.time") == fed.read("age") == {}
    assert fed.read("start") == {O0: 70} and fed.read("end") == {O0: 6000}
    fed.survey(ends, positions)
    assert fed.read("held.lag") == {} and fed.read("lag").keys() == {O0}


def test_a_moved_topic_has_nothing_but_that(fed: Fed) -> None:
    """Not even that it was stopped: no alert on it may fire."""
    fed.lap(0, offset=1000, end=1010)
    fed.stop(ORDERS_0)
    assert fed.read("moved") == {} and fed.read("stopped")
    moved = MovedTopics([MovedTopic(ORDERS_0.topic, "t", "drill-1", 5, "ann@bastion")])
    fed.survey({}, moved=moved)
    assert fed.read("moved") == {(ORDERS_0.topic, "drill-1"): 1}
    for name in ("lag", "held.lag", "age", "start", "position", "stopped"):
        assert fed.read(name) == {}, name
    fed.survey({ORDERS_0: 6000}, {ORDERS_0: position(1000)})
    assert fed.read("moved") == {} and fed.read("position")


def test_no_lag_is_zero_seconds(fed: Fed) -> None:
    fed.lap(0, offset=1010, end=1010)
    assert fed.read("lag") == fed.read("lag.time") == {O0: 0}


def test_age_of_a_position(fed: Fed) -> None:
    fed.lap(0, offset=10, end=10)
    fed.clock.now += 7
    fed.lap(1, offset=10, end=10)
    fed.driver.end_lap(0, None)
    fed.clock.now += 1
    assert fed.read("age") == {O0: 8.0, O1: 1.0}


def test_lost_offsets(fed: Fed) -> None:
    gaps = (Gap(10, 25, "truncated"), Gap(40, 45, "truncated"))
    both = {ORDERS_0: position(50, *gaps), ORDERS_1: position(50)}
    fed.survey({ORDERS_0: 100, ORDERS_1: 100}, both)
    assert fed.read("lost") == {O0: 20}


def test_counters_add_up_over_laps_and_slots(fed: Fed) -> None:
    fed.driver.start(3, 2)
    assert fed.read("records") == {0: 0, 1: 0}  # they are there before anything happens
    for _ in range(3):
        fed.lap(0, offset=10, end=10)
    fed.lap(1, offset=10, end=10, records=7)
    ended_at = fed.status.slots[1].ended_at
    fed.driver.end_lap(
        1, SlotResult(1, LapOutcome.FENCED, {}, (), SlotStats(), "", ended_at, ended_at + 1)
    )
    assert fed.read("lap.time") == {0: 10.0, 1: 1.0}
    fed.driver.end_lap(1, None)

    assert fed.read("records") == {0: 300, 1: 7}
    assert fed.read("bytes") == {0: 27000, 1: 9000}
    assert fed.read("batches") == {0: 12, 1: 4}
    assert fed.read("rebuilt.batches") == {0: 3, 1: 1}
    assert fed.read("transactions") == {0: 6, 1: 2}
    assert fed.read("commit.time") == {0: 1.5, 1: 0.5}
    assert fed.read("cpu.time") == {0: 2.25, 1: 0.75}
    assert fed.read("laps") == {
        (0, "done"): 3,
        (0, "fenced"): 0,
        (0, "failed"): 0,
        (1, "done"): 1,
        (1, "fenced"): 1,
        (1, "failed"): 1,
    }
    assert fed.read("lap.time") == {0: 10.0}
    assert fed.read("lap.pause") == {0: 0.25}  # the lost lap reported nothing


def test_partitions_that_stop_and_continue(fed: Fed) -> None:
    fed.survey({ORDERS_0: 1, ORDERS_1: 1})
    fed.stop(ORDERS_0, FaultKind.TRUNCATED)
    fed.stop(ORDERS_1, FaultKind.UNAUTHORIZED)
    fed.driver.stopped.release([ORDERS_1])
    assert fed.read("stopped").keys() == {(*O0, "truncated"), (*O1, "unauthorized")}, "not yet"
    fed.driver.stopped.report_resumed([ORDERS_1], ())

    assert fed.read("partitions") == {(): 2}
    assert {k: n for k, n in fed.read("partitions.stopped").items() if n} == {"truncated": 1}
    assert set(fed.read("partitions.stopped")) == set(FaultKind)
    assert {k: n for k, n in fed.read("faults").items() if n} == {"truncated": 1, "unauthorized": 1}
    assert fed.read("stopped") == {(*O0, "truncated"): 1}


def test_partitions_that_went_away_are_reported_no_more(fed: Fed) -> None:
    fed.stop(ORDERS_1, FaultKind.GONE)
    fed.survey({ORDERS_0: 9}, {ORDERS_0: position(1)})
    fed.survey({}, {ORDERS_0: position(1)})

    assert fed.read("position") == fed.read("end") == {}
    assert fed.read("stopped") == {(*O1, "gone"): 1}  # until somebody does something about it


def test_the_start(fed: Fed) -> None:
    assert fed.read("term") == fed.read("slots") == fed.read("first.record.time") == {}
    fed.clock.now += 1.5
    fed.driver.start(3, 2)
    began_at, copied = fed.status.began_at, SlotStats(records=1)
    for seconds in (2.5, 3.5):
        result = SlotResult(
            0, LapOutcome.DONE, {}, stats=copied, first_commit_at=began_at + seconds
        )
        fed.driver.end_lap(0, result)
    assert fed.read("term") == {(): 3}
    assert fed.read("slots") == {(): 2}
    assert fed.read("ready.time") == {(): 1.5}
    assert fed.read("first.record.time") == {(): 2.5}


def test_the_age_of_the_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the host's clock says."""
    clock = Clock()
    monkeypatch.setattr(status_module, "monotonic", clock)
    fed = Fed()
    clock.now += 7
    assert fed.read("heartbeat.age") == {(): 7}, "none was written: since the start"
    fed.status.beat()
    assert fed.read("heartbeat.age") == {(): 0}
    clock.now += 65
    assert fed.read("heartbeat.age") == {(): 65}


def test_the_state_of_the_pair(fed: Fed) -> None:
    assert fed.read("pair.state") == {}, "it is not known yet"
    fed.status.pair_state = "failing over"
    assert fed.read("pair.state") == {"failing over": 1}
    fed.status.pair_state = "replicating"
    assert fed.read("pair.state") == {"replicating": 1}


def test_the_last_rehearsal(fed: Fed) -> None:
    assert fed.read("drill.rehearsal.age") == {}, "there was none"
    fed.status.rehearsed = Rehearsed(fed.clock.now - 60, 2, 7, None, 3.5)
    assert fed.read("drill.rehearsal.age") == {(): 60}
    assert fed.read("drill.findings") == {(): 2}
    assert fed.read("drill.rpo.records") == {(): 7}
    assert fed.read("drill.rpo.time") == {}, "it is unknown"
    assert fed.read("drill.rto.time") == {(): 3.5}


def test_objectives_and_what_missed_them(fed: Fed) -> None:
    rpo, rto = "drill.objective.rpo.records", "drill.objective.rto.time"
    assert fed.read(rpo) == fed.read(rto) == {}, "the file has none"
    fed.status.rehearsed = Rehearsed(fed.clock.now - 60, 2, 7, None, 3.5)
    assert fed.read("drill.objectives.missed") == {(): 0}
    with_objectives = Fed(Objectives(0, 30.0, None))
    assert with_objectives.read(rpo) == {(): 0} and with_objectives.read(rto) == {}
    assert with_objectives.read("drill.objective.rpo.time") == {(): 30}
    with_objectives.status.rehearsed = Rehearsed(fed.clock.now - 60, 2, 7, None, 3.5, missed=1)
    assert with_objectives.read("drill.objectives.missed") == {(): 1}


def test_names_stay_apart_whatever_the_prefixes() -> None:
    same = MetricPrefixes.model_validate(dict.fromkeys(MetricPrefixes.model_fields, "x."))
    for prefixes in (MetricPrefixes(), same):
        names = [full_name(prefixes, metric.prefix, metric.name) for metric in CATALOG]
        assert len(set(names)) == len(names)


def test_a_run_that_shares_its_pipeline_has_figures_of_what_it_copies(fed: Fed) -> None:
    """Those of partitions that it has released are another run's, also if they had stopped."""
    del fed.status.drivers[None]
    fed.status.report(SlotsAssigned(1, (0, 1, 3)))
    drivers = {slot: fed.status.add_driver(slot) for slot in (0, 1)}
    assert fed.read("slots") == {}
    for slot, fed.driver in drivers.items():
        fed.driver.start(3, 1)
        fed.lap(slot, 5, 9)
    fed.stop(ORDERS_1)
    assert set(fed.read("records")) == {0, 1, 3} and fed.read("slots") == {(): 3}
    assert len(fed.read("position")) == 2 and fed.read("stopped")
    fed.status.report(SlotsAssigned(2, (0,)))
    drivers[1].end()
    assert fed.read("slots") == {(): 1} and not fed.read("stopped")
    assert set(fed.read("position")) == {("orders", 0)}
