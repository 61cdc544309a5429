"""What checks read of both clusters, and what they say where one reading fails and another not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.suite import run_checks
from k2ktui.engine.drill.checks import DrillCheckOutcome
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.run_record import Run
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import InternalError, TimedOut
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.preflight.checks import CheckOutcome
from k2ktui.replication.preflight.clusters import ClusterReadings, check_clocks, check_recorded_ids
from k2ktui.replication.preflight.committed import CommittedTopics
from k2ktui.sync.flow import Flow
from tests.support.pipelines.preflight import pipeline, plain

CLUSTERS = "k2ktui.replication.preflight.clusters"
COMMITTED = "k2ktui.replication.preflight.committed"
PIPELINE = "k2ktui.replication.ownership.pipeline"
RECORDED = ClusterPair("former source", "the target")
COPIED = Position(7, 0, -1, "", 3, 0, "orders", 0)
STATE = CommitState(Run(3, 1, pair=RECORDED), {SourcePartition("orders", 0): COPIED})


class Answering:
    """A cluster that describes each topic in one way."""

    answer: TopicDescription | KafkaError | None = TopicDescription("commit", "", 1, 1)

    def __init__(self, _: object, label: str) -> None:
        self.label = label

    def cluster_id(self) -> str:
        return f"the {self.label}"

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaError | None]:
        return dict.fromkeys(names, self.answer)

    def find(self, _: str) -> TopicDescription | None:
        if isinstance(self.answer, KafkaError):
            raise TimedOut(self.answer.str())
        return self.answer


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> PipelineConfig:
    """A pipeline over two clusters, whose source is another one than that of its last run."""
    monkeypatch.setattr(f"{CLUSTERS}.Cluster", Answering)
    monkeypatch.setattr(f"{CLUSTERS}.await_open", lambda *_: None)
    hold(monkeypatch, STATE)
    return pipeline(plain("src:9092"), plain("dst:9092"), "orders")


def hold(monkeypatch: pytest.MonkeyPatch, state: CommitState) -> None:
    """Let the commit topic hold a state."""
    for module in (COMMITTED, PIPELINE):
        monkeypatch.setattr(f"{module}.read_commit_state", lambda *_: state)
    monkeypatch.setattr(f"{COMMITTED}.read_log_starts", lambda *_: {})


def break_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    hold(monkeypatch, CommitState(STATE.run, STATE.positions, unreadable_moves=1))


def break_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TimedOut("reading the log starts took too long")

    monkeypatch.setattr(f"{COMMITTED}.read_log_starts", fail)


@pytest.mark.parametrize("break_reading", [break_moves, break_starts])
def test_another_cluster_is_found_whatever_else_of_the_commit_topic_is_unreadable(
    break_reading: Callable[[pytest.MonkeyPatch], None],
    config: PipelineConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_reading(monkeypatch)

    with ClusterReadings(config) as readings:
        (ids,) = check_recorded_ids(readings)
        assert readings.committed().error is not None
    assert ids.outcome is CheckOutcome.FAIL and ids.fatal
    assert "--accept-cluster 'the source'" in ids.hint

    with CheckContext(Flow(config)) as context:
        (identity,) = run_checks(context, ["D01"])
    assert identity.outcome is DrillCheckOutcome.FAIL
    assert "the source is cluster the source, not former source" in identity.evidence


@pytest.mark.parametrize(
    "code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.LEADER_NOT_AVAILABLE]
)
def test_a_commit_topic_that_cannot_be_described_hides_only_the_ids(
    code: int, config: PipelineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answering, "answer", KafkaError(code))

    with ClusterReadings(config) as readings:
        (ids,) = check_recorded_ids(readings)
        assert readings.committed() == CommittedTopics(), "the control topic's own check fails"
    assert ids.outcome is CheckOutcome.FAIL and ids.detail == KafkaError(code).str()


def test_a_missing_commit_topic_has_no_ids(
    config: PipelineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answering, "answer", None)

    with ClusterReadings(config) as readings:
        (ids,) = check_recorded_ids(readings)
    assert ids.outcome is CheckOutcome.PASS and "copied nothing yet" in ids.detail


def test_the_time_of_a_reading_bounds_that_of_the_commit_topic(
    config: PipelineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts = list[float]()

    def read(_: object, __: object, timeout: float) -> CommitState:
        timeouts.append(timeout)
        return STATE

    for module in (COMMITTED, PIPELINE):
        monkeypatch.setattr(f"{module}.read_commit_state", read)
    for reading_s in (None, 60.0):
        with ClusterReadings(config, reading_s) as readings:
            readings.commit_state()
            readings.committed()

    assert timeouts == [20.0, 20.0, 30.0, 30.0]


class Faulty:
    """A connection that finds a fault of the program where it reads a clock."""

    def __init__(self, *_: object) -> None:
        self.open = self.close = lambda *_: None

    def clock_ahead(self) -> float:
        raise ValueError("clock")


def test_a_fault_in_a_reading_is_no_reason_of_a_cluster(
    config: PipelineConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(f"{CLUSTERS}.Probe", Faulty)
    monkeypatch.setattr(f"{COMMITTED}.read_log_starts", lambda *_: Faulty().clock_ahead())

    with ClusterReadings(config) as readings, pytest.raises(ValueError, match="clock"):
        list(check_clocks(readings))
    with CheckContext(Flow(config)) as context, pytest.raises(InternalError) as raised:
        context.committed()
    assert "crash-" in raised.value.hint


@pytest.mark.parametrize("reading_s", [None, 60.0])
def test_only_a_reading_with_a_time_out_has_a_thread(
    reading_s: float | None, config: PipelineConfig
) -> None:
    with ClusterReadings(config, reading_s) as readings:
        thread = readings.read("the thread", threading.current_thread)
    assert (thread is threading.current_thread()) is (reading_s is None)


@pytest.mark.parametrize(("reading_s", "error"), [(None, SystemExit), (60.0, InternalError)])
def test_a_reading_that_is_ended_is_not_waited_for(
    reading_s: float | None,
    error: type[BaseException],
    config: PipelineConfig,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    with ClusterReadings(config, reading_s) as readings:
        for _ in range(2):  # the second is told what the first one was
            with pytest.raises(error):
                readings.read("the end", sys.exit)
