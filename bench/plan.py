"""Which runs there are, and which of them were asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from bench.bare import BareSockets
from bench.delay import Steady
from bench.model import Contender, DataSet, Suite
from bench.ours import variants
from bench.peer import mirror_makers

MAIN = "k2ktui"
SAME_CODEC = "mm2-tuned-codec"
TRANSFORM = "k2ktui-transform"
EXCLUSIVE = "k2ktui-exclusive"
REFERENCE = BareSockets().key


def contenders() -> tuple[Contender, ...]:
    """Return all replicators, in the order in which they run."""
    return (*mirror_makers(), BareSockets(), *variants())


# Every size, so that the tuned MirrorMaker 2 copies for 10 to 20 s; what producers really send
# comes first.
DATA_SETS = (
    DataSet(1000, "none", 4, 1_200_000, "perf", 16),
    DataSet(1000, "none", 4, 1_200_000, batch_kib=16),
    DataSet(1000, "none", 4, 900_000, batch_kib=4),
    DataSet(1000, "none", 4, 2_000_000, batch_kib=64),
    DataSet(1000, "none", 4, 300_000, batch_kib=1),
    DataSet(100, "none", 4, 5_000_000, batch_kib=16),
    DataSet(100, "none", 4, 6_000_000, batch_kib=64),
    DataSet(1000, "lz4", 4, 1_200_000, batch_kib=16),
    DataSet(1000, "lz4", 4, 900_000, batch_kib=4),
    DataSet(1000, "lz4", 4, 2_000_000, batch_kib=64),
    DataSet(1000, "lz4", 4, 300_000, batch_kib=1),
    DataSet(100, "lz4", 4, 5_000_000, batch_kib=16),
    DataSet(100, "lz4", 4, 6_000_000, batch_kib=64),
    DataSet(100, "lz4", 64, 5_000_000, batch_kib=64),
    DataSet(1000, "none", 64, 1_200_000, batch_kib=16),
    DataSet(1000, "snappy", 4, 1_200_000, batch_kib=16),
    DataSet(1000, "snappy", 4, 900_000, batch_kib=4),
    DataSet(1000, "zstd", 4, 1_200_000, batch_kib=16),
    DataSet(1000, "zstd", 4, 900_000, batch_kib=4),
    DataSet(100, "zstd", 4, 5_000_000, batch_kib=16),
    DataSet(200, "none", 4, 3_000_000, "json"),
)
# What copies all data sets; the others copy those that are named here.
_COPIERS = ("mm2-tuned", "mm2-eos-tuned", REFERENCE, MAIN)
_SOME = {
    EXCLUSIVE: (
        "perf-1000-none-4-16k",
        "1000-none-4-4k",
        "1000-none-4-64k",
        "100-none-4-64k",
    ),
    "mm2-eos": ("100-none-4-64k",),
    "k2ktui-records": ("100-none-4-64k",),
}
_DELAYED = ("mm2-eos", "mm2-eos-tuned", MAIN)


@dataclass(frozen=True, slots=True)
class Scope:
    """How large the benchmark is.

    Attributes:
        repeat: copy runs of each.
        heap: of each broker, as for -Xmx.
    """

    data_sets: tuple[DataSet, ...] = DATA_SETS
    steady: Steady = field(default_factory=Steady)
    heap: str = "1g"
    repeat: int = 1

    def at_most(self, records: int) -> Scope:
        """The same with smaller data sets."""
        fewer = (replace(one, records=min(one.records, records)) for one in self.data_sets)
        return replace(self, data_sets=tuple(fewer))

    def memory_data(self, contender: Contender) -> tuple[DataSet, DataSet]:
        """A data set and one with a quarter of its records, to see whether memory grows."""
        some = [one for one in self.data_sets if fits(contender, one)]
        whole = max(some, key=lambda one: one.records)
        return replace(whole, records=whole.records // 4), whole

    @property
    def loaders(self) -> int:
        """Processes that load and verify at a time."""
        return min(4, os.cpu_count() or 1)


QUICK = replace(Scope().at_most(100_000), steady=Steady(seconds=8.0, warm_up=5.0))


@dataclass(frozen=True, slots=True)
class Task:
    """One run: a contender and, for the suite ``copy``, a data set."""

    suite: Suite
    contender: Contender
    data: DataSet | None = None
    repeat: int = 0

    @property
    def name(self) -> str:
        """``suite/contender[/data set]``, what ``--only`` is compared with."""
        parts = [self.suite, self.contender.key, *([self.data.name] if self.data else [])]
        return "/".join(parts)

    def wanted(self, patterns: Sequence[str]) -> bool:
        """Whether a pattern fits the whole name, or is one of its parts; all are without any."""
        parts = self.name.split("/")
        return not patterns or any(
            fnmatchcase(self.name, pattern) or pattern in parts for pattern in patterns
        )


def fits(contender: Contender, data: DataSet) -> bool:
    """Whether a contender copies a data set: payments if it transforms, others if not.

    Only k2ktui maps schema ids.
    """
    if data.values == "schemas":
        return contender.key == MAIN
    if data.values == "json" or contender.transforms:
        return contender.transforms == (data.values == "json")
    if contender.key == SAME_CODEC:
        return data.codec != "none"
    return contender.key in _COPIERS or data.name in _SOME.get(contender.key, ())


def tasks(scope: Scope, patterns: Sequence[str]) -> list[Task]:
    """Return the runs that were asked for, the first data set and the delays of copies first."""
    everyone = contenders()
    copies = [
        Task("copy", contender, data, repeat)
        for data in scope.data_sets
        for repeat in range(scope.repeat)
        for contender in everyone
        if fits(contender, data)
    ]
    delays = [Task("delay", one) for one in everyone if one.transforms or one.key in _DELAYED]
    measured = (MAIN, TRANSFORM)
    memory = [Task("memory", contender) for contender in everyone if contender.key in measured]
    first = [task for task in copies if task.data == scope.data_sets[0]]
    every = [
        *first,
        *(task for task in delays if not task.contender.transforms),
        *copies[len(first) :],
        *(task for task in delays if task.contender.transforms),
        *memory,
    ]
    return [task for task in every if task.wanted(patterns)]
