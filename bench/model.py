"""What is measured, as frozen data that goes to results.json and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from bench import payments
from bench.orders import Registries

Codec = Literal["none", "lz4", "snappy", "zstd"]
Suite = Literal["copy", "delay", "memory"]
Values = Literal["text", "json", "schemas", "perf"]

KEY_BYTES = 8
GB = 1e9
MB = 1e6

_TELLING_SHARE = 0.2
_NAME = re.compile(r"(?:(json|schemas|perf)-)?(\d+)-(none|lz4|snappy|zstd)-(\d+)-(\d+)k")
_KINDS: dict[Values, str] = {
    "text": "",
    "json": "JSON, filtered and masked, ",
    "schemas": "Avro, schema ids mapped, ",
    "perf": "kafka-producer-perf-test with Kafka's defaults, ",
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """Records of one source topic.

    Attributes:
        size: bytes of key and value together, before compression.
        codec: compression of the batches on the source.
        partitions: of the source topic.
        records: how many.
        values: ``json`` for payments, which are filtered and masked on the way; ``schemas`` for
            orders in Avro, whose schema ids are mapped; ``perf`` for what Kafka's own
            kafka-producer-perf-test writes with the defaults of Kafka's producer.
        batch_kib: size of the batches on the source before compression.
    """

    size: int
    codec: Codec
    partitions: int
    records: int
    values: Values = "text"
    batch_kib: int = 64

    @property
    def name(self) -> str:
        """Short and unique among the data sets of a benchmark."""
        kind = "" if self.values == "text" else f"{self.values}-"
        return f"{kind}{self.size}-{self.codec}-{self.partitions}-{self.batch_kib}k"

    @classmethod
    def named(cls, name: str, records: int) -> DataSet:
        """Undo :attr:`name`."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"not the name of a data set: {name}")
        values, size, codec, partitions, batch_kib = match.groups()
        return cls(int(size), codec, int(partitions), records, values or "text", int(batch_kib))  # type: ignore[arg-type]

    @property
    def kept(self) -> int:
        """How many of the records the target gets."""
        return payments.kept(self.records) if self.values == "json" else self.records

    @property
    def topic(self) -> str:
        """The source topic."""
        return f"bench-{self.name}-{self.records}"

    @property
    def bytes(self) -> int:
        """Keys and values before compression; every MB/s and GB here counts these."""
        return self.size * self.records

    def __str__(self) -> str:
        codec = "uncompressed" if self.codec == "none" else self.codec
        kind = _KINDS[self.values]
        batches = f"batches of {self.batch_kib} KiB"
        return f"{self.size:,} B, {kind}{batches}, {codec}, {self.partitions} partitions"


@dataclass(frozen=True, slots=True)
class Job:
    """What a contender is asked to do.

    Attributes:
        run: unique among runs; becomes part of topic names.
        source: ``host:port``.
        target: ``host:port``.
        topic: the source topic.
        directory: for configuration and logs.
        codec: of the batches on the source.
        steady: keep replicating; otherwise the contender may end when it has caught up.
        registries: whose schema ids are mapped; None for no ids.
    """

    run: str
    source: str
    target: str
    topic: str
    directory: Path
    codec: Codec = "none"
    steady: bool = False
    registries: Registries | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """How to carry a job out.

    Attributes:
        command: program and arguments.
        target_topic: where the copy appears.
        config: the configuration file's text.
        ends: the process ends by itself when the copy is complete.
    """

    command: tuple[str, ...]
    target_topic: str
    config: str
    ends: bool = False


