"""A run composed in this process: what fails early, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from k2ktui.config.load import load
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConnectionFailed, K2kError, Refused
from k2ktui.replication.fencing_errors import superseded
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.gate import require_startable
from k2ktui.replication.reports.events import Finished, Report, report_text
from k2ktui.runs import PipelineRun, RunSeries
from k2ktui.runtime.node import KafkaNode
from k2ktui.starting import run_pipeline
from tests.support.clusters.kafka import (
    TIMEOUT,
    admin,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.pipelines.modes import in_mode
from tests.support.pipelines.pipeline import RUN_TIMEOUT, Pipeline


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def between(tmp_path: Path, source: str, target: str) -> PipelineConfig:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"""name: p
coordination: {{commit: {{topic: {unique_name("commit")}}}}}
source: {{kafka: {{common: {{bootstrap.servers: "{source}"}}}}}}
target: {{kafka: {{common: {{bootstrap.servers: "{target}"}}}}}}
replication:
  - source: {{topic: [t]}}
  - sink: {{topic: source, partition: source}}
"""
    )
    return load([path]).config


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[PipelineConfig]:
    """A pipeline between two ports that nothing listens on, and that no other process gets."""
    with socket.socket() as source, socket.socket() as target:
        for bound in (source, target):
            bound.bind(("127.0.0.1", 0))
        ports = (bound.getsockname()[1] for bound in (source, target))
        yield between(tmp_path, *(f"127.0.0.1:{port}" for port in ports))


def test_an_unreachable_cluster_ends_a_run_before_spark_starts(closed: PipelineConfig) -> None:
    before, reports = children(), list[Report]()
    with pytest.raises(ConnectionFailed, match="source"):
        run_pipeline(closed, reports.append, lambda check: None)
    assert children() <= before and reports == []


def test_unreachable_clusters_are_waited_for_if_they_are_not_checked(
    closed: PipelineConfig,
) -> None:
    features = closed.features.model_copy(update={"check_kafka_connection_on_startup": False})
    patient = closed.model_copy(update={"features": features})
    before, reports = children(), list[Report]()

    def report(event: Report) -> None:
        reports.append(event)
        run.stop()

    run = PipelineRun(patient, report, lambda check: None)
    with pytest.raises(K2kError, match="stopped before"):
        run.run()
    assert children() <= before
    assert [str(event)[:45] for event in reports if "waiting for the source" in str(event)]


def test_a_failed_check_ends_a_run_before_anything_is_written(closed: PipelineConfig) -> None:
    shown: list[Check] = []
    with pytest.raises(ConnectionFailed) as ended:
        require_startable(closed, shown.append)
    assert ended.value.unchanged == "Nothing was written."
    assert any(check.fatal and check.outcome is CheckOutcome.FAIL for check in shown)
    assert not any(check.outcome is CheckOutcome.PASS for check in shown)


def test_a_missing_control_topic_is_refused(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    config = between(tmp_path, source.bootstrap, target.bootstrap)
    with pytest.raises(Refused, match="not started"):
        require_startable(config, lambda check: None)


_RUN = """
import json, sys
from pathlib import Path
from k2ktui.config.load import load
from k2ktui.replication.reports.events import report_event
from k2ktui.runs import PipelineRun

reports = []
config, stopped = load([Path(sys.argv[1])]).config, sys.argv[2] == "stopped"
run = PipelineRun(config, reports.append, lambda check: None, until_caught_up=not stopped)
if stopped:
    run.stop()
finished = run.run()
print(json.dumps([report_event(each) for each in reports] + [len(finished.faults)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "caught up"])
def test_a_run_in_this_process(
    how: str, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(10)])
    path = Pipeline(tmp_path, source, target, [topic], name=unique_name("run")).write()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(path), how],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    *events, faults = json.loads(done.stdout)
    assert faults == 0
    kinds = [event["event"] for event in events]
    assert kinds[-1] == "finished"
    assert ("started" in kinds) or how == "stopped"
    assert "Traceback" not in done.stderr


def left_by_sessions(directory: Path) -> list[Path]:
    """The private directories of Spark sessions, which may hold secrets."""
    return list(directory.glob("*k2ktui-lap-*"))


@pytest.mark.slow
@pytest.mark.rotate(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_stop_while_java_starts_leaves_no_process_and_no_file(
    number: signal.Signals, code: int, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Java starts before the run is composed, and must not outlive one that never was."""
    topic, temporary = create_topic(source), tmp_path / "tmp"
    temporary.mkdir()
    pipeline = Pipeline(tmp_path, source, target, [topic])
    with pipeline.start(env={"TMPDIR": str(temporary)}) as run:
        eventually(lambda: left_by_sessions(temporary), "Java is being started")
        run.signal(number)
        assert run.wait() == code, run.tail()
        run.await_gone()
    assert left_by_sessions(temporary) == []
    assert run.events("started") == [] and "Traceback" not in run.tail()


@pytest.mark.slow
def test_a_refused_start_leaves_no_process_no_file_and_no_topic(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    topic, temporary = create_topic(source), tmp_path / "tmp"
    temporary.mkdir()
    missing = unique_name("commits")
    settings = {
        "features.autoCreateControlTopics": "disabled",
        "coordination.commit.topic": missing,
    }
    pipeline = Pipeline(tmp_path, source, target, [topic], settings)
    with pipeline.start(env={"TMPDIR": str(temporary)}) as run:
        assert run.wait() == 5, run.tail()
        run.await_gone()
    assert "Nothing was written." in run.tail()
    assert left_by_sessions(temporary) == []
    assert not {topic, missing} & set(admin(target).list_topics(timeout=TIMEOUT).topics)


class FencedTwice(PipelineRun):
    """A run that two others fence, one after the other; the third one ends by itself."""

    fenced = 0

    def run(self) -> Finished:
        """Be fenced, or end."""
        FencedTwice.fenced += 1
        if FencedTwice.fenced < 3:
            raise superseded("p")
        return Finished(True, 1, 2.0, ())


@pytest.mark.parametrize("mode", ["standby", "exclusive"])
def test_a_run_that_was_fenced_is_followed_by_a_standby(closed: PipelineConfig, mode: str) -> None:
    """Only in that mode; it waits for the grace window at least."""
    config, reports = in_mode(closed, mode), list[Report]()
    waits: list[float | None] = []
    FencedTwice.fenced = 0

    def make_run(quiet_s: float | None) -> PipelineRun:
        waits.append(quiet_s)
        return FencedTwice(config, reports.append, lambda check: None, quiet_s=quiet_s or 0.0)

    series = RunSeries(config, reports.append, make_run)
    if mode == "exclusive":
        with pytest.raises(Refused, match="another k2ktui has started"):
            series.run()
        assert waits == [None] and reports == []
        return
    assert series.run().caught_up
    grace_s = config.coordination.assignment.grace_window_s
    assert waits == [None, grace_s, grace_s]
    assert all("this one waits as a standby" in report_text(report) for report in reports)
    assert len(reports) == 2
    series = RunSeries(config, reports.append, make_run)
    series.stop()
    FencedTwice.fenced = 0
    with pytest.raises(Refused, match="another k2ktui has started"):
        series.run()
