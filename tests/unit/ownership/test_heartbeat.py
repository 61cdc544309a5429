"""What the heartbeat of a run says, without a cluster."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunnerState
from k2ktui.engine.moves.journal_format import read_state_value, state_value
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.severity import Severity
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.reports.events import Resumed, SlotsAssigned, Started, Stopped, Trouble
from k2ktui.watch.severity import judge_error


def _heart() -> Heartbeat:
    there = {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}
    config = PipelineConfig.model_validate({"name": "p", "source": there, "target": there})
    return Heartbeat(config, time.time(), print)


def test_a_standby_owns_no_slots_and_the_same_ones_again_when_it_copies() -> None:
    """The generation of owners stays if all its drivers were fenced, and start again."""
    heart = _heart()
    heart.observe(SlotsAssigned(7, (0, 2)))
    heart.observe(Started("p", 3, 2, 5, 0.1))
    copying = heart.record(RunnerState.RUNNING)
    assert (copying.generation, copying.slots, copying.owned) == (7, 2, (0, 2))
    heart.stand_by(waiting=True)
    waiting = heart.record(RunnerState.STANDBY)
    assert (waiting.generation, waiting.slots, waiting.owned) == (7, 0, ())
    heart.observe(Started("p", 3, 2, 5, 0.1))
    assert heart.record(RunnerState.RUNNING).owned == (0, 2)


def test_the_trouble_that_has_lasted_longest_is_shown_until_it_is_over() -> None:
    heart = _heart()
    heart.observe(Stopped(Fault(SourcePartition("t", 1), FaultKind.REFUSED, "no right", "")))
    since = heart.record(RunnerState.RUNNING).error_ms
    heart.observe(Trouble("slot 0", "slot 0: no login"))
    shown = heart.record(RunnerState.RUNNING)
    assert shown.last_error == "no right (and 1 other problem)"
    assert shown.error_ms == since > 0
    heart.observe(Resumed("t", 1))
    assert heart.record(RunnerState.RUNNING).last_error == "slot 0: no login"
    heart.observe(Trouble("slot 0", ""))
    assert heart.record(RunnerState.RUNNING).last_error == ""
    assert heart.record(RunnerState.RUNNING).error_ms == 0


@pytest.mark.parametrize(
    ("error_ms", "severity"),
    [(0, Severity.WARN), (90_000, Severity.WARN), (60_000, Severity.BAD)],
)
def test_what_keeps_records_from_being_copied_for_long_is_serious(
    error_ms: int, severity: Severity
) -> None:
    heart = _heart()
    heart.add_error("no login")
    runner = replace(heart.record(RunnerState.RUNNING), at_ms=100_000, error_ms=error_ms)
    read = read_state_value(runner.key, state_value(runner))
    assert read == runner
    assert judge_error(runner) is severity
