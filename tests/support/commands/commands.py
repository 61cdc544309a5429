"""Runs ``python -m k2ktui`` in a process of its own, see ``command_server.py``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[3]
_START_S = 120.0  # for the server's start, on a machine that is busy with other things too
# Python reads these when it starts.
_AT_START = ("LANG", "LC_", "LD_", "MALLOC_", "PYTHON", "TZ")
# Without what a test sets: some find the processes that they left, and kill them, by a variable.
_ENVIRONMENT = dict(os.environ)


class CommandServer:
    """The process that commands are forked from; it ends with this one."""

    def __init__(self) -> None:
        self.variables = _at_start(_ENVIRONMENT)
        self._lock = threading.Lock()
        self._channel, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.command_server", str(other.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                cwd=_ROOT,
                # A process that forks has no threads.
                env={**_ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1"},
            )

    def run(
        self, request: Mapping[str, Any], typed: int, out: IO[bytes], err: IO[bytes], limit: float
    ) -> int:
        """Run a command with a file as its standard input, and return its exit code.

        Raises:
            TimeoutError: it took longer than ``limit`` seconds, and was killed.
        """
        mine, other = socket.socketpair()
        with mine, mine.makefile("rb") as lines:
            with other, self._lock:
                files = [other.fileno(), out.fileno(), err.fileno(), typed]
                socket.send_fds(self._channel, [b"."], files)
            mine.settimeout(_START_S)
            mine.sendall(json.dumps(request).encode() + b"\n")
            pid = int(lines.readline())
            mine.settimeout(limit)
            try:
                return int(lines.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise


@cache
def _server() -> CommandServer:
    return CommandServer()


def run_command(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    limit: float,
    typed: int = subprocess.DEVNULL,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Args:
        arguments: of ``k2ktui``.
        variables: all its environment variables.
        limit: seconds.
        typed: descriptor of its standard input, such as a terminal's.
    """
    command = [sys.executable, "-m", "k2ktui", *arguments]
    server = _server()
    if _at_start(variables) != server.variables:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
            stdin=typed,
            env=dict(variables),
        )
    umask = os.umask(0o077)
    os.umask(umask)
    request = {
        "arguments": arguments,
        "variables": dict(variables),
        "directory": os.getcwd(),
        "umask": umask,
    }
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        open(os.devnull, "rb") as nothing,
    ):
        try:
            stdin = nothing.fileno() if typed == subprocess.DEVNULL else typed
            code = server.run(request, stdin, out, err, limit)
        except TimeoutError:
            raise subprocess.TimeoutExpired(command, limit, _text(out), _text(err)) from None
        return subprocess.CompletedProcess(command, code, _text(out), _text(err))


def _at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_AT_START)}


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")
