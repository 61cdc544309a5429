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
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from k2ktui.console import terminal
from k2ktui.engine.strict_json import parse_object
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.faults import fault
from k2ktui.jobs.process import ProcessIdentity, this_process
from k2ktui.runtime.paths import write_atomically
from k2ktui.text import counted

if TYPE_CHECKING:
    from k2ktui.demo.applications import Applications
    from k2ktui.runtime.node import KafkaNode

STAY_S = 3600.0
_FILE = "demo.json"
_TICK_S = 0.5
_END_S = 60.0
_DIRECTORY = "requests"
_REQUEST, _ANSWER = ".request", ".answer"
_LOOK_S = 0.2
# A cluster that starts may take a minute.
_ANSWER_S = 120.0
_STOP_S = 1.0
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        return {
            signal.SIGINT: "Ctrl-C",
            signal.SIGHUP: "the closed terminal",
        }.get(signal.Signals(self.number), signal.Signals(self.number).name)


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Within the context, the first such signal raises :class:`DemoEnded`; a later SIGINT exits.

    An immediate exit leaves no process behind either: the supervisors notice it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            # A hang-up is often followed by a second signal; only a repeated Ctrl-C forces the
            # exit.
            if number == signal.SIGINT:
                os._exit(130)
            return
        seen.append(number)
        raise DemoEnded(number)

    before = {number: signal.signal(number, handle) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class Host:
    """A running demo.

    Attributes:
        identity: its process.
        config: the pipeline's file.
        waiting: whether its terminal was closed.
        compare: the properties file of its MirrorMaker 2; None if there is none.
    """

    identity: ProcessIdentity
    config: Path
    waiting: bool
    compare: Path | None = None


@contextlib.contextmanager
def announce(home: Path, config: Path, compare: Path | None = None) -> Iterator[None]:
    """Within the context, make this demo discoverable by :func:`host`."""
    _write(home, config, compare, waiting=False)
    try:
        yield
    finally:
        (home / _FILE).unlink(missing_ok=True)


def host(home: Path) -> Host | None:
    """Return the demo that runs in a directory; None if there is none."""
    try:
        value = parse_object((home / _FILE).read_bytes())
        identity = ProcessIdentity(int(value["pid"]), str(value["birth"]))
        compare = Path(value["compare"]) if value.get("compare") else None
        running_demo = Host(identity, Path(value["config"]), bool(value["waiting"]), compare)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running_demo if running_demo.identity.alive else None


def stay(home: Path, config: Path, seconds: float = STAY_S, compare: Path | None = None) -> None:
    """Wait without a terminal until a signal ends the demo or no user reconnects in time."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    terminal.forget()
    _write(home, config, compare, waiting=True)
    while time.time() - (home / _FILE).stat().st_mtime < seconds:
        time.sleep(_TICK_S)


def keep_waiting(home: Path) -> None:
    """Restart the demo's waiting time: a console is open on it, or was closed just now."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(home / _FILE)


def end(running_demo: Host) -> None:
    """End a demo and wait until its process is gone.

    Raises:
        TimedOut: it still runs.
    """
    running_demo.identity.signal(signal.SIGTERM)
    until = time.monotonic() + _END_S
    while running_demo.identity.alive:
        if time.monotonic() > until:
            raise TimedOut(
                f"the demo, pid {running_demo.identity.pid}, has not stopped within {_END_S:g} s"
            )
        time.sleep(_TICK_S)


def _write(home: Path, config: Path, compare: Path | None, *, waiting: bool) -> None:
    me = this_process()
    value = {
        "pid": me.pid,
        "birth": me.birth,
        "config": str(config),
        "waiting": waiting,
        "compare": str(compare) if compare else "",
    }
    write_atomically(home / _FILE, json.dumps(value).encode())


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
def answering(home: Path, perform: Callable[[DemoAction], str]) -> Iterator[None]:
    """Within the context, perform what other processes request of this demo.

    Args:
        home: the demo's directory.
        perform: performs an action, and returns its answer; may raise K2kError.
    """
    directory = home / _DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    _clear(directory)
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
        _clear(directory)
        with contextlib.suppress(OSError):
            directory.rmdir()


def _answer(request: Path, perform: Callable[[DemoAction], str]) -> None:
    try:
        value = parse_object(request.read_bytes())
        request.unlink()
    except (OSError, ValueError):
        return  # withdrawn
    try:
        answer = {"text": perform(DemoAction(str(value.get("action"))))}
    except K2kError as error:
        answer = {"error": error.message, "hint": error.hint}
    except Exception as error:  # a bug in one action must not end the others
        answer = {"error": fault(error).message, "hint": ""}
    with contextlib.suppress(OSError):
        write_atomically(request.with_suffix(_ANSWER), json.dumps(answer).encode())


def _clear(directory: Path) -> None:
    for file in (*directory.glob(f"*{_REQUEST}"), *directory.glob(f"*{_ANSWER}")):
        file.unlink(missing_ok=True)


def request(home: Path, action: DemoAction) -> str:
    """Let the running demo perform an action, and return its answer.

    Raises:
        Refused: no demo runs, it ended, or it answers no requests.
        TimedOut: there is no answer.
        K2kError: the action failed.
    """
    directory = home / _DIRECTORY
    if host(home) is None:
        raise Refused("No demo is running.", hint="Start it with: k2ktui demo")
    if not directory.is_dir():
        raise Refused(
            "The running demo does not take requests now.",
            unchanged="Nothing was changed.",
            hint="Try again when its console is open, or when its tour has ended.",
        )
    asked = directory / f"{time.time_ns()}-{secrets.token_hex(4)}{_REQUEST}"
    answered = asked.with_suffix(_ANSWER)
    write_atomically(asked, json.dumps({"action": action}).encode())
    until = time.monotonic() + _ANSWER_S
    try:
        while not answered.exists():
            if host(home) is None:
                raise Refused("The demo has ended.", hint="Start it with: k2ktui demo")
            if time.monotonic() > until:
                raise TimedOut(
                    f"The demo did not answer {action} within {_ANSWER_S:g} s.",
                    unchanged="It may still perform it.",
                    hint="See what runs: k2ktui demo --do show",
                )
            time.sleep(_LOOK_S)
        value = parse_object(answered.read_bytes())
    finally:
        asked.unlink(missing_ok=True)
        answered.unlink(missing_ok=True)
    if "text" not in value:
        raise K2kError(str(value.get("error")), hint=str(value.get("hint", "")))
    return str(value["text"])
