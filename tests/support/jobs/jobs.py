"""Jobs in tests: files of pipelines whose clusters do not answer, and nothing left running."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import yaml

from k2ktui.config.load import load
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import access
from k2ktui.jobs import local_jobs, manager
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.process import ProcessIdentity
from tests.support.clusters.kafka import eventually

MAY = access()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port that takes connections and never says a word: a job there waits for long."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def write_pipeline(path: Path, port: int, name: str = "orders", **more: object) -> Path:
    """Write a pipeline whose clusters are at a port."""
    cluster = {"kafka": {"common": {"bootstrap.servers": f"127.0.0.1:{port}"}}}
    tree = {
        "name": name,
        "source": cluster,
        "target": cluster,
        "replication": [{"source": {"topic": ["t"]}}, {"sink": {"topic": "source"}}],
        "spark": {"master": "local[1]"},
        **more,
    }
    path.write_text(yaml.safe_dump(tree))
    return path


def config_of(path: Path) -> PipelineConfig:
    """Load a pipeline."""
    return load([path]).config


def begin(path: Path) -> Job:
    """Start a job."""
    return manager.start_job(config_of(path), [str(path)], MAY)


def handles(job: Job, number: signal.Signals) -> bool:
    """Whether the job's process has a handler for a signal, which otherwise may kill it."""
    fields = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{job.record.pid}/status").read_text().splitlines()
    )
    return bool(int(fields["SigCgt"], 16) >> (number - 1) & 1)


def found(job: Job) -> Job:
    """Return the job as it is now."""
    now = local_jobs.read_job(job.place)
    assert now is not None
    return now


@contextlib.contextmanager
def all_ended() -> Iterator[None]:
    """Kill at the end whatever job of this test's state directory still runs."""
    try:
        yield
    finally:
        for job in local_jobs.list_jobs():
            family = _family(job.record.pid) if job.alive else []
            job.record.identity.signal(signal.SIGKILL)
            for process in family:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            _await_end(job.record.identity)


def _await_end(identity: ProcessIdentity) -> None:
    eventually(lambda: not identity.alive, "the job is gone")


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []
