"""Memory, threads, file descriptors and disk of a soak, and whether they are flat."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

# Of a process: allowed growth from the second quarter of its life to the last one; the share is of
# what it has, as Java's pools of threads have no fixed size. Threads and descriptors are those of
# one client of librdkafka: a reader that keeps its client makes it when it is first needed.
_SHARE, _MEMORY_MB, _THREADS, _DESCRIPTORS, _DISK_MB = 0.1, 24.0, 5.0, 12.0, 24.0
# Younger processes still warm up; Spark's pools of threads, for example, end theirs after a minute.
_SHORTEST_S, _FEWEST = 480.0, 8
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """Of a process, or of a directory (only ``mb``), at ``at`` seconds (monotonic)."""

    at: float
    mb: float
    threads: int = 0
    descriptors: int = 0


@dataclass(frozen=True, slots=True)
class Growth:
    """What grew in a process or a directory, from the second quarter to the last one.

    Attributes:
        name: of the process or directory.
        minutes: how long it was measured.
        mb: memory or size in the last quarter, and its growth.
        threads: likewise.
        descriptors: likewise.
        is_flat: whether all growth is within its bound.
    """

    name: str
    minutes: float
    mb: tuple[float, float]
    threads: tuple[float, float]
    descriptors: tuple[float, float]
    is_flat: bool


def growth(name: str, samples: Sequence[Sample], memory_mb: float = _MEMORY_MB) -> Growth:
    """Compare the second quarter of some samples with the last one; four samples at least."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]

    def compare(read: Callable[[Sample], float]) -> tuple[float, float]:
        now = median(read(sample) for sample in late)
        return now, now - median(read(sample) for sample in early)

    mb = compare(lambda sample: sample.mb)
    threads = compare(lambda sample: sample.threads)
    descriptors = compare(lambda sample: sample.descriptors)
    flat = (
        mb[1] <= max(memory_mb, _SHARE * mb[0])
        and threads[1] <= max(_THREADS, _SHARE * threads[0])
        and descriptors[1] <= max(_DESCRIPTORS, _SHARE * descriptors[0])
    )
    minutes = (samples[-1].at - samples[0].at) / 60
    return Growth(name, minutes, mb, threads, descriptors, flat)


class SoakMeter:
    """Samples processes and directories in the background, until the block is left.

    Args:
        processes: returns name and process of all that exist.
        directories: name to path.
        every_s: seconds between samples.
    """

    def __init__(
        self,
        processes: Callable[[], Iterable[tuple[str, psutil.Process]]],
        directories: dict[str, Path],
        every_s: float,
    ) -> None:
        self._processes, self._directories, self._every_s = processes, directories, every_s
        self._series: dict[tuple[str, int, float], list[Sample]] = defaultdict(list)
        self._sizes: dict[str, list[Sample]] = defaultdict(list)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SoakMeter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def growths(self) -> list[Growth]:
        """Return the growth of all that was measured for long enough, by name."""
        result = [
            growth(name, samples)
            for (name, _, _), samples in list(self._series.items())
            if len(samples) >= _FEWEST and samples[-1].at - samples[0].at >= _SHORTEST_S
        ]
        result += [
            growth(name, samples, _DISK_MB)
            for name, samples in self._sizes.items()
            if len(samples) >= _FEWEST
        ]
        return sorted(result, key=lambda growth: (growth.name, -growth.minutes))

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            for name, process in self._processes():
                with contextlib.suppress(psutil.Error, OSError):
                    with process.oneshot():
                        sample = Sample(
                            time.monotonic(),
                            process.memory_info().rss / _MB,
                            process.num_threads(),
                            process.num_fds(),
                        )
                        key = (name, process.pid, process.create_time())
                    self._series[key].append(sample)
            for name, path in self._directories.items():
                self._sizes[name].append(Sample(time.monotonic(), _size(path) / _MB))


def _size(path: Path) -> int:
    size = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                size += (Path(directory) / name).lstat().st_size
    return size
