"""A job on real clusters: begun in a terminal that closes, found, stopped, restarted, fenced."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.commands.watch import Watch
from tests.support.jobs.jobs import all_ended, found
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow
SECRET = "s3cr3t-of-the-job"
# By default they wait for a minute and for ten seconds.
_BEGINS, _ENDS = ("--wait", "300"), ("--timeout", "300")
START, STOP = ("jobs", "start", *_BEGINS), ("jobs", "stop", *_ENDS)
RESTART = ("jobs", "restart", *_BEGINS, *_ENDS)


@pytest.fixture
def pipe(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline with something to copy, and a secret that is in no file."""
    topic = create_topic(source)
    produce(source, topic, [Out(b"v%d" % i) for i in range(1000)])
    (tmp_path / "p").mkdir()
    secret = {"spark.config": {"spark.hadoop.fs.s3a.secret.key": "${env:string:JOB_SECRET}"}}
    made = Pipeline(tmp_path / "p", source, target, [topic], secret)
    with all_ended():
        yield made
    made.close()


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("JOB_SECRET", SECRET)
    return {"JOB_SECRET": SECRET}


def only_job() -> Job:
    (job,) = local_jobs.list_jobs()
    return job


def row(file: Path) -> dict[str, Any]:
    value: dict[str, Any] = k2ktui_json("jobs", "list", "-f", file)["jobs"][0]
    return value


def grows(pipe: Pipeline) -> None:
    pipe.await_more([Out(b"more")] * 100)


def in_a_terminal_that_closes(*arguments: str | Path) -> str:
    """Run a command in a terminal of its own; close it when the command has ended."""
    master, terminal = pty.openpty()
    shell = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-m", "k2ktui", *map(str, arguments)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    said = b""
    while True:
        try:
            said += os.read(master, 65536)
        except OSError:  # the last one who had it open has ended
            break
    os.close(master)
    assert shell.wait(TIMEOUT) == 0, said.decode()
    return said.decode()


def test_from_start_to_stop(
    pipe: Pipeline, env: dict[str, str], source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    file = pipe.write()
    with Watch(tmp_path, [SECRET]) as watch:
        said = in_a_terminal_that_closes(*START, "-f", file)
        for line in ("source cluster", "Java", "Spark", "other runners", "running, pid"):
            assert line in said
        job = only_job()
        assert job.state is JobState.RUNNING
        assert (job.record.term, job.record.slots) == (1, 2)
        grows(pipe)

        # Somebody else, in another process, finds it and sees its heartbeat.
        seen = eventually(lambda: (r := row(file))["heartbeat_at"] and r, "a heartbeat")
        assert (seen["state"], seen["here"], seen["pid"]) == ("running", True, job.record.pid)
        refused = k2ktui(*START, "-f", file, code=5)
        assert f"pid {job.record.pid}" in refused.stderr

        def logged() -> bool:
            lines = k2ktui("jobs", "log", "-f", file, "--json").stdout.splitlines()
            return {"job", "started", "firstrecord"} <= {json.loads(x)["event"] for x in lines}

        eventually(logged, "the log has the first record")
        second = restart(pipe, job)
        start_after_its_death(pipe, second)
        stop_by_a_drill(pipe, source, target)

        # The job is found by its files: what fills them in is not needed to stop it.
        done = k2ktui(*STOP, "-f", file, env={"JOB_SECRET": ""})
        assert "stopped, exit code 0" in done.stdout
        assert watch.looked > 5
    assert watch.shown == set()
    # While Spark starts, its settings are in a file for this user alone.
    assert {path.name for path in watch.stored} <= {"spark.properties"}
    assert k2ktui(*STOP, "-f", file).stdout.startswith(pipe.name)
    pipe.prove(1000)


def restart(pipe: Pipeline, first: Job) -> Job:
    k2ktui(*RESTART, "-f", pipe.write())
    second = only_job()
    assert second.record.pid != first.record.pid
    assert (second.record.term, second.record.starts) == (2, 2)
    assert not first.record.identity.alive
    grows(pipe)
    return second


def start_after_its_death(pipe: Pipeline, job: Job) -> None:
    file = pipe.write()
    os.kill(job.record.pid, signal.SIGKILL)
    eventually(lambda: found(job).state is JobState.DIED, "its death is seen")
    died = row(file)
    assert died["state"] == "died" and not died["alive"]
    # Its last heartbeat is young, but its process is not there: nothing hinders a new start.
    k2ktui(*START, "-f", file)
    grows(pipe)


def stop_by_a_drill(pipe: Pipeline, source: KafkaNode, target: KafkaNode) -> None:
    """A switchover stops it and keeps it from starting; an abort starts it again."""
    file, topic, group = pipe.write(), pipe.topics[0], unique_name("billing")
    commit_offsets(source, group, {(topic, 0): 400})
    quick = ("--frozen", "1", "--wait", "300", "--accept", ",".join(CATALOG), "--groups", group)
    yes = ("--yes-to", "apply,fence-replicator")
    stopped = k2ktui("drill", "planned", "-f", file, *quick, *yes, code=5)
    assert "open-target must be confirmed" in stopped.stderr
    assert not only_job().alive
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): 400}
    refused = k2ktui(*START, "-f", file, "--force", code=None)
    assert "fenced by drill" in refused.stdout + refused.stderr
    (drill,) = k2ktui_json("drill", "list", "-f", file)["drills"]
    k2ktui("drill", "abort", drill["id"], "-f", file)
    assert only_job().alive
    assert committed(target, group, [(topic, 0)]) == {(topic, 0): None}
    grows(pipe)


