"""Mapping source of copies with equal offsets, which another program makes.

Cluster Linking, Redpanda's shadowing and Kafka's own mirroring (KIP-1279) copy batches as they are,
with their offsets. That is not believed: it is proven for each committed offset, by the batches on
both clusters (:mod:`k2ktui.engine.mapping.equal_logs`), and only a proven offset is moved.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import ClassVar

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.anchors import OffsetAnchor, OffsetAnchors
from k2ktui.engine.mapping.equal_logs import Equality, LogPart, around, judge
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.clients import Cluster, describe_readable
from k2ktui.log.batch_identities import read_identities
from k2ktui.log.fetcher import Fetcher
from k2ktui.replication.topics.naming import target_names
from k2ktui.sync.mapping.source import (
    NO_TARGET_COMMITS,
    READ_S,
    Commits,
    CopierState,
    Copies,
    NothingCopied,
)
from k2ktui.text import counted, list_names

log = logging.getLogger(__name__)

_DRIVER = -1
_NAMED = 5
# A log may be cut or deleted after it was compared.
_PROVEN_S = 60.0
# Until the source is asked again that did not answer, since every attempt costs a time-out.
_DOWN_S = 30.0
_NOTE = "another program copies, with equal offsets, which are proven batch by batch"


@dataclass(frozen=True, slots=True)
class _Logs:
    """The two logs of a partition: the ids of their topics, "" if unknown, and their ends."""

    source_id: str
    target_id: str
    source_end: int
    target_end: int

    def follow(self, before: _Logs) -> bool:
        """Whether they may be the logs that were read before."""
        ids = ((self.source_id, before.source_id), (self.target_id, before.target_id))
        same = all(now == old for now, old in ids if now and old)
        ends = self.source_end >= before.source_end and self.target_end >= before.target_end
        return same and ends


@dataclass(slots=True)
class _Proofs:
    """What was proven of one partition, until when it counts (monotonic), and of which logs."""

    until: float
    logs: _Logs
    anchors: OffsetAnchors = field(default_factory=OffsetAnchors)


class EqualOffsets:
    """The ``MappingSource`` of copies with equal offsets; see ``sync/mapping/source.py``."""

    not_kept: ClassVar[str] = "nothing is kept"

    def __init__(self, config: PipelineConfig, source: Cluster, target: Cluster) -> None:
        self._config, self._source, self._target = config, source, target
        self._source_log, self._target_log = Fetcher(source), Fetcher(target)
        self._copies: dict[SourcePartition, TargetPartition] = {}
        self._proofs: dict[SourcePartition, _Proofs] = {}
        self._ends: dict[SourcePartition, int] = {}
        self._logs: dict[SourcePartition, _Logs] = {}
        self._different: dict[SourcePartition, str] = {}
        self._left_out: list[str] = []
        self._unknown: Counter[str] = Counter()
        self._down, self._again_at = "", 0.0

    def read_copier(self, *, heartbeats: bool = False) -> CopierState:
        """Read how far the copies have come: to the ends of their logs."""
        # The target first: what the source has got since is no difference.
        counts = self._target.partition_counts()
        ends = self._read_source_ends(counts)
        copies = {at: copy for at, copy in self._copies.items() if copy[1] < counts.get(copy[0], 0)}
        copied = self._target.offsets(
            list(copies.values()), OffsetSpec.latest(), IsolationLevel.READ_COMMITTED
        )
        self._ends = {at: copied[copy] for at, copy in copies.items() if copy in copied}
        self._forget_old_logs(ends)
        # Beyond the source's end are records of others.
        positions = {
            at: _position(min(end, ends.get(at, end)), copies[at]) for at, end in self._ends.items()
        }
        if not positions:
            raise self._nothing()
        return CopierState(positions, notes=(_NOTE,) if heartbeats else ())

    def read(
        self,
        copier: CopierState,
        commits: Commits,
        lowest_commits: Mapping[TargetPartition, int] = NO_TARGET_COMMITS,
        *,
        compare: bool = False,
        timeout: float = READ_S,
    ) -> Copies:
        """Compare the batches next to each committed offset, as far as it was not proven lately."""
        wanted = {
            at: new
            for at, offsets in commits.items()
            if at in copier.positions and (new := self._unproven(at, offsets))
        }
        self._unknown.clear()
        self._different = {at: why for at, why in self._different.items() if at not in wanted}
        if wanted and not self._down:
            self._prove(wanted, monotonic() + timeout)
        replicas = {
            at: Replica(
                position,
                anchors=self._proofs[at].anchors if at in self._proofs else OffsetAnchors(),
                only_proven=True,
                unusable_reason=self._different.get(at, ""),
            )
            for at, position in copier.positions.items()
        }
        return Copies(copier, replicas, tuple(self._notes()))

    def expires_at(self, commits: Commits) -> float | None:
        """Return None: nothing is kept."""
        return None

    def keep(self) -> None:
        """Keep nothing: what was proven counts for a minute."""

    def close(self) -> None:
        """Close all connections."""
        self._source_log.close()
        self._target_log.close()

    def _read_source_ends(self, copies: Mapping[str, int]) -> dict[SourcePartition, int]:
        """Return the ends of the source's logs; none, with the reason kept, if it does not answer.

        The source says which topics there are. Without it those seen before count, or, where copies
        have the names of their topics, those of the target (``copies``, with their partitions).
        """
        if not self._down or monotonic() >= self._again_at:
            try:
                self._copies = self._pair(self._source.partition_counts())
                logs = {(at.topic, at.partition): at for at in self._copies}
                ends = self._source.offsets(
                    list(logs), OffsetSpec.latest(), IsolationLevel.READ_COMMITTED
                )
                self._down = ""
                return {logs[at]: end for at, end in ends.items()}
            except (ConnectionFailed, TimedOut) as error:
                self._down, self._again_at = error.message, monotonic() + _DOWN_S
                log.info("equal offsets cannot be proven: %s", error.message)
        if not self._copies and self._config.topic_mapping.kind == "source":
            self._copies = self._pair(copies)
        return {}

    def _pair(self, counts: Mapping[str, int]) -> dict[SourcePartition, TargetPartition]:
        """Return the partitions of the selected topics, with those of their copies."""
        pairs: dict[SourcePartition, TargetPartition] = {}
        self._left_out = []
        for topic, count in sorted(counts.items()):
            if not self._config.topics.matches(topic):
                continue
            try:
                (target,) = target_names(self._config, topic)
            except Refused as error:  # a name that the target cannot have, for example
                self._left_out.append(error.message)
                continue
            pairs |= {SourcePartition(topic, n): (target, n) for n in range(count)}
        return pairs

    def _forget_old_logs(self, ends: Mapping[SourcePartition, int]) -> None:
        """Drop what was proven of logs that were created again, cut, or written by others."""
        topics = {at.topic for at in self._ends}, {self._copies[at][0] for at in self._ends}
        sides = (None if self._down else self._source), self._target
        ids = [
            {} if side is None else describe_readable(side, names)
            for side, names in zip(sides, topics, strict=True)
        ]
        for at, end in self._ends.items():
            source, copy = ids[0].get(at.topic), ids[1].get(self._copies[at][0])
            logs = _Logs(
                source.topic_id if source else "",
                copy.topic_id if copy else "",
                ends.get(at, end),
                end,
            )
            proofs = self._proofs.get(at)
            if proofs is not None and not (logs.follow(proofs.logs) and end <= logs.source_end):
                del self._proofs[at]
            elif proofs is not None:
                proofs.logs = logs
            self._logs[at] = logs

    def _unproven(self, at: SourcePartition, offsets: Collection[int]) -> set[int]:
        proofs = self._proofs.get(at)
        if proofs is None or monotonic() >= proofs.until:
            self._proofs[at] = proofs = _Proofs(monotonic() + _PROVEN_S, self._logs[at])
        return {offset for offset in offsets if not proofs.anchors.is_compared(offset)}

    def _prove(self, wanted: Mapping[SourcePartition, Collection[int]], until: float) -> None:
        near = {
            at: {one for offset in offsets for one in around(offset)}
            for at, offsets in wanted.items()
        }
        try:
            # In this order, too.
            copies = read_identities(
                self._target_log,
                {self._copies[at]: offsets for at, offsets in near.items()},
                (until - monotonic()) / 2,
            )
            logs = read_identities(
                self._source_log,
                {(at.topic, at.partition): offsets for at, offsets in near.items()},
                max(0.0, until - monotonic()),
            )
        except K2kError as error:
            self._unknown[error.message] += sum(map(len, wanted.values()))
            return
        for at, offsets in wanted.items():
            source, target = logs[at.topic, at.partition], copies[self._copies[at]]
            self._judge(at, sorted(offsets), source, target)

    def _judge(
        self, at: SourcePartition, offsets: Sequence[int], source: LogPart, target: LogPart
    ) -> None:
        for offset in offsets:
            equality, reason = judge(offset, source, target)
            if equality is Equality.PROVEN:
                self._proofs[at].anchors.prove(OffsetAnchor(offset, offset))
            elif equality is Equality.DIFFERENT:
                self._different[at] = f"the copy is not equal: {reason}"
            else:
                self._unknown[reason] += 1

    def _notes(self) -> Iterator[str]:
        """Yield why offsets are not proven."""
        if self._down:
            yield f"{self._down}: equal offsets cannot be proven"
        yield from self._left_out
        for reason, count in sorted(self._unknown.items()):
            yield f"{counted(count, 'offset')} not proven to be equal: {reason}"

    def _nothing(self) -> NothingCopied:
        if self._down:
            return NothingCopied(
                f"which topics another program copies is not known: {self._down}",
                hint="The source names them. Where copies have the names of their topics, the "
                "target does.",
            )
        names = sorted({copy for copy, _ in self._copies.values()})
        text = (
            f"none of the copies is on the target: {list_names(names, _NAMED)}"
            if names
            else "the source has none of the selected topics"
        )
        return NothingCopied(
            text,
            hint="Compare replication.source.topic and replication.sink.topic with the names that "
            "the program which copies gives its topics.",
        )


def _position(end: int, copy: TargetPartition) -> Position:
    topic, partition = copy
    return Position(end, 0, -1, "", 0, _DRIVER, topic, partition)
