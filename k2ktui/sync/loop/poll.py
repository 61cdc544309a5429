"""The continuous sync application: translate and commit in every poll.

It moves only groups without members on the target. What happens where a group has members there,
or where several pipelines map a record, is configured (``errorHandling``): ``fail`` stops the
application before it commits anything else, ``skip`` leaves alone what is concerned, and ``ignore``
reports it and continues.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import (
    WriteOutcome,
    WriteResult,
    find_conflicts,
    find_taken,
    make_writes,
)
from k2ktui.engine.moves.groups import (
    EMPTY_STATES,
    Snapshot,
    describe_conflicting_pipelines,
    unread_notes,
)
from k2ktui.engine.moves.journal import SYNC
from k2ktui.engine.moves.lags import GroupLag
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind
from k2ktui.engine.moves.planning import moved_positions
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.errors import K2kError
from k2ktui.sync.commit_snapshots import CommitSnapshotWriter
from k2ktui.sync.flow import Flow
from k2ktui.sync.group_lags import GroupLagReader
from k2ktui.sync.moves.apply import Applier
from k2ktui.sync.moves.moved_topics import left_out_note
from k2ktui.sync.moves.plans import make_pipeline_plan, plan_options
from k2ktui.sync.moves.snapshot import SnapshotReader
from k2ktui.sync.summaries import SummaryWriter
from k2ktui.text import counted, list_names, safe_message, safe_text

log = logging.getLogger(__name__)

# Number of groups that an error names.
_NAMED = 5
# Groups whose lag is exported: each is a series of two metrics.
_MEASURED = 100


@dataclass(frozen=True, slots=True)
class SyncPoll:
    """One poll of the sync application; ``taken_at`` is epoch seconds.

    Attributes:
        groups: number of groups in the snapshot.
        actions: number of rows per planned action.
        applied: number of committed rows.
        failed: rows that were not committed, with the reason.
        stopped: groups that are left alone from now on, with the reason.
        notes: messages for the operator, each reported once.
        commits_at: when the source's commits were read.
        bases: number of rows per basis, skipped rows included.
        rereads: for each group whose position is not exact, the maximum number of records it
            reads again.
        duration_s: duration of the poll in seconds.
        unread: groups that could not be read on a cluster, with the reason: none of their offsets
            is translated.
        mappings_expire_at: when the first mapping that a group needs expires, unless it is written
            again, in epoch seconds; None if none is needed or expires, or if it is not known.
        lags: of the groups whose lag is exported, by name.
    """

    taken_at: float
    commits_at: float
    groups: int
    actions: dict[str, int]
    applied: int
    failed: tuple[str, ...]
    stopped: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bases: dict[str, int] = field(default_factory=dict)
    rereads: dict[str, int] = field(default_factory=dict)
    duration_s: float = 0.0
    unread: tuple[str, ...] = ()
    mappings_expire_at: float | None = None
    lags: Mapping[str, GroupLag] = field(default_factory=dict)


class SyncStopped(K2kError):
    """A condition stops the application, as configured; it is in the journal."""


class SyncLoop:
    """The sync application of one flow; call ``turn`` every poll interval.

    Attributes:
        stopped: groups that are left alone from now on, with the reason.
        unmapped: why the last poll found no mapping; "" if it found one.
    """

    def __init__(self, flow: Flow, rewind: Rewind = Rewind.NEVER) -> None:
        config = flow.config
        self._config = config
        self._snapshots = SnapshotReader(flow)
        self._commit_writer = CommitSnapshotWriter(
            self._snapshots.store, lambda: (self._snapshots.copier.clusters,)
        )
        self._applier = Applier(config, self._snapshots.target_reader, self._snapshots.store)
        self._summaries = SummaryWriter(self._snapshots.store)
        self._lags = GroupLagReader(self._snapshots.source_reader.cluster)
        self._rewind = rewind
        self._on_active = config.error_handling.on_active_consumer_group_commit
        self.stopped: dict[str, str] = {}
        self.unmapped = ""
        self._reported: set[str] = set()
        self._refusals: set[str] = set()
        self._was_down = False

    def close(self) -> None:
        """Disconnect from both clusters."""
        self._lags.close()
        self._snapshots.close()

    def turn(self) -> SyncPoll:
        """Take a snapshot, keep the source's commits, commit the planned changes.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            NothingCopied, NoPipelineFound: nothing has been replicated yet.
            SyncStopped: an ``errorHandling`` setting is ``fail``, and its condition holds.
        """
        snapshot = self._snapshots.take()
        unread = [
            *unread_notes(snapshot.source, "source"),
            *unread_notes(snapshot.target, "target"),
        ]
        notes = [*snapshot.notes, *unread, *self._keep(snapshot)]
        options = plan_options(self._config, rewind=self._rewind, own_only=True, keeps_choices=True)
        plan = make_pipeline_plan(snapshot, options, logged=self._refusals)
        moved = moved_positions(snapshot, options)
        notes += left_out_note(moved)
        translated = bool(moved) or any(row.basis is not Basis.UNMAPPED for row in plan.rows)
        measured = sorted(filter(self._config.measured_groups.matches, snapshot.source))
        if len(measured) > _MEASURED:
            notes.append(
                f"metrics.groups names {len(measured):,} groups; the lag of the first "
                f"{_MEASURED} by name is exported"
            )
        self.unmapped = "" if translated else snapshot.unmapped
        notes += [self.unmapped] if self.unmapped else []
        self._stop_if_configured(plan, snapshot)
        notes += self._look_at_active(plan, snapshot)
        rows = [row for row in plan.changes if row.group not in self.stopped]
        written = self._write(rows)
        failed = [
            _failure(outcome) for outcome in written if outcome.outcome is not WriteOutcome.APPLIED
        ]
        notes += self._summarize(snapshot, written)
        if written:
            log.info("%d offsets committed, %d not", len(written) - len(failed), len(failed))
        return SyncPoll(
            taken_at=snapshot.taken_at,
            commits_at=snapshot.commits_at,
            groups=len(snapshot.source),
            actions=dict(Counter(str(row.action) for row in plan.rows)),
            applied=sum(outcome.outcome is WriteOutcome.APPLIED for outcome in written),
            failed=tuple(failed),
            stopped=dict(self.stopped),
            notes=tuple(self._new(notes)),
            bases=dict(Counter(str(row.basis) for row in plan.rows)),
            rereads=_rereads(plan),
            unread=tuple(unread),
            mappings_expire_at=snapshot.mappings_expire_at,
            lags=self._lags.measure(snapshot, measured[:_MEASURED]),
        )

    def _keep(self, snapshot: Snapshot) -> list[str]:
        # Also while the source is down: a disaster that lasts must not outlast the mappings.
        notes = self._keep_mappings()
        # Logged on change only: an outage is not repeated at every poll.
        was_down, self._was_down = self._was_down, bool(snapshot.source_down)
        if snapshot.source_down:
            if not was_down:
                notes.append(
                    f"{snapshot.source_down}; continuing with the last snapshot of its commits "
                    "on the target"
                )
            return notes
        notes += ["the source responds again"] if was_down else []
        view = self._snapshots.last_source
        if view is None:
            return notes
        try:
            self._commit_writer.keep(
                view, lambda topic: True, self._snapshots.source_reader.find_gone
            )
        except K2kError as error:
            log.debug("snapshots of the source's commits: the cause", exc_info=error)
            notes.append(
                f"snapshots of the source's commits are not written to the target: {error.message}"
            )
        return notes

    def _keep_mappings(self) -> list[str]:
        mappings = self._snapshots.mappings
        try:
            mappings.keep()
        except K2kError as error:
            log.debug("%s: the cause", mappings.not_kept, exc_info=error)
            return [f"{mappings.not_kept}: {error.message}"]
        return []

    def _summarize(self, snapshot: Snapshot, written: list[WriteResult]) -> list[str]:
        applied = [row.write for row in written if row.outcome is WriteOutcome.APPLIED]
        try:
            self._summaries.keep(snapshot, applied)
        except K2kError as error:
            return [f"the summary for k2ktui fleet is not written to the target: {error.message}"]
        return []

    def _stop_if_configured(self, plan: Plan, snapshot: Snapshot) -> None:
        """Journal and raise what stops the application before it commits anything."""
        rows: list[PlanRow] = []
        if plan.is_stopped_by_conflict:
            why, key = describe_conflicting_pipelines(snapshot), "onMultipleTargetCommittedOffsets"
            rows = [row for row in plan.rows if row.proposed is not None]
            hint = "Stop all but one of these pipelines, or give them different topics."
        elif self._on_active == "fail" and (
            rows := [
                row for row in plan.rows if _held_up(row) and not _has_moved(row.group, snapshot)
            ]
        ):
            groups = sorted({row.group for row in rows})
            why, key = _describe_active(groups), "onActiveConsumerGroupCommit"
            hint = "Stop the consumers of the group on the target, or leave it out of "
            hint += "groups.consumerGroups."
        else:
            return
        note = ""
        try:
            self._applier.journal_unwritten(_unwritten(rows), SYNC, why)
        except K2kError as error:
            note = f"; the journal could not be written: {error.message}"
        log.warning("stopping: %s", why)
        raise SyncStopped(
            f"{why} (errorHandling.{key}: fail){note}",
            unchanged="This poll committed no offset.",
            hint=f"{hint} Or set errorHandling.{key}: skip, to continue with the rest.",
        )

    def _look_at_active(self, plan: Plan, snapshot: Snapshot) -> list[str]:
        """Stop or report groups that would have to move but have members on the target."""
        notes = []
        for row in plan.rows:
            if not _held_up(row) or row.group in self.stopped:
                continue
            why = f"group {safe_text(row.group)} is in use on the target ({row.state_target})"
            if _has_moved(row.group, snapshot):
                notes.append(
                    f"{why}, for topics that were moved there; its other offsets are not written "
                    "before it has stopped there"
                )
            elif self._on_active == "skip":
                log.warning("%s: leaving it alone from now on", why)
                self.stopped[row.group] = why
                notes.append(
                    f"STOPPED: {why}; its offsets are not written any more "
                    "(errorHandling.onActiveConsumerGroupCommit: skip)"
                )
            else:
                notes.append(f"{why}; it is not moved before it has stopped there")
        return notes

    def _write(self, rows: list[PlanRow]) -> list[WriteResult]:
        if not rows:
            return []
        # Another sync application may have written since the snapshot: such a row waits a turn.
        views, known = self._applier.look(sorted({row.group for row in rows}))
        expected = {(row.group, row.topic, row.partition): row.current for row in rows}
        prefix = self._config.groups.offset_guard_prefix
        guarded = self._config.features.apply_mappings_guard
        moved = find_conflicts(expected, views)
        moved |= find_taken(rows, views, known, prefix, guarded=guarded, own_only=True)
        rows = [row for row in rows if (row.group, row.topic, row.partition) not in moved]
        # Routine advances stay out of the journal; new and rewound positions are journaled.
        routine = (Action.ADVANCE, Action.UPDATE)
        told = [row for row in rows if row.action not in routine]
        quiet = [row for row in rows if row.action in routine]
        written: list[WriteResult] = []
        if told:
            written += self._applier.write(make_writes(told, views, known, prefix), SYNC).rows
        if quiet:
            written += self._applier.write_only(make_writes(quiet, views, known, prefix))
        return written

    def _new(self, notes: list[str]) -> list[str]:
        """Return notes that the previous turn did not have; a recurring note counts as new."""
        now = set(notes)
        new = [note for note in dict.fromkeys(notes) if note not in self._reported]
        self._reported = now
        return new


def _describe_active(groups: list[str]) -> str:
    names = list_names(groups, _NAMED)
    return f"{counted(len(groups), 'group')} in use on the target: {names}"


def _unwritten(rows: list[PlanRow]) -> list[OffsetWrite]:
    return [
        OffsetWrite(row.group, row.topic, row.partition, row.current, "", row.proposed, "")
        for row in rows
    ]


def _held_up(row: PlanRow) -> bool:
    """Whether a group would have to move but has members on the target."""
    return (
        row.action is Action.BLOCKED
        and row.proposed is not None
        and row.proposed != row.current
        and row.state_target not in EMPTY_STATES
    )


def _has_moved(group: str, snapshot: Snapshot) -> bool:
    """Whether topics that a group reads were moved: then it may be in use on both clusters."""
    view = snapshot.source.get(group)
    topics = {topic for topic, _ in view.offsets} if snapshot.moved and view is not None else ()
    return any(snapshot.moved.get(topic) is not None for topic in topics)


def _rereads(plan: Plan) -> dict[str, int]:
    """Return the maximum number of records each group reads again, in descending order."""
    by_group: Counter[str] = Counter()
    for row in plan.rows:
        if row.choice is None and row.action is not Action.BLOCKED and row.reread:
            by_group[row.group] += row.reread
    return dict(by_group.most_common())


def _failure(written: WriteResult) -> str:
    write = written.write
    where = safe_text(f"{write.group} {write.topic}-{write.partition}")
    return f"{where}: {safe_message(written.reason)}"
