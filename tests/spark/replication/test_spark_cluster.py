"""A pipeline on a real Spark cluster: executors that know nothing of k2ktui, killed or not."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.errors import K2kError
from k2ktui.replication.spark import executors
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, end_offsets, eventually, produce
from tests.support.clusters.registry_stand_in import two_stand_ins
from tests.support.clusters.secure import SecureNode
from tests.support.clusters.spark_cluster import (
    SparkCluster,
    bare_python,
    can_import,
    executors_of,
)
from tests.support.commands.watch import Watch
from tests.support.oracle.judge import Expected, Proof, prove
from tests.support.pipelines.pipeline import Event, Pipeline, Run
from tests.support.pipelines.schema_pipeline import MappingPipeline
from tests.support.records.traffic import Traffic, mixture

PAGE = Path(__file__).parents[3] / "docs" / "spark-cluster.md"
# Of the extras ``transform`` and ``avro``.
TRANSFORM_PACKAGES = ("pandas", "pyarrow", "fastavro")
HAS_TRANSFORMS = importlib.util.find_spec("pyarrow") is not None
USER, PASSWORD = "copier", "copier-3cr3t"


def packages() -> list[str]:
    """Return what the page says to install on executors."""
    text = PAGE.read_text()
    line = text[text.index("<!-- executor packages -->") :].split("pip install ")[1].splitlines()[0]
    return [word.strip("'").split(">")[0] for word in line.split()]


# A task of a worker that is decommissioned ends in peace, and is repeated if it does not.
DECOMMISSIONED = {"spark.decommission.enabled": "true"}
WAITING = "its lap waits for a free core of Spark"
KILLED_AT = ("sent", "before-commit", "after-commit")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster with two workers; a test that kills some leaves two others."""
    directory = tmp_path_factory.mktemp("cluster") / "spark"
    with SparkCluster(directory, config=DECOMMISSIONED) as started:
        yield started


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with what the page lists, and without k2ktui."""
    made = bare_python(tmp_path_factory.mktemp("python"), packages())
    assert can_import(made, "kafka") and not can_import(made, "k2ktui")
    return made


def settings(
    cluster: SparkCluster, python: Path, more: Mapping[str, str] | None = None
) -> dict[str, Any]:
    own = {"spark.pyspark.python": str(python), **(more or {})}
    return {"spark.master": cluster.master, "spark.config": {**cluster.settings, **own}}


def is_loss_note(event: Event) -> bool:
    """Spark gives the job up, or runs the task elsewhere, where its spent token is refused."""
    return "ExecutorLostFailure" in event["text"] or "one attempt only" in event["text"]


@pytest.mark.slow
def test_a_copy_whose_executors_and_workers_are_lost(
    cluster: SparkCluster, python: Path, secure: SecureNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Their slots continue elsewhere, or when they are back: nothing is lost, nothing doubled.

    Code and credentials come from the driver, and leave no trace on the executors. A decommissioned
    worker takes no other lap. Spark repeats a task that such a worker did not end in time, however
    often it may fail.
    """
    topic = create_topic(secure.node, partitions=4)
    secure.allow(USER, [AclOperation.READ], topic)
    pipe = Pipeline(tmp_path, secure.node, target, [topic])
    login = {"source.kafka.common": secure.java(USER)}
    pipe.settings = settings(cluster, python, pipe.steps_on_executors) | login
    with pipe.start() as run:
        with Traffic(secure.node, {topic: 4}, seed=7):
            with Watch(cluster.directory, [PASSWORD]) as watch:
                run.expect("firstrecord")
                await_all_partitions(target, topic, run)
            assert watch.looked and not watch.shown and not watch.stored
            for times, in_time in enumerate((True, False), start=1):
                decommission(cluster, pipe, run, times, in_time)
                await_progress(run)
                await_all_partitions(target, topic, run)
                cluster.add_worker()
            kill_both(cluster, pipe, run, lambda: await_all_partitions(target, topic, run))
            for _ in range(2):
                cluster.add_worker()
            await_progress(run)
            await_all_partitions(target, topic, run)
            # Last: a slot may note its loss late, where a decommission expects none.
            for step in KILLED_AT:
                kill_executor_at(cluster, pipe, run, step)
        pipe.end(run)
    proof = prove(secure.node, target, pipe.name, topic)

    assert proof.records > 100
    (started,) = run.events("started")
    assert started["slots"] == 2, "a slot a core of the cluster"
    assert {proof.position(topic, p)["slot"] for p in range(4)} == {0, 1}
    eventually(lambda: not cluster.executors(), "executors end with the run")
    assert watch.holders() == []


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


