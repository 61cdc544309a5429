"""Runs commands in processes that are forked from one that has imported the program.

A command is a process of its own, as an operator's is, but Python and the imports, which cost more
than most commands, are started once. :mod:`tests.support.commands.cli` is the other end.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import tempfile
import threading
from typing import Any, NoReturn

import k2ktui.cli
from k2ktui.replication.copying import failpoints

_REPLY, _OUT, _ERR, _IN = range(4)
_PDEATHSIG = 1
# What commands import when they run, for themselves and what it imports.
_LATER = (
    "k2ktui.drill.operations",
    "k2ktui.mm2.mirror_flow",
    "k2ktui.site.operations",
    "k2ktui.sync.operations",
    "k2ktui.watch.once",
)


def serve(channel: socket.socket) -> dict[str, Any]:
    """Fork a process for each message until the other end is gone.

    A message passes a connection for the request and the reply, and files for standard output,
    error and input.

    Returns:
        the request, in each process that is to run a command.
    """
    while True:
        data, files, _, _ = socket.recv_fds(channel, 1, 4)
        if not data:
            sys.exit(0)
        if os.fork() == 0:
            channel.close()
            return _await_command(files)
        for file in files:
            os.close(file)


def _await_command(files: list[int]) -> dict[str, Any]:
    """Fork the command, and send its process id and, at its end, its exit code.

    The command ends with this process, and this process when the other end no longer waits.
    """
    reply = socket.socket(fileno=files[_REPLY])
    with reply.makefile("rb") as lines:
        request: dict[str, Any] = json.loads(lines.readline())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        reply.close()
        for number, file in ((0, files[_IN]), (1, files[_OUT]), (2, files[_ERR])):
            os.dup2(file, number)
            os.close(file)
        return request
    for file in files[1:]:
        os.close(file)
    threading.Thread(target=_end_with, args=[reply], daemon=True).start()
    with contextlib.suppress(OSError):
        reply.sendall(b"%d\n" % pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        reply.sendall(b"%d\n" % code)
    os._exit(0)


def _end_with(reply: socket.socket) -> None:
    """End this process when the other end is gone; it sends nothing more."""
    with contextlib.suppress(OSError):
        reply.recv(1)
    os._exit(0)


def run(request: dict[str, Any]) -> NoReturn:
    """Be ``python -m k2ktui`` with these arguments, variables and working directory."""
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["directory"])
    os.umask(request["umask"])
    tempfile.tempdir = None
    importlib.reload(failpoints)  # it reads its variable when it is imported
    sys.argv = ["k2ktui", *request["arguments"]]
    try:
        runpy.run_module("k2ktui", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        _end(ended.code)
    sys.exit(0)


def _end(code: int) -> NoReturn:
    """End as Python does, but without destroying all modules: that takes longer than most commands.

    What cannot be written is for Python's own end to report.
    """
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - as Python, in this order
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def main() -> NoReturn:
    """Import the program, then serve."""
    for module in pkgutil.walk_packages(k2ktui.cli.__path__, "k2ktui.cli."):
        importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    os.chdir("/")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        request = serve(channel)
    run(request)


if __name__ == "__main__":
    main()
