"""Which process is a job: its id together with its birth, because ids are used again."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_LINUX = sys.platform == "linux"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat after the name, see proc(5)
_DEAD = ("Z", "X")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of this host.

    Attributes:
        pid: its id.
        birth: text that no other process with this id ever has: boot and start time.
    """

    pid: int
    birth: str

    @property
    def alive(self) -> bool:
        """Whether it runs; one that has ended and was not collected yet does not."""
        return bool(self.birth) and birth_of(self.pid) == self.birth

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal; whether it was there to get it. Never hits another process.

        Raises:
            PermissionError: it belongs to somebody else.
        """
        with _handle(self.pid) as handle, contextlib.suppress(ProcessLookupError):
            # The handle was taken first: whatever has the id after this check, it is not hit.
            if self.alive:
                if handle is None:
                    os.kill(self.pid, number)
                else:
                    signal.pidfd_send_signal(handle, number)
                return True
        return False


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    return ProcessIdentity(os.getpid(), birth_of(os.getpid()))


def same_boot(birth: str) -> bool:
    """Whether a process of that birth was started since the host was."""
    return birth.partition("/")[0] == _boot()


def birth_of(pid: int) -> str:
    """Return the birth of the process that has an id now; empty if none runs."""
    if _LINUX:
        return _birth_by_proc(pid)
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return f"{_boot()}/{process.create_time():.2f}"
    return ""


def _birth_by_proc(pid: int) -> str:
    # In ticks since the boot: unlike the time of day it does not move when the clock is set.
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    after_name = text.rpartition(")")[2].split()
    return "" if after_name[_STATE] in _DEAD else f"{_boot()}/{after_name[_STARTED]}"


def _boot() -> str:
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return str(int(psutil.boot_time()))


@contextlib.contextmanager
def _handle(pid: int) -> Iterator[int | None]:
    """Hold a process, where the system can: until the end the handle means no other one."""
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
