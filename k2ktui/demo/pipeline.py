"""The demo's pipeline: an ordinary pipeline file, and the job that runs it.

A guard process ends the demo's jobs when the demo ends, however it ends. These are all whose
pipeline file is beside the demo's: also the reverse pipeline's, which a user starts to go back
after a failover. The guard runs under a supervisor (``runtime/child_process.py``), which signals it
when the demo ends, even if the demo was killed. A job must not outlive its clusters, whichever
console last started it.
"""

from __future__ import annotations

import queue
import signal
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from k2ktui.config.load import load
from k2ktui.demo.topics import SCHEMA_TOPIC, TOPICS
from k2ktui.engine.access import access
from k2ktui.errors import K2kError
from k2ktui.jobs import manager
from k2ktui.jobs.local_jobs import Job, JobState, list_jobs, read_job
from k2ktui.runtime import child_process
from k2ktui.runtime.paths import write_atomically

if TYPE_CHECKING:
    from k2ktui.watch.model import View

NAME = "demo"
_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 12.0
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A signal that comes while its modules are loaded must not end it.
_GUARD = """
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
from k2ktui.demo.pipeline import guard
guard(pathlib.Path(sys.argv[1]))
"""
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
    blocks = dict.fromkeys(("feature", "mapping", "source_registry", "target_registry"), "")
    if registries is not None:
        names.append(SCHEMA_TOPIC)
        blocks = {"feature": "  schemaMapping: enabled\n", "mapping": _MAPPING_YAML}
        for side, url in zip(("source", "target"), registries, strict=True):
            registry = f'  registry:\n    config: {{schema.registry.url: "{url}"}}\n'
            blocks[f"{side}_registry"] = registry
    topics = ", ".join(names)
    addresses = {"source": source, "target": target}
    text = _YAML.format(path=path, name=NAME, topics=topics, **addresses, **blocks)
    write_atomically(path, text.encode())
    return text


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
        self._guard: child_process.ChildProcess | None = None
        if guard_log is not None:
            command = [sys.executable, "-P", "-c", _GUARD, str(config.absolute().parent)]
            self._guard = child_process.spawn(command, log_path=guard_log, grace=_GRACE_SECONDS)
        self._job = manager.start_job(load([config]).config, [str(config)], access())

    @property
    def log_path(self) -> Path:
        """The job's log."""
        return self._job.place.log

    def fault(self) -> str:
        """Return why it ended on its own; empty while it runs or if it was stopped on purpose."""
        job = read_job(self._job.place)
        if job is None or job.state not in (JobState.FAILED, JobState.DIED):
            return ""
        return f"the pipeline ended unexpectedly: {job.why or f'exit code {job.code}'}"

    def pause(self) -> None:
        """Stop the job, as ``k2ktui jobs stop`` does; it can be started again."""
        # Others may have started it again.
        manager.stop_job(read_job(self._job.place) or self._job, access())

    def stop(self) -> None:
        """Stop the jobs that its guard process ends, and remove their records."""
        if self._guard is not None:
            self._guard.stop(_GRACE_SECONDS)


def views(
    config: Path,
    compare: Path | None,
    fault: Callable[[], str],
    interval: float,
    again: str = "Start over with: k2ktui demo --fresh",
) -> Generator[View | None, None, None]:
    """Yield views of the pipeline as they are made, and None in each second without one.

    A view of clusters that were not read yet is left out.

    Args:
        config: the pipeline's file.
        compare: properties file of the MirrorMaker 2 beside it, if there is one.
        fault: why the pipeline has ended on its own, "" if it has not.
        interval: seconds between polls.
        again: how to start over.

    Raises:
        K2kError: the pipeline has ended on its own.
    """
    # Imported here: the guard process does without.
    from k2ktui.mm2.mirror_flow import load_mirror
    from k2ktui.sync.flow import Flow
    from k2ktui.watch import poller
    from k2ktui.watch.model import PartName

    mirror = load_mirror(str(compare))[0] if compare else None
    feed = poller.open_poller(Flow(load([config]).config), interval, mirror)
    seen: queue.SimpleQueue[View] = queue.SimpleQueue()
    feed.start(seen.put)
    try:
        while True:
            if why := fault():
                raise K2kError(
                    f"{why[0].upper()}{why[1:]}",
                    unchanged="The clusters were stopped too; their data and logs are kept.",
                    hint=again,
                )
            try:
                view = seen.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                yield None
                continue
            sides = view.part(PartName.SOURCE), view.part(PartName.TARGET)
            if any(side.error for side in sides) or all(side.taken_at for side in sides):
                yield view
    finally:
        feed.close()


def guard(directory: Path) -> None:
    """Wait for a signal, which this process blocks, then end the jobs of a directory."""
    signal.sigwait(_ENDING)
    end_jobs(directory)


def end_jobs(directory: Path) -> None:
    """End the jobs of the pipelines of a directory, and forget them.

    A tour may just start one: jobs are listed again until none runs. Those that are left after
    seven seconds are killed. The bound is that of the supervisor, which kills the guard.
    """
    until = monotonic() + _STOP_SECONDS

    def end(job: Job) -> None:
        left = max(0.0, until - monotonic())
        if job.alive and manager.stop_job(job, access(), timeout=left).alive:
            manager.stop_job(job, access(), manager.StopMode.KILL, _KILL_SECONDS)
        manager.forget_job(job)

    runs = True
    while runs:
        own = [job for job in list_jobs() if directory in map(_directory, job.record.files)]
        runs = any(job.alive for job in own)
        with ThreadPoolExecutor(max(1, len(own))) as pool:
            list(pool.map(end, own))


def _directory(file: str) -> Path:
    return Path(file).parent
