"""Assemble a view from what was read last of each part; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.drill.pair_state import (
    Ends,
    PairPhase,
    PairState,
    find_arrival,
    find_pair_state,
)
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.groups import Finding, GroupRow, after_failover
from k2ktui.engine.moves.lags import measure_lags, sum_group_lags
from k2ktui.engine.moves.ratings import GroupSummary, counts, estimate_rereads, summarize_groups
from k2ktui.engine.records.gaps import lost_gaps
from k2ktui.engine.records.hold import NO_HOLDS, Hold
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import (
    HeldBack,
    PartitionState,
    PartitionStatus,
    count_lag,
    coverage,
    sum_lags,
)
from k2ktui.sync.drill.pair import choose_opposite
from k2ktui.text import counted, list_names, moment
from k2ktui.watch.facts import (
    ComparisonFacts,
    GroupFacts,
    Known,
    MappedSummary,
    SourceFacts,
    StateFacts,
    TargetFacts,
)
from k2ktui.watch.history import GroupHistory, History, group_key
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
from k2ktui.watch.unchanged import Same, Unchanged

F = TypeVar("F")
TargetOf = tuple[str, int | None]
# The groups, and their positions.
_Followed = tuple[tuple[GroupSummary, ...], tuple[GroupRow, ...]]

_SPANS = 32
_RANGES = 8
_NAMES = 5
_SIDES = (PartName.SOURCE, PartName.TARGET)
_EXACT = frozenset({Basis.EXACT, Basis.END})
_NOTHING: Ends = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read last of each part; None if it never was."""

    source: SourceFacts | None
    target: TargetFacts | None
    groups: GroupFacts | None
    state: StateFacts | None
    audit: Audit | None

    @classmethod
    def of(cls, known: Known) -> _Read:
        """Return the facts of each part."""
        groups = _fact(known, PartName.GROUPS, GroupFacts)
        compared = _fact(known, PartName.COMPARISON, ComparisonFacts)
        return cls(
            _fact(known, PartName.SOURCE, SourceFacts),
            _fact(known, PartName.TARGET, TargetFacts),
            groups,
            _fact(known, PartName.STATE, StateFacts),
            compared.audit if compared else groups.audit if groups else None,
        )


