"""Workers of a standalone cluster that are decommissioned, killed and replaced under a pipeline."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from k2ktui.runtime.node import KafkaNode
from tests.spark.replication.test_spark_cluster import is_loss_note, python, settings
from tests.support.clusters.kafka import create_topic, end_offsets, eventually
from tests.support.clusters.spark_cluster import SparkCluster, executors_of
from tests.support.oracle.judge import prove
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.records.traffic import Traffic

__all__ = ["python"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
# Long enough that whatever happens to a worker happens in the middle of a lap.
LAP = {"spark.lap": "20 seconds"}
WAITING = "its lap waits for a free core of Spark"
DECOMMISSIONED = {"spark.decommission.enabled": "true"}


def await_progress(run: Run) -> None:
    """Wait until the run has copied more than it has now."""
    run.expect("progress", lambda event: event["records"], since=run.reported)


def await_all_partitions(target: KafkaNode, topic: str, run: Run) -> None:
    """Wait until every partition has more on the target: both slots have copied."""
    before = end_offsets(target, topic, "read_committed")

    def grown() -> bool:
        ends = end_offsets(target, topic, "read_committed")
        return all(ends[partition] > end for partition, end in before.items())

    eventually(grown, lambda: f"all of {topic} grows\n{run.tail()}", 180.0)


def await_both(cluster: SparkCluster) -> list[psutil.Process]:
    """Return the workers, of which each has an executor."""
    eventually(lambda: len(cluster.executors()) == 2, "both executors are there")
    return cluster.workers()


@pytest.mark.parametrize("in_time", [True, False], ids=["lap ends", "killed before"])
def test_a_worker_that_is_decommissioned(
    python: Path, source: KafkaNode, target: KafkaNode, tmp_path: Path, in_time: bool
) -> None:
    """It takes no other lap; the copy goes on where there is room, nothing is lost or doubled.

    Spark repeats a task that such a worker did not end in time, however often it may fail.
    """
    topic = create_topic(source, partitions=4)
    with SparkCluster(tmp_path / "spark", config=DECOMMISSIONED) as cluster:
        pipe = Pipeline(tmp_path, source, target, [topic], settings(cluster, python) | LAP)
        with Traffic(source, {topic: 4}, seed=11), pipe.start() as run:
            run.expect("firstrecord")
            leaving, staying = await_both(cluster)
            await_progress(run)
            reported = run.reported
            (executor,) = executors_of(leaving)
            leaving.send_signal(signal.SIGPWR)
            cluster.await_decommissioning()
            if not in_time:
                executor.kill()
                run.expect("note", is_loss_note, since=reported)
            eventually(lambda: not executors_of(leaving), "its executor has ended", 120.0)
            await_progress(run)
            await_all_partitions(target, topic, run)
            assert executors_of(staying) and not executors_of(leaving)
            assert in_time != any(map(is_loss_note, run.events("note"))), run.tail()
            assert run.stop() == 0
        pipe.catch_up()
    assert prove(source, target, pipe.name, topic).records > 100


def test_workers_that_are_killed(
    python: Path, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """With one worker the copy goes on; with none it waits until there is another."""
    topic = create_topic(source, partitions=4)
    with SparkCluster(tmp_path / "spark") as cluster:
        pipe = Pipeline(tmp_path, source, target, [topic], settings(cluster, python) | LAP)
        with Traffic(source, {topic: 4}, seed=13), pipe.start() as run:
            run.expect("firstrecord")
            first, second = await_both(cluster)
            await_progress(run)
            reported = run.reported
            first.kill()
            run.expect("note", is_loss_note, since=reported)
            await_progress(run)
            await_all_partitions(target, topic, run)
            reported = run.reported
            second.kill()
            run.expect("note", lambda note: WAITING in note["text"], since=reported)
            cluster.add_worker()
            await_progress(run)
            await_all_partitions(target, topic, run)
            assert run.stop() == 0
        pipe.catch_up()
    assert prove(source, target, pipe.name, topic).records > 100
