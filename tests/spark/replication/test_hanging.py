"""A task that hangs holds nothing forever, and writes nothing any more."""

from __future__ import annotations

import psutil
import pytest

from tests.support.clusters.kafka import eventually
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("hangs", ["worker", "java"])
def test_a_suspended_process_is_done_without(
    pipeline: Pipeline, topics: dict[str, int], hangs: str
) -> None:
    """Its lap's deadline passes, another task continues; no one resumes what was suspended."""
    pipeline.settings = {"target.kafka.producer": {"transaction.timeout.ms": 1000}}
    with Traffic(pipeline.source, topics, 1):
        run = pipeline.start()
        run.expect("firstrecord")
        reported = run.reported
        if hangs == "worker":
            stopped = pipeline.suspend_at("sent", run)
        else:
            stopped = run.java()
            stopped.suspend()
        run.expect("note", lambda event: "did not end within 33 s" in event["text"], since=reported)
        eventually(lambda: not is_alive(stopped), "Spark has killed it")
        pipeline.await_copying()
    assert run.stop() == 0
    run.await_gone()
    pipeline.catch_up()
    pipeline.prove()


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