def _fact(known: Known, name: PartName, kind: type[F]) -> F | None:
    fact = known.get(name)
    return fact if isinstance(fact, kind) else None


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
        # Most of thousands of partitions are unchanged: their rows are kept.
        self._rows: dict[SourcePartition, tuple[_PartitionFacts, PartitionRow]] = {}
        # What the last rows, summaries and totals were made from: with thousands of partitions,
        # comparing it costs a small part of making them again.
        self._rows_of: Unchanged[tuple[PartitionRow, ...]] = Unchanged()
        self._summaries_of: Unchanged[tuple[GroupSummary, ...]] = Unchanged()
        self._totals_of: Unchanged[Totals] = Unchanged()
        self._moved_of: Unchanged[GroupFacts] = Unchanged()
        self._followed_of: Unchanged[_Followed] = Unchanged()
        self._groups_read_at: float | None = None
        self.history, self.group_history = History(), GroupHistory()

    def view(self, now: float, known: Known, parts: Mapping[PartName, Part]) -> View:
        """Return a view of what was read last."""
        read = _Read.of(known)
        pair, arrival = _find_pair(self.pair.pipeline, read)
        if pair.moved and read.groups is not None:
            moved = partial(_after_failover, read.groups)
            read = replace(read, groups=self._moved_of.get((Same(read.groups),), moved))
        source, target, groups, state = read.source, read.target, read.groups, read.state
        writers = target.other_writers if target and pair.phase is PairPhase.REPLICATING else None
        stale = {side for side in _SIDES if side in parts and parts[side].stale}
        # Whether the workload is on the target, and nothing is copied there any more.
        is_past = pair.moved and bool(pair.fenced_by or self.pair.mirror)
        rows = self._make_rows(read, is_past, newest=PartName.SOURCE in stale)
        # Rates are of the moments at which the source was read, as positions and lag are.
        read_at = source.taken_at if source else target.taken_at if target else None
        is_new = not stale and read_at != self._read_at
        if stale:  # the current copy rate is unknown
            rows = self.history.without_trends(rows)
        elif is_new:
            self._read_at = read_at
            rows = self.history.add(now, rows)
        else:
            rows = self.history.with_trends(rows)
        totals = self._sum_totals(rows, groups, arrival)
        summaries, group_rows = self._follow_groups(now, read, parts)
        if not stale:
            add = partial(self.history.add_totals, now)
            totals = (add if is_new else self.history.totals_with_trend)(totals)
        return View(
            pair=self.pair,
            taken_at=now,
            parts=dict(parts),
            source=source.cluster if source else ClusterView(address=self._addresses[0]),
            target=target.cluster if target else ClusterView(address=self._addresses[1]),
            partitions=rows,
            groups=group_rows,
            summaries=summaries,
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
            audit=read.audit,
            mappings_expire_at=groups.mappings_expire_at if groups else None,
            other_writers=writers,
            notes=(*_notes(read), *(writers.notes() if writers else ())),
            has_run=target is None or target.nothing_copied is None,
        )

    def _make_rows(self, read: _Read, is_past: bool, *, newest: bool) -> tuple[PartitionRow, ...]:
        """Return a row per partition.

        A row has the position that was known when the source's ends were read; with a newer one
        its lag would be too low. While the source does not answer, rows have the ``newest``
        positions, and the lag as it was when the source was last read.
        """
        mapped = None if read.groups is None else read.groups.mapped
        holds = read.state.holds if read.state else NO_HOLDS

        def make() -> tuple[PartitionRow, ...]:
            rows = {}
            for facts in self._partition_facts(read, is_past, newest=newest):
                before = self._rows.get(facts.at)
                is_same = before is not None and before[0] == facts
                rows[facts.at] = before if before and is_same else (facts, _make_row(facts))
            self._rows = rows
            return tuple(row for _, row in rows.values())

        inputs = newest, is_past, read.source, read.target, mapped, holds
        return self._rows_of.get(inputs, make)

    def _partition_facts(
        self, read: _Read, is_past: bool, *, newest: bool
    ) -> Iterator[_PartitionFacts]:
        source, target = read.source, read.target
        positions = target.positions if target else {}
        mapped = read.groups.mapped if read.groups else {}
        ends = target.ends if target else {}
        holds = read.state.holds if read.state else NO_HOLDS
        moved = target.moved if target else NO_MOVED_TOPICS
        deleted = _deleted(read)
        names = set(positions) | set(source.partitions if source else ())
        names.difference_update(at for at, log in deleted.items() if log is None)
        for at in list(self._rows) if names == self._rows.keys() else sorted(names):
            position = positions.get(at)
            paired = source.positions.get(at) if source else None
            if position is not None and paired is not None and not newest:
                position = paired
            if position is None:
                goes_to = self._target_of(at)
            else:
                goes_to = ", ".join(position.target_topics), position.target_partition
            yield _PartitionFacts(
                at=at,
                path=self._path_of(at.topic),
                position=position,
                paired=paired,
                mapped=mapped.get(at),
                goes_to=goes_to,
                target_end=None if goes_to[1] is None else ends.get((goes_to[0], goes_to[1])),
                lost=deleted.get(at),
                hold=holds.of(at.topic, at.partition),
                move=moved.get(at.topic),
                is_past=is_past,
                is_mapping_read=read.groups is not None,
                is_target_read=target is not None,
                source=None if source is None else _SourceLog.of(source, at),
            )

    def _follow_groups(
        self,
        now: float,
        read: _Read,
        parts: Mapping[PartName, Part],
    ) -> _Followed:
        """Return the groups and their positions, with lags and trends."""
        groups = read.groups
        if groups is None:
            return (), ()
        is_stale = PartName.GROUPS in parts and parts[PartName.GROUPS].stale
        is_old = is_stale or bool(groups.source_down)
        # A view is made when any part was read; of the groups, all this changes with theirs only.
        follow = partial(self._follow, now, groups, read.audit, is_old=is_old)
        return self._followed_of.get((Same(groups), read.audit, is_old), follow)

    def _follow(
        self, now: float, groups: GroupFacts, audit: Audit | None, *, is_old: bool
    ) -> _Followed:
        lags = measure_lags(groups.rows, groups.logs)
        sums = sum_group_lags(groups.rows, lags)
        if not is_old and groups.taken_at != self._groups_read_at:
            self._groups_read_at = groups.taken_at
            by_key = {
                group_key(row): lag.records for row, lag in zip(groups.rows, lags, strict=True)
            }
            self.group_history.add(now, by_key, {group: lag.records for group, lag in sums.items()})
        followed = self.group_history.with_lags(groups.rows, lags, trends=not is_old)
        summaries = self.group_history.sums_with_lags(
            self._summarize(groups, audit), sums, followed, trends=not is_old
        )
        return summaries, followed

    def _summarize(self, groups: GroupFacts, audit: Audit | None) -> tuple[GroupSummary, ...]:
        inputs = (groups.rows, groups.source, groups.target, audit)
        return self._summaries_of.get(
            inputs, partial(summarize_groups, groups.rows, groups.source, groups.target, audit)
        )

    def _sum_totals(
        self, rows: tuple[PartitionRow, ...], groups: GroupFacts | None, arrival: Ends
    ) -> Totals:
        of_groups = None if groups is None else (groups.rows, len(groups.source))
        inputs = (Same(rows), of_groups, arrival)
        return self._totals_of.get(inputs, partial(sum_totals, rows, groups, arrival))


