"""The supervisor process between k2ktui and each child process; it ensures that the child ends.

``runtime/child_process.py`` runs it as a script in its own session, with only the standard library.
It ends the child and all of its descendants when k2ktui requests it or has exited for any reason
(k2ktui's end of the control pipe closes, or its process ends).

Arguments: control fd, status fd, parent pid, grace seconds, then the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ORDERS = {
    b"T": (signal.SIGCONT, signal.SIGTERM),
    b"K": (signal.SIGKILL,),
    b"S": (signal.SIGSTOP,),
    b"C": (signal.SIGCONT,),
}
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    """Start and supervise the command; return its exit code (128 + n for signal n)."""
    control, status, parent = (int(text) for text in arguments[:3])
    grace = float(arguments[3])
    os.set_inheritable(control, False)
    os.set_inheritable(status, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake = _wake_on_signals()
    child = _start(arguments[4:])
    os.write(status, f"{child}\n".encode())
    os.close(status)
    code = _watch(child, control, parent, wake, grace)
    _kill_descendants(child)
    return code


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _wake_on_signals() -> int:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_ENDING):
        signal.signal(number, lambda *_: None)
    return read


def _start(command: list[str]) -> int:
    supervisor = os.getpid()
    child = os.fork()  # safe: this process has a single thread
    if child:
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        return child
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, *_ENDING):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == supervisor:
            os.execvp(command[0], command)  # noqa: S606 - the caller's command, without a shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    os._exit(127)


def _watch(child: int, control: int, parent: int, wake: int, grace: float) -> int:
    gone = _parent_handle(parent)
    orders = [fd for fd in (control, gone) if fd is not None]
    poll = select.poll()
    for fd in (wake, *orders):
        poll.register(fd, select.POLLIN)
    deadline = _end(child, grace) if os.getppid() != parent else None
    while True:
        ready = {fd for fd, _ in poll.poll(_milliseconds(deadline))}
        code = _exit_code(child)
        if code is not None:
            return code
        end = wake in ready and _asked_to_end(wake)
        for fd in ready.intersection(orders):
            if fd == gone or not _obey(control, child):
                end = True
                poll.unregister(fd)
                orders.remove(fd)
        if end and deadline is None:
            deadline = _end(child, grace)
        if deadline is not None and time.monotonic() >= deadline:
            _signal(child, (signal.SIGKILL,))
            deadline = time.monotonic() + 1.0


def _obey(control: int, child: int) -> bool:
    """Carry out one order from k2ktui; return False if k2ktui's end of the pipe is closed."""
    order = os.read(control, 1)
    _signal(child, _ORDERS.get(order, ()))
    return bool(order)


def _parent_handle(parent: int) -> int | None:
    # The pipe is not enough: a forked child of k2ktui may keep its write end open.
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            return os.pidfd_open(parent)
    return None


def _milliseconds(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000


def _asked_to_end(wake: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        return any(number in _ENDING for number in os.read(wake, 4096))
    return False


def _end(child: int, grace: float) -> float:
    _signal(child, (signal.SIGCONT, signal.SIGTERM) if grace > 0 else (signal.SIGKILL,))
    return time.monotonic() + max(grace, 0.1)


def _signal(child: int, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, number)


def _exit_code(child: int) -> int | None:
    """Reap all ended processes; return the child's exit code, or None while it runs."""
    exit_code: int | None = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                exit_code = code if code >= 0 else 128 - code
    return exit_code


def _kill_descendants(child: int) -> None:
    _signal(child, (signal.SIGKILL,))  # the rest of its process group
    # As a subreaper, this process adopts the child's orphans, whatever their process group.
    children = f"/proc/self/task/{os.getpid()}/children"
    while _LINUX:
        try:
            with open(children, encoding="ascii") as file:
                left = [int(text) for text in file.read().split()]
        except OSError:
            return
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
