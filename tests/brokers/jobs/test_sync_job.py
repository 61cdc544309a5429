"""``k2ktui sync`` as a job, beside the one that copies: started, seen everywhere, stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.engine.moves.journal import RunKind
from k2ktui.jobs import local_jobs, manager
from k2ktui.jobs.job_directory import JobDirectory
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.runners import read_runners
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.brokers.sync.test_races import member
from tests.spark.sync.test_mapping_application import Mapper
from tests.support.clusters.kafka import create_topic, eventually, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.jobs.jobs import MAY, all_ended, begin, silent_port, write_pipeline
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

PRIOR = 7


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[Copied]:
    with all_ended():
        yield Copied(tmp_path, source, target, prior=PRIOR)


@pytest.fixture
def topic(copied: Copied) -> str:
    name = create_topic(copied.source)
    produce(copied.source, name, [b"%d" % n for n in range(50)])
    copied.copy(name)
    copied.put_run()
    return name


def only_job() -> Job:
    (job,) = local_jobs.list_jobs()
    return job


@pytest.mark.slow
def test_from_start_to_stop(copied: Copied, topic: str) -> None:
    file, group, where = copied.file, copied.group("g"), (topic, 0)
    commit_offsets(copied.source, group, {where: 10})
    said = k2ktui("jobs", "start", "--sync", "-f", file)
    assert "running, pid" in said.stdout and "Java" not in said.stderr
    job = only_job()
    assert (job.record.kind, job.state) == (RunKind.SYNC, "running")
    assert committed(copied.target, group, [where]) == {where: 10 + PRIOR}
    commit_offsets(copied.source, group, {where: 20})
    eventually(lambda: committed(copied.target, group, [where])[where] == 20 + PRIOR, "follows")

    def seen() -> bool:
        (row,) = k2ktui_json("jobs", "list", "-f", file)["jobs"]
        assert (row["kind"], row["state"], row["pid"]) == ("sync", "running", job.record.pid)
        return bool(row["heartbeat_at"])

    eventually(seen, "a heartbeat")
    assert "sync running on" in k2ktui("watch", "-f", file, "--once").stdout
    # The pipeline itself does not run: it may be started, and its positions moved.
    assert [runner.kind for runner in read_runners(copied.config)] == [RunKind.SYNC]
    store = StateStore(copied.config, copied.cluster)
    assert store.read().alive(0) == []
    assert (
        "already running on this host"
        in k2ktui("jobs", "start", "--sync", "-f", file, code=5).stderr
    )
    assert "--sync" in k2ktui("jobs", "stop", "-f", file, code=5).stderr

    said = k2ktui("jobs", "stop", "--sync", "-f", file)
    assert "stopped, exit code 0" in said.stdout
    log = k2ktui("jobs", "log", "--sync", "-f", file).stdout
    assert "1 group: 1 create; 1 committed" in log and "1 advance; 1 committed" in log
    assert "job none has run yet; sync stopped on" in k2ktui("watch", "-f", file, "--once").stdout


@pytest.mark.slow
def test_the_mapping_applications_file(copied: Copied, topic: str) -> None:
    """Restarted with what it was started with; a condition that stops it is its error."""
    file, group, where = Mapper(copied).file, copied.group("g"), (topic, 0)
    commit_offsets(copied.source, group, {where: 10})
    k2ktui("jobs", "start", "--sync", "--rewind", "follow", "-f", file)
    assert committed(copied.target, group, [where]) == {where: 10 + PRIOR}
    k2ktui("jobs", "restart", "--sync", "-f", file)
    assert (only_job().record.rewind, only_job().record.starts) == ("follow", 2)
    commit_offsets(copied.source, group, {where: 5})
    eventually(lambda: committed(copied.target, group, [where])[where] == 5 + PRIOR, "rewinds")
    k2ktui("jobs", "stop", "--sync", "-f", file)
    commit_offsets(copied.source, group, {where: 12})
    with member(copied.target, group, topic, "classic"):
        said = k2ktui("jobs", "start", "--sync", "-f", file, code=1)
    assert "1 group in use on the target" in said.stdout


@pytest.mark.slow
def test_it_waits_for_the_first_run_of_a_pipeline(copied: Copied, topic: str) -> None:
    copied.mappings = copied.mappings + "_gone"
    file = Mapper(copied).file
    assert "running, pid" in k2ktui("jobs", "start", "--sync", "-f", file).stdout
    log = k2ktui("jobs", "log", "--sync", "-f", file).stdout
    assert log.count("no pipeline is known to copy") == log.count("; waiting") == 1
    assert "exit code 0" in k2ktui("jobs", "stop", "--sync", "-f", file).stdout


def test_rewind_is_for_sync_only(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "p.yaml", 1)
    printed = k2ktui("jobs", "start", "--rewind", "follow", "-f", file, code=2).stderr
    assert "--rewind needs --sync" in printed


def test_records_of_an_earlier_release_are_of_jobs_that_copy(tmp_path: Path) -> None:
    with silent_port() as port, all_ended():
        job = begin(write_pipeline(tmp_path / "p.yaml", port))
        manager.stop_job(job, MAY, manager.StopMode.KILL)
    path = job.place.directory / "job.json"
    value = json.loads(path.read_text())
    del value["kind"], value["rewind"]
    path.write_text(json.dumps(value))
    record = JobDirectory(job.place.directory).read()
    assert record is not None and record.kind is RunKind.COPY
