"""Assemble a view from the latest facts of each part; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.drill.pair_state import Ends, PairState, find_arrival, find_pair_state
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.group_sums import GroupsOnBoth, GroupSummary, counts, summarize_groups
from k2ktui.engine.moves.groups import Finding, after_failover, outcome
from k2ktui.engine.records.gaps import lost_gaps
from k2ktui.engine.records.hold import NO_HOLDS, Hold, Holds
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import (
    PartitionState,
    PartitionStatus,
    count_lag,
    coverage,
    state_of,
    sum_lags,
    with_held_back,
    with_hold,
    with_move,
)
from k2ktui.sync.drill.pair import choose_opposite
from k2ktui.text import counted, list_names
from k2ktui.watch.facts import (
    ComparisonFacts,
    GroupFacts,
    Known,
    MappedSummary,
    SourceFacts,
    StateFacts,
    TargetFacts,
)
from k2ktui.watch.history import History
from k2ktui.watch.model import (
    ClusterView,
    Part,
    PartitionRow,
    PartName,
    PipelinePair,
    Span,
    Totals,
    View,
    ranges_below,
)
from k2ktui.watch.reason import reason_for
from k2ktui.watch.unchanged import Same, Unchanged

F = TypeVar("F")
TargetOf = tuple[str, int | None]

_SPANS = 32
_RANGES = 8
_NAMES = 5
_SIDES = (PartName.SOURCE, PartName.TARGET)
_EXACT = frozenset({Basis.EXACT, Basis.END})
_NOTHING: Ends = MappingProxyType({})


class Assembler:
    """Assembles views of one pipeline; keeps the history that trends need.

    Args:
        pair: identity of the pipeline.
        path_of: from a source topic to the name of the path that its records take.
        addresses: of source and target, shown until the clusters answer.
        target_of: returns where a partition without a position will go: topic and partition, as in
            :class:`~k2ktui.engine.status.PartitionStatus`.
        objectives: what a failover may cost at most.
    """

    def __init__(
        self,
        pair: PipelinePair,
        path_of: Callable[[str], str] = lambda topic: "",
        addresses: tuple[str, str] = ("", ""),
        target_of: Callable[[SourcePartition], TargetOf] = lambda at: ("", None),
        objectives: Objectives = NO_OBJECTIVES,
    ) -> None:
        self.pair, self._path_of = pair, path_of
        self._objectives = objectives
        self._target_of = target_of
        self._addresses = addresses
        self._read_at: float | None = None
        self._cached_rows: dict[SourcePartition, tuple[object, PartitionRow] | None] = {}
        # What the last rows, summaries and totals were made from: with thousands of partitions,
        # comparing it costs a small part of making them again.
        self._rows_of: Unchanged[tuple[PartitionRow, ...]] = Unchanged()
        self._summaries_of: Unchanged[tuple[GroupSummary, ...]] = Unchanged()
        self._totals_of: Unchanged[Totals] = Unchanged()
        self._moved_of: Unchanged[GroupFacts] = Unchanged()
        # Whether the workload is on the target, and nothing is copied there any more.
        self._past = False
        self.history = History()

    def view(self, now: float, known: Known, parts: Mapping[PartName, Part]) -> View:
        """Return a view of the current facts."""
        source = _fact(known, PartName.SOURCE, SourceFacts)
        target = _fact(known, PartName.TARGET, TargetFacts)
        groups = _fact(known, PartName.GROUPS, GroupFacts)
        state = _fact(known, PartName.STATE, StateFacts)
        audit = _audit(known, groups)
        pair, arrival = _find_pair(self.pair.pipeline, state, source, target)
        if pair.moved and groups is not None:
            groups = self._moved_of.get((Same(groups),), partial(_after_failover, groups))
        self._past = pair.moved and bool(pair.fenced_by or self.pair.mirror)
        source_is_stale = PartName.SOURCE in parts and parts[PartName.SOURCE].stale
        holds = state.holds if state else NO_HOLDS
        rows = self._rows(source, target, groups, holds, newest=source_is_stale)
        # Rates are of the moments at which the source was read, as positions and lag are.
        read_at = source.taken_at if source else target.taken_at if target else None
        fresh = read_at != self._read_at
        if any(parts[side].stale for side in _SIDES if side in parts):
            # The current copy rate is unknown.
            rows = self.history.without_trends(rows)
            totals = self._sum_totals(rows, groups, arrival)
        elif fresh:
            self._read_at = read_at
            rows = self.history.add(now, rows)
            totals = self.history.add_totals(now, self._sum_totals(rows, groups, arrival))
        else:
            rows = self.history.with_trends(rows)
            totals = self.history.totals_with_trend(self._sum_totals(rows, groups, arrival))
        return View(
            pair=self.pair,
            taken_at=now,
            parts=dict(parts),
            source=source.cluster if source else ClusterView(address=self._addresses[0]),
            target=target.cluster if target else ClusterView(address=self._addresses[1]),
            partitions=rows,
            groups=groups.rows if groups else (),
            summaries=self._summarize(groups, rows, audit) if groups else (),
            heartbeat_at=target.heartbeat_at if target else None,
            commits_at=groups.commits_at if groups else None,
            source_down=groups.source_down if groups else "",
            runners=state.runners if state else (),
            journal=state.journal if state else (),
            drills=state.drills if state else (),
            rehearsals=state.rehearsals if state else (),
            pair_state=pair,
            objectives=self._objectives,
            last_comparison=state.comparison if state else None,
            totals=totals,
            points=self.history.points,
            audit=audit,
            mappings_expire_at=groups.mappings_expire_at if groups else None,
            notes=_notes(source, target, groups, state),
            has_run=target is None or target.nothing_copied is None,
        )

    def _rows(
        self,
        source: SourceFacts | None,
        target: TargetFacts | None,
        groups: GroupFacts | None,
        holds: Holds,
        *,
        newest: bool,
    ) -> tuple[PartitionRow, ...]:
        """Return a row per partition.

        A row has the position that was known when the source's ends were read; with a newer one
        its lag would be too low. While the source does not answer, rows have the ``newest``
        positions, and the lag as it was when the source was last read.
        """
        inputs = (
            newest,
            holds,
            self._past,
            None if groups is None else groups.mapped,
            None
            if target is None
            else (target.positions, target.ends, target.deleted, target.moved),
            None
            if source is None
            else (
                (source.starts, source.ends, source.high, source.topic_ids, source.partitions),
                (source.ages, source.truncated, source.held_back, source.positions),
                source.deleted,
            ),
        )
        make = partial(self._make_rows, source, target, groups, holds, newest=newest)
        return self._rows_of.get(inputs, make)

    def _make_rows(
        self,
        source: SourceFacts | None,
        target: TargetFacts | None,
        groups: GroupFacts | None,
        holds: Holds,
        *,
        newest: bool,
    ) -> tuple[PartitionRow, ...]:
        positions = target.positions if target else {}
        if source is not None and not newest:
            positions = {at: source.positions.get(at, p) for at, p in positions.items()}
        mapped = groups.mapped if groups else {}
        names = set(positions) | set(source.partitions if source else ())
        deleted, moved = _deleted(source, target), target.moved if target else NO_MOVED_TOPICS
        names.difference_update(at for at, log in deleted.items() if log is None)
        if names != self._cached_rows.keys():
            self._cached_rows = {at: self._cached_rows.get(at) for at in sorted(names)}
        for at, cached in self._cached_rows.items():
            own = (positions.get(at), mapped.get(at), groups is not None)
            log, kept = deleted.get(at), (holds.of(at.topic, at.partition), moved.get(at.topic))
            facts = (self._past, *own, *_source_facts(at, source), *_target_facts(target, own[0]))
            facts = (*facts, log, *kept)
            # Most of thousands of partitions are unchanged: reuse their rows.
            if cached is None or cached[0] != facts:
                row = self._row(at, source, target, kept, *own)
                self._cached_rows[at] = (facts, row if log is None else _with_lost(row, log))
        return tuple(cached[1] for cached in self._cached_rows.values() if cached)

    def _summarize(
        self, groups: GroupFacts, rows: tuple[PartitionRow, ...], audit: Audit | None
    ) -> tuple[GroupSummary, ...]:
        inputs = (Same(rows), groups.rows, groups.source, groups.target, audit)
        return self._summaries_of.get(inputs, partial(_summarize, groups, rows, audit))

    def _sum_totals(
        self, rows: tuple[PartitionRow, ...], groups: GroupFacts | None, arrival: Ends
    ) -> Totals:
        of_groups = None if groups is None else (groups.rows, len(groups.source))
        inputs = (Same(rows), of_groups, arrival)
        return self._totals_of.get(inputs, partial(sum_totals, rows, groups, arrival))

    def _row(
        self,
        at: SourcePartition,
        source: SourceFacts | None,
        target: TargetFacts | None,
        kept: tuple[Hold | None, MovedTopic | None],
        position: Position | None,
        mapped: MappedSummary | None,
        mapping_read: bool,
    ) -> PartitionRow:
        start = source.starts.get(at) if source else None
        end = _end(at, source, position)
        paired = source.positions.get(at) if source else None
        lag = _lag(at, source, position, paired)
        state = _state(at, source, target, paired or position, start)
        if lag is None and state is PartitionState.CAUGHT_UP:
            state = PartitionState.UNKNOWN  # the end is older than the position
        if self._past:
            state, lag = PartitionState.FENCED, None
        ages = source.ages if source is not None and lag is not None else {}
        topic, partition = self._target_of(at)
        if position is not None:
            topic, partition = ", ".join(position.target_topics), position.target_partition
        status = PartitionStatus(
            topic=at.topic,
            partition=at.partition,
            state=state,
            path=self._path_of(at.topic),
            source_start=start,
            source_end=end,
            position=position.offset if position else None,
            lag_records=lag,
            lag_s=0.0 if lag == 0 else ages.get(at),
            target_topic=topic,
            target_partition=partition,
            target_end=_target_end(target, topic, partition),
            mapped_records=mapped.records if mapped else 0 if mapping_read else None,
            coverage=_partition_coverage(
                position, start, end, mapped, mapping_read and target is not None and not self._past
            ),
            copied_at=position.at_ms / 1000 if position and position.at_ms else None,
        )
        hold, move = kept
        if source is not None and not self._past and move is None:
            status = with_held_back(status, source.high.get(at), source.held_back.get(at))
        if not self._past:
            status = with_move(with_hold(status, hold if move is None else None), move)
        gaps = tuple((gap.first, gap.end) for gap in lost_gaps(position.gaps)) if position else ()
        return PartitionRow(
            status=status,
            why=reason_for(status, position),
            spans=_spans(position, mapped),
            gaps=gaps,
            ranges=ranges_below(mapped.ranges, status.position)[-_RANGES:] if mapped else (),
        )


def _deleted(
    source: SourceFacts | None, target: TargetFacts | None
) -> dict[SourcePartition, DeletedLog | None]:
    """Return the replicated partitions of deleted topics, with records that were not copied.

    A partition without a recorded loss, or with an acknowledged one, maps to None: nothing is left
    to do. A topic that was moved to the target may be deleted: it is left out. If another cluster
    than the recorded one answers, the result is empty: it says nothing about deleted topics.
    """
    if source is None or target is None or not source.deleted:
        return {}
    recorded = target.recorded.source
    if recorded and recorded != source.cluster.cluster_id:
        return {}
    deleted: dict[SourcePartition, DeletedLog | None] = {}
    for at, position in target.positions.items():
        if at.topic in source.deleted and target.moved.get(at.topic) is None:
            log = target.deleted.get(at)
            is_finding = log is not None and not log.acknowledged
            is_own = log is not None and log.is_of(position.offset, position.topic_id)
            deleted[at] = log if is_finding and is_own else None
    return deleted


def _with_lost(row: PartitionRow, log: DeletedLog) -> PartitionRow:
    """Return the row of a deleted topic with the number of records that were not copied."""
    why = (
        f"the topic was deleted on the source, {counted(log.lost, 'offset')} not copied; "
        f"acknowledge it with k2ktui offsets acknowledge -f FILE {log.topic}"
    )
    return replace(row, why=why)


def _source_facts(at: SourcePartition, source: SourceFacts | None) -> tuple[object, ...]:
    """Return the source facts that a row depends on."""
    if source is None:
        return (None,)
    ends = (source.starts.get(at), source.ends.get(at), at in source.truncated)
    held = (at in source.high, source.held_back.get(at))
    age = (source.ages.get(at), source.positions.get(at))
    return (*ends, *held, *age, source.topic_ids.get(at.topic))


def _target_facts(target: TargetFacts | None, position: Position | None) -> tuple[object, ...]:
    """Return the target facts that a row depends on."""
    if target is None:
        return (None,)
    if position is None or position.target_partition is None:
        return (True,)
    return (True, target.ends.get((position.target_topic, position.target_partition)))


def _fact(known: Known, name: PartName, kind: type[F]) -> F | None:
    fact = known.get(name)
    return fact if isinstance(fact, kind) else None


def _audit(known: Known, groups: GroupFacts | None) -> Audit | None:
    compared = _fact(known, PartName.COMPARISON, ComparisonFacts)
    return compared.audit if compared else groups.audit if groups else None


def _end(at: SourcePartition, source: SourceFacts | None, position: Position | None) -> int | None:
    """Return the last stable offset; a newer position proves that it has advanced since."""
    end = source.ends.get(at) if source else None
    if source is None or end is None or position is None or at in source.truncated:
        return end
    return max(end, position.offset)


def _lag(
    at: SourcePartition,
    source: SourceFacts | None,
    position: Position | None,
    paired: Position | None,
) -> int | None:
    """Return the lag when the source was last read; None if the position was unknown then."""
    end = source.ends.get(at) if source else None
    return count_lag(paired.offset if position and paired else None, end)


def _state(
    at: SourcePartition,
    source: SourceFacts | None,
    target: TargetFacts | None,
    position: Position | None,
    start: int | None,
) -> PartitionState:
    if source is None or target is None:
        return PartitionState.UNKNOWN
    topic_id = source.topic_ids.get(at.topic)
    if topic_id is None:
        return PartitionState.GONE
    if position is not None and position.offset < (start or 0):
        return PartitionState.LOST
    return state_of(position, start, _end(at, source, position), topic_id)


def _target_end(target: TargetFacts | None, topic: str, partition: int | None) -> int | None:
    if target is None or partition is None:
        return None
    return target.ends.get((topic, partition))


def _partition_coverage(
    position: Position | None,
    start: int | None,
    end: int | None,
    mapped: MappedSummary | None,
    known: bool,
) -> float | None:
    """Return the share of retained source offsets that translate exactly."""
    if not known:
        return None
    if mapped is not None and mapped.exact is not None and start is not None and end is not None:
        return min(1.0, mapped.exact / (end - start)) if end > start else 1.0
    return coverage(position, start, end, mapped.known_from if mapped else None)


def _spans(position: Position | None, mapped: MappedSummary | None) -> tuple[Span, ...]:
    """Return the source offsets that translate exactly, lowest first."""
    if position is None or mapped is None or mapped.exact is not None:
        return ()
    holes = sorted([*((gap.first, gap.end) for gap in position.gaps), *mapped.holes])
    spans, at = [], max(mapped.known_from, position.start)
    for low, high in holes:
        if low > at:
            spans.append((at, min(low, position.offset)))
        at = max(at, high)
    if at < position.offset:
        spans.append((at, position.offset))
    return tuple(span for span in spans if span[0] < span[1])[-_SPANS:]


def _find_pair(
    pipeline: str,
    state: StateFacts | None,
    source: SourceFacts | None,
    target: TargetFacts | None,
) -> tuple[PairState, Ends]:
    named = target.fenced_by if target is not None else ""
    if state is None:
        return PairState(), _NOTHING
    opposite: tuple[Drill, ...] = ()
    if source is not None and target is not None:
        clusters = source.cluster.cluster_id, target.cluster.cluster_id
        topics = {at.topic for at in source.partitions}
        opposite = choose_opposite(
            source.drills, pipeline, clusters, target.recorded, topics.__contains__
        )
    pair = find_pair_state(state.drills, opposite, named)
    unread = source.no_drills if source is not None else ""
    return replace(pair, unread=unread), find_arrival(state.drills, opposite)


def _after_failover(groups: GroupFacts) -> GroupFacts:
    return replace(groups, rows=tuple(after_failover(groups.rows)))


def _arrived(row: PartitionRow, arrival: Ends) -> int:
    """Return the records of a partition's lag that a drill found on the source."""
    status = row.status
    if not status.lag_records or status.position is None or status.source_end is None:
        return 0
    return max(0, min(arrival.get(row.key, 0), status.source_end) - status.position)


