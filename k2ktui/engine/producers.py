"""Producers by what their batches and coordinators say of them; pure.

No request names a producer's client id or host. A transactional one has an id that somebody chose,
an idempotent one a number, and of others there is only what they wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from k2ktui.engine.members import describe_assigned
from k2ktui.text import counted, join_first, safe_text

Partition = tuple[str, int]
NO_ID = -1
_SHOWN, _NAMED = 100, 3
UNKNOWN = "brokers do not tell a producer's client id or host"


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer as its batches have it.

    Attributes:
        id, epoch: ``NO_ID`` of one without idempotence; then it may be several.
        is_transactional: whether it wrote in a transaction.
        transactional_id: "" if it has none, or if it is not known.
    """

    id: int
    epoch: int = -1
    is_transactional: bool = False
    transactional_id: str = ""

    @property
    def name(self) -> str:
        """How it is named, safe to print."""
        if self.id == NO_ID:
            return "a producer without id"
        number = f"producer id {self.id} epoch {self.epoch}"
        if self.transactional_id:
            return f"transactional id {safe_text(self.transactional_id, _SHOWN)} ({number})"
        return number + (", transactional id unknown" if self.is_transactional else "")


@dataclass(frozen=True, slots=True)
class Written:
    """What a producer wrote to a partition.

    Attributes:
        at: the partition.
        producer: who wrote.
        records: number of records that were seen; 0 if only a transaction ended.
        last_offset: the last offset that it wrote.
        is_cut: whether more was written there that was not read.
    """

    at: Partition
    producer: Producer
    records: int
    last_offset: int
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """What a producer has written while it was watched.

    Attributes:
        producer: who wrote.
        last: the last offset that it wrote, by partition.
        records: number of records.
        rate: records per second; None if it is not known.
        is_cut: whether records and rate are lower bounds.
    """

    producer: Producer
    last: Mapping[Partition, int]
    records: int
    rate: float | None
    is_cut: bool = False

    @property
    def amount(self) -> str:
        """How much it has written, in words."""
        least = "at least " if self.is_cut else ""
        rate = "" if self.rate is None else f", {self.rate:,.1f}/s"
        return f"{least}{counted(self.records, 'record')}{rate}"

    @property
    def where(self) -> str:
        """The partitions to which it has written, safe to print."""
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, number in sorted(self.last):
            topics[topic].append(number)
        return describe_assigned(tuple((topic, tuple(of)) for topic, of in topics.items()))

    @property
    def newest(self) -> str:
        """The last offset that it wrote, safe to print."""
        topic, number = at = max(self.last, key=lambda one: (self.last[one], one))
        text = f"offset {self.last[at]:,}"
        return text if len(self.last) == 1 else f"{text} of {safe_text(topic, _SHOWN)}-{number}"

    def describe(self) -> str:
        """Return who writes how much where, safe to print."""
        if not self.records:
            return f"{self.producer.name} ended a transaction on {self.where}"
        return f"{self.producer.name} on {self.where} ({self.amount}, last at {self.newest})"

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints of it."""
        known = self.producer
        return {
            "producer_id": None if known.id == NO_ID else known.id,
            "epoch": None if known.id == NO_ID else known.epoch,
            "transactional_id": known.transactional_id or None,
            "client_id": None,
            "host": None,
            "records": self.records,
            "rate": self.rate,
            "at_least": self.is_cut,
            "partitions": [
                {"topic": topic, "partition": number, "last_offset": offset}
                for (topic, number), offset in sorted(self.last.items())
            ],
        }


@dataclass(slots=True)
class _Sum:
    """What a producer has written so far."""

    producer: Producer
    last: dict[Partition, int] = field(default_factory=dict)
    records: int = 0
    is_cut: bool = False

    def add(self, one: Written) -> None:
        is_transactional = self.producer.is_transactional or one.producer.is_transactional
        self.producer = replace(one.producer, is_transactional=is_transactional)
        self.last[one.at] = max(one.last_offset, self.last.get(one.at, -1))
        self.records += one.records
        self.is_cut |= one.is_cut

    def sum_up(self, before: int, seconds: float) -> Writer:
        is_known = seconds > 0 and self.records > before
        rate = (self.records - before) / seconds if is_known else None
        return Writer(self.producer, dict(self.last), self.records, rate, self.is_cut)


class Writers:
    """Who has written, over successive readings."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], _Sum] = {}
        # What the first reading has was written before it, at an unknown rate.
        self._before: dict[tuple[int, int], int] = {}
        self._began: float | None = None
        self._now = 0.0
        self._named: set[str] = set()

    def add(self, written: Iterable[Written], now: float) -> None:
        """Take what was written since the last reading; ``now`` is in monotonic seconds."""
        for one in written:
            key = one.producer.id, one.producer.epoch
            self._seen.setdefault(key, _Sum(one.producer)).add(one)
        if self._began is None:
            self._began = now
            self._before = {key: of.records for key, of in self._seen.items()}
        self._now = now

    def list_new(self, most: int) -> Sequence[Writer]:
        """Return the writers that it has not returned before; nothing after ``most`` of them."""
        new = [writer for writer in self.list() if writer.producer.name not in self._named]
        new = new[: max(0, most - len(self._named))]
        self._named |= {writer.producer.name for writer in new}
        return new

    def list(self) -> Sequence[Writer]:
        """Return the writers, those that wrote most first."""
        seconds = 0.0 if self._began is None else self._now - self._began
        writers = [of.sum_up(self._before.get(key, 0), seconds) for key, of in self._seen.items()]
        return sorted(writers, key=lambda writer: (-writer.records, writer.producer.id))


def name_writers(writers: Sequence[Writer], most: int = _NAMED) -> str:
    """Return the first writers as text, and the number of further ones; "" for none."""
    return join_first([writer.describe() for writer in writers], most)
