"""What the opposite pipeline has copied: its mappings, and the records that nothing has copied.

Pipelines from our target to our source write their positions and mappings on our source. Their
commits are older than our own mappings when both are read in this order: the groups' commits, the
opposite pipeline's mappings, our mappings, and last the target's records after its position. A
record that is copied in between is then among those last ones, and counts as unread.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.intervals import FOREVER, Span
from k2ktui.engine.mapping.opposite_copy import (
    OppositeCopy,
    TailKind,
    find_returned_ends,
    find_uncopied,
)
from k2ktui.engine.mapping.ranges import MappingRanges, find_one
from k2ktui.engine.mapping.replica import Replica, TargetLog, TargetPartition, target_partitions_of
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import ContentReader, KafkaRecord, UnreadableReason
from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings
from k2ktui.sync.mapping.pipelines_of_pair import PipelinesOfPair
from k2ktui.sync.mapping.source import Commits, CopierState, NoPipelineFound
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_TAIL_S = 20.0
# Positions asked for at once, and at most, per partition: our own markers lie between our copies.
_AT_ONCE, _MOST = 100, 2_000

_NONE_YET = (
    "no pipeline has copied from the target to the source yet: records that applications wrote on "
    "the target are not considered"
)
_NONE_SEEN = (
    "the source does not answer, and this pipeline's mapping names no record there that came from "
    "the target: records that applications wrote on the target are not considered"
)
_RETURNED = (
    "the source does not answer: everything on the target was on the source when a failback led "
    "back to it, and records that applications wrote on the target since are not considered"
)
# In these modes it may be another program, whose mappings are unknown.
_OTHERS = (
    "no pipeline of k2ktui is known to copy from the target to the source, and with "
    "bidirectional.mode {mode} another program may: its offsets are unknown"
)

_Replicas = Mapping[SourcePartition, Replica]
_Logs = Mapping[TargetPartition, TargetLog]


@dataclass(frozen=True, slots=True)
class _Tail:
    """Where records that nothing has copied may begin, and what is there."""

    offset: int
    kind: TailKind


class OppositeMappings:
    """Reads the mappings of the pipelines from our target to our source; keeps them.

    Args:
        config: our pipeline.
        source, target: its clusters.
        patience_s: seconds for the search for records that nothing has copied; by default it also
            ends after a number of gaps between copies, so that a screen does not wait for it.

    Attributes:
        note: what an operator should know about them; may be empty.
    """

    def __init__(
        self,
        config: PipelineConfig,
        source: Cluster,
        target: Cluster,
        patience_s: float | None = None,
    ) -> None:
        self._patience_s = patience_s
        theirs = _opposite(config)
        self._pipelines = PipelinesOfPair(theirs, target, source)
        self._mappings = PipelineMappings(theirs, source, target, of_pair=self._pipelines)
        self._mode = config.bidirectional_mode
        self._is_named = any(config.bidirectional.opposite.model_dump().values())
        self._copier = CopierState()
        self._replicas: _Replicas = {}
        self._lowest: dict[TargetPartition, int] = {}
        self._failure = ""
        self._is_down = False
        self._logged = ""
        self._store = StateStore(config, target)
        # Per target partition and topic id: everything before this offset has been copied.
        self._clear: dict[tuple[TargetPartition, str], int] = {}
        self.note = ""

    def close(self) -> None:
        """Disconnect; the loaded mappings remain usable."""
        self._mappings.close()
        self._store.close()

    def read(self, commits: Commits, down: str = "", pair: ClusterPair = UNKNOWN_PAIR) -> None:
        """Read positions and mappings, after the groups' commits and before our mappings.

        A failure is kept: the positions that depend on them are then unmapped.

        Args:
            commits: committed offsets on the source.
            down: why the source does not answer; "" if it does.
            pair: our own, with the ids that the clusters had before they were restored.
        """
        self.note, self._failure, self._copier, self._replicas = "", "", CopierState(), {}
        self._is_down = bool(down)
        if down:
            self._fail(down)
            return
        self._lowest = {
            (at.topic, at.partition): min(offsets) for at, offsets in commits.items() if offsets
        }
        try:
            self._copier = self._mappings.read_copier()
            self._replicas = self._mappings.read(self._copier, {}, self._lowest).replicas
        except NoPipelineFound as error:
            self._explain_none(error, pair)
        except K2kError as error:
            self._fail(error.message)

    def copied_ends(self) -> dict[TargetPartition, int]:
        """Return the target offset up to which each partition was copied to the source."""
        return {
            (at.topic, at.partition): position.offset
            for at, position in self._copier.positions.items()
        }

    def lowest_offsets(self, logs: _Logs) -> dict[TargetPartition, int]:
        """Return the target offset from which our own ranges are needed, per partition."""
        lowest = {}
        for at, replica in self._replicas.items():
            position, where = self._copier.positions[at], (at.topic, at.partition)
            low = [position.offset, *(first for first, _ in replica.unknown_spans)]
            if where in logs and logs[where].start < position.start:
                low.append(logs[where].start)
            for target, ranges in replica.target_ranges.items():
                if target in self._lowest:
                    first = find_one(ranges.back, self._lowest[target])
                    low += [] if first is None else [first]
            lowest[where] = min(low)
        return lowest

    def join(
        self,
        replicas: _Replicas,
        logs: _Logs,
        commits: Commits,
        topic_ids: tuple[Mapping[str, str], Mapping[str, str]],
        contents: ContentReader,
    ) -> dict[TargetPartition, OppositeCopy]:
        """Return what was copied from our target partitions, after our mappings were read.

        Args:
            replicas: our copies.
            logs: bounds of the target partitions.
            commits: as for ``read``.
            topic_ids: ids of the topics that exist on the source, as far as known, and on the
                target.
            contents: reads the target's records.

        Raises:
            ConnectionFailed: the target does not answer.
        """
        wanted = {where for replica in replicas.values() for where in target_partitions_of(replica)}
        if self._replicas:
            self._load_counted(replicas, logs, commits)
        if self._is_down and self._mode == "provenance" and not _has_left_out(replicas):
            self.note = _NONE_SEEN
            return _copy_without_source(wanted, replicas)
        if self._is_down and self._has_led_back(replicas):
            self.note = _RETURNED
            return _copy_without_source(wanted, replicas)
        if self._failure:
            unusable = Replica(None, unusable_reason=self._failure)
            return {at: OppositeCopy(unusable, 0, TailKind.UNCHECKED) for at in wanted}
        topics = {at.topic for at in self._copier.positions}
        wanted = {at for at in wanted if at[0] in topics and at in logs}
        tails = self._find_tails(replicas, {at: logs[at] for at in wanted}, topic_ids[1], contents)
        return {
            at: OppositeCopy(self._replica(at, topic_ids), tails[at].offset, tails[at].kind)
            for at in sorted(wanted)
        }

    def _has_led_back(self, replicas: _Replicas) -> bool:
        """Whether the last drill was a failback to the source, and nothing was copied there since.

        As far as our mappings tell.
        """
        if self._mode != "provenance":
            return False
        try:
            drills = self._store.read().drills.values()
        except K2kError:
            return False
        opened = [drill for drill in drills if drill.figures.opened_ms is not None]
        last = max(opened, key=lambda drill: drill.figures.opened_ms or 0, default=None)
        ends = {SourcePartition(e.topic, e.partition): e.end for e in last.returned} if last else {}
        return bool(ends) and all(
            replica.left_out_end <= ends.get(at, 0) for at, replica in replicas.items()
        )

    def _load_counted(self, replicas: _Replicas, logs: _Logs, commits: Commits) -> None:
        """Load the ranges of records that may be read again."""
        low = self.lowest_offsets(logs)
        for source, offsets in commits.items():
            replica = replicas.get(source)
            if replica is None or not offsets:
                continue
            for target, ranges in replica.target_ranges.items():
                first = find_one(ranges.translate, min(offsets))
                if first is not None and target in low:
                    low[target] = min(low[target], first)
        needed = {SourcePartition(*at): {offset} for at, offset in low.items()}
        needed = {at: offsets for at, offsets in needed.items() if at in self._replicas}
        try:
            self._replicas = self._mappings.read(self._copier, needed, self._lowest).replicas
        except K2kError as error:
            self._fail(error.message)

    def _explain_none(self, error: NoPipelineFound, own: ClusterPair) -> None:
        if self._pipelines.may_exist(own):
            self._fail(error.message)
        elif self._mode == "provenance":
            self.note = _NONE_YET if self._is_expected() else ""
        else:
            self._failure = _OTHERS.format(mode=self._mode)

    def _is_expected(self) -> bool:
        """Whether an opposite pipeline should have copied: its topics are named, or groups moved.

        Before a failover, applications write on the source only.
        """
        if self._is_named:
            return True
        try:
            state = self._store.read()
        except K2kError:
            return True
        moved = any(header.operation == "apply" for header in state.journal.values())
        return moved or any(d.figures.opened_ms is not None for d in state.drills.values())

    def _fail(self, reason: str) -> None:
        if reason != self._logged:
            self._logged = reason
            log.info("mappings of the opposite pipeline not read: %s", reason)
        self._failure = f"its mappings cannot be read: {reason}"
        self.note = f"opposite pipeline: {self._failure}"

    def _replica(
        self, at: TargetPartition, topic_ids: tuple[Mapping[str, str], Mapping[str, str]]
    ) -> Replica:
        source = SourcePartition(*at)
        replica, position = self._replicas.get(source), self._copier.positions.get(source)
        if replica is None or position is None:
            return Replica(None)
        on_source, on_target = topic_ids
        reason = replica.unusable_reason
        reason = reason or _find_replaced(source.topic, position.topic_id, on_target, "target")
        if position.target_topic in on_source:
            reason = reason or _find_replaced(
                position.target_topic, position.target_topic_id, on_source, "source"
            )
        return replace(replica, unusable_reason=reason)

    def _find_tails(
        self, replicas: _Replicas, logs: _Logs, ids: Mapping[str, str], contents: ContentReader
    ) -> dict[TargetPartition, _Tail]:
        """Return the first record of each partition that neither pipeline has copied."""
        patience = self._patience_s
        until = monotonic() + (_TAIL_S if patience is None else max(_TAIL_S, patience))
        most = _MOST if patience is None else FOREVER
        copies: dict[TargetPartition, list[MappingRanges]] = {}
        for replica in replicas.values():
            for target, ranges in replica.target_ranges.items():
                copies.setdefault(target, []).append(ranges)
        tails: dict[TargetPartition, _Tail] = {}
        todo: dict[TargetPartition, list[Span]] = {}
        for at, target_log in logs.items():
            position = self._copier.positions.get(SourcePartition(*at))
            known = max(target_log.start, position.offset if position else 0)
            clear = self._clear.get((at, ids.get(at[0], "")), 0)
            begin = max(known, clear) if clear <= target_log.end else known
            tails[at] = _Tail(max(begin, target_log.end), TailKind.END)
            todo[at] = find_uncopied(copies.get(at, ()), begin, target_log.end)
        taken = 0
        while todo := {at: spans for at, spans in todo.items() if spans}:
            rest = max(0.0, until - monotonic())
            if taken >= most or not rest:
                tails |= {at: _Tail(spans[0][0], TailKind.UNCHECKED) for at, spans in todo.items()}
                break
            asked = {at: spans[:_AT_ONCE] for at, spans in todo.items()}
            answers = contents.next_records(
                [(*at, first) for at, spans in asked.items() for first, _ in spans], rest
            )
            for at, spans in asked.items():
                tail = _judge(spans, [answers[(*at, first)] for first, _ in spans])
                if tail is not None:
                    tails[at] = tail
                done = tail is not None or answers[(*at, spans[-1][0])] is None
                todo[at] = [] if done else todo[at][_AT_ONCE:]
            taken += _AT_ONCE
        for at, tail in tails.items():
            self._clear[at, ids.get(at[0], "")] = tail.offset
        return tails


def _has_left_out(replicas: _Replicas) -> bool:
    """Return whether our mappings name records that came from the target."""
    return any(replica.left_out_end for replica in replicas.values())


def _copy_without_source(
    wanted: Collection[TargetPartition], replicas: _Replicas
) -> dict[TargetPartition, OppositeCopy]:
    ends = find_returned_ends(replicas)
    if not any(ends.values()):
        return {}
    return dict.fromkeys(wanted, OppositeCopy(Replica(None), 0, TailKind.UNCHECKED, ends))


def _judge(
    spans: Sequence[Span], answers: Sequence[KafkaRecord | UnreadableReason | None]
) -> _Tail | None:
    """Return the tail if it begins in one of these gaps between copies."""
    for (first, end), answer in zip(spans, answers, strict=True):
        if isinstance(answer, UnreadableReason):
            return _Tail(first, TailKind.UNCHECKED)
        if answer is not None and answer.offset < end:
            return _Tail(answer.offset, TailKind.RECORD)
    return None


def _find_replaced(topic: str, known: str, ids: Mapping[str, str], side: str) -> str:
    """Return why a topic is not the one that was copied; "" if it is."""
    if topic not in ids:
        return f"{safe_text(topic)} does not exist on the {side} any more"
    if known and ids[topic] and known != ids[topic]:
        return f"{safe_text(topic)} was deleted and created again on the {side}"
    return ""


def _opposite(config: PipelineConfig) -> PipelineConfig:
    """Return the settings under which the opposite pipeline's topics are read."""
    commit = config.coordination.commit.model_copy(update={"topic": config.opposite.commit_topic})
    mapping = config.offset_mapping.model_copy(update={"topic": config.opposite.mapping_topic})
    state = config.coordination.state.model_copy(update={"topic": config.opposite.state_topic})
    coordination = config.coordination.model_copy(update={"commit": commit, "state": state})
    return config.model_copy(update={"coordination": coordination, "offset_mapping": mapping})
