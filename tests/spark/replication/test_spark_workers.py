"""Workers of a standalone cluster that are decommissioned, killed and replaced under a pipeline."""

from __future__ import annotations

import signal
from collections.abc import Callable
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
LAP = {"spark.lap": "12 seconds"}
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
    """Return the two workers that have executors."""

    working: list[psutil.Process] = []

    def both() -> bool:
        working[:] = [worker for worker in cluster.workers() if executors_of(worker)]
        return len(working) == 2

    eventually(both, "both executors are there")
    return working


def test_workers_that_are_decommissioned_and_killed(
    python: Path, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """The copy goes on where there is room, or waits for it; nothing is lost or doubled.

    A decommissioned worker takes no other lap. Spark repeats a task that such a worker did not end
    in time, however often it may fail.
    """
    topic = create_topic(source, partitions=4)
    with SparkCluster(tmp_path / "spark", config=DECOMMISSIONED) as cluster:
        pipe = Pipeline(tmp_path, source, target, [topic], settings(cluster, python) | LAP)
        with pipe.start() as run:
            with Traffic(source, {topic: 4}, seed=11):
                run.expect("firstrecord")
                for times, in_time in enumerate((True, False), start=1):
                    decommission(cluster, run, times, in_time)
                    await_progress(run)
                    await_all_partitions(target, topic, run)
                    cluster.add_worker()
                kill_both(cluster, run, lambda: await_all_partitions(target, topic, run))
                cluster.add_worker()
                await_progress(run)
                await_all_partitions(target, topic, run)
            pipe.end(run)
    assert prove(source, target, pipe.name, topic).records > 100


def decommission(cluster: SparkCluster, run: Run, times: int, in_time: bool) -> None:
    """Decommission a worker, for the nth time; its lap ends, or its executor is killed."""
    leaving, staying = await_both(cluster)
    await_progress(run)
    reported = run.reported
    (executor,) = executors_of(leaving)
    leaving.send_signal(signal.SIGPWR)
    cluster.await_decommissioning(times)
    if not in_time:
        executor.kill()
        run.expect("note", is_loss_note, since=reported)
    eventually(lambda: not executors_of(leaving), "its executor has ended")
    assert executors_of(staying)
    notes = [event for event in run.events()[reported:] if event["event"] == "note"]
    assert any(map(is_loss_note, notes)) != in_time, run.tail()


def kill_both(cluster: SparkCluster, run: Run, await_copying: Callable[[], None]) -> None:
    """Kill one worker, with which the copy goes on, then the other one, without which it waits."""
    first, second = await_both(cluster)
    await_progress(run)
    reported = run.reported
    first.kill()
    run.expect("note", is_loss_note, since=reported)
    await_progress(run)
    await_copying()
    reported = run.reported
    second.kill()
    run.expect("note", lambda note: WAITING in note["text"], since=reported)