class _SourceLog(NamedTuple):
    """What was read of a partition's log on the source."""

    start: int | None
    end: int | None
    high: int | None
    topic_id: str | None
    age_s: float | None
    is_truncated: bool
    held_back: HeldBack | None

    @classmethod
    def of(cls, source: SourceFacts, at: SourcePartition) -> _SourceLog:
        """Return that of one partition."""
        return cls(
            source.starts.get(at),
            source.ends.get(at),
            source.high.get(at),
            source.topic_ids.get(at.topic),
            source.ages.get(at),
            at in source.truncated,
            source.held_back.get(at),
        )


_UNREAD = _SourceLog(None, None, None, None, None, False, None)


class _PartitionFacts(NamedTuple):
    """All that a partition's row is made of: the row of equal facts is the same.

    Attributes:
        position: what is shown.
        paired: what it was when the source's end was read: lag is of that moment.
        goes_to: topic and partition on the target.
        source: None if the source was never read.
    """

    at: SourcePartition
    path: str
    position: Position | None
    paired: Position | None
    mapped: MappedSummary | None
    goes_to: TargetOf
    target_end: int | None
    lost: DeletedLog | None
    hold: Hold | None
    move: MovedTopic | None
    is_past: bool
    is_mapping_read: bool
    is_target_read: bool
    source: _SourceLog | None

    @property
    def log(self) -> _SourceLog:
        """Its log on the source."""
        return self.source or _UNREAD

    @property
    def lag(self) -> int | None:
        """The lag when the source was last read; None if the position was unknown then."""
        if self.is_past or self.move is not None:
            return None
        return count_lag(
            self.paired.offset if self.position and self.paired else None, self.log.end
        )

    def end(self, position: Position | None) -> int | None:
        """Return the last stable offset; a newer position proves that it has advanced since."""
        if self.log.end is None or position is None or self.log.is_truncated:
            return self.log.end
        return max(self.log.end, position.offset)