def test_a_driver_elsewhere_is_taken_over_only_when_asked_and_takes_over_again(
    pipe: Pipeline, env: dict[str, str]
) -> None:
    """The job says that it was fenced."""
    with pipe.start() as foreground:
        foreground.expect("firstrecord")
        file = pipe.write()
        (other,) = eventually(
            lambda: k2ktui_json("jobs", "list", "-f", file)["jobs"], "its heartbeat"
        )
        assert (other["pid"], other["here"]) == (foreground.pid, False)
        refused = k2ktui(*START, "-f", file, "--force", code=5)
        assert "--take-over" in refused.stderr
        assert foreground.running
        k2ktui(*START, "-f", file, "--take-over")
        assert foreground.wait() == 5, "it was fenced"
    assert only_job().alive
    with pipe.start() as other_host:
        other_host.expect("started")
        ended = eventually(
            lambda: (j := only_job()).state is JobState.FAILED and j, "it was fenced"
        )
    assert ended.code == 5
    assert "fenced" in ended.why


def test_a_job_waits_as_a_standby_unless_it_takes_over(pipe: Pipeline, env: dict[str, str]) -> None:
    mode = {"coordination.mode": "standby", "coordination.assignment.graceWindow": "15 seconds"}
    pipe.settings = {**pipe.settings, **mode}
    file = pipe.write()
    with pipe.start() as foreground:
        foreground.expect("firstrecord")
        assert "standby, pid" in k2ktui(*START, "-f", file).stdout
        assert only_job().state is JobState.STANDBY

        def states() -> list[str]:
            return [job["state"] for job in k2ktui_json("jobs", "list", "-f", file)["jobs"]]

        eventually(lambda: states() == ["running", "standby"], "both are shown")
        assert foreground.running and not foreground.events("waiting")
        k2ktui(*RESTART, "-f", file, "--take-over")
        assert only_job().state is JobState.RUNNING
        foreground.expect("waiting")
        since = foreground.reported
        k2ktui(*STOP, "-f", file)
        foreground.expect("started", since=since)
        grows(pipe)


def test_a_job_shares_the_slots_with_a_run(pipe: Pipeline, env: dict[str, str]) -> None:
    mode = {"coordination.mode": "shared", "coordination.assignment.graceWindow": "15 seconds"}
    pipe.settings = {**pipe.settings, **mode}
    file = pipe.write()
    with pipe.start() as foreground:
        foreground.expect("firstrecord")
        k2ktui(*START, "-f", file)

        def is_shared() -> bool:
            rows = k2ktui_json("jobs", "list", "-f", file)["jobs"]
            states = [(job["state"], job["slots"], job["term"]) for job in rows]
            return len(states) == 2 and set(states) == {("running", 1, states[0][2])}

        eventually(is_shared, "one slot each")
        k2ktui(*STOP, "-f", file)
        assert foreground.running
        grows(pipe)
