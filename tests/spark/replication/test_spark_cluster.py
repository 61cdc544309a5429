"""A pipeline on a real Spark cluster: executors that know nothing of k2ktui, killed or not."""

from __future__ import annotations

import contextlib
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
from tests.support.clusters.kafka import create_topic, eventually, produce
from tests.support.clusters.registries import Registries
from tests.support.clusters.secure import SecureNode
from tests.support.clusters.spark_cluster import SparkCluster, bare_python, can_import
from tests.support.commands.watch import Watch
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.pipeline import Event, Pipeline
from tests.support.pipelines.schema_pipeline import MappingPipeline
from tests.support.records.traffic import Traffic, mixture

PAGE = Path(__file__).parents[3] / "docs" / "spark-cluster.md"
USER, PASSWORD = "copier", "copier-3cr3t"


def packages() -> list[str]:
    """Return what the page says to install on executors."""
    text = PAGE.read_text()
    line = text[text.index("<!-- executor packages -->") :].split("pip install ")[1].splitlines()[0]
    return [word.strip("'").split(">")[0] for word in line.split()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster") / "spark") as started:
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


@pytest.mark.slow
def test_a_copy_on_a_cluster(
    cluster: SparkCluster, python: Path, secure: SecureNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Code and credentials come from the driver, and leave no trace on the executors."""
    topic = create_topic(secure.node, partitions=4)
    secure.allow(USER, [AclOperation.READ], topic)
    produce(secure.node, topic, mixture(1, 5000, 4), compression_type="zstd")
    login = {"source.kafka.common": secure.java(USER)}
    pipe = Pipeline(tmp_path, secure.node, target, [topic], settings(cluster, python) | login)

    with Watch(cluster.directory, [PASSWORD]) as watch:
        run = pipe.catch_up()
    proof = prove(secure.node, target, pipe.name, topic)

    assert proof.records == 5000
    (started,) = run.events("started")
    assert started["slots"] == 2, "a slot a core of the cluster"
    assert {proof.position(topic, p)["slot"] for p in range(4)} == {0, 1}
    assert watch.looked and not watch.shown and not watch.stored
    eventually(lambda: not cluster.executors(), "executors end with the run")


@pytest.mark.slow
def test_transforms_on_a_cluster(
    cluster: SparkCluster, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Several records of one, and dead letters; an Avro schema whose file only the driver has."""
    pytest.importorskip("pyarrow")
    from tests.proof.test_transform_faults import EXPLODED, ExplodingPipeline
    from tests.spark.transforms.test_transform_avro import PAYMENT, RULE, is_large, masked, payments

    python = bare_python(tmp_path / "python", [*packages(), "pandas", "pyarrow", "fastavro"])
    exploded, avro = (create_topic(source, partitions=count) for count in (4, 2))
    produce(source, exploded, mixture(3, 3000, 4))
    produce(source, avro, payments(200))
    (tmp_path / "payment.avsc").write_text(json.dumps(PAYMENT))
    rules = [{**EXPLODED, "topics": exploded}, {**RULE, "topics": avro}]
    pipe = ExplodingPipeline(tmp_path, source, target, [exploded, avro])
    pipe.settings = {**settings(cluster, python), "replication.transform": rules}

    pipe.catch_up()

    proof = prove(source, target, pipe.name, Expected(avro, value=masked, copied=is_large))
    assert {proof.position(avro, p)["slot"] for p in range(2)} == {0, 1}
    pipe.topics = [exploded]
    proof = pipe.prove(1000)
    assert {proof.position(exploded, p)["slot"] for p in range(4)} == {0, 1}


@pytest.mark.slow
def test_schema_mapping_on_a_cluster(
    cluster: SparkCluster,
    source: KafkaNode,
    target: KafkaNode,
    registries: Registries,
    tmp_path: Path,
) -> None:
    """Executors have what the extra ``schemas`` installs, and reach both registries."""
    python = bare_python(tmp_path / "python", [*packages(), "confluent-kafka[schemaregistry]"])
    topic = create_topic(source, partitions=4)
    pipe = MappingPipeline(tmp_path, source, target, registries, [topic], settings(cluster, python))
    with pipe.start() as run:
        with Traffic(source, {topic: 4}, 5, prefixes=pipe.prefixes):
            run.expect("firstrecord")
            pipe.await_copying()
        pipe.end(run)

    proof = pipe.prove(100)
    assert {proof.position(topic, p)["slot"] for p in range(4)} == {0, 1}


def is_loss_note(event: Event) -> bool:
    """Spark gives the job up, or runs the task elsewhere, where its spent token is refused."""
    return "ExecutorLostFailure" in event["text"] or "one attempt only" in event["text"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_executors_that_are_killed(
    cluster: SparkCluster, python: Path, source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Their slots continue elsewhere, or when they are back: nothing is lost, nothing doubled."""
    topic = create_topic(source, partitions=4)
    pipe = Pipeline(tmp_path, source, target, [topic])
    pipe.settings = settings(cluster, python, pipe.steps_on_executors)
    with pipe.start() as run:
        with Traffic(source, {topic: 4}, seed=7):
            run.expect("firstrecord")
            for step in ("sent", "before-commit", "after-commit"):
                eventually(lambda: len(cluster.executors()) == 2, "both executors are there")
                reported = run.reported
                # A task that stands still runs: between two laps a loss is not reported.
                pipe.arm(step, signal.SIGSTOP)
                pipe.await_hit(step)
                executor, worker = eventually(cluster.suspended, f"a task stands still at {step}")
                executor.kill()
                run.expect("note", is_loss_note, since=reported)
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.resume()  # its slot has been fenced: what it still does is for nothing
                reported = run.reported
                run.expect("progress", lambda e: e["records"], since=reported)
        pipe.end(run)
    proof = prove(source, target, pipe.name, topic)
    assert proof.records > 100


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
