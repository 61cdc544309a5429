"""What a job uses on this host: memory and processors, of its process and all that it started."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import psutil

from k2ktui.jobs.process import ProcessIdentity

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of a job use.

    Attributes:
        memory: resident bytes; pages that processes share count in each of them.
        memory_limit: bytes that they may use: the host's, or the limit of their control group.
        cores: processors that were busy for them since the last reading; None at the first.
        cores_limit: processors on which they may run.
    """

    memory: int
    memory_limit: int
    cores: float | None
    cores_limit: int


class UsageReader:
    """Reads the usage of processes; the use of processors is counted between two readings."""

    def __init__(self) -> None:
        self._before: dict[ProcessIdentity, tuple[float, float]] = {}

    def read(self, identity: ProcessIdentity, now: float) -> Usage | None:
        """Return the usage of a process and its descendants; None if it does not run, or is hidden.

        Args:
            identity: the process.
            now: seconds by a clock that is never set.
        """
        if not identity.alive:
            self._before.pop(identity, None)
            return None
        try:
            first = psutil.Process(identity.pid)
            processes = [first, *first.children(recursive=True)]
            cores_limit = _cores(first)
        except psutil.Error:
            return None
        memory, busy = 0, 0.0
        for process in processes:
            # Any of them may end at any time.
            with contextlib.suppress(psutil.Error):
                memory += process.memory_info().rss
                times = process.cpu_times()
                busy += times.user + times.system
                busy += getattr(times, "children_user", 0.0) + getattr(
                    times, "children_system", 0.0
                )
        if not memory:
            return None
        at, busy_then = self._before.get(identity, (now, busy))
        self._before[identity] = (now, busy)
        # One that has ended and was not waited for is missing from the sum.
        cores = max(0.0, busy - busy_then) / (now - at) if now > at else None
        limit = _memory_limit(identity.pid, psutil.virtual_memory().total)
        return Usage(memory, limit, cores, cores_limit)


def _cores(process: psutil.Process) -> int:
    with contextlib.suppress(AttributeError, psutil.Error):  # not on macOS
        return len(process.cpu_affinity() or ())
    return psutil.cpu_count() or 1


def _memory_limit(pid: int, limit: int) -> int:
    """Return the lowest limit of a process's control groups (cgroup v2), at most ``limit``."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                group = _CGROUPS / line[3:].lstrip("/")
                for place in (group, *group.parents):
                    if not place.is_relative_to(_CGROUPS):
                        break
                    with contextlib.suppress(OSError, ValueError):
                        limit = min(limit, int((place / "memory.max").read_text()))
    return limit
