"""A running demo: the signals that end it, how others find it, and what they request of it.

A demo whose terminal was closed keeps running, so that its user can reconnect. It ends an hour
after its last console: three abandoned Java processes must not run forever.

A request is one file, its answer another one. The demo's process looks for requests a few times a
second, and answers one after the other. A drill waits until its operator has stopped applications,
or started them on the other cluster; those of the demo run in its process.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from k2ktui.console import terminal
from k2ktui.engine.strict_json import parse_object
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.faults import fault
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase
from k2ktui.jobs.process import this_process
from k2ktui.runtime.paths import state_dir, state_path, unwritable_state, write_atomically
from k2ktui.text import counted

if TYPE_CHECKING:
    from k2ktui.console.session import DemoStep
    from k2ktui.demo.applications import Applications
    from k2ktui.runtime.node import KafkaNode

STAY_S = 3600.0
_WAITING, _REQUESTS = "waiting", "requests"
_TICK_S = 0.5
_END_S = 60.0
_REQUEST, _ANSWER = ".request", ".answer"
_LOOK_S = 0.2
# A cluster that starts may take a minute.
_ANSWER_S = 120.0
_STOP_S = 1.0
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo_place() -> JobDirectory:
    """Return the directory of this user's demo, which may not exist.

    It has the record and the lock of a job, which the demo is not: ``k2ktui jobs`` knows its
    pipelines.
    """
    return JobDirectory(state_path("demo"))


class DemoEnded(BaseException):
    """The user, the terminal or the system asked the demo to end.

    Not an Exception, so that no handler in between treats it as an error.
    """

    INTERRUPT = int(signal.SIGINT)
    HANG_UP = int(signal.SIGHUP)

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        number = signal.Signals(self.number)
        words = {signal.SIGINT: "Ctrl-C", signal.SIGHUP: "the closed terminal"}
        return words.get(number, number.name)


@contextlib.contextmanager
def ending_signals() -> Iterator[Callable[[], None]]:
    """Within the context, the first such signal raises :class:`DemoEnded`; a later SIGINT exits.

    An immediate exit leaves no process behind either: the supervisors notice it. Yields what says
    that the demo ends: from then on, the first signal does not raise.
    """
    seen: list[int] = []
    ends = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            # A hang-up is often followed by a second signal; only a repeated Ctrl-C forces the
            # exit.
            if number == signal.SIGINT:
                os._exit(130)
            return
        seen.append(number)
        if not ends.is_set():
            raise DemoEnded(number)

    before = {number: signal.signal(number, handle) for number in _NUMBERS}
    try:
        yield ends.set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def announce(config: Path) -> Iterator[None]:
    """Within the context, make this demo discoverable by :func:`find_demo`."""
    # Imported here, as below: a command that only asks does without.
    from k2ktui.config.load import load
    from k2ktui.jobs.manager import new_record

    place, me = demo_place(), this_process()
    _forget()  # a demo that was killed
    record = new_record(place, load([config]).config, (str(config),), "", telemetry=False)
    record = replace(record, pid=me.pid, birth=me.birth, phase=Phase.RUNNING)
    place.write(record)
    try:
        yield
    finally:
        with contextlib.suppress(Refused):  # a full disk must not keep anything running
            place.write(replace(record, phase=Phase.ENDED, ended_at=time.time()))
        _forget()


def _forget() -> None:
    """Remove the marks that a demo waits, and takes requests."""
    directory = demo_place().directory
    (directory / _WAITING).unlink(missing_ok=True)
    shutil.rmtree(directory / _REQUESTS, ignore_errors=True)


def find_demo() -> JobRecord | None:
    """Return the record of the running demo; None if there is none, or it is ending."""
    record = demo_place().read()
    runs = record is not None and record.phase is Phase.RUNNING and record.identity.alive
    return record if runs else None


def is_waiting() -> bool:
    """Return whether the running demo has no terminal."""
    return (demo_place().directory / _WAITING).exists()


def stay(seconds: float = STAY_S) -> None:
    """Wait without a terminal until a signal ends the demo or no user reconnects in time."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    terminal.forget()
    waiting = demo_place().directory / _WAITING
    waiting.touch()
    while time.time() - waiting.stat().st_mtime < seconds:
        time.sleep(_TICK_S)


