"""Which runs there are, and which of them were asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from bench.bare import BareSockets
from bench.delay import Steady
from bench.model import Codec, Contender, DataSet, Suite
from bench.ours import variants
from bench.peer import mirror_makers

MAIN = "k2ktui"
TRANSFORM = "k2ktui-transform"
REFERENCE = BareSockets().key


def contenders() -> tuple[Contender, ...]:
    """Return all replicators, in the order in which they run."""
    return (*mirror_makers(), BareSockets(), *variants())


@dataclass(frozen=True, slots=True)
class Scope:
    """How large the benchmark is.

    Attributes:
        records: bytes of a record to number of records.
        json_records: the same for payments, which are filtered and masked.
        schema_records: the same for orders, whose schema ids are mapped.
        warm_up: records that are copied once, unmeasured, before all else.
        batch_bytes: size of the batches on the source before compression.
    """

    records: tuple[tuple[int, int], ...] = ((100, 10_000_000), (1000, 2_000_000))
    json_records: tuple[tuple[int, int], ...] = ((200, 12_000_000),)
    schema_records: tuple[tuple[int, int], ...] = ((100, 10_000_000),)
    codecs: tuple[Codec, ...] = ("none", "lz4")
    partitions: tuple[int, ...] = (4, 64)
    steady: Steady = field(default_factory=Steady)
    warm_up: int = 2_000_000
    batch_bytes: int = 64 << 10
    heap: str = "1g"
    repeat: int = 1

    @property
    def data_sets(self) -> tuple[DataSet, ...]:
        """The whole matrix, the payments and the orders."""
        plain = tuple(
            DataSet(size, codec, partitions, records)
            for size, records in self.records
            for codec in self.codecs
            for partitions in self.partitions
        )
        orders = (
            DataSet(size, codec, self.partitions[0], records, "schemas")
            for size, records in self.schema_records
            for codec in self.codecs
        )
        payments = (self._payments(size, records) for size, records in self.json_records)
        return (*plain, *payments, *orders)

    def memory_data(self, contender: Contender) -> tuple[DataSet, DataSet]:
        """A data set and one with a quarter of its records, to see whether memory grows."""
        whole = next(one for one in self.data_sets if fits(contender, one))
        return replace(whole, records=whole.records // 4), whole

    def _payments(self, size: int, records: int) -> DataSet:
        return DataSet(size, self.codecs[0], self.partitions[0], records, "json")

    @property
    def loaders(self) -> int:
        """Processes that load and verify at a time."""
        return min(4, os.cpu_count() or 1)


QUICK = Scope(
    records=((100, 400_000), (1000, 100_000)),
    json_records=((200, 200_000),),
    schema_records=((100, 400_000),),
    codecs=("none",),
    partitions=(4,),
    steady=Steady(seconds=8.0, warm_up=5.0),
    warm_up=20_000,
)


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
    return contender.transforms == (data.values == "json")


def tasks(scope: Scope, patterns: Sequence[str]) -> list[Task]:
    """Return the runs that were asked for; those of one data set follow each other."""
    everyone = contenders()
    found = [
        Task("copy", contender, data, repeat)
        for data in scope.data_sets
        for repeat in range(scope.repeat)
        for contender in everyone
        if fits(contender, data)
    ]
    # The reference ends when it has caught up: it has no steady rate.
    found += [Task("delay", one) for one in everyone if one.key != REFERENCE]
    measured = (MAIN, TRANSFORM)
    found += [Task("memory", contender) for contender in everyone if contender.key in measured]
    return [task for task in found if task.wanted(patterns)]
