"""A task that hangs holds nothing forever, and writes nothing any more."""

from __future__ import annotations

from functools import partial

import psutil
import pytest

from tests.support.clusters.kafka import eventually
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_suspended_processes_are_done_without(pipeline: Pipeline, topics: dict[str, int]) -> None:
    """Their lap's deadline passes, another task continues; no one resumes what was suspended."""
    pipeline.settings = {"target.kafka.producer": {"transaction.timeout.ms": 1000}}

    def suspend(what: str) -> psutil.Process:
        if what == "worker":
            return pipeline.suspend_at("sent", run)
        java = run.java()
        java.suspend()
        return java

    with Traffic(pipeline.source, topics, 1):
        run = pipeline.start()
        run.expect("firstrecord")
        for what in ("worker", "java"):
            reported = run.reported
            stopped = suspend(what)
            run.expect("note", lambda e: "did not end within 33 s" in e["text"], since=reported)
            eventually(partial(is_gone, stopped), "Spark has killed it")
            pipeline.await_copying()
    pipeline.end(run)
    pipeline.prove()


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
