"""Decide what a pair of next records proves, and distinguish compaction and lag from errors.

If both are the same, the position is right. If not, the mapping decides: where the source's next
record landed, and whether the target's next record is one that the group has not consumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.mapping.ranges import find_one
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.admin.topics import topic_settings
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.log.content import (
    Answer,
    KafkaRecord,
    LogBounds,
    UnreadableReason,
    compare_content,
    content_digest,
)


class ComparisonOutcome(StrEnum):
    """The result of a check.

    ``re-reads`` is a group's position before the first record that it has not read: it reads some
    again and skips none. ``different`` is everything that must not be.
    """

    SAME = "same"
    REREADS = "re-reads"
    DIFFERENT = "different"
    COULD_NOT_CHECK = "could-not-check"


BOTH_AT_END = "both at the end"
NOT_REPLICATED = "not replicated yet"


@dataclass(frozen=True, slots=True)
class Comparison:
    """An outcome and its reason; the reason may be empty."""

    outcome: ComparisonOutcome
    why: str = ""


@dataclass(frozen=True, slots=True, order=True)
class PositionPair:
    """A position on the source and the corresponding position on the target."""

    source: SourcePartition
    source_offset: int
    target: TargetPartition
    target_offset: int


def _no_ids(_topic: str, _source: KafkaRecord, _target: KafkaRecord) -> Comparison:
    return Comparison(ComparisonOutcome.SAME)


@dataclass(frozen=True, slots=True)
class RecordComparison:
    """How a record and its copy are compared.

    Attributes:
        ignore: from a source topic to the parts of its records (``k2ktui.log.record.RecordPart``)
            that the pipeline changes on purpose.
        compare_ids: compares the schema ids of a source topic's record and of its copy, where
            ``ignore`` leaves them out; without it, any ids are right.
    """

    ignore: Callable[[str], Collection[str]] = lambda _: ()
    compare_ids: Callable[[str, KafkaRecord, KafkaRecord], Comparison] = _no_ids

    def compare(self, topic: str, source: KafkaRecord, target: KafkaRecord) -> Comparison:
        """Compare a source topic's record with a record on the target."""
        difference = compare_content(source, target, self.ignore(topic))
        if difference:
            return Comparison(ComparisonOutcome.DIFFERENT, difference)
        return self.compare_ids(topic, source, target)

    def digest(self, topic: str, record: KafkaRecord) -> str:
        """Return the digest of a record of a source topic, or of its copy, without their ids."""
        return content_digest(record, self.ignore(topic))


class Compaction:
    """Whether compaction may have removed a record of a topic; one request per topic.

    A topic whose configuration cannot be read counts as compacted.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, bool] = {}

    def may(self, topic: str) -> bool:
        """Whether the topic's ``cleanup.policy`` contains ``compact``, or is unknown."""
        if topic not in self._known:
            self._known[topic] = self._ask(topic)
        return self._known[topic]

    def _ask(self, topic: str) -> bool:
        try:
            settings = topic_settings(self._cluster, [topic]).get(topic)
        except (ConnectionFailed, TimedOut):
            return True
        if settings is None or isinstance(settings, K2kError) or "cleanup.policy" not in settings:
            return True
        return "compact" in settings["cleanup.policy"].value


