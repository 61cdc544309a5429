"""A demo stops its jobs, also one that was started meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2ktui.demo import pipeline
from k2ktui.demo.pipeline import DemoPipeline, end_jobs, write_yaml
from k2ktui.jobs import local_jobs, manager
from k2ktui.jobs.local_jobs import Job
from tests.support.jobs.fixtures import state
from tests.support.jobs.jobs import all_ended, begin, silent_port, write_pipeline

__all__ = ["state"]


@pytest.mark.slow
def test_a_job_that_starts_while_others_end_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a terminal closes while a tour starts the reverse pipeline's job."""
    stop_job, started = manager.stop_job, list[Job]()

    def stop(job: Job, *given: Any, **options: Any) -> Job:
        if not started:
            started.append(begin(reverse))
        return stop_job(job, *given, **options)

    monkeypatch.setattr(manager, "stop_job", stop)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with silent_port() as port, all_ended():
        reverse = write_pipeline(tmp_path / "reverse.yaml", port, "reverse")
        begin(write_pipeline(tmp_path / "pipeline.yaml", port, "demo"))
        other = begin(write_pipeline(elsewhere / "pipeline.yaml", port, "other"))

        end_jobs(tmp_path)

        assert [job.record.pid for job in local_jobs.list_jobs()] == [other.record.pid]
        (job,) = started
        assert not job.record.identity.alive


def test_a_job_that_was_started_again_is_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_yaml(tmp_path / "pipeline.yaml", "source:1", "target:1")
    first, again, stopped = SimpleNamespace(place=None), SimpleNamespace(), list[Any]()
    monkeypatch.setattr(manager, "start_job", lambda *_: first)
    monkeypatch.setattr(manager, "stop_job", lambda job, *_: stopped.append(job))
    monkeypatch.setattr(pipeline, "read_job", lambda _: again)
    DemoPipeline(tmp_path / "pipeline.yaml").pause()
    assert stopped == [again]