@contextlib.contextmanager
def stopped_lap(cluster: SparkCluster, pipe: Pipeline, step: str) -> Iterator[psutil.Process]:
    """Let a lap stand still at a step: its executor. Afterwards it goes on, if it can.

    Between two laps a loss is not reported, and a decommissioned worker has none to end.
    """
    pipe.arm(step, signal.SIGSTOP)
    pipe.await_hit(step)
    executor, task = eventually(cluster.suspended, f"a task stands still at {step}")
    yield executor
    with contextlib.suppress(psutil.NoSuchProcess):
        task.resume()


def kill_executor_at(cluster: SparkCluster, pipe: Pipeline, run: Run, step: str) -> None:
    """Kill the executor of a lap; its slot is fenced: what it still does is for nothing."""
    await_both(cluster)
    reported = run.reported
    with stopped_lap(cluster, pipe, step) as executor:
        executor.kill()
        run.expect("note", is_loss_note, since=reported)
    await_progress(run)


def await_both(cluster: SparkCluster) -> list[psutil.Process]:
    """Return the two workers that have executors."""
    working: list[psutil.Process] = []

    def both() -> bool:
        working[:] = [worker for worker in cluster.workers() if executors_of(worker)]
        return len(working) == 2

    eventually(both, "both executors are there")
    return working


def decommission(
    cluster: SparkCluster, pipe: Pipeline, run: Run, times: int, in_time: bool
) -> None:
    """Decommission a worker, for the nth time; its lap ends, or its executor is killed."""
    workers = await_both(cluster)
    reported = run.reported
    with stopped_lap(cluster, pipe, "sent") as executor:
        leaving, staying = sorted(workers, key=lambda worker: executor not in executors_of(worker))
        leaving.send_signal(signal.SIGPWR)
        cluster.await_decommissioning(times)
        if not in_time:
            executor.kill()
            run.expect("note", is_loss_note, since=reported)
    eventually(lambda: not executors_of(leaving), "its executor has ended")
    assert executors_of(staying)
    notes = [event for event in run.events()[reported:] if event["event"] == "note"]
    assert any(map(is_loss_note, notes)) != in_time, run.tail()


def kill_both(
    cluster: SparkCluster, pipe: Pipeline, run: Run, await_copying: Callable[[], None]
) -> None:
    """Kill one worker, with which the copy goes on, then the other one, without which it waits."""
    workers = await_both(cluster)
    reported = run.reported
    with stopped_lap(cluster, pipe, "sent") as executor:
        first, second = sorted(workers, key=lambda worker: executor not in executors_of(worker))
        first.kill()
        run.expect("note", is_loss_note, since=reported)
    await_progress(run)
    await_copying()
    reported = run.reported
    second.kill()
    run.expect("note", lambda note: WAITING in note["text"], since=reported)


class Transformed:
    """Two topics with records, one that is exploded and one in Avro, and what becomes of them."""

    def __init__(self, source: KafkaNode, directory: Path) -> None:
        from tests.proof.test_transform_faults import EXPLODED
        from tests.spark.transforms.test_transform_avro import PAYMENT, RULE, payments

        self._exploded, self._avro = (create_topic(source, partitions=count) for count in (4, 2))
        produce(source, self._exploded, mixture(3, 3000, 4))
        produce(source, self._avro, payments(200))
        (directory / "payment.avsc").write_text(json.dumps(PAYMENT))
        self.topics = [self._exploded, self._avro]
        rules = [{**EXPLODED, "topics": self._exploded}, {**RULE, "topics": self._avro}]
        self.settings = {"replication.transform": rules}

    def prove(self, pipe: Pipeline) -> dict[str, Proof]:
        """Return the proof of each topic."""
        from tests.proof.test_transform_faults import ExplodingPipeline
        from tests.spark.transforms.test_transform_avro import is_large, masked

        avro = Expected(self._avro, value=masked, copied=is_large)
        exploding = ExplodingPipeline(
            pipe.directory, pipe.source, pipe.target, [self._exploded], name=pipe.name
        )
        return {
            self._avro: prove(pipe.source, pipe.target, pipe.name, avro),
            self._exploded: exploding.prove(1000),
        }