def _state_of(facts: _PartitionFacts) -> PartitionState:
    """Return the state of a partition; the first rule that applies counts."""
    position, log = facts.paired or facts.position, facts.log
    start, end = log.start, facts.end(position)
    if facts.is_past:
        return PartitionState.FENCED
    if facts.move is not None:
        # What becomes of the source's log from then on is the past, even that it is deleted.
        return PartitionState.MOVED
    if facts.source is None or not facts.is_target_read:
        return PartitionState.UNKNOWN
    if log.topic_id is None:
        return PartitionState.GONE
    if position is not None and position.offset < (start or 0):
        return PartitionState.LOST
    if position is None:
        return PartitionState.NEW
    if position.topic_id and log.topic_id and position.topic_id != log.topic_id:
        return PartitionState.RECREATED
    if start is None or end is None:
        return PartitionState.UNKNOWN
    if position.offset > end:
        return PartitionState.LOST
    if position.offset < end:
        return PartitionState.BEHIND
    if facts.lag is None:
        return PartitionState.UNKNOWN  # the end is older than the position
    is_held_back = log.held_back is not None and log.held_back.too_long
    return PartitionState.HELD_BACK if is_held_back else PartitionState.CAUGHT_UP


# What goes wrong while a partition is held, as records that the source deletes, stays its state.
_WAITS = frozenset(
    {
        PartitionState.NEW,
        PartitionState.CAUGHT_UP,
        PartitionState.BEHIND,
        PartitionState.HELD_BACK,
    }
)


def _make_row(facts: _PartitionFacts) -> PartitionRow:
    position, mapped, log, lag = facts.position, facts.mapped, facts.log, facts.lag
    state, end = _state_of(facts), facts.end(position)
    is_copied = not facts.is_past and facts.move is None
    hold = facts.hold if is_copied else None
    if hold is not None and state in _WAITS:
        state = PartitionState.HELD
    held = log.held_back if is_copied else None
    move = None if facts.is_past else facts.move
    status = PartitionStatus(
        topic=facts.at.topic,
        partition=facts.at.partition,
        state=state,
        path=facts.path,
        source_start=log.start,
        source_end=end,
        position=position.offset if position else None,
        lag_records=lag,
        lag_s=0.0 if lag == 0 else None if lag is None else log.age_s,
        target_topic=facts.goes_to[0],
        target_partition=facts.goes_to[1],
        target_end=facts.target_end,
        mapped_records=mapped.records if mapped else 0 if facts.is_mapping_read else None,
        coverage=_coverage(facts, end) if is_copied else None,
        held_back=held.records if held else None if log.high is None or not is_copied else 0,
        held_back_by=held.producer_id if held else None,
        held_back_s=round(held.age_s, 1) if held else None,
        copied_at=position.at_ms / 1000 if position and position.at_ms else None,
        hold="" if hold is None else hold.describe(),
        moved_by="" if move is None else move.drill,
        moved_at=None if move is None else move.at_ms / 1000,
    )
    gaps = tuple((gap.first, gap.end) for gap in lost_gaps(position.gaps)) if position else ()
    return PartitionRow(
        status=status,
        why=_describe_state(status, position) if facts.lost is None else _describe_lost(facts.lost),
        spans=_spans(position, mapped),
        gaps=gaps,
        ranges=ranges_below(mapped.ranges, status.position)[-_RANGES:] if mapped else (),
    )


def _coverage(facts: _PartitionFacts, end: int | None) -> float | None:
    """Return the share of retained source offsets that translate exactly."""
    if not (facts.is_mapping_read and facts.is_target_read):
        return None
    mapped, start = facts.mapped, facts.log.start
    if mapped is not None and mapped.exact is not None and start is not None and end is not None:
        return min(1.0, mapped.exact / (end - start)) if end > start else 1.0
    return coverage(facts.position, start, end, mapped.known_from if mapped else None)


_WHY = {
    PartitionState.RECREATED: (
        "the source topic was deleted and created again; its offsets start over"
    ),
    PartitionState.GONE: "the topic does not exist on the source, or may not be described",
    PartitionState.NEW: "nothing has been copied yet",
    PartitionState.FENCED: "the workload is on the target; its lag here is the past",
    PartitionState.UNKNOWN: "its log bounds on the source are unavailable",
}