def _summarize(
    groups: GroupFacts, rows: Sequence[PartitionRow], audit: Audit | None
) -> tuple[GroupSummary, ...]:
    ends = {row.key: row.status.source_end for row in rows}
    target_ends = {
        (row.status.target_topic, row.status.target_partition): row.status.target_end
        for row in rows
    }
    both = GroupsOnBoth(groups.source, groups.target, groups.rows)
    return summarize_groups(both, ends, target_ends, audit)


def sum_totals(
    rows: Sequence[PartitionRow], groups: GroupFacts | None, arrival: Ends = _NOTHING
) -> Totals:
    """Sum up the rows; a value that is unknown for every partition is None.

    The lag of partitions that operators hold is summed up separately. Topics that were moved to the
    target are in no sum.
    """
    moved = {row.status.topic for row in rows if row.status.moved_by}
    copied, held = _split_held([row for row in rows if not row.status.moved_by] if moved else rows)
    arrived = {row.key: n for row in copied if (n := _arrived(row, arrival))}
    lags = [row.status.lag_records for row in copied if row.status.lag_records is not None]
    ages = _ages(copied)
    rates = [row.rate for row in rows if row.rate is not None]
    group_rows = [row for row in groups.rows if not row.moved_by] if groups else []
    diverging = [row for row in group_rows if row.divergence and row.finding is Finding.SETTLED]
    sums = outcome(group_rows)
    exact = sum(row.basis in _EXACT for row in group_rows)
    return Totals(
        partitions=len(rows),
        lag_records=sum_lags(lags),
        lag_seconds=max(ages) if ages else 0.0 if lags and not any(lags) else None,
        rate=sum(rates) if rates else None,
        coverage=_total_coverage(rows),
        commit_coverage=exact / len(group_rows) if group_rows else None,
        mapped_records=sum(row.status.mapped_records or 0 for row in rows) if groups else None,
        states=counts([str(row.status.state) for row in rows]),
        groups=len(groups.source) if groups else None,
        bases=counts([str(row.basis) for row in group_rows]),
        diverging=len({row.group for row in diverging}),
        skips=sums.skips,
        rereads=sums.rereads,
        unknown=sum(
            row.status.lag_records is None and row.status.state is not PartitionState.FENCED
            for row in copied
        ),
        arrived_records=sum(arrived.values()),
        rpo_s=max(
            (
                row.status.lag_s
                for row in copied
                if row.status.lag_records
                and row.status.lag_s is not None
                and row.key not in arrived
            ),
            default=None,
        ),
        moved_skips=sums.moved_skips,
        moved_rereads=sums.moved_rereads,
        held_partitions=len(held),
        held_records=sum_lags(row.status.lag_records for row in held),
        held_s=max(_ages(held), default=None),
        moved_topics=len(moved),
        moved_partitions=len(rows) - len(copied) - len(held),
    )