@pytest.mark.slow
def test_transforms_and_schema_mapping_on_a_cluster(
    cluster: SparkCluster, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Several records of one, and dead letters; an Avro schema whose file only the driver has.

    Executors have what the extras install, and reach both registries. Without what transforms need,
    schemas are mapped alone.
    """
    mapped = create_topic(source, partitions=4)
    transformed = Transformed(source, tmp_path) if HAS_TRANSFORMS else None
    extras = ["confluent-kafka[schemaregistry]", *(TRANSFORM_PACKAGES if transformed else ())]
    python = bare_python(tmp_path / "python", [*packages(), *extras])
    more = transformed.topics if transformed else []
    with two_stand_ins() as registries:
        pipe = MappingPipeline(tmp_path, source, target, registries, [mapped])
        pipe.settings = {
            **settings(cluster, python),
            "replication.source.topic": [*more, mapped],
            **(transformed.settings if transformed else {}),
            "schemaMapping.topics": [
                {"pattern": mapped, "key": "disabled"},
                {"pattern": ".*", "key": "disabled", "value": "disabled"},
            ],
        }
        with pipe.start() as run:
            with Traffic(source, {mapped: 4}, 5, prefixes=pipe.prefixes):
                run.expect("firstrecord")
                pipe.await_copying()
            pipe.topics = [*more, mapped]
            pipe.end(run)
        pipe.topics = [mapped]
        proofs = {mapped: pipe.prove(100)}

    if transformed:
        proofs |= transformed.prove(pipe)
    for topic, proof in proofs.items():
        slots = {state["slot"] for at, state in proof.ledger.positions.items() if at[0] == topic}
        assert slots == {0, 1}


@pytest.mark.slow
def test_starts_that_cannot_be_on_a_cluster(
    cluster: SparkCluster, python: Path, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Executors without a package, without Python; a master with another secret.

    That master accepts connections: after a minute, Spark's session finds that it does not take the
    application.
    """
    topic = create_topic(source)
    wrong = settings(cluster, python, {"spark.authenticate.secret": "another"})
    unknown = Pipeline(tmp_path, source, target, [topic], wrong)
    unknown.mode = "shared"
    with unknown.start("--until-caught-up") as waits:
        lacking = bare_python(tmp_path / "python", [p for p in packages() if p != "crc32c"])
        run = Pipeline(tmp_path, source, target, [topic], settings(cluster, lacking)).catch_up(1)
        said = run.err.read_text()
        assert "executors cannot run tasks: No module named 'crc32c'" in said
        assert "docs/spark-cluster.md" in said
        assert run.events("started") == []

        nowhere = settings(cluster, tmp_path / "no" / "python")
        run = Pipeline(tmp_path, source, target, [topic], nowhere).catch_up(1)
        said = run.err.read_text()
        assert "executors cannot run tasks: " in said and "no/python" in said

        assert waits.wait() == 3, waits.tail()
    said = waits.err.read_text()
    assert "did not accept the application: All masters are unresponsive" in said
    assert "spark.authenticate, its secret" in said and "Nothing was written." in said


class Context:
    """What ``await_executors`` needs of a Spark context; the cores grow from call to call."""

    def __init__(self, *cores: int) -> None:
        self._cores = list(cores)
        self.cancelled = False

    @property
    def defaultParallelism(self) -> int:
        return self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]

    def cancelAllJobs(self) -> None:
        self.cancelled = True


def answers(outcome: Any) -> Callable[[Callable[[], Any]], Future[Any]]:
    """Return a submit whose job has that outcome: a value, an error, or never one (None)."""

    def submit(_: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        elif outcome is not None:
            future.set_result(outcome)
        return future

    return submit


def test_waits_until_all_executors_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_SETTLED_S", 0.05)
    monkeypatch.setattr(executors, "_POLL_S", 0.001)
    context = Context(2, 2, 4, 8, 8)
    executors.await_executors(context, "spark://x:1", answers([""]))
    assert context.defaultParallelism == 8


def test_a_cluster_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_FIRST_TASK_S", 0.01)
    context = Context(2)
    with pytest.raises(K2kError, match="spark://x:1 provided no executor within") as caught:
        executors.await_executors(context, "spark://x:1", answers(None))
    assert context.cancelled
    assert "spark.executor.memory" in caught.value.hint


_PYTHON_FAILED = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most \
recent failure: Lost task 0.0 in stage 0.0 (TID 0) (10.0.0.7 executor 0): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker \
has different version: 3.10 than that in driver: 3.11.

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)
Driver stacktrace:"""
_LOST = """Job aborted due to stage failure: Task 0 in stage 9.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 9.0 (TID 9) (10.0.0.7 executor 1): ExecutorLostFailure (executor 1 \
exited caused by one of the running tasks) Reason: Command exited with code 137
Driver stacktrace:"""


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (_PYTHON_FAILED, "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has"),
        (_LOST, "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"),
        ("Something else\nmore", "Something else"),
        ("", "Exception"),
    ],
)
def test_why_a_job_failed(text: str, reported: str) -> None:
    error = Exception("An error occurred while calling z:org.apache.spark.api.python.collect")
    error.java_exception = SimpleNamespace(getMessage=lambda: text)  # type: ignore[attr-defined]
    reason = executors.spark_reason(error)
    assert reason.startswith(reported) and "\n" not in reason
