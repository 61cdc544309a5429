"""On every broker version: what is killed with a transaction open, fenced or refused costs nothing.

One run of a pipeline after the other on the same topics, so that each fault meets what the one
before it left behind.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.matrix.conftest import Pair
from tests.support.clusters.brokers import kind_of
from tests.support.clusters.kafka import START_S, create_topic, end_offsets, eventually, produce
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.judge import COMMIT_TOPIC
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.pipelines.shared_pipelines import GRACE_S, expect_owning
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.matrix

SUPERSEDED = 5
_SLOTS = 2
_MAX_BYTES = 3000
_WIDE_RECORDS = 3000


# How runs divide a pipeline is no matter of the brokers' version: tests/unit/ownership has models
# of all three coordinators. So each pair has one mode; both meet an old target, and a new one.
EXCLUSIVE = [kind_of(target) for target in ("2.5", "4-tv0")]


def test_killed_fenced_and_refused(pair: Pair) -> None:
    mode = "exclusive" if pair.target_kind in EXCLUSIVE else "shared"
    topics = {create_topic(pair.source, partitions=n): n for n in (1, 2, 3)}
    wide = _wide_batches(pair)
    pipeline = pair.pipeline(
        [*topics, wide],
        coordination__mode=mode,
        spark__slots=_SLOTS,
        coordination__assignment__graceWindow=f"{GRACE_S} seconds",
        # A process that waits for a transaction's end must not be helped by its time-out.
        target__kafka__producer={"transaction.timeout.ms": 600_000},
    )
    with Traffic(pair.source, topics, seed=1) as traffic:
        run = pipeline.start()
        run.expect("firstrecord")
        for kill in (_kill_worker, _kill_java):
            with _open_transaction(pipeline, run) as worker:
                kill(run, worker)
            pipeline.await_copying()
        run = _taken_over_with_a_transaction_open(pipeline, run, mode)
        with _open_transaction(pipeline, run):
            run.signal(signal.SIGKILL)
            run.wait()
        run.await_gone()
        run = pipeline.start()
        run.expect("firstrecord")
        _restart_brokers(pair)
        pipeline.await_copying()
    _await_caught_up(pipeline)
    assert run.stop() == 0
    run.await_gone()
    pipeline.prove(_WIDE_RECORDS + traffic.sent // 3)


def _await_caught_up(pipeline: Pipeline) -> None:
    """Wait until all that the source holds now is copied."""

    def caught_up() -> bool:
        rows = k2ktui_json("status", "-f", pipeline.write())["partitions"]
        return all(row["lag_records"] == 0 for row in rows)

    eventually(caught_up, f"{pipeline.name} has caught up")


def _wide_batches(pair: Pair) -> str:
    """A topic whose batches its target topic refuses, until they are split."""
    topic = create_topic(pair.source)
    produce(pair.source, topic, [b"%09d" % i for i in range(_WIDE_RECORDS)], linger_ms=50)
    create_topic(pair.target, topic, config={"max.message.bytes": str(_MAX_BYTES)})
    return topic


@contextlib.contextmanager
def _open_transaction(pipeline: Pipeline, run: Run) -> Iterator[psutil.Process]:
    """Suspend a worker that has written all of a transaction and not committed it.

    The block is for what happens then; afterwards the worker wakes up, if it still exists.
    """
    worker = pipeline.suspend_at("before-commit", run)
    stable = end_offsets(pipeline.target, COMMIT_TOPIC, "read_committed")
    assert stable != end_offsets(pipeline.target, COMMIT_TOPIC), "no transaction is open"
    yield worker
    with contextlib.suppress(psutil.NoSuchProcess):
        worker.resume()


def _kill_worker(run: Run, worker: psutil.Process) -> None:
    worker.kill()


def _kill_java(run: Run, worker: psutil.Process) -> None:
    reported = run.reported
    run.java().kill()
    run.expect(
        "note", lambda event: "stopped and is being restarted" in event["text"], since=reported
    )


def _taken_over_with_a_transaction_open(pipeline: Pipeline, first: Run, mode: str) -> Run:
    """A second run starts while all of the first stands still; then the first wakes up.

    It ends, or it shares the pipeline again and is stopped.
    """
    with _open_transaction(pipeline, first):
        _send(first, signal.SIGSTOP)
        second = pipeline.start()
        second.expect("firstrecord")
        pipeline.await_copying()
        _send(first, signal.SIGCONT)
        if mode == "shared":
            expect_owning([first, second], _SLOTS)
            first.signal()
        assert first.wait() == (0 if mode == "shared" else SUPERSEDED), first.tail()
    first.await_gone()
    pipeline.await_copying()
    return second


def _send(run: Run, number: int) -> None:
    for process in run.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _restart_brokers(pair: Pair) -> None:
    """Both clusters are killed and come back."""
    nodes = (pair.source, pair.target)
    for node in nodes:
        node.kill()
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(node.start, START_S) for node in nodes]:
            done.result()
