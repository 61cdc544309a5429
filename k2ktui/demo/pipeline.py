"""The demo's pipeline: an ordinary pipeline file, and the job that runs it.

As a program (``python -m``), this module is the guard process: it ends the demo's jobs when the
demo ends, however it ends. These are all whose pipeline file is beside the demo's: also the reverse
pipeline's, which a user starts to go back after a failover. The guard runs under a supervisor
(``runtime/child_process.py``), which signals it when the demo ends, even if the demo was killed. A
job must not outlive its clusters, whichever console last started it.
"""

from __future__ import annotations

import importlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from k2ktui.demo.topics import SCHEMA_TOPIC, TOPICS
from k2ktui.errors import K2kError
from k2ktui.runtime import child_process
from k2ktui.runtime.paths import write_atomically

if TYPE_CHECKING:
    from k2ktui.jobs.local_jobs import Job

NAME = "demo"
_GRACE_SECONDS = 12.0
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Together they are less than the grace: afterwards the supervisor kills the guard.
_STOP_SECONDS, _KILL_SECONDS = 7.0, 2.0

_YAML = """\
# Written by `k2ktui demo`. An ordinary pipeline file: start, status, check and explain take it
# while the demo runs, for example `k2ktui status -f {path}`.
name: {name}
features:
  exactlyOnce: enabled
  bidirectionalReplication: enabled
  offsetMapping: enabled
  autoCreateControlTopics: enabled
{feature}{mapping}source:
  kafka:
    common:
      bootstrap.servers: {source}
    consumer:
      auto.offset.reset: earliest
{source_registry}target:
  kafka:
    common:
      bootstrap.servers: {target}
{target_registry}topicCreation:
  control:
    common: {{replication: 1}}
replication:
  - source:
      topic: [{topics}]
  - sink:
      topic: source
      partition: source
spark:
  master: "local[2]"
"""


_MAPPING_YAML = f"""\
schemaMapping:
  autoRegister: enabled
  topics:
    - {{pattern: {SCHEMA_TOPIC}, key: disabled}}
    - {{pattern: ".*", key: disabled, value: disabled}}
"""


def write_yaml(
    path: Path, source: str, target: str, *, registries: tuple[str, str] | None = None
) -> str:
    """Write the pipeline between two bootstrap addresses to ``path``, and return its text.

    A reverse pipeline may copy in the other direction: a drill leads there and back. With
    ``registries``, the topic of Avro records is copied too, and its schema ids are mapped.
    """
    names = [topic.name for topic in TOPICS]
    of_source = of_target = mapping = feature = ""
    if registries is not None:
        names.append(SCHEMA_TOPIC)
        feature = "  schemaMapping: enabled\n"
        of_source, of_target = map(_registry_yaml, registries)
        mapping = _MAPPING_YAML
    text = _YAML.format(
        path=path,
        name=NAME,
        source=source,
        target=target,
        topics=", ".join(names),
        feature=feature,
        mapping=mapping,
        source_registry=of_source,
        target_registry=of_target,
    )
    write_atomically(path, text.encode())
    return text


def _registry_yaml(url: str) -> str:
    return f'  registry:\n    config: {{schema.registry.url: "{url}"}}\n'


class DemoPipeline:
    """The pipeline as an ordinary job: stopped, started and followed with the usual commands.

    Unlike an ordinary job, it does not outlive the demo: a guard process (``guard``) ends it
    with the demo, whichever process started it last, and every other job whose file is beside it.

    Args:
        config: the pipeline's file.
        guard_log: log file of the guard process; None if that of another pipeline is enough.

    Raises:
        Refused: it cannot be started.
    """

    def __init__(self, config: Path, guard_log: Path | None = None) -> None:
        # Imported here: they load the replication engine, not needed in the demo's first seconds.
        from k2ktui.config.load import load
        from k2ktui.engine.access import access
        from k2ktui.jobs import manager
        from k2ktui.jobs.job_directory import job_directory

        loaded = load([config]).config
        self._guard: child_process.ChildProcess | None = None
        if guard_log is not None:
            module = ["-P", "-m", "k2ktui.demo.pipeline"]
            command = [sys.executable, *module, str(config.absolute())]
            self._guard = child_process.spawn(command, log_path=guard_log, grace=_GRACE_SECONDS)
        self._place = job_directory(loaded)
        manager.start_job(loaded, [str(config)], access())

    @property
    def log_path(self) -> Path:
        """The job's log."""
        return self._place.log

    def fault(self) -> str:
        """Return why it ended on its own; empty while it runs or if it was stopped on purpose."""
        from k2ktui.jobs.local_jobs import JobState, read_job

        record = self._place.read()
        if record is not None and record.identity.alive:
            return ""  # a cheap answer: this is called every second
        job = read_job(self._place)
        if job is None or job.state not in (JobState.FAILED, JobState.DIED):
            return ""
        return job.why or f"exit code {job.code}"

    def pause(self) -> None:
        """Stop the job, as ``k2ktui jobs stop`` does; it can be started again."""
        from k2ktui.engine.access import access
        from k2ktui.jobs.local_jobs import read_job
        from k2ktui.jobs.manager import stop_job

        job = read_job(self._place)
        if job is not None and job.alive:
            stop_job(job, access())

    def stop(self) -> None:
        """Stop the jobs that its guard process ends, and remove their records."""
        if self._guard is not None:
            self._guard.stop(_GRACE_SECONDS)


def ended_unexpectedly(fault: str, again: str = "Start over with: k2ktui demo --fresh") -> K2kError:
    """Return the error of a demo whose pipeline ended on its own.

    Args:
        fault: why.
        again: the hint.
    """
    return K2kError(
        f"The pipeline ended unexpectedly: {fault}",
        unchanged="The clusters were stopped too; their data and logs are kept.",
        hint=again,
    )


def guard(config: Path) -> None:
    """Wait for a signal, then end the jobs of the pipelines of a directory, and forget them.

    Args:
        config: a pipeline file in that directory.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    # Import before the signal: afterwards time is short, and the files may be gone.
    importlib.import_module("k2ktui.jobs.manager")

    signal.sigwait(_ENDING)
    end_jobs(config.parent)


def end_jobs(directory: Path) -> None:
    """End the jobs of the pipelines of a directory, and forget them.

    A tour may just start one: jobs are listed again until none runs. Those that are left after
    seven seconds are killed. The bound is that of the supervisor, which kills the guard.
    """
    from k2ktui.engine.access import access
    from k2ktui.jobs.local_jobs import list_jobs
    from k2ktui.jobs.manager import StopMode, forget_job, stop_job

    allowed, until = access(), monotonic() + _STOP_SECONDS

    def end(job: Job) -> None:
        left = max(0.0, until - monotonic())
        if job.alive and stop_job(job, allowed, timeout=left).alive:
            stop_job(job, allowed, StopMode.KILL, _KILL_SECONDS)
        forget_job(job)

    runs = True
    while runs:
        own = [job for job in list_jobs() if directory in _directories(job)]
        runs = any(job.alive for job in own)
        with ThreadPoolExecutor(max(1, len(own))) as pool:
            list(pool.map(end, own))


def _directories(job: Job) -> set[Path]:
    return {Path(file).parent for file in job.record.files}


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
