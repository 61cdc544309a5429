"""Apply a plan for a pipeline's own positions while the pipeline is stopped.

The order:

1. The state topic must show no live run.
2. Fence every slot of every earlier driver, as a starting driver does
   (docs/internals/exactly-once.md), so that a runner that is still alive cannot write any more.
3. Read the positions again; they must be those of the plan.
4. Write the new positions in one transaction of the driver's own id, in a new term. If clusters
   are accepted, their ids are recorded in the same transaction.

   Positions that are recovered are planned once more before that, from what is written once no run
   can write; moved topics and producer ids are recorded in the same transaction.
5. Read them back.
6. Write the change to the journal.

No run copies topics that a drill has moved: their positions are written while the pipeline runs, in
the order of a move (docs/internals/ownership.md#moved-topics).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k2ktui.engine.access import Access, require
from k2ktui.engine.moves.journal import Runner
from k2ktui.engine.moves.positions import (
    CLEAR,
    MoveEffect,
    PositionMove,
    PositionPlan,
    Recovery,
    SourceLog,
)
from k2ktui.engine.records.cleared import Cleared
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError, PartlyApplied, Refused, TimedOut
from k2ktui.kafka.control.reader import await_stable
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.commit_state import CommitState, read_commit_state
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.ownership.topic_moves import read_moved, write_moved_positions
from k2ktui.sync.moves.journal_writer import JournalWriter, position_row
from k2ktui.sync.moves.plans import whoami
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.recovery import plan_to_recover, read_writers, require_same
from k2ktui.text import duration, list_names, safe_message, safe_text

_UNCHANGED = "No position was changed."
_READ_S = 30.0
_SHOWN = 10
# A removed position, and one of a partition that is stopped, may lie outside the source's log.
_ANYWHERE = (MoveEffect.CLEAR, MoveEffect.STOP)

Written = Mapping[SourcePartition, Position | None]


class PipelineRunning(Refused):
    """The pipeline is running: its positions are its own."""


@dataclass(frozen=True, slots=True)
class PositionWriteResult:
    """What was written for a pipeline's positions, or to acknowledge what they passed.

    Attributes:
        term: term of the written positions; 0 if none was written.
        entry: id of the journal entry, "" if none could be written.
        notes: messages for the operator.
        count: number of partitions of which something was written.
    """

    term: int = 0
    entry: str = ""
    notes: tuple[str, ...] = ()
    count: int = 0


class PositionWriter:
    """Applies position plans of one pipeline.

    Args:
        positions: the planner that made the plans.
    """

    def __init__(self, positions: PositionPlanner) -> None:
        self._config = positions.config
        self._positions = positions

    def apply(self, change: PositionPlan, may: Access) -> PositionWriteResult:
        """Fence any run of the pipeline and write exactly what was planned.

        Args:
            change: the plan that was shown and confirmed.
            may: the caller's access rights.

        Raises:
            Refused: not allowed, the plan is another pipeline's, the pipeline runs, a move is
                refused, or the positions or source logs have changed since the plan was made.
            PartlyApplied: the positions read back differ from those written.
            ConnectionFailed, TimedOut: the target did not answer; the error says what is known.
        """
        require(may, "changing positions")
        refuse_bad(change)
        self._refuse_other(change)
        if not change.changes:
            return PositionWriteResult()
        is_moved = self._is_moved(change)
        unknown = [] if is_moved else self.refuse_running()
        journal_note = self._prepare_journal()
        term, written = self._write_moved(change) if is_moved else self._write_alone(change)
        entry = ""
        if not journal_note:
            entry, journal_note = self._journal(change, written)
        notes = tuple(note for note in (*unknown, journal_note) if note)
        return PositionWriteResult(term, entry, notes, len(written))

    def _refuse_other(self, change: PositionPlan) -> None:
        if change.pipeline != self._config.name:
            raise Refused(
                f"the plan is for {safe_text(change.pipeline)}, not for pipeline "
                f"{safe_text(self._config.name)}",
                unchanged=_UNCHANGED,
                hint="Plan the change again, for this pipeline.",
            )

    def require_stopped(self, change: PositionPlan) -> None:
        """Refuse a plan before it is confirmed if the pipeline runs, and copies these topics.

        Raises:
            PipelineRunning, ConnectionFailed, TimedOut: as for :meth:`refuse_running`.
        """
        if not self._is_moved(change):
            self.refuse_running()

    def _is_moved(self, change: PositionPlan) -> bool:
        """Return whether no run copies what is changed, as drills have moved these topics."""
        if change.accepted.is_known or change.recovery is not None:
            return False
        moved = read_moved(self._config, self._positions.target)
        return all(move.source.topic in moved for move in change.changes)

    def _write_moved(self, change: PositionPlan) -> tuple[int, Written]:
        """Write positions of moved topics, whatever runs; return their term and them."""
        topic = self._positions.commit_topic()
        assert topic is not None  # planning required it
        written_term = 0
        written: Written = {}

        def stamp(state: CommitState, term: int) -> Written:
            nonlocal written_term, written
            released = [move for move in change.changes if move.source.topic not in state.moved]
            if released:
                raise Refused(
                    f"the topics of {_names(released)} are copied again since the plan was made",
                    unchanged=_UNCHANGED,
                    hint="Repeat the command.",
                )
            self._as_planned(change, state)
            at = now_ms()
            written_term = term
            written = {move.source: move.stamp(term, at) for move in change.changes}
            return written

        write_moved_positions(self._config, self._positions.target, stamp)
        positions = read_commit_state(self._positions.target, topic, _READ_S).positions
        _refuse_wrong([at for at, new in written.items() if positions.get(at) != new])
        return written_term, written

    def _write_alone(self, change: PositionPlan) -> tuple[int, Written]:
        """Fence every run, and write; return the term of the positions and them."""
        topic, target = self._positions.commit_topic(), self._positions.target
        if topic is None or change.recovery is not None:  # the plan decides what was lost
            partitions = ensure_control_topics(self._config, target).commit_partitions
        else:
            partitions = topic.partitions
        ownership = make_ownership(
            self._config,
            target,
            wire(self._config.target, "producer"),
            partitions,
            pair=change.recovery.run.pair if change.recovery is not None else None,
            recovery=change.recovery,
        )
        try:
            # 0: fence only the slots that earlier drivers may have used, add none.
            self._as_planned(change, ownership.take_over(0))
            failpoint("recover-fenced")
            if change.recovery is not None:
                self._require_same_recovery(change)
            if change.operation == CLEAR:
                self._write_cleared(change, ownership.run.term)
            written = self._write(ownership, change)
            failpoint("recover-written")
            return ownership.run.term, written
        finally:
            ownership.close()

    def _require_same_recovery(self, change: PositionPlan) -> None:
        """Refuse a recovery unless it is the same once no run can commit any more.

        What was committed before the bumps is visible only when the mapping topic, too, has been
        read beyond the high watermark seen after them: a transaction that hides its end may have
        moved a position.
        """
        config, target = self._config, self._positions.target
        name = config.offset_mapping.topic
        topic = target.find(name)
        if topic is not None:
            await_stable(target, name, topic.partitions, config.coordination.commit.sync_timeout_s)
        require_same(change, plan_to_recover(config))

    def _write_cleared(self, change: PositionPlan, term: int) -> None:
        """Let what earlier runs left say nothing of the positions that are to be removed.

        Raises:
            Refused, ConnectionFailed, TimedOut: the state topic cannot be written, and a lost
                position would be taken for a lost one again.
        """
        store, who, at = self._positions.store, whoami(), now_ms()
        terms: dict[str, dict[int, int]] = {}
        for move in change.changes:
            terms.setdefault(move.source.topic, {})[move.source.partition] = term
        records = [Cleared(topic, who, at, 0, partitions) for topic, partitions in terms.items()]
        if change.is_whole:
            records = [Cleared("", who, at, term)]
        try:
            cleared = store.read().cleared
            store.put([record.joined(cleared.get(record.topic)) for record in records])
        except K2kError:
            if any(move.before is None for move in change.changes):
                raise

    def refuse_running(self) -> list[str]:
        """Refuse if the pipeline is running; return notes about what could not be determined.

        Raises:
            PipelineRunning: the message names host and process.
            ConnectionFailed, TimedOut: the target did not answer.
        """
        state, unread = self._positions.state(settled=True)
        refuse_running(self._config.name, state.alive(now_ms()), now_ms())
        notes = []
        if unread:
            notes.append(f"{unread}: it is unknown whether the pipeline was running")
        if not self._config.features.exactly_once:
            notes.append("features.exactlyOnce is disabled: a running pipeline is not fenced")
        return notes

    def _prepare_journal(self) -> str:
        """Ensure that the journal exists; return the reason if it cannot be used, else ""."""
        try:
            self._positions.store.ensure()
        except Refused as error:
            return f"the journal was not written: {error.message}"
        return ""

    def _as_planned(self, change: PositionPlan, state: CommitState) -> None:
        now = state.positions
        if change.accepted.is_known and (
            state.run.pair != change.recorded or now.keys() != {m.source for m in change.moves}
        ):
            raise Refused(
                "another run has recorded other clusters or positions since the plan was made",
                unchanged=_UNCHANGED,
                hint="Make sure that the pipeline runs nowhere, then repeat the command.",
            )
        moved = [
            m for m in change.moves if now.get(m.source) != m.before and not _is_cleared(m, now)
        ]
        if moved:
            raise Refused(
                f"the positions of {_names(moved)} have changed since the plan was made",
                unchanged=_UNCHANGED,
                hint="Make sure that the pipeline runs nowhere, then repeat the command.",
            )
        logs = self._positions.bounds([m.source for m in change.changes])
        gone = [m for m in change.changes if m.effect not in _ANYWHERE and _outside(m, logs)]
        if gone:
            raise Refused(
                f"the source log of {_names(gone)} has changed since the plan was made",
                unchanged=_UNCHANGED,
                hint="Repeat the command to plan with the current source log.",
            )

    def _write(self, ownership: Ownership, change: PositionPlan) -> Written:
        """Write in one transaction, and read back."""
        at = now_ms()
        accepts = change.accepted.is_known
        begins_term = accepts or change.recovery is not None
        term = ownership.run.term + 1 if begins_term else ownership.run.term
        wanted = {m.source: m.stamp(term, at) for m in change.changes}
        unknown: TimedOut | None = None
        try:
            new = {source: position for source, position in wanted.items() if position}
            if accepts:
                ownership.accept_pair(change.accepted, new)
            elif change.recovery is not None:
                self._write_recovered(ownership, change.recovery, new)
            elif new and not (ownership.lost_term and not change.lost):
                ownership.write_positions(new)
            elif new:
                ownership.settle_losses(new)
            else:
                ownership.remove_positions(list(wanted))
                if ownership.lost_term and not change.lost:
                    ownership.settle_losses({})
        except TimedOut as error:
            unknown = error
        if unknown is not None:
            ownership.renew_own()  # aborts a transaction left open, so the outcome is now final
        state = ownership.read()
        positions = state.positions
        wrong = [source for source, position in wanted.items() if positions.get(source) != position]
        if not wrong and (not accepts or state.run.pair == change.accepted):
            return wanted
        is_unchanged = all(positions.get(m.source) == m.before for m in change.changes)
        if unknown is not None and is_unchanged and not (begins_term and state.run.term >= term):
            raise TimedOut(
                unknown.message, unchanged=_UNCHANGED, hint="Repeat the command."
            ) from unknown
        _refuse_wrong(wrong)
        return wanted

    def _write_recovered(
        self,
        ownership: Ownership,
        recovery: Recovery,
        positions: Mapping[SourcePartition, Position],
    ) -> None:
        """Write recovered positions, with all that was lost beside them."""
        writers = read_writers(self._config, self._positions.target)
        is_registered = recovery.is_whole or not writers.others
        ownership.write_recovered(
            positions, recovery.moved, writers.own, is_registered=is_registered
        )

    def _journal(self, change: PositionPlan, written: Written) -> tuple[str, str]:
        """Write the change to the journal; return its id and why that failed, one of them ""."""
        group = self._config.coordination.commit.group
        rows = [(group, position_row(move, written[move.source])) for move in change.changes]
        journal = JournalWriter(self._positions.store.put, self._config.name)
        return journal.note_made(change.operation, rows, plan=_describe_accepted(change))


def _refuse_wrong(sources: Sequence[SourcePartition]) -> None:
    if sources:
        raise PartlyApplied(
            f"the positions of {list_names(sources, _SHOWN)} differ from the positions just "
            "written",
            unchanged="The other positions are as planned.",
            hint="Find the other process that writes positions of this pipeline: k2ktui "
            "offsets show.",
        )


def _describe_accepted(change: PositionPlan) -> str:
    """Return which ids an entry of the journal replaces; "" for other changes."""
    changed = change.recorded.find_changed(change.accepted)
    return ", ".join(f"{side} {former} to {now}" for side, former, now in changed)


def refuse_bad(change: PositionPlan) -> None:
    """Refuse a plan with moves that cannot be made.

    Raises:
        Refused: the plan has such moves; the message names them.
    """
    if bad := change.refused:
        lines = [f"{safe_text(m.source)}: {safe_message(m.why)}" for m in bad[:_SHOWN]]
        if len(bad) > _SHOWN:
            lines.append(f"and {len(bad) - _SHOWN:,} more")
        raise Refused(
            "\n".join(lines),
            unchanged=_UNCHANGED,
            hint="Remove them from the command, or correct the offsets.",
        )


def refuse_running(name: str, alive: Sequence[Runner], at_ms: int) -> None:
    """Refuse if the pipeline is running.

    Raises:
        PipelineRunning: it is running; the message names host and process.
    """
    if not alive:
        return
    where = "; ".join(
        f"{safe_text(runner.host)}, pid {runner.pid} ({runner.state}, last heartbeat "
        f"{duration(max(0, at_ms - runner.last_ms) / 1000)} ago)"
        for runner in alive
    )
    raise PipelineRunning(
        f"pipeline {safe_text(name)} is running on {where}",
        unchanged=_UNCHANGED,
        hint="Stop that run first: k2ktui jobs stop. If it was killed, wait until its last "
        "heartbeat is 15 s old.",
    )


def _is_cleared(move: PositionMove, now: Written) -> bool:
    """Return whether an attempt that was fenced has removed a position already."""
    return move.effect is MoveEffect.CLEAR and now.get(move.source) is None


def _outside(move: PositionMove, logs: Mapping[SourcePartition, SourceLog]) -> bool:
    log = logs.get(move.source)
    if log is None or move.offset is None or move.after is None:
        return True
    another = log.topic_id and move.after.topic_id and log.topic_id != move.after.topic_id
    return bool(another) or not log.start <= move.offset <= log.end


def _names(moves: Sequence[PositionMove]) -> str:
    return list_names([move.source for move in moves], _SHOWN)