def _describe_state(status: PartitionStatus, position: Position | None) -> str:
    """Explain a partition's state to an operator; empty if it needs no reason."""
    match status.state:
        case PartitionState.LOST:
            return _describe_loss(status)
        case PartitionState.NEW if status.target_end:
            return (
                "it has no position, and its target partition has held records; k2ktui check says "
                "whether the position is lost"
            )
        case PartitionState.HELD:
            return f"{status.hold}; not copied until k2ktui release"
        case PartitionState.MOVED:
            return f"{describe_move(status)}; not copied from the source any more"
        case PartitionState.UNKNOWN if position is None:
            return "the cluster has not responded yet"
        case state if state in _WHY:
            return _WHY[state]
        case _:
            held = status.held
            return held.text() if held is not None and held.too_long else ""


def describe_move(status: PartitionStatus) -> str:
    """Return by which drill a topic was moved, and when; not safe to print."""
    return f"moved to the target by drill {status.moved_by} at {moment(status.moved_at or 0)}"


def _describe_loss(status: PartitionStatus) -> str:
    position, start, end = status.position, status.source_start, status.source_end
    if position is not None and start is not None and position < start:
        return f"{counted(start - position, 'offset')} deleted on the source before being copied"
    if position is not None and end is not None and position > end:
        return (
            f"the source log ends at {end:,}, {position - end:,} before the position: it "
            "was truncated"
        )
    return "records were lost on the source"


def _describe_lost(log: DeletedLog) -> str:
    """Say how many records of a deleted topic were not copied."""
    return (
        f"the topic was deleted on the source, {counted(log.lost, 'offset')} not copied; "
        f"acknowledge it with k2ktui offsets acknowledge -f FILE {log.topic}"
    )


def _deleted(read: _Read) -> dict[SourcePartition, DeletedLog | None]:
    """Return the replicated partitions of deleted topics, with records that were not copied.

    A partition without a recorded loss, or with an acknowledged one, maps to None: nothing is left
    to do. A topic that was moved to the target may be deleted: it is left out. If another cluster
    than the recorded one answers, the result is empty: it says nothing about deleted topics.
    """
    source, target = read.source, read.target
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


def _find_pair(pipeline: str, read: _Read) -> tuple[PairState, Ends]:
    source, target, state = read.source, read.target, read.state
    if state is None:
        return PairState(), _NOTHING
    opposite: tuple[Drill, ...] = ()
    if source is not None and target is not None:
        clusters = source.cluster.cluster_id, target.cluster.cluster_id
        topics = {at.topic for at in source.partitions}
        opposite = choose_opposite(
            source.drills, pipeline, clusters, target.recorded, topics.__contains__
        )
    named = target.fenced_by if target is not None else ""
    unread = source.no_drills if source is not None else ""
    pair = find_pair_state(state.drills, opposite, named)
    return replace(pair, unread=unread), find_arrival(state.drills, opposite)


def _after_failover(groups: GroupFacts) -> GroupFacts:
    return replace(groups, rows=tuple(after_failover(groups.rows)))


def _arrived(row: PartitionRow, arrival: Ends) -> int:
    """Return the records of a partition's lag that a drill found on the source."""
    status = row.status
    if not status.lag_records or status.position is None or status.source_end is None:
        return 0
    return max(0, min(arrival.get(row.key, 0), status.source_end) - status.position)


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
    now, after = estimate_rereads(group_rows)
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
        skips=now.skipped,
        rereads=now.records,
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
        moved_skips=after.skipped,
        moved_rereads=after.records,
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


def _notes(read: _Read) -> tuple[str, ...]:
    target, groups = read.target, read.groups
    notes = [*(target.notes if target else ()), *(groups.notes if groups else ())]
    if deleted := sorted({at.topic for at, log in _deleted(read).items() if not log}):
        names = list_names(deleted, _NAMES)
        notes.append(
            f"{counted(len(deleted), 'topic')} deleted on the source, no longer copied: {names}"
        )
    if target is not None and target.nothing_copied:
        notes.append(target.nothing_copied.message)
    if read.state is not None and read.state.malformed:
        unreadable = counted(read.state.malformed, "record")
        notes.append(f"{unreadable} of the state topic cannot be read")
    return tuple(notes)
