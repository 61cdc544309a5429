"""A demo whose terminal was closed keeps running, so that its user can reconnect.

It ends an hour after its last console: three abandoned Java processes must not run forever.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from k2ktui.console import terminal
from k2ktui.engine.strict_json import parse_object
from k2ktui.errors import TimedOut
from k2ktui.jobs.process import ProcessIdentity, this_process
from k2ktui.runtime.paths import write_atomically

STAY_S = 3600.0
_FILE = "demo.json"
_TICK_S = 0.5
_END_S = 60.0


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
        found = Host(identity, Path(value["config"]), bool(value["waiting"]), compare)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.identity.alive else None


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


def end(found: Host) -> None:
    """End a demo and wait until its process is gone.

    Raises:
        TimedOut: it still runs.
    """
    found.identity.signal(signal.SIGTERM)
    until = time.monotonic() + _END_S
    while found.identity.alive:
        if time.monotonic() > until:
            raise TimedOut(
                f"the demo, pid {found.identity.pid}, has not stopped within {_END_S:g} s"
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