class Contender(Protocol):
    """A replicator in one configuration."""

    @property
    def key(self) -> str:
        """Short name, as in ``--only``."""

    @property
    def label(self) -> str:
        """Name in tables."""

    @property
    def exactly_once(self) -> bool:
        """Whether it promises that each record appears once."""

    @property
    def transforms(self) -> bool:
        """Whether it filters and masks payments; it copies nothing else."""

    @property
    def mode(self) -> str:
        """``coordination.mode``; empty for others than k2ktui."""

    def prepare(self, job: Job) -> Launch:
        """Write its configuration for ``job``."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """One contender copied one data set.

    Times are seconds since the process was started; ``first_record_s`` is when its first record
    was visible to a read_committed reader of the target, ``all_records_s`` when all were.

    Attributes:
        data: name of the data set.
        visible: records that a read_committed reader finds.
        distinct: how many of these are different source records.
        before_first: records already visible when the first was seen.
        cpu_start_s: CPU seconds, user and system, of the whole process tree until
            ``first_record_s``.
        cpu_s: the same until ``all_records_s``.
        source_cpu_s, target_cpu_s: CPU seconds of either broker from the first record to all; None
            in results of before 2026-11-27.
        rss_peak: highest resident memory of the process tree until ``all_records_s``, in bytes.
        ended_s: when the process ended by itself, and with which exit code.
        error: why the run does not count; empty when it does.
        kept: how many records the target is to have; None for all.
        mode: ``coordination.mode``; empty for others than k2ktui.
        commit: the last one that changed the program, as it was measured.
        date: when, as ``2026-11-27 01:30 UTC``.
    """

    contender: str
    data: str
    records: int
    bytes: int
    repeat: int = 0
    visible: int = 0
    distinct: int = 0
    before_first: int = 0
    first_record_s: float = 0.0
    all_records_s: float = 0.0
    cpu_start_s: float = 0.0
    cpu_s: float = 0.0
    rss_peak: int = 0
    ended_s: float | None = None
    exit_code: int | None = None
    error: str = ""
    kept: int | None = None
    source_cpu_s: float | None = None
    target_cpu_s: float | None = None
    mode: str = ""
    commit: str = ""
    date: str = ""

    @property
    def expected(self) -> int:
        """Records that the target is to have."""
        return self.records if self.kept is None else self.kept

    @property
    def exact(self) -> bool:
        """Every record is there, once."""
        return self.visible == self.distinct == self.expected

    @property
    def copying_s(self) -> float:
        """Seconds from the first record visible to all visible."""
        return self.all_records_s - self.first_record_s

    @property
    def copied(self) -> int:
        """Records that were copied within :attr:`copying_s`, with those that were left out."""
        return self.records - round(self.before_first * self.records / self.expected)

    @property
    def _telling(self) -> bool:
        """Whether the time between the first and the last sight of records says anything."""
        return self.copying_s > 0 and self.copied >= _TELLING_SHARE * self.records

    @property
    def rate(self) -> float | None:
        """Records a second while copying; None when too few became visible in that time."""
        return self.copied / self.copying_s if self._telling else None

    @property
    def rate_from_start(self) -> float:
        """Records a second, the start of the process included."""
        return self.records / self.all_records_s

    @property
    def record_bytes(self) -> float:
        """Bytes of one record, key and value."""
        return self.bytes / self.records

    @property
    def cpu_per_gb(self) -> float | None:
        """CPU seconds per GB while copying."""
        if not self._telling:
            return None
        return (self.cpu_s - self.cpu_start_s) / (self.copied * self.record_bytes / GB)

    @property
    def brokers_cpu_per_gb(self) -> tuple[float, float] | None:
        """CPU seconds of the source's and the target's broker per GB while copying."""
        if not self._telling or self.source_cpu_s is None or self.target_cpu_s is None:
            return None
        gigabytes = self.copied * self.record_bytes / GB
        return self.source_cpu_s / gigabytes, self.target_cpu_s / gigabytes

    @property
    def cpu_per_gb_from_start(self) -> float:
        """CPU seconds per GB, the start of the process included."""
        return self.cpu_s / (self.bytes / GB)


@dataclass(frozen=True, slots=True)
class DelayResult:
    """Produce to visible at a steady rate, in milliseconds; ``cpu`` is in cores in use."""

    contender: str
    rate: int
    seconds: float
    partitions: int
    records: int = 0
    expected: int = 0
    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    cpu: float = 0.0
    error: str = ""
    mode: str = ""
    commit: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """Peak resident memory, in bytes, for copies of different length."""

    contender: str
    peaks: tuple[tuple[int, int], ...] = ()
    error: str = ""
    mode: str = ""
    commit: str = ""
    date: str = ""


Row = CopyResult | DelayResult | MemoryResult


@dataclass(slots=True)
class Results:
    """Everything that one benchmark found; the only mutable thing here, it grows run by run."""

    machine: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    copies: list[CopyResult] = field(default_factory=list)
    delays: list[DelayResult] = field(default_factory=list)
    memory: list[MemoryResult] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[Row]:
        """All of them."""
        yield from self.copies
        yield from self.delays
        yield from self.memory

    @property
    def failed(self) -> bool:
        """Whether a run does not count."""
        return any(one.error for one in self.rows)

    @property
    def commit(self) -> str:
        """The commit of the newest row: what is said about the program is said of this one."""
        return max(self.rows, key=lambda one: one.date).commit if any(self.rows) else ""

    def current(self) -> Results:
        """Return the rows of :attr:`commit` alone: rows of different ones are not compared."""
        commit = self.commit
        return Results(
            self.machine,
            self.settings,
            [one for one in self.copies if one.commit == commit],
            [one for one in self.delays if one.commit == commit],
            [one for one in self.memory if one.commit == commit],
            self.configs,
        )

    def plain(self) -> dict[str, Any]:
        """Return what json.dumps understands, with the figures that follow from others."""
        copies = [asdict(one) | _derived(one) for one in self.copies]
        return asdict(self) | {"copies": copies}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Results:
        """Undo :meth:`plain`."""
        return cls(
            machine=plain["machine"],
            settings=plain["settings"],
            copies=[CopyResult(**_own(CopyResult, one)) for one in plain["copies"]],
            delays=[DelayResult(**one) for one in plain["delays"]],
            memory=[_memory(one) for one in plain["memory"]],
            configs=plain["configs"],
        )


def recall(out: Path) -> Results:
    """Return what results.json in a directory holds; nothing when there is none."""
    file = out / "results.json"
    return Results.from_plain(json.loads(file.read_bytes())) if file.exists() else Results()


def _derived(one: CopyResult) -> dict[str, float | None]:
    if one.error:
        return {}
    brokers = one.brokers_cpu_per_gb
    return {
        "rate": one.rate,
        "rate_from_start": one.rate_from_start,
        "cpu_per_gb": one.cpu_per_gb,
        "cpu_per_gb_from_start": one.cpu_per_gb_from_start,
        "source_cpu_per_gb": brokers[0] if brokers else None,
        "target_cpu_per_gb": brokers[1] if brokers else None,
    }


def _own(kind: Any, plain: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if key in kind.__dataclass_fields__}


def _memory(plain: dict[str, Any]) -> MemoryResult:
    peaks = tuple((int(records), int(peak)) for records, peak in plain["peaks"])
    return MemoryResult(**{**plain, "peaks": peaks})
