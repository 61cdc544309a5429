"""Every damage on topics of every kind, and what a comparison must say of each.

A topic of each kind has a partition for each damage, so that one pair of clusters and one stop of
the target do for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    START_S,
    Got,
    Out,
    create_topic,
    end_offsets,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.pipelines.copied import Copied
from tests.support.records.damage import (
    Damage,
    change_header,
    change_time,
    damage_log,
    double,
    flip_byte,
    remove,
    swap,
)

DIFFERS, MISSING, NATIVE = "differs", "missing on the target", "native to the target"
# Made in the target's log, with the offsets, relative to the damaged record, that are reported.
IN_THE_LOG: dict[str, tuple[Damage, dict[int, str]]] = {
    "byte flipped": (flip_byte, {0: DIFFERS}),
    "header changed": (change_header, {0: DIFFERS}),
    "timestamp changed": (change_time, {0: DIFFERS}),
    "removed": (remove, {0: MISSING}),
    "doubled": (double, {0: DIFFERS}),
    "swapped": (swap, {-1: DIFFERS, 0: DIFFERS}),
}
DOUBLED, STRANGER = "doubled at the end", "a stranger's"
NONE = "none"
DAMAGES = (*IN_THE_LOG, DOUBLED, STRANGER, NONE)
CODECS = ("gzip", "snappy", "lz4", "zstd")
KINDS = ("plain", *CODECS, "compacted", "transactional")
RECORDS, DAMAGED = 30, 17
# Both topics count as compacted, and nothing is old enough to be.
_COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "100000000000000"}
# Nothing is sent before the flush, on a machine as slow as it may be.
_LINGER_MS = 10_000

Where = tuple[str, int]
Place = tuple[str, int | None, int]


class DamageTable:
    """Topics of all kinds, copied; ``damage`` puts every damage on the copies.

    Args:
        directory: for the pipeline's file.
        source, target: running clusters.
    """

    def __init__(self, directory: Path, source: KafkaNode, target: KafkaNode) -> None:
        self.copied = Copied(directory, source, target, prior=0)
        self._topics = {kind: unique_name(kind) for kind in KINDS}
        # Source and target offset of each record, in order; where a record was added.
        self._copies: dict[Where, list[tuple[int, int]]] = {}
        self._added: dict[Where, int] = {}
        for kind, topic in self._topics.items():
            for node in (source, target):
                config = _COMPACTED if kind == "compacted" else {}
                create_topic(node, topic, len(DAMAGES), config)
            _fill(source, kind, topic)
            self._copies |= self._copy(kind, topic)

    def at(self, kind: str, damage: str) -> Where:
        """Return the partition for a damage."""
        return self._topics[kind], DAMAGES.index(damage)

    def damage(self) -> None:
        """Put each damage on its partition of each topic; the target is stopped meanwhile."""
        target = self.copied.target
        target.stop()
        for kind, topic in self._topics.items():
            for damage, (make, _) in IN_THE_LOG.items():
                at = self.at(kind, damage)
                damage_log(target, topic, self._copies[at][DAMAGED][1], make, at[1])
        target.start(START_S)
        for kind, topic in self._topics.items():
            at = self.at(kind, DOUBLED)
            place = at[1], self._copies[at][DAMAGED][1]
            (twin,) = (g for g in read_all(target, topic) if (g.partition, g.offset) == place)
            (self._added[at],) = _write(target, kind, topic, [_copy_of(twin)])
            at = self.at(kind, STRANGER)
            (self._added[at],) = _write(target, kind, topic, [Out(b"stranger", b"key", at[1])])

    def expected(self, kind: str, damage: str) -> list[Place]:
        """Return outcome, source offset and target offset of what must be reported."""
        at = self.at(kind, damage)
        if damage in IN_THE_LOG:
            _, outcomes = IN_THE_LOG[damage]
            return [(says, *self._copies[at][DAMAGED + by]) for by, says in outcomes.items()]
        return [(NATIVE, None, self._added[at])] if at in self._added else []

    def _copy(self, kind: str, topic: str) -> dict[Where, list[tuple[int, int]]]:
        """Copy a topic in batches like the source's; return both offsets of each record."""
        copied = self.copied
        records = list(read_all(copied.source, topic))
        offsets = _write(copied.target, kind, topic, [_copy_of(got) for got in records])
        pairs: dict[Where, list[tuple[int, int]]] = defaultdict(list)
        for got, offset in zip(records, offsets, strict=True):
            pairs[topic, got.partition].append((got.offset, offset))
        for partition, end in end_offsets(copied.source, topic, "read_committed").items():
            copied.record(topic, partition, dict(pairs[topic, partition]), end, 0)
        return pairs


def _fill(node: KafkaNode, kind: str, topic: str) -> None:
    partitions = range(len(DAMAGES))

    def records(numbers: Iterable[int]) -> list[Out]:
        return [Out(b"v%d" % n, b"k%d" % n, partition) for n in numbers for partition in partitions]

    if kind != "transactional":
        _write(node, kind, topic, records(range(RECORDS)))
        return
    aborted = [Out(b"aborted", partition=partition) for partition in partitions]
    for numbers in (range(10), range(10, RECORDS)):
        produce_transaction(node, topic, aborted, commit=False)
        _write(node, kind, topic, records(numbers))


def _copy_of(got: Got) -> Out:
    return Out(got.value, got.key, got.partition, got.headers, got.timestamp)


def _write(node: KafkaNode, kind: str, topic: str, records: list[Out]) -> list[int]:
    """Produce a batch for each partition, as the kind has them; return the offsets."""
    if kind == "transactional":
        return produce_transaction(node, topic, records, linger_ms=_LINGER_MS)
    codec = kind if kind in CODECS else "none"
    return produce(node, topic, records, compression_type=codec, linger_ms=_LINGER_MS)


def by_partition(report: Mapping[str, Any]) -> dict[Where, Any]:
    """Return what a report says of each partition."""
    return {(one["topic"], one["partition"]): one for one in report["partitions"]}


def places(partition: Mapping[str, Any]) -> list[Place]:
    """Return outcome, source offset and target offset of each finding of a partition."""
    at = partition["topic"], partition["partition"]
    findings = partition["findings"]
    assert all((one["target_topic"], one["target_partition"]) == at for one in findings)
    return [(one["outcome"], one["source_offset"], one["target_offset"]) for one in findings]
