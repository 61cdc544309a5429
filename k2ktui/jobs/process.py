"""Identify a job's process by its id and its birth, because process ids are reused."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from k2ktui.runtime.host import birth_of, boot_id


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of this host.

    Attributes:
        pid: its id.
        birth: boot id and start time; no other process with this id has the same.
    """

    pid: int
    birth: str

    @property
    def alive(self) -> bool:
        """Whether it runs; a zombie does not count."""
        return bool(self.birth) and birth_of(self.pid) == self.birth

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal; return whether it existed. Never signals another process.

        Raises:
            PermissionError: it belongs to another user.
        """
        with _handle(self.pid) as handle, contextlib.suppress(ProcessLookupError):
            # The handle predates this check: it cannot signal a process that reuses the id later.
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
    """Whether a process of that birth was started since the host last booted."""
    return birth.partition("/")[0] == boot_id()


@contextlib.contextmanager
def _handle(pid: int) -> Iterator[int | None]:
    """Hold a process handle (pidfd) where available: it never refers to a reused id."""
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
