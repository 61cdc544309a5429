"""What the heartbeat of a run says, without a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunnerState
from k2ktui.engine.moves.journal_format import read_state_value, state_value
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.severity import Severity
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.reports.events import SlotsAssigned, Trouble
from k2ktui.replication.reports.status import RunStatus
from k2ktui.watch.severity import judge_error


def _heart(report: Callable[[str], None] = print) -> Heartbeat:
    there = {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}
    config = PipelineConfig.model_validate({"name": "p", "source": there, "target": there})
    return Heartbeat(config, time.time(), report)


def test_a_standby_owns_no_slots_and_the_same_ones_again_when_it_copies() -> None:
    """The generation of owners stays if all its drivers were fenced, and start again."""
    heart = _heart()
    assert heart.shown.state is RunnerState.STARTING
    heart.stand_by(waiting=True)
    heart.status.report(SlotsAssigned(7, (0, 2)))
    drivers = [heart.status.add_driver(slot) for slot in (0, 2)]
    for driver in drivers:
        driver.start(3, 1)
    copying = heart.shown
    assert (copying.generation, copying.slots, copying.owned) == (7, 2, (0, 2))
    assert (copying.state, copying.term) == (RunnerState.RUNNING, 3)
    for driver in drivers:
        driver.end()
    waiting = heart.shown
    assert waiting.state is RunnerState.STANDBY
    assert (waiting.generation, waiting.slots, waiting.owned) == (7, 0, ())
    heart.status.add_driver(0).start(3, 1)
    assert heart.shown.owned == (0, 2)


def test_the_trouble_that_has_lasted_longest_is_shown_until_it_is_over() -> None:
    heart, source = _heart(), SourcePartition("t", 1)
    driver = heart.status.add_driver()
    driver.stopped.stop(Fault(source, FaultKind.REFUSED, "no right", ""))
    since = heart.shown.error_ms
    driver.report(Trouble("slot 0", "slot 0: no login"))
    shown = heart.shown
    assert shown.last_error == "no right (and 1 other problem)"
    assert shown.error_ms == since > 0
    driver.stopped.release([source])
    assert heart.shown.last_error == shown.last_error, "it is retried"
    driver.stopped.report_resumed([source], ())
    assert heart.shown.last_error == "slot 0: no login"
    driver.report(Trouble("slot 0", ""))
    heart.status.report(Trouble("pipeline file", "an old one", blocks=False))
    assert (heart.shown.last_error, heart.shown.error_ms) == ("an old one", 0)
    heart.status.report(Trouble("pipeline file", ""))
    assert (heart.shown.last_error, heart.shown.error_ms) == ("", 0)


def test_a_defect_in_the_figures_ends_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without heartbeats, a standby would take over a run that copies."""

    def fail(status: RunStatus) -> NoReturn:
        raise KeyError("what")

    noted: list[str] = []
    heart = _heart(noted.append)
    heart.status.report(SlotsAssigned(7, (0, 2)))
    heart.status.add_driver(0).start(3, 1)
    monkeypatch.setattr(RunStatus, "problem", fail)
    for _ in range(2):
        shown = heart.shown
        assert (shown.state, shown.slots, shown.term) == (RunnerState.RUNNING, 1, 3)
        assert (shown.generation, shown.owned) == (7, (0, 2))
        assert (shown.lag_records, shown.last_error) == (None, "")
    assert noted == ["status: incomplete, KeyError: 'what' (the run continues)"]


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