class RecordComparator:
    """Compares pairs of next records.

    Args:
        replicas: known state of each source partition's copy; may be empty.
        pairs: all pairs to be compared; they also show which partitions merge or split.
        compacted: whether compaction may have removed a record, of a source and a target topic.
        records: how a record and its copy are compared.
        both_ways: target partitions with records of both directions. Their pairs are of one record,
            not of next ones: the next ones differ where the orders do.
    """

    def __init__(
        self,
        replicas: Mapping[SourcePartition, Replica],
        pairs: Iterable[PositionPair],
        compacted: tuple[Callable[[str], bool], Callable[[str], bool]],
        records: RecordComparison = RecordComparison(),
        both_ways: Collection[Partition] = (),
    ) -> None:
        self._replicas = replicas
        self._both_ways = both_ways
        self._source_compacted, self._target_compacted = compacted
        self._records = records
        all_pairs = {
            (at, target) for at, replica in replicas.items() for target in replica.target_ranges
        }
        all_pairs |= {(pair.source, pair.target) for pair in pairs}
        sources = Counter(source for source, _ in all_pairs)
        targets = Counter(target for _, target in all_pairs)
        self._meeting = {target for target, count in targets.items() if count > 1}
        self._parting = {source for source, count in sources.items() if count > 1}

    def judge(
        self,
        pair: PositionPair,
        source: Answer,
        target: Answer,
        bounds: Mapping[Partition, LogBounds],
    ) -> Comparison:
        """Return what the next records of a pair prove.

        Args:
            pair: the positions.
            source: next record on the source.
            target: next record on the target, read before it.
            bounds: bounds of target logs, as known after reading.
        """
        for side, answer in (("source", source), ("target", target)):
            if isinstance(answer, UnreadableReason):
                return _could_not_check(f"{side}: {answer.reason}")
        if source is None and target is None:
            return Comparison(ComparisonOutcome.SAME, BOTH_AT_END)
        assert not isinstance(source, UnreadableReason) and not isinstance(target, UnreadableReason)
        compared = Comparison(ComparisonOutcome.SAME)
        if source and target:
            compared = self._records.compare(pair.source.topic, source, target)
        if pair.target in self._both_ways:
            return _judge_one_record(pair, source, target, compared)
        difference = compared.why if compared.outcome is ComparisonOutcome.DIFFERENT else ""
        if source and target and not difference and self._may_be_copy(pair, source, target):
            return compared
        replica = self._replicas.get(pair.source)
        if replica is not None and replica.unusable_reason:
            return _could_not_check(replica.unusable_reason)
        if self._several(pair):
            return _could_not_check(
                "records of several partitions merge or split here: there is no single next record"
            )
        if not self._is_mapping_complete(pair):
            return self._without_mapping(pair, source, target, difference)
        if source is None:
            assert target is not None
            return self._beyond_source(pair, target)
        return self._with_mapping(pair, source, target, difference, bounds)

    def _several(self, pair: PositionPair) -> bool:
        return pair.target in self._meeting or pair.source in self._parting

    def _may_be_copy(self, pair: PositionPair, source: KafkaRecord, target: KafkaRecord) -> bool:
        """Whether the target record may be the copy: the mapping does not say otherwise."""
        if self._several(pair) or not self._is_mapping_complete(pair):
            return True
        return self._target_offset_of(pair, source.offset) in (None, target.offset)

    def _is_mapping_complete(self, pair: PositionPair) -> bool:
        """Whether the mapping is complete for source offsets from the position on."""
        replica = self._replicas.get(pair.source)
        if (
            replica is None
            or replica.unusable_reason
            or replica.behind
            or replica.anchors is not None
        ):
            return False
        return replica.known_from <= pair.source_offset and not any(
            end > pair.source_offset for _, end in replica.holes
        )

    def _target_offset_of(self, pair: PositionPair, offset: int) -> int | None:
        """Return where the first mapped record at or after a source offset landed."""
        ranges = self._replicas[pair.source].target_ranges.get(pair.target)
        if ranges is None:
            return None
        return find_one(ranges.translate, offset)

    def _without_mapping(
        self,
        pair: PositionPair,
        source: KafkaRecord | None,
        target: KafkaRecord | None,
        difference: str,
    ) -> Comparison:
        if target is None:
            return _could_not_check(NOT_REPLICATED)
        if source is None:
            difference = f"the source has no record left, the target has one at {target.offset}"
        if self._source_compacted(pair.source.topic) or self._target_compacted(pair.target[0]):
            return _could_not_check(
                f"{difference}; compaction may be why, and no mapping of this position is known"
            )
        return Comparison(ComparisonOutcome.DIFFERENT, difference)

    def _beyond_source(self, pair: PositionPair, target: KafkaRecord) -> Comparison:
        """Compare when the source has no record left and the target has one."""
        first = self._target_offset_of(pair, pair.source_offset)
        if first is not None and target.offset >= first:
            return _could_not_check("the source no longer holds the record")
        text = f"the source has no record left, the target has one at {target.offset}"
        copies = self._replicas[pair.source].target_ranges.get(pair.target)
        end = first if first is not None else copies.target_end if copies is not None else None
        if end is not None and target.offset < end:
            return Comparison(ComparisonOutcome.REREADS, f"{text}, before the first unread one")
        return Comparison(
            ComparisonOutcome.DIFFERENT, f"{text} that was not copied from that partition"
        )

    def _with_mapping(
        self,
        pair: PositionPair,
        source: KafkaRecord,
        target: KafkaRecord | None,
        difference: str,
        bounds: Mapping[Partition, LogBounds],
    ) -> Comparison:
        first = self._target_offset_of(pair, pair.source_offset)
        landed = self._target_offset_of(pair, source.offset)
        if target is not None and first is not None and target.offset < first:
            return Comparison(
                ComparisonOutcome.REREADS,
                f"the target's next record, at {target.offset}, is before the first unread one, "
                f"at {first}",
            )
        if landed is None:
            return self._not_landed(source, target, first)
        if landed < pair.target_offset:
            return Comparison(
                ComparisonOutcome.DIFFERENT,
                f"the source's next record, at {source.offset}, landed at {landed}, "
                "before the committed offset: it would be skipped",
            )
        if target is None or target.offset > landed:
            return self._explain_missing(pair, source.offset, landed, bounds.get(pair.target))
        if target.offset == landed:
            return Comparison(ComparisonOutcome.DIFFERENT, difference)
        return _could_not_check("the source no longer holds the record")

    def _not_landed(
        self, source: KafkaRecord, target: KafkaRecord | None, first: int | None
    ) -> Comparison:
        if target is None:
            return _could_not_check(NOT_REPLICATED)
        if first is not None:
            return _could_not_check("the source no longer holds the record")
        return Comparison(
            ComparisonOutcome.DIFFERENT,
            f"the target has a record at {target.offset}, but the source's next one, at "
            f"{source.offset}, is not replicated yet",
        )

    def _explain_missing(
        self, pair: PositionPair, offset: int, landed: int, bounds: LogBounds | None
    ) -> Comparison:
        """Explain why the target has no record where the source's next record landed."""
        where = f"the record at {offset} landed at {landed}"
        if bounds is not None and bounds.stable <= landed < bounds.high:
            return _could_not_check(f"{where}, which an open transaction hides")
        if bounds is not None and landed >= bounds.high:
            return Comparison(
                ComparisonOutcome.DIFFERENT, f"{where}, but the target's log ends before that"
            )
        if self._target_compacted(pair.target[0]):
            return _could_not_check(f"{where}, and was compacted away there")
        return Comparison(ComparisonOutcome.DIFFERENT, f"{where}, where the target has no record")


def _judge_one_record(
    pair: PositionPair,
    source: KafkaRecord | None,
    target: KafkaRecord | None,
    compared: Comparison,
) -> Comparison:
    """Return what the two copies of one record prove."""
    if source is None or source.offset != pair.source_offset:
        return _could_not_check("the source does not hold the record (any longer)")
    if target is None or target.offset != pair.target_offset:
        return _could_not_check("the target does not hold the record (any longer)")
    return compared


def _could_not_check(why: str) -> Comparison:
    return Comparison(ComparisonOutcome.COULD_NOT_CHECK, why)
