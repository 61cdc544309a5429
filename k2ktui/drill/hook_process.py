"""Run the command of a hook: a small environment, a time limit, and the end of its output."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from k2ktui.engine.drill.hooks import Hook
from k2ktui.errors import TimedOut
from k2ktui.private_files import why_others_may_read, why_others_may_write
from k2ktui.runtime.child_process import spawn
from k2ktui.secret_values import hide_secrets
from k2ktui.text import duration, safe_text

_POLL_S = 0.5
# Of the output, as much is kept in memory, and as many characters in the drill's record.
_KEPT_BYTES, _KEPT_CHARACTERS = 64 << 10, 4000
_END_S = 10.0
_CUT = "(the beginning was left out)"
# All that a command gets of the operator's environment: others may hold secrets.
_INHERITED = ("PATH", "HOME", "LANG")


def explain_unsafe_command(hook: Hook, *more: Sequence[str]) -> str:
    """Return why a cut-off or redirect cannot be run, or others could change it; "" if neither.

    Args:
        hook: the cut-off or redirect.
        more: commands that are run beside it.
    """
    commands = [*more]
    if hook.socket:
        if reason := why_others_may_write(Path(hook.socket), is_socket=True):
            return f"the runtime socket {safe_text(hook.socket)} is not safe: {reason}"
    elif hook.dns is not None:
        if reason := why_others_may_read(Path(hook.dns.key_file)):
            return f"the key file {safe_text(hook.dns.key_file)} is not safe: {reason}"
    else:
        commands += [hook.command, hook.abort]
    for program in dict.fromkeys(command[0] for command in commands if command):
        path = shutil.which(program)
        if path is None:
            return f"the program {safe_text(program)} is not there, or cannot be run"
        if reason := why_others_may_write(Path(path)):
            return f"the program {safe_text(path)} is not safe: {reason}"
    return ""


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended.

    Attributes:
        code: its exit code, 128 + n if signal n ended it; None if its time was over.
        seconds: how long it ran.
        output: the end of what it printed, safe to print, without secrets of the configuration.
    """

    code: int | None
    seconds: float
    output: str

    @property
    def result(self) -> str:
        """How it ended, in a few words."""
        if self.code is None:
            return f"killed with its process group after {duration(self.seconds)}, its time limit"
        return f"exit code {self.code}"


def inherited_environment() -> dict[str, str]:
    """Return the variables of this process that a hook gets."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    timeout_s: float,
    tick: Callable[[float], None],
    idle: Callable[[], AbstractContextManager[None]],
) -> CommandEnd:
    """Run a command without a shell until it ends, or its time is over.

    It is also killed, with everything that it has started, if this process ends or ``tick`` raises.

    Args:
        command: program and arguments.
        environment: its whole environment.
        directory: its working directory.
        timeout_s: its time limit, in seconds.
        tick: called with the seconds so far, about twice a second.
        idle: the context in which this process waits for it.

    Raises:
        Refused: it could not be started.
    """
    reading, writing = os.pipe()
    try:
        child = spawn(
            command,
            log_path=Path(os.devnull),
            env=environment,
            cwd=directory,
            output=writing,
            errors=writing,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    reader = _OutputReader(reading)
    began = monotonic()

    code = None
    try:
        while code is None and (left := timeout_s - (monotonic() - began)) > 0:
            tick(monotonic() - began)
            with idle(), suppress(TimedOut):
                code = child.wait(min(_POLL_S, left))
    finally:
        child.kill()
        child.wait(_END_S)
        child.release()
    return CommandEnd(code, monotonic() - began, reader.read())


class _OutputReader:
    """Reads a pipe on a thread and keeps its end: the process never waits for a reader."""

    def __init__(self, descriptor: int) -> None:
        self._kept, self._all = bytearray(), 0
        self._thread = threading.Thread(
            target=self._run, args=(descriptor,), name="hook-output", daemon=True
        )
        self._thread.start()

    def _run(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as pipe:
            while chunk := pipe.read(1 << 16):
                self._all += len(chunk)
                self._kept += chunk
                del self._kept[:-_KEPT_BYTES]

    def read(self) -> str:
        """Return the end of the output, after the process has ended."""
        self._thread.join(_END_S)
        kept = bytes(self._kept)
        text = show_output(kept.decode(errors="replace"))
        return f"{_CUT}\n{text}" if len(kept) < self._all and not text.startswith(_CUT) else text


def show_output(text: str) -> str:
    """Return the end of an output as lines that are safe to print, without known secrets."""
    # Secrets first: what is escaped or cut is no longer found.
    lines = [safe_text(line) for line in hide_secrets(text).splitlines()]
    shown = "\n".join(lines)
    if len(shown) <= _KEPT_CHARACTERS:
        return shown
    return f"{_CUT}\n{shown[-_KEPT_CHARACTERS:]}"
