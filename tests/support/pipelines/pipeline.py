"""``k2ktui start`` as an operator runs it: a pipeline file, a process, its output, its end.

A run and everything it starts carry a mark in their environment, so that a test can find what a
``kill -9`` left behind, and end it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import psutil
import yaml
from confluent_kafka import KafkaException

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, end_offsets, ends_of, eventually, produce, unique_name
from tests.support.oracle.judge import COMMIT_TOPIC, Proof, prove, read_ledger

_MARK = "K2KTUI_TEST_RUN"
_CRASH_DIR = "K2KTUI_CRASH_DIR"
_PDEATHSIG = 1
START_TIMEOUT = 300.0
RUN_TIMEOUT = 400.0
STOP_TIMEOUT = 180.0
STARTS = 3

Event = dict[str, Any]


@dataclass
class Pipeline:
    """A pipeline between two clusters; :meth:`start` runs it, as often as a test wants.

    Args:
        directory: for its file and its output.
        source: the source cluster.
        target: the target cluster.
        topics: what to copy: names, or a pattern.
        settings: dotted YAML keys over :data:`_DEFAULTS`, for example
            ``{"features.exactlyOnce": "disabled"}``.
        name: its name and commit group.
        prefixes: what the values of its traffic begin with, see ``Traffic``.

    Attributes:
        mode: ``coordination.mode``, if a test sets another one than is usual for its class.
        waits_briefly: whether its runs soon try again what was refused, see ``brief.py``.
    """

    directory: Path
    source: KafkaNode
    target: KafkaNode
    topics: list[str] | str
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: unique_name("pipe"))
    prefixes: Sequence[bytes] = ()
    runs: list[Run] = field(default_factory=list, init=False)
    mode: str = field(default="", init=False)
    waits_briefly: bool = field(default=False, init=False)
    # One driver for all slots; shared_pipelines and most proofs have the default.
    usual_mode: ClassVar[str] = "exclusive"

    def write(self) -> Path:
        """Write the file and return its path."""
        tree: dict[str, Any] = {}
        for key, value in (self._defaults() | dict(self.settings)).items():
            *sections, last = _path(key)
            inner = tree
            for section in sections:
                inner = inner.setdefault(section, {})
            inner[last] = value
        entries = tree["replication"]
        order = ("source", "headers", "transform", "sink")
        tree["replication"] = [{key: entries[key]} for key in order if key in entries]
        path = self.directory / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
        return path

    def start(self, *options: str, env: Mapping[str, str] | None = None) -> Run:
        """Start a run.

        Args:
            options: of the command line, for example ``--until-caught-up``.
            env: more environment variables.
        """
        self._steps.mkdir(exist_ok=True)
        log = self.directory / f"{self.name}-{len(self.runs)}"
        program = "tests.support.pipelines.brief" if self.waits_briefly else "k2ktui"
        env = {_CRASH_DIR: str(self._steps), **(env or {})}
        run = Run(self.write(), log, options, env, program)
        self.runs.append(run)
        return run

    def arm(self, step: str, number: int = signal.SIGKILL) -> None:
        """Let a signal hit the process that gets to a step, see copying.crashpoints."""
        self._steps.mkdir(exist_ok=True)
        armed = self._steps / f".{step}"
        armed.write_text(f"{int(number)}")
        armed.rename(self._steps / step)

    def await_hit(self, step: str, timeout: float = START_TIMEOUT) -> None:
        """Wait until the signal has hit a process at the step."""
        file = self._steps / step
        eventually(lambda: not file.exists(), f"hit at {step}", timeout)

    def suspend_at(self, step: str, run: Run) -> psutil.Process:
        """Suspend the process of a run that gets to a step, and return it."""
        self.arm(step, signal.SIGSTOP)
        self.await_hit(step)
        suspended: list[psutil.Process] = eventually(run.suspended, f"suspended at {step}")
        (process,) = suspended
        return process

    @property
    def steps_on_executors(self) -> dict[str, str]:
        """What ``spark.config`` needs for :meth:`arm` to reach executors on this machine."""
        return {f"spark.executorEnv.{_CRASH_DIR}": str(self._steps)}

    @property
    def _steps(self) -> Path:
        return self.directory / "crash"

    def catch_up(self, code: int = 0, timeout: float = RUN_TIMEOUT) -> Run:
        """Run until caught up, and expect that exit code.

        A start that clusters do not answer in time has written nothing, and is repeated: on a busy
        machine brokers stand still for longer than it waits.
        """
        for _ in range(STARTS):
            with self.start("--until-caught-up") as run:
                run.wait(timeout)
            if run.code != ExitCode.TIMEOUT or code == ExitCode.TIMEOUT or run.events("started"):
                break
        assert run.code == code, f"exit code {run.code}:\n{run.tail()}"
        return run

    def end(self, run: Run, timeout: float = RUN_TIMEOUT) -> None:
        """Let a run copy all that the source holds, and stop it.

        A test whose subject is the next start has :meth:`catch_up`, which is one.
        """
        topics = self.topics
        assert isinstance(topics, list)
        eventually(
            lambda: run.running and self.is_caught_up(*topics),
            lambda: f"all is copied\n{run.tail()}",
            timeout,
        )
        assert run.stop() == 0, run.tail()
        run.await_gone()

    def await_copying(self, timeout: float = START_TIMEOUT) -> None:
        """Wait until more is visible on the target than there is now."""
        before: dict[int, int] = {}
        mapping = self.settings.get("replication.sink.topic")
        chosen = mapping.get("topics") if isinstance(mapping, Mapping) else None
        topic = (chosen or self.topics)[0]

        def grown() -> bool:
            nonlocal before
            with contextlib.suppress(KafkaException):  # a broker may be restarting
                ends = end_offsets(self.target, topic, "read_committed")
                before = before or ends
                return ends != before
            return False

        def what() -> str:
            return "\n".join((f"{topic} grows on the target", *(run.tail(8) for run in self.runs)))

        eventually(grown, what, timeout)

    def await_more(self, outs: Sequence[Out], timeout: float = START_TIMEOUT) -> None:
        """Write records to the first topic, and wait until some are visible on the target."""
        topic = self.topics[0]
        before = end_offsets(self.target, topic, "read_committed")
        produce(self.source, topic, outs)
        eventually(
            lambda: end_offsets(self.target, topic, "read_committed") != before,
            f"{topic} grows on the target",
            timeout,
        )

    def is_caught_up(self, *topics: str) -> bool:
        """Return whether the positions of topics stand at their last stable offsets.

        A partition that never had a record has no position.
        """
        commits = self.commit_topic
        positions = read_ledger(self.target, self.name, commits, mapping_topic="").positions
        return all(
            positions.get(at, {}).get("offset", 0) == end
            for at, end in ends_of(self.source, topics, "read_committed").items()
        )

    def prove(self, least: int = 1) -> Proof:
        """Let the oracle compare all topics, and at least so many records."""
        topic = self.commit_topic
        proof = prove(self.source, self.target, self.name, *self.topics, commit_topic=topic)
        assert proof.records >= least
        return proof

    @property
    def commit_topic(self) -> str:
        """Where its positions are."""
        return str(self.settings.get("coordination.commit.topic", COMMIT_TOPIC))

    def close(self) -> None:
        """End what still runs."""
        for run in self.runs:
            run.close()

    def _defaults(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "features.autoCreateControlTopics": "enabled",
            "source.kafka.common": {"bootstrap.servers": self.source.bootstrap},
            "target.kafka.common": {"bootstrap.servers": self.target.bootstrap},
            "topicCreation.control.common": {"replication": 1},
            "coordination.mode": self.mode or self.usual_mode,
            "replication.source.topic": self.topics,
            "replication.sink.topic": "source",
            "replication.sink.partition": "source",
            "spark.master": "local[2]",
            "spark.slots": 2,
            "spark.lap": "2 seconds",
        }


def catch_up_together(*pipelines: Pipeline) -> list[Run]:
    """Run pipelines at the same time until each has caught up, and return the runs."""
    with ThreadPoolExecutor(len(pipelines)) as pool:
        return list(pool.map(Pipeline.catch_up, pipelines))


class Run:
    """One ``k2ktui start --log-format json``; leaving the ``with`` block kills what is left.

    Args:
        program: the module that is run.

    Attributes:
        pid: of the driver.
        code: the exit code once :meth:`wait` returned; minus the signal that ended it.
    """

    def __init__(
        self,
        file: Path,
        log: Path,
        options: tuple[str, ...],
        env: dict[str, str],
        program: str = "k2ktui",
    ) -> None:
        self._mark = uuid.uuid4().hex
        self.out = log.with_suffix(".out")
        self.err = log.with_suffix(".err")
        command = [sys.executable, "-m", program, "start", "-f", str(file), *options]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._process = subprocess.Popen(
                [*command, "--log-format", "json"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **env, _MARK: self._mark},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self.pid = self._process.pid
        self.code: int | None = None

    def events(self, kind: str = "") -> list[Event]:
        """Return the events so far, or those of one kind (``progress``, ``stopped``, …)."""
        data = self.out.read_bytes()  # of which the last line, or character, may not be whole
        whole = data[: data.rfind(b"\n") + 1]
        entries = [json.loads(line) for line in whole.splitlines()]
        return [event for event in entries if kind in ("", event["event"])]

    @property
    def reported(self) -> int:
        """How many events it has reported so far, for ``expect(since=…)``."""
        return len(self.events())

    def expect(
        self,
        kind: str,
        test: Callable[[Event], object] = lambda event: True,
        timeout: float = START_TIMEOUT,
        since: int = 0,
    ) -> Event:
        """Wait for an event that passes ``test``, and return it; not one of the first ``since``."""

        def found() -> Event | None:
            ended = self._process.poll() is not None
            new = [event for event in self.events()[since:] if event["event"] == kind]
            match = next((event for event in new if test(event)), None)
            assert match or not ended, f"ended with {self._process.poll()}:\n{self.tail()}"
            return match

        event: Event = eventually(found, lambda: f"{kind}\n{self.tail()}", timeout)
        return event

    def wait(self, timeout: float = RUN_TIMEOUT) -> int:
        """Wait for the end and return the exit code."""
        try:
            self.code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout:g} s:\n{self.tail()}") from None
        return self.code

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send the driver a signal."""
        os.kill(self.pid, number)

    def stop(self, timeout: float = STOP_TIMEOUT) -> int:
        """SIGTERM, and wait."""
        self.signal()
        return self.wait(timeout)

    @property
    def running(self) -> bool:
        """Whether the driver exists."""
        return self._process.poll() is None

    def processes(self) -> list[psutil.Process]:
        """Return all processes of this run that exist, the driver's own among them."""
        return list(_marked(self._mark))

    def java(self) -> psutil.Process:
        """Return Spark's Java process."""
        (process,) = self._processes_that(lambda process: "java" in process.name())
        return process

    def suspended(self) -> list[psutil.Process]:
        """Return its processes that are suspended."""
        return self._processes_that(lambda process: process.status() == psutil.STATUS_STOPPED)

    def _processes_that(self, test: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
        """Return its processes that pass a test; workers may end before they are asked."""
        passed = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if test(process):
                    passed.append(process)
        return passed

    def workers(self) -> list[psutil.Process]:
        """Return Spark's Python workers: those that run tasks, not the daemon that forks them."""
        names = (
            "pyspark.daemon",
            "k2ktui.replication.spark.copy_daemon",
            "k2ktui.replication.spark.transform_daemon",
        )
        daemons = self._processes_that(lambda p: any(name in _command(p) for name in names))
        pids = {p.pid for p in daemons}
        return self._processes_that(lambda p: p.pid in pids and p.ppid() in pids)

    def await_gone(self, timeout: float = STOP_TIMEOUT) -> None:
        """Wait until nothing of this run exists any more."""
        eventually(lambda: not self.processes(), f"gone: {self.processes()}", timeout)

    def tail(self, lines: int = 25) -> str:
        """Return the last of its output, and of its errors."""
        texts = [path.read_text(errors="replace").splitlines() for path in (self.out, self.err)]
        return "\n".join(line for text in texts for line in text[-lines:])

    def close(self) -> None:
        """Kill whatever is left of this run."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(STOP_TIMEOUT)
        deadline = time.monotonic() + STOP_TIMEOUT
        while left := self.processes():
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            assert time.monotonic() < deadline, f"cannot be killed: {left}"
            psutil.wait_procs(left, timeout=1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _path(key: str) -> list[str]:
    """Split a dotted key; what Java calls a property keeps its dots (``a.b[c.d]``)."""
    plain, _, last = key.partition("[")
    return [*re.split(r"\.", plain), *([last.rstrip("]")] if last else [])]


def _die_with_parent() -> None:
    # A test run that is killed takes the driver with it, and Spark ends with the driver.
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
