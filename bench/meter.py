"""CPU time and memory of a whole process tree, whatever in it has ended meanwhile.

One pass over /proc gives, for every process under the root, its own CPU time and that of the
children which it has waited for. As the root is a subreaper (k2ktui.runtime.child_process), a
process that loses its parent comes under the root, which waits for it: no CPU second is lost and,
since a child's time moves to its parent at the moment it is collected, none is counted twice.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Positions in /proc/<pid>/stat after the closing parenthesis of the program's name.
_PARENT, _UTIME, _CHILDREN_STIME, _RSS = 1, 11, 14, 21


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a tree at time ``at`` (monotonic): CPU seconds so far, and resident bytes."""

    at: float
    cpu_s: float
    rss: int


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    own: int
    children: int
    pages: int


def _read(pid: str) -> _Process | None:
    try:
        text = (_PROC / pid / "stat").read_text(errors="replace")
    except OSError:
        return None  # it ended while we looked
    fields = text.rpartition(")")[2].split()
    user, system, children_user, children_system = (
        int(field) for field in fields[_UTIME : _CHILDREN_STIME + 1]
    )
    return _Process(
        parent=int(fields[_PARENT]),
        own=user + system,
        children=children_user + children_system,
        pages=int(fields[_RSS]),
    )


def usage(root: int) -> Usage:
    """Measure the tree under ``root``; of the root itself only the children it collected count."""
    at = time.monotonic()
    read = {int(name): _read(name) for name in os.listdir(_PROC) if name.isdigit()}
    processes = {pid: process for pid, process in read.items() if process}
    members = _descendants(root, processes)
    ticks = sum(processes[pid].own + processes[pid].children for pid in members)
    if root in processes:
        ticks += processes[root].children
    pages = sum(processes[pid].pages for pid in members)
    return Usage(at, ticks * _TICK, pages * _PAGE)


def _descendants(root: int, processes: dict[int, _Process]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    members = list(children.get(root, ()))
    for pid in members:  # grows while we go through it
        members.extend(children.get(pid, ()))
    return members


def own_usage(pid: int) -> Usage:
    """Measure one process that has no children, such as a broker."""
    process = _read(str(pid))
    if process is None:
        return Usage(time.monotonic(), 0.0, 0)
    return Usage(time.monotonic(), process.own * _TICK, process.pages * _PAGE)


class Meter(threading.Thread):
    """Samples :func:`usage`, or another ``measure`` of a process, until :meth:`stop`.

    CPU time never falls; a sample taken while a process changed hands may show less, so the
    highest so far counts.
    """

    def __init__(
        self, root: int, interval: float = 0.1, measure: Callable[[int], Usage] = usage
    ) -> None:
        super().__init__(daemon=True, name="meter")
        self._root = root
        self._measure = measure
        self._interval = interval
        self._ended = threading.Event()
        self._samples: list[Usage] = []

    def run(self) -> None:
        highest = 0.0
        while True:
            now = self._measure(self._root)
            if now.cpu_s or now.rss:
                highest = max(highest, now.cpu_s)
                self._samples.append(Usage(now.at, highest, now.rss))
            if self._ended.wait(self._interval):
                return

    def stop(self) -> None:
        """End the sampling; what was sampled stays."""
        self._ended.set()
        self.join()

    def cpu_at(self, moment: float) -> float:
        """CPU seconds used until ``moment`` (monotonic), between samples by proportion."""
        samples = self._samples
        after = bisect_left(samples, moment, key=lambda sample: sample.at)
        if not samples:
            return 0.0
        if after == len(samples):
            return samples[-1].cpu_s
        if after == 0:
            return samples[0].cpu_s
        low, high = samples[after - 1], samples[after]
        share = (moment - low.at) / (high.at - low.at)
        return low.cpu_s + share * (high.cpu_s - low.cpu_s)

    def peak(self, until: float) -> int:
        """Highest resident bytes until ``until`` (monotonic)."""
        return max((sample.rss for sample in self._samples if sample.at <= until), default=0)
