"""Screen 5 on real clusters: the job that moves groups, by keyboard alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.console.driver import ConsoleDriver, drive_session, file_session
from tests.support.jobs.jobs import all_ended
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow


def runs_again(first: Job) -> bool:
    """Whether the only job was started a second time; at first, its process is not known."""
    (job,) = local_jobs.list_jobs()
    return job.record.starts == 2 and job.record.pid not in (0, first.record.pid)


def test_sync_started_and_stopped(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And restarted. Jobs and the Overview show it; the pipeline itself counts as not running."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    copied = Copied(tmp_path, source, target)
    topic, group = create_topic(source), copied.group("g")
    produce(source, topic, [Out(b"v%d" % i) for i in range(50)])
    copied.copy(topic)
    commit_offsets(source, group, {(topic, 0): 10})

    async def steps(console: ConsoleDriver) -> None:
        await console.press("Y")
        await console.sees("k2ktui sync for", "pass target cluster", f"type {copied.name} to")
        await console.confirm(copied.name)
        await console.sees("runs as pid", "sync running on this host", "1 committed")
        (first,) = local_jobs.list_jobs()
        await console.press("R")
        await console.sees(f"Stops pid {first.record.pid}", f"type {copied.name} to")
        await console.confirm(copied.name)
        await console.until(partial(runs_again, first), "restarted")
        (second,) = local_jobs.list_jobs()
        assert second.record.pid != first.record.pid and not first.record.identity.alive
        await console.sees(f"pid {second.record.pid}", "sync running on this host")
        await console.press("1")
        await console.sees("Sync ", "heartbeat")
        await console.press("5", "X")
        await console.sees("No group is translated until")
        await console.confirm(copied.name)
        await console.sees("has stopped", "no run is alive")

    with all_ended():
        drive_session(file_session(copied.file), steps, screen="5")
    (job,) = local_jobs.list_jobs()
    assert (job.state, job.code, job.record.kind) == (JobState.STOPPED, 0, "sync")
    where = (topic, 0)
    assert committed(target, group, [where]) == {where: 10 + copied.prior}