def keep_waiting() -> None:
    """Restart the demo's waiting time: a console is open on it, or was closed just now."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(demo_place().directory / _WAITING)


def end() -> bool:
    """End the running demo and wait until its process is gone; return whether there was one.

    One that is ending is only waited for.

    Raises:
        TimedOut: it still runs.
    """
    record = demo_place().read()
    if record is None or not record.identity.alive:
        return False
    if record.phase is Phase.RUNNING:
        record.identity.signal(signal.SIGTERM)
    until = time.monotonic() + _END_S
    while record.identity.alive:
        if time.monotonic() > until:
            raise TimedOut(f"the demo, pid {record.pid}, has not stopped within {_END_S:g} s")
        time.sleep(_TICK_S)
    return True


class DemoAction(StrEnum):
    """An action, as named on the command line."""

    SHOW = "show"
    STOP_PRODUCERS = "stop-producers"
    STOP_CONSUMERS = "stop-consumers"
    STOP_TARGET_CONSUMERS = "stop-target-consumers"
    START_ON_TARGET = "start-on-target"
    START_ON_SOURCE = "start-on-source"
    KILL_SOURCE = "kill-source"
    START_SOURCE = "start-source"


# Title and effect, in the order of a drill there and back.
ACTION_TEXTS: Mapping[DemoAction, tuple[str, str]] = {
    DemoAction.SHOW: ("show what runs", "Changes nothing."),
    DemoAction.STOP_PRODUCERS: (
        "stop the producers",
        "A switchover waits for this in phase fence-producers.",
    ),
    DemoAction.STOP_CONSUMERS: (
        "stop all consumers",
        "They commit and leave their groups. A switchover waits for this in phase stop-consumers.",
    ),
    DemoAction.STOP_TARGET_CONSUMERS: (
        "stop the consumers on the target",
        "billing was moved there too early: check D20 stops a switchover because of it.",
    ),
    DemoAction.START_ON_TARGET: (
        "start producers and consumers on the target",
        "Those that still run are stopped. A failover waits for this in phase watch-clients.",
    ),
    DemoAction.START_ON_SOURCE: (
        "start producers and consumers on the source",
        "Those that still run are stopped. A failback waits for this in phase watch-clients.",
    ),
    DemoAction.KILL_SOURCE: (
        "kill the source cluster",
        "As in a disaster (kill -9): start a disaster drill, or continue a planned one with D.",
    ),
    DemoAction.START_SOURCE: (
        "start the source cluster again",
        "With its data. Its former consumers and producers do not start by themselves.",
    ),
}


class DemoActions:
    """Performs actions on a running demo.

    Args:
        applications: its producers and consumers.
        source: its source cluster.
    """

    def __init__(self, applications: Applications, source: KafkaNode) -> None:
        self._applications, self._source = applications, source
        self._does: Mapping[DemoAction, Callable[[], object]] = {
            DemoAction.SHOW: lambda: None,
            DemoAction.STOP_PRODUCERS: applications.stop_producers,
            DemoAction.STOP_CONSUMERS: applications.stop_consumers,
            DemoAction.STOP_TARGET_CONSUMERS: lambda: applications.stop_consumers(("target",)),
            DemoAction.START_ON_TARGET: lambda: applications.start_on("target"),
            DemoAction.START_ON_SOURCE: lambda: applications.start_on("source"),
            DemoAction.KILL_SOURCE: source.kill,
            DemoAction.START_SOURCE: source.start,
        }

    def perform(self, action: DemoAction) -> str:
        """Perform an action, and return what runs then, as sentences.

        Raises:
            K2kError: the source cluster did not start.
        """
        self._does[action]()
        return self.describe()

    def describe(self) -> str:
        """Return what runs now."""
        side = self._applications.producers
        writes = "The producers are stopped." if side is None else f"Producers write to the {side}."
        source, target = (self._applications.consumers(side) for side in ("source", "target"))
        reads = [
            f"{counted(len(groups), 'group')} on the {side} ({', '.join(sorted(groups))})"
            for side, groups in (("source", source), ("target", target))
            if groups
        ]
        readers = f"Consumers: {', '.join(reads)}." if reads else "The consumers are stopped."
        up = "runs" if self._source.running else "is down"
        return f"{writes} {readers} The source cluster, {self._source.bootstrap}, {up}."


@contextlib.contextmanager
def answering(perform: Callable[[DemoAction], str]) -> Iterator[None]:
    """Within the context, perform what other processes request of this demo.

    Args:
        perform: performs an action, and returns its answer; may raise K2kError.
    """
    directory = state_dir("demo", _REQUESTS)
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_LOOK_S):
            for request in sorted(directory.glob(f"*{_REQUEST}")):
                _answer(request, perform)

    thread = threading.Thread(target=run, name="demo-requests", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_STOP_S)
        shutil.rmtree(directory, ignore_errors=True)


def _answer(request: Path, perform: Callable[[DemoAction], str]) -> None:
    try:
        action = request.read_text()
        request.unlink()
    except (OSError, ValueError):
        return  # withdrawn
    try:
        answer = {"text": perform(DemoAction(action))}
    except K2kError as error:
        answer = {"error": error.message, "hint": error.hint}
    except Exception as error:  # a bug in one action must not end the others
        answer = {"error": fault(error).message, "hint": ""}
    with contextlib.suppress(OSError):
        write_atomically(request.with_suffix(_ANSWER), json.dumps(answer).encode())


def request(action: DemoAction) -> str:
    """Let the running demo perform an action, and return its answer: what runs then.

    Whoever stops waiting has withdrawn the request, unless it is being performed.

    Raises:
        Refused: no demo runs, it ended, or it takes no requests.
        TimedOut: there is no answer.
        K2kError: the action failed.
    """
    directory = demo_place().directory / _REQUESTS
    if find_demo() is None:
        raise Refused("No demo is running.", hint="Start it with: k2ktui demo")
    if not directory.is_dir():
        raise Refused(
            "The running demo does not take requests now.",
            unchanged="Nothing was changed.",
            hint="Try again when its console is open, or when its tour has ended.",
        )
    asked = directory / f"{time.time_ns()}-{secrets.token_hex(4)}{_REQUEST}"
    answered = asked.with_suffix(_ANSWER)
    try:
        write_atomically(asked, action.encode())
    except OSError as error:
        raise unwritable_state(asked, error) from error
    until = time.monotonic() + _ANSWER_S
    try:
        while not answered.exists():
            if find_demo() is None:
                raise Refused("The demo has ended.", hint="Start it with: k2ktui demo")
            if time.monotonic() > until:
                raise TimedOut(
                    f"The demo did not answer {action} within {_ANSWER_S:g} s.",
                    unchanged="It may still perform it.",
                    hint="See what runs: k2ktui demo --do show",
                )
            time.sleep(_LOOK_S)
        answer = parse_object(answered.read_bytes())
    finally:
        asked.unlink(missing_ok=True)
        answered.unlink(missing_ok=True)
    if "text" not in answer:
        raise K2kError(str(answer.get("error")), hint=str(answer.get("hint", "")))
    return str(answer["text"])


def steps_beside(files: Sequence[str]) -> tuple[DemoStep, ...]:
    """Return what screen 8 offers on one of these files, if it is beside that of the running demo.

    What the steps do to the demo's applications and source is requested of it.
    """
    from k2ktui.console.session import DemoStep

    if not _is_beside(files):
        return ()
    return tuple(
        DemoStep(
            str(action),
            title,
            effect,
            partial(request, action),
            is_destructive=action is DemoAction.KILL_SOURCE,
        )
        for action, (title, effect) in ACTION_TEXTS.items()
    )


def watchdog_beside(files: Sequence[str]) -> Callable[[], str]:
    """Return what keeps the running demo waiting, if one of these files is beside its own."""
    is_beside = _is_beside(files)

    def watch() -> str:
        if is_beside:
            keep_waiting()
        return ""

    return watch


def _is_beside(files: Sequence[str]) -> bool:
    host = find_demo()
    if host is None:
        return False
    named = (Path(part).resolve().parent for file in files for part in file.split(","))
    return Path(host.files[0]).resolve().parent in named
