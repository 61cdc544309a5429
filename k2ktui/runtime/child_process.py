"""Child processes that cannot outlive k2ktui.

:func:`spawn` puts a small supervisor process between k2ktui and the command. The supervisor ends
the command and all of its descendants on request, and when k2ktui exits, is interrupted, loses its
terminal or is killed. On Linux the command is also killed if its supervisor is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from k2ktui.errors import Refused, TimedOut
from k2ktui.runtime.host import has_working_directory

_SUPERVISOR = Path(__file__).with_name("_supervisor.py")
_alive: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


class ChildProcess:
    """A running command, created by :func:`spawn`.

    Attributes:
        pid: process id of the command itself (also the id of its process group).
        log_path: the file that receives its standard output and error.
    """

    def __init__(
        self, supervisor: subprocess.Popen[bytes], control: int, pid: int, log_path: Path
    ) -> None:
        self._supervisor = supervisor
        self._control: int | None = control
        self._lock = threading.Lock()
        self.pid = pid
        self.log_path = log_path

    def poll(self) -> int | None:
        """Return the exit code (128 + n if signal n ended it), or None while it runs."""
        return self._supervisor.poll()

    def wait(self, timeout: float) -> int:
        """Wait for the command to end and return its exit code.

        Raises:
            TimedOut: the command still runs after ``timeout`` seconds.
        """
        try:
            return self._supervisor.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(
                f"Process {self.pid} did not end within {timeout:g} s.",
                hint=f"See its log: {self.log_path}",
            ) from error

    def terminate(self) -> None:
        """Send SIGTERM to the command and its process group."""
        self._order(b"T")

    def kill(self) -> None:
        """Send SIGKILL to the command and its process group."""
        self._order(b"K")

    def suspend(self) -> None:
        """Send SIGSTOP: the command stops running but keeps its ports, memory and connections."""
        self._order(b"S")

    def resume(self) -> None:
        """Send SIGCONT to the command and its process group."""
        self._order(b"C")

    def stop(self, timeout: float) -> int:
        """Terminate the command, kill it after ``timeout`` seconds; return the exit code."""
        self.terminate()
        try:
            return self.wait(timeout)
        except TimedOut:
            self.kill()
            return self.wait(10.0)

    def release(self) -> None:
        """Close the control pipe: the supervisor ends the command as if k2ktui had exited."""
        with self._lock:
            if self._control is not None:
                os.close(self._control)
                self._control = None

    def _order(self, letter: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            if self._control is not None:
                os.write(self._control, letter)


def spawn(
    command: Sequence[str],
    *,
    log_path: Path,
    grace: float = 0.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: int | None = None,
    errors: int | None = None,
) -> ChildProcess:
    """Start ``command`` so that it ends when this process does.

    Args:
        command: program and arguments, run without a shell.
        log_path: file to append its standard output and error to; directories are created.
        grace: seconds between SIGTERM and SIGKILL after this process exits; 0 kills immediately.
        env: its complete environment; None inherits this process's environment.
        cwd: its working directory; None inherits this process's directory, if that still exists.
        output, errors: descriptors for its standard output and error, in place of ``log_path``.

    Raises:
        Refused: the supervisor did not start.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    control_read, control_write = os.pipe()
    status_read, status_write = os.pipe()
    arguments = [str(control_read), str(status_write), str(os.getpid()), f"{grace:g}"]
    try:
        with log_path.open("ab") as log:
            supervisor = subprocess.Popen(
                # Isolated mode without site packages starts within a few hundredths of a second.
                [sys.executable, "-I", "-S", str(_SUPERVISOR), *arguments, *command],
                stdin=subprocess.DEVNULL,
                stdout=log if output is None else output,
                stderr=log if errors is None else errors,
                pass_fds=(control_read, status_write),
                start_new_session=True,  # k2ktui handles Ctrl-C and SIGHUP and ends it in order
                env=dict(env) if env is not None else None,
                cwd=cwd if cwd is not None or has_working_directory() else log_path.parent,
            )
    except BaseException:
        os.close(control_write)
        os.close(status_read)
        raise
    finally:
        os.close(control_read)
        os.close(status_write)
    with os.fdopen(status_read, "rb") as status:
        line = status.readline()
    if not line:
        os.close(control_write)
        supervisor.wait()
        raise Refused(f"{command[0]} could not be started.", hint=f"See {log_path}.")
    child = ChildProcess(supervisor, control_write, int(line), log_path)
    _alive.add(child)
    return child


@atexit.register
def _end_all() -> None:
    """At a normal exit, end all children and wait up to 15 seconds for them."""
    children = [child for child in _alive if child.poll() is None]
    for child in children:
        child.release()
    deadline = time.monotonic() + 15.0
    for child in children:
        with contextlib.suppress(TimedOut):
            child.wait(max(0.1, deadline - time.monotonic()))
