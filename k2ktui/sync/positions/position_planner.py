"""Read a pipeline's own positions together with the source's logs, and plan position moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.positions import (
    CLEAR,
    PASS,
    SET,
    PositionMove,
    PositionPlan,
    SourceLog,
    TargetTopicState,
    mark_returned,
    plan_clear,
    plan_move,
    position_image,
    position_of,
)
from k2ktui.engine.records.evidence import find_lost_term
from k2ktui.engine.records.run_record import NO_RUN
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import count_lag
from k2ktui.errors import ConfigError, ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.clients import (
    Cluster,
    TopicDescription,
    describe_readable,
    source_cluster,
    target_cluster,
)
from k2ktui.replication.ownership.commit_state import (
    CommitState,
    CommitTopic,
    read_commit_state,
    read_log_starts,
)
from k2ktui.replication.ownership.lost_positions import LostPositions
from k2ktui.replication.ownership.pipeline import commit_topic
from k2ktui.replication.topics.naming import target_names
from k2ktui.sync.log_bounds import read_source_logs
from k2ktui.sync.store import PipelineState, StateStore
from k2ktui.text import safe_text

_READ_S = 30.0


@dataclass(frozen=True, slots=True)
class PositionRow:
    """One source partition with its position, log and target; None means unknown."""

    source: SourcePartition
    position: Position | None
    log: SourceLog | None
    target_topic: str
    target_partition: int | None

    @property
    def lag(self) -> int | None:
        """Source offsets from the position to the last stable offset."""
        return count_lag(
            self.position.offset if self.position else None, self.log.end if self.log else None
        )


@dataclass(frozen=True, slots=True)
class _View:
    """The current positions, source logs, target topic ids and ends of target partitions."""

    positions: Mapping[SourcePartition, Position]
    logs: Mapping[SourcePartition, SourceLog]
    target_ids: Mapping[str, str]
    target_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    lost: frozenset[SourcePartition] = frozenset()


class PositionPlanner:
    """Reads and plans; :class:`k2ktui.sync.positions.position_writer.PositionWriter` applies.

    Args:
        config: the pipeline.

    Attributes:
        config: the pipeline.
        target: its target cluster.
        store: its state store.
        source_down: why the last :meth:`rows` could not read the source; empty if it could.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self._source = source_cluster(config)
        self.target: Cluster = target_cluster(config)
        self.store = StateStore(config, self.target)
        self.source_down = ""

    def close(self) -> None:
        """Disconnect from the target."""
        self.store.close()

    def state(self, *, settled: bool = False) -> tuple[PipelineState, str]:
        """Return the content of the state topic, and why it may not be read ("" if it may).

        With ``settled``, wait until it is known which runs are alive, see
        ``StateStore.read_settled``.
        """
        try:
            return self.store.read_settled() if settled else self.store.read(), ""
        except Refused as error:
            return PipelineState(), error.message

    def commit_topic(self) -> CommitTopic | None:
        """Return the topic that holds the positions, None if it does not exist."""
        name = self.config.coordination.commit.topic
        topic = self.target.describe([name])[name]
        if not isinstance(topic, TopicDescription):
            return None
        return commit_topic(self.config, topic.partitions)

    def rows(self) -> list[PositionRow]:
        """Read every partition that is selected or has a position.

        If the source is down (``source_down`` holds the reason), only partitions with a position
        are returned, without their logs.

        Raises:
            ConnectionFailed, TimedOut: the target did not answer.
        """
        view = _View(self._read_state(self.commit_topic()).positions, {}, {})
        self.source_down = ""
        try:
            chosen = {n for n in self._source.topic_names() if self.config.topics.matches(n)}
            view = self._view(chosen)
        except (ConnectionFailed, TimedOut) as error:
            self.source_down = error.message
        rows = []
        for source in sorted(view.logs.keys() | view.positions.keys()):
            position = view.positions.get(source)
            landing = self._landing(source, view)
            rows.append(
                PositionRow(
                    source,
                    position,
                    view.logs.get(source),
                    ", ".join(landing.topics) if landing else "",
                    landing.partition if landing else None,
                )
            )
        return rows

    def plan_set(self, wanted: Mapping[SourcePartition, int]) -> PositionPlan:
        """Plan moves to exact offsets.

        Raises:
            Refused: the pipeline has never run.
            ConfigError: a topic is not replicated by this pipeline.
            ConnectionFailed, TimedOut: a cluster did not answer.
        """
        view = self._view({source.topic for source in wanted}, must_have_run=True)
        return self._plan(view, wanted)

    def plan_pass(self, ends: Mapping[SourcePartition, int]) -> PositionPlan:
        """Plan moves past offsets whose records the opposite pipeline wrote: nothing is left out.

        Args:
            ends: the new positions.

        Raises:
            As for :meth:`plan_set`.
        """
        plan = self.plan_set(ends)
        # Not as SET: the next move counts from here, not from where copying ended.
        moves = tuple(map(mark_returned, plan.moves))
        return PositionPlan(PASS, plan.pipeline, moves, lost=plan.lost)

    def plan_to(
        self, topic: Callable[[str], bool], kind: str, timestamp_ms: int | None = None
    ) -> PositionPlan:
        """Plan positions at ``earliest``, ``latest`` or the first record since a ``timestamp``.

        Only partitions that have a position are moved. ``timestamp_ms`` is epoch milliseconds;
        errors as for :meth:`plan_set`.
        """
        view = self._view((), must_have_run=True)
        chosen = [source for source in sorted(view.positions) if topic(source.topic)]
        wanted = self._offsets_at(chosen, view, kind, timestamp_ms)
        notes = [
            f"{safe_text(source)} does not exist on the source: its position is kept"
            for source in chosen
            if source not in wanted
        ]
        return self._plan(view, wanted, notes)

    def plan_clear(self, chosen: Callable[[SourcePartition], bool]) -> PositionPlan:
        """Plan the removal of positions, lost ones included; errors as for :meth:`plan_set`."""
        view = self._view((), must_have_run=True)
        every = view.positions.keys() | view.lost
        sources = [source for source in sorted(every) if chosen(source)]
        # Same rule as in a driver: `start` counts only for a pipeline without any position.
        first = len(sources) == len(every)
        start = self.config.start
        kind = start.kind if first else start.later
        begins = self._offsets_at(sources, view, kind, start.timestamp_ms)
        moves = [
            plan_clear(s, view.positions.get(s), view.logs.get(s), begins.get(s)) for s in sources
        ]
        where = f"at the configured start position ({kind})"
        if not first and kind == "earliest":
            where = "at the log start offset"
        notes = (f"cleared partitions start as new ones, {where}",) if sources else ()
        lost = frozenset(view.lost.difference(sources))
        return PositionPlan(CLEAR, self.config.name, tuple(moves), notes, lost=lost, is_whole=first)

    def bounds(self, sources: Collection[SourcePartition]) -> dict[SourcePartition, SourceLog]:
        """Return the logs of source partitions; partitions that cannot be read are left out."""
        topics = self._source.describe(sorted({s.topic for s in sources}))
        return read_source_logs(self._source, topics, sources)

    def _view(self, topics: Collection[str], *, must_have_run: bool = False) -> _View:
        commit = self.commit_topic()
        state = self._read_state(commit)
        positions = state.positions
        lost = self._find_lost(commit, state) if must_have_run else frozenset()
        if commit is None and must_have_run and not lost:
            raise Refused(
                f"pipeline {safe_text(self.config.name)} has no positions: topic "
                f"{safe_text(self.config.coordination.commit.topic)} does not exist on the target",
                unchanged="Nothing was changed.",
                hint="Start the pipeline first; the key start sets where it begins.",
            )
        names = sorted({*topics, *(source.topic for source in (*positions, *lost))})
        on_source = self._source.describe(names)
        sources = {
            SourcePartition(name, number)
            for name, topic in on_source.items()
            if isinstance(topic, TopicDescription)
            for number in range(topic.partitions)
        }
        targets = {name for position in positions.values() for name in position.target_topics}
        targets |= {name for topic in topics for name in find_target_names(self.config, topic)}
        ids = {n: t.topic_id for n, t in describe_readable(self.target, targets).items()}
        written = [(at.topic, at.partition) for p in positions.values() for at in p.landed]
        return _View(
            positions,
            read_source_logs(self._source, on_source, sources),
            ids,
            self.target.offsets({at for at in written if at[0] in ids}, OffsetSpec.latest()),
            lost,
        )

    def _read_state(self, topic: CommitTopic | None) -> CommitState:
        return read_commit_state(self.target, topic, _READ_S) if topic else CommitState(NO_RUN, {})

    def _find_lost(
        self, commit: CommitTopic | None, state: CommitState
    ) -> frozenset[SourcePartition]:
        """Return the partitions whose position is lost, also of topics that are not selected."""
        sources = {self._source.cluster_id()} - {""}
        losses = LostPositions(self.config, self.target, lambda: sources)
        starts = read_log_starts(self.target, commit) if commit else {}
        lost_term = find_lost_term(state.run, starts, losses.evidence, sources)
        if not lost_term:
            return frozenset()
        names = {n for n in self._source.topic_names() if self.config.topics.matches(n)}
        topics = self._source.describe(sorted(names))
        missing: dict[SourcePartition, set[tuple[str, int]]] = {
            source: set() for source in losses.evidence().mapped if source not in state.positions
        }
        for name, topic in topics.items():
            if not isinstance(topic, TopicDescription) or name in state.moved:
                continue
            on_target = describe_readable(self.target, find_target_names(self.config, name))
            counts = {n: t.partitions for n, t in on_target.items()}
            for at in (SourcePartition(name, number) for number in range(topic.partitions)):
                if at not in state.positions:
                    missing[at] = self._landing_partitions(at, counts)
        return frozenset(losses.find(missing, lost_term))

    def _landing_partitions(
        self, source: SourcePartition, counts: Mapping[str, int]
    ) -> set[tuple[str, int]]:
        """Return the target partitions that a partition's records may be in."""
        keeps = self.config.replication.sink.keeps_partitions
        return {
            (name, number)
            for name, count in counts.items()
            for number in ((source.partition,) if keeps else range(count))
            if number < count
        }

    def _landing(self, source: SourcePartition, view: _View) -> TargetTopicState | None:
        """Return the target of a partition's records, None if there is none."""
        position, shorter = view.positions.get(source), ""
        if position is not None:
            if (landed := position.beyond(view.target_ends)) is not None:
                shorter = f"{landed.topic}-{landed.partition}"
            topics, partition = tuple(position.target_topics), position.target_partition
        else:
            topics = find_target_names(self.config, source.topic)
            scatters = self.config.replication.sink.scatters
            partition = None if scatters else source.partition
        return TargetTopicState.of(topics, view.target_ids, partition, shorter)

    def _plan(
        self, view: _View, wanted: Mapping[SourcePartition, int], notes: Sequence[str] = ()
    ) -> PositionPlan:
        copied = self._copied_positions(view)
        moves = tuple(self._move(s, wanted[s], view, copied.get(s)) for s in sorted(wanted))
        notes = (*notes, *self._notes(view, moves))
        lost = view.lost.difference(wanted)
        return PositionPlan(SET, self.config.name, moves, notes, lost=lost)

    def _move(
        self, source: SourcePartition, offset: int, view: _View, copied: Position | None
    ) -> PositionMove:
        landing = self._landing(source, view)
        selected = self.config.topics.matches(source.topic) or source in view.positions
        if landing is None or not selected:
            raise ConfigError(
                f"topic {safe_text(source.topic)} is not replicated by this pipeline",
                unchanged="Nothing was changed.",
                hint="List the partitions with k2ktui offsets show -f FILE.",
            )
        before, log = view.positions.get(source), view.logs.get(source)
        return plan_move(source, before, offset, log, landing, copied)

    def _offsets_at(
        self,
        sources: Sequence[SourcePartition],
        view: _View,
        kind: str,
        timestamp_ms: int | None,
    ) -> dict[SourcePartition, int]:
        logs = {source: view.logs[source] for source in sources if source in view.logs}
        if kind == "earliest":
            return {source: log.start for source, log in logs.items()}
        if kind == "latest":
            return {source: log.end for source, log in logs.items()}
        where = [(source.topic, source.partition) for source in logs]
        offsets = self._source.offsets(where, OffsetSpec.for_timestamp(timestamp_ms or 0))
        return {
            source: log.end if offset < 0 else min(max(offset, log.start), log.end)
            for source, log in logs.items()
            if (offset := offsets.get((source.topic, source.partition))) is not None
        }

    def _notes(self, view: _View, moves: Sequence[PositionMove]) -> tuple[str, ...]:
        begins = any(move.changes and move.before is None for move in moves)
        start = self.config.start
        if begins and not view.positions and start.kind != start.later:
            kind = start.kind
            return (f"other partitions will start at their log start offset, not at {kind}",)
        return ()

    def _copied_positions(self, view: _View) -> dict[SourcePartition, Position]:
        """Return the copied-up-to position of partitions whose position was moved by an operator.

        A moved position from which nothing was copied yet is identical to the journal's.
        """
        state, unread = self.state()
        entries = [header.id for header in state.journal.values() if header.operation == SET]
        if unread or not entries:
            return {}
        earlier: dict[tuple[SourcePartition, str], str] = {}
        for entry in entries:
            try:
                parts = state.entry(entry)
            except Refused:
                continue  # a damaged entry: its content is unknown
            for row in (row for part in parts for row in part.rows):
                source = SourcePartition(row.topic, row.partition)
                earlier[source, row.after_metadata] = row.before_metadata
        copied = {}
        for source, position in view.positions.items():
            text = seen = position_image(position)
            while (source, text) in earlier:
                text = earlier.pop((source, text))
            if text != seen and (reached := position_of(text)) is not None:
                copied[source] = reached
        return copied


def find_target_names(config: PipelineConfig, topic: str) -> tuple[str, ...]:
    """Return the names of a source topic's target topics; none if it is not to be copied."""
    try:
        return target_names(config, topic)
    except K2kError:
        return ()