def _split_held(rows: Sequence[PartitionRow]) -> tuple[list[PartitionRow], list[PartitionRow]]:
    """Return the rows that are copied, and those that operators hold."""
    held = [row for row in rows if row.status.hold]
    return [row for row in rows if not row.status.hold] if held else list(rows), held


def _ages(rows: Sequence[PartitionRow]) -> list[float]:
    return [
        row.status.lag_s for row in rows if row.status.lag_s is not None and row.status.lag_records
    ]


def _total_coverage(rows: Sequence[PartitionRow]) -> float | None:
    """Return the coverage of all partitions, weighted by the offsets they retain."""
    known = [row.status for row in rows if row.status.coverage is not None]
    sizes = [(s.source_end or 0) - (s.source_start or 0) for s in known]
    if not known:
        return None
    if not sum(sizes):
        return min(s.coverage or 0.0 for s in known)
    return sum((s.coverage or 0.0) * n for s, n in zip(known, sizes, strict=True)) / sum(sizes)


def _notes(
    source: SourceFacts | None,
    target: TargetFacts | None,
    groups: GroupFacts | None,
    state: StateFacts | None,
) -> tuple[str, ...]:
    notes = [*(target.notes if target else ()), *(groups.notes if groups else ())]
    if deleted := sorted({at.topic for at, log in _deleted(source, target).items() if not log}):
        names = list_names(deleted, _NAMES)
        notes.append(
            f"{counted(len(deleted), 'topic')} deleted on the source, no longer copied: {names}"
        )
    if target is not None and target.nothing_copied:
        notes.append(target.nothing_copied.message)
    if state is not None and state.malformed:
        notes.append(f"{counted(state.malformed, 'record')} of the state topic cannot be read")
    return tuple(notes)
