"""Requests to a running demo from other processes, as files in its directory.

A request is one file, its answer another one. The demo's process looks for requests a few times a
second, and answers one after the other.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from k2ktui.demo import detached
from k2ktui.demo.actions import DemoAction
from k2ktui.engine.strict_json import parse_object
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.faults import fault
from k2ktui.runtime.paths import write_atomically

_DIRECTORY = "requests"
_REQUEST, _ANSWER = ".request", ".answer"
_LOOK_S = 0.2
# A cluster that starts may take a minute.
_ANSWER_S = 120.0
_STOP_S = 1.0


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
    if detached.host(home) is None:
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
            if detached.host(home) is None:
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
