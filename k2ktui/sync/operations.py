"""Operations on consumer groups, one call each: plan, apply, verify, read the journal, undo.

Commands and screens call these and make no decisions themselves. Each call opens its own
connections and closes them before it returns.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, require
from k2ktui.engine.moves.apply import WriteResult, reverse_writes
from k2ktui.engine.moves.choice import RowKey
from k2ktui.engine.moves.groups import (
    ABSENT,
    EMPTY_STATES,
    GroupRow,
    Snapshot,
    describe_move,
    make_group_rows,
    reading_notes,
    snapshot_notes,
)
from k2ktui.engine.moves.journal import (
    APPLY,
    DELETE,
    DRILL,
    HOLD,
    PARITY,
    RELEASE,
    SOURCE_RESET,
    SOURCE_UNDO,
    SYNC,
    UNDO,
    EntryRow,
    JournalHeader,
    JournalRows,
)
from k2ktui.engine.moves.plan import Plan, PlanRow
from k2ktui.engine.moves.planning import PlanOptions, moved_positions
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.engine.name_pattern import require_match
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, ConnectionFailed, Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.progress import long_step
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.drill.pair import refuse_open_drills
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.apply import (
    Applied,
    Applier,
    judge_entry,
    read_results,
    refuse_other_pipeline,
)
from k2ktui.sync.moves.choices import look_up_times, lowest_chosen
from k2ktui.sync.moves.entry_files import remember
from k2ktui.sync.moves.moved_topics import (
    find_left_alone,
    left_out_note,
    read_moved_targets,
    refuse_moved,
)
from k2ktui.sync.moves.plans import make_pipeline_plan
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.store import StateStore
from k2ktui.sync.verify.changed_records import skip_left_out
from k2ktui.sync.verify.groups import open_verification, pair_positions, verify
from k2ktui.sync.verify.schema_id_comparison import open_record_comparison
from k2ktui.sync.verify.verification import GroupPosition, Verification
from k2ktui.text import counted, duration, safe_text

log = logging.getLogger(__name__)

_UNCHANGED = "Nothing was changed."
_SHOWN = 20
_GROUP_CHANGES = frozenset({APPLY, UNDO, DELETE, SYNC, SOURCE_RESET, SOURCE_UNDO})

_BOTH_WAYS = (
    "records of both directions are in another order on the target: groups counts what is skipped "
    "and read again from the committed offset there"
)

OnResult = Callable[[WriteResult], None]


def create_plan(
    flow: Flow,
    options: PlanOptions,
    files: Sequence[str],
    took: Callable[[Snapshot], None] = lambda _: None,
) -> Plan:
    """Take a snapshot and plan; the plan has the notes on the snapshot.

    Args:
        flow: whose groups are planned.
        options: how to plan, see :func:`k2ktui.sync.moves.plans.plan_options`.
        files: the flow's files, which the plan remembers.
        took: called with the snapshot, of which rows can be set by :func:`plan_snapshot`.

    Raises:
        ConfigError: a pattern of the options matches nothing, or a row cannot be set as chosen.
        ConnectionFailed, TimedOut, Refused: as for ``SnapshotReader.take``.
    """
    options = replace(options, choices=look_up_times(options.choices, flow.config))
    snapshot = take_snapshot(flow, compare=lowest_chosen(options.choices))
    took(snapshot)
    notes = reading_notes(snapshot)
    if not snapshot.source and snapshot.replicas:
        notes.append(
            f"no group of source cluster {safe_text(snapshot.source_cluster)} has committed "
            f"offsets, although {counted(len(snapshot.replicas), 'partition')} were copied from it"
        )
    notes += left_out_note(moved_positions(snapshot, options))
    return replace(plan_snapshot(snapshot, options, files), notes=tuple(notes))


def plan_snapshot(snapshot: Snapshot, options: PlanOptions, files: Sequence[str]) -> Plan:
    """Plan with a snapshot that was taken before; arguments as for :func:`create_plan`.

    Raises:
        ConfigError: a pattern of the options matches nothing, or a row cannot be set as chosen.
        Refused: only topics are selected that were moved to the target.
    """
    require_match(options.group, snapshot.source.keys(), "group")
    topics = {at.topic for at in snapshot.replicas}
    require_match(options.topic, topics, "topic")
    refuse_moved(options.topic, topics, snapshot.moved)
    plan = make_pipeline_plan(snapshot, options, files)
    counts = Counter(f"{row.action} ({row.basis})" for row in plan.rows)
    shown = ", ".join(f"{count} {what}" for what, count in counts.most_common())
    log.info("plan %s: %s", plan.id, shown or "no rows")
    return plan


def apply_plan(
    config: PipelineConfig,
    plan: Plan,
    files: Sequence[str],
    may: Access,
    on_result: OnResult = lambda _: None,
    drill: str = "",
) -> Applied:
    """Apply a plan exactly as it is, or write nothing.

    Args:
        config: the pipeline.
        plan: the plan that was shown and confirmed.
        files: the pipeline's files, remembered on this machine for ``undo``.
        may: the caller's access rights.
        on_result: callback for each row as soon as its result is known.
        drill: id of the drill that applies it, which may write rows of topics that it has moved to
            the target; those of other moved topics are refused.

    Raises:
        Refused: not allowed, expired, of another pipeline or cluster, something has moved, or
            groups of the source would be written during a drill.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    require(may, "applying a plan")
    late = time.time() - plan.expires_at
    if late > 0:
        raise Refused(
            f"plan {plan.id} expired {duration(late)} ago",
            unchanged=_UNCHANGED,
            hint="Make a new plan.",
        )
    if plan.side == "source":
        refuse_open_drills(config)
    with _writing(config, plan.side) as (cluster, store):
        keys = (row.key for row in plan.rows)
        left_alone = _find_left_alone(config, cluster, plan.side, keys, drill)
        applier = Applier(config, cluster, store, on_result, side=plan.side)
        applied = applier.apply(plan, left_alone)
    remember(applied.id, config.name, files)
    return applied


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A journal entry with its changes, one part per consumer group.

    ``taken_back_by`` is the id of a later entry that undid it, entirely or partly; "" for none.
    """

    header: JournalHeader
    parts: tuple[JournalRows, ...]
    taken_back_by: str = ""

    @property
    def of_groups(self) -> bool:
        """Whether it changed groups; otherwise it changed the pipeline's own positions."""
        return self.header.operation in _GROUP_CHANGES

    @property
    def rows(self) -> list[WriteResult]:
        """The results of its writes to groups, row by row."""
        return read_results(self.parts)

    @property
    def lines(self) -> list[EntryRow]:
        """Its rows as stored, each with its consumer group."""
        return [line for part in self.parts for line in part.lines]

    def reversal(self) -> list[OffsetWrite]:
        """Return the writes that undo it.

        Raises:
            Refused: it changed the pipeline's own positions, holds or values of parity, not groups,
                or is of a drill.
        """
        if self.header.operation.startswith(DRILL):
            raise Refused(
                f"entry {safe_text(self.header.id)} belongs to drill {safe_text(self.header.plan)}",
                unchanged=_UNCHANGED,
                hint=f"To undo the drill: k2ktui drill abort {safe_text(self.header.plan)} -f FILE",
            )
        if self.header.operation.startswith(PARITY):
            raise Refused(
                f"entry {safe_text(self.header.id)} changed settings, quotas or ACLs",
                unchanged=_UNCHANGED,
                hint=f"To undo it: k2ktui parity undo {safe_text(self.header.id)} -f FILE",
            )
        if self.header.operation in (HOLD, RELEASE):
            opposite = RELEASE if self.header.operation == HOLD else HOLD
            names = " ".join(sorted({safe_text(row.topic) for _, row in self.lines}))
            raise Refused(
                f"entry {safe_text(self.header.id)} changed which topics are copied",
                unchanged=_UNCHANGED,
                hint=f"To undo it: k2ktui {opposite} -f FILE {names}",
            )
        if not self.of_groups:
            before = [
                f"{safe_text(row.topic)}:{row.partition}:{row.before}"
                for _, row in self.lines[:_SHOWN]
                if row.before is not None
            ]
            raise Refused(
                f"entry {safe_text(self.header.id)} changed the pipeline's source positions; "
                "records may have been copied since",
                unchanged=_UNCHANGED,
                hint="Stop the pipeline, then restore them: k2ktui offsets set -f FILE "
                + (" ".join(before) or "TOPIC:PARTITION:OFFSET"),
            )
        return reverse_writes(self.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``k2ktui journal ID --json`` prints."""
        return {**asdict(self.header), "groups": [asdict(part) for part in self.parts]}


def journal_json(headers: Sequence[JournalHeader]) -> dict[str, Any]:
    """Return the object that ``k2ktui journal --json`` prints."""
    return {"journal": [asdict(header) for header in headers]}


def read_journal(config: PipelineConfig) -> list[JournalHeader]:
    """Read the journal's entries, the newest first; errors as for ``StateStore.read``."""
    with _writing(config) as (_, store):
        journal = store.read().journal
    return sorted(journal.values(), key=lambda header: header.order, reverse=True)


def read_entry(config: PipelineConfig, entry: str) -> JournalEntry:
    """Read one entry of the journal.

    If the entry was begun and not finished, its rows show what is found on the target now.

    Raises:
        ConfigError: there is no entry with this id.
        Refused, ConnectionFailed, TimedOut: as for ``StateStore.read``.
    """
    with _writing(config) as (target, store):
        state = store.read()
        header = state.find_header(entry, config.name)
        later = [header for header in state.journal.values() if header.undoes == entry]
        parts = state.entry(entry)
        if header.operation in _GROUP_CHANGES and header.side == "source":
            with closing(TargetClusterReader(config, side="source")) as source:
                parts = tuple(judge_entry(parts, source))
        elif header.operation in _GROUP_CHANGES:
            parts = tuple(judge_entry(parts, target))
        return JournalEntry(
            header, parts, max(later, key=lambda header: header.order).id if later else ""
        )


@dataclass(frozen=True, slots=True)
class GroupDeletion:
    """Committed offsets of a group on the target that are to be deleted.

    Attributes:
        group: its name.
        offsets: by topic and partition.
        is_whole: whether these are all, so that the group is deleted.
    """

    group: str
    offsets: Mapping[tuple[str, int], int]
    is_whole: bool

    @property
    def writes(self) -> list[OffsetWrite]:
        """The writes that delete them, sorted."""
        return [
            OffsetWrite(self.group, *at, self.offsets[at], "", None, "")
            for at in sorted(self.offsets)
        ]


def plan_deletion(
    config: PipelineConfig, group: str, topic: Callable[[str], bool]
) -> GroupDeletion:
    """Return which offsets of a group on the target would be deleted, without changing anything.

    Args:
        config: the pipeline.
        group: its name.
        topic: selects the topics.

    Raises:
        Refused: the group has members, or cannot be read.
        ConfigError: it has no committed offset on these topics.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    with closing(TargetClusterReader(config)) as cluster:
        view = cluster.views([group]).get(group, ABSENT)
    name = safe_text(group)
    if why := view.error or next(iter(view.unsettled.values()), ""):
        raise Refused(f"group {name} on the target: {why}", unchanged=_UNCHANGED)
    if not view.empty:
        raise Refused(
            f"group {name} is in use on the target ({safe_text(view.state)})",
            unchanged=_UNCHANGED,
            hint="Stop its consumers there first.",
        )
    known = {at: commit.offset for at, commit in view.offsets.items() if commit.offset >= 0}
    offsets = {at: offset for at, offset in known.items() if topic(at[0])}
    if not offsets:
        raise ConfigError(
            f"group {name} has no committed offset on the target on these topics",
            unchanged=_UNCHANGED,
            hint="k2ktui groups lists the groups of the pipeline.",
        )
    return GroupDeletion(group, offsets, len(offsets) == len(known))


def delete_group(
    config: PipelineConfig, deletion: GroupDeletion, files: Sequence[str], may: Access
) -> Applied:
    """Delete exactly the offsets that were shown, or nothing; undo commits them again.

    Args:
        config: the pipeline.
        deletion: what was shown and confirmed.
        files: the pipeline's files, remembered on this machine for ``undo``.
        may: the caller's access rights.

    Raises:
        Refused: not allowed, the group has members, something has moved, or a drill moved one of
            the topics to the target.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    require(may, "deleting a group")
    with _writing(config) as (cluster, store):
        keys = [(deletion.group, *at) for at in deletion.offsets]
        left_alone = _find_left_alone(config, cluster, "target", keys, "")
        applier = Applier(config, cluster, store)
        applied = applier.delete(deletion.group, deletion.offsets, left_alone)
    remember(applied.id, config.name, files)
    return applied


def undo_entry(
    config: PipelineConfig,
    entry: JournalEntry,
    files: Sequence[str],
    may: Access,
    *,
    skip_moved: bool = False,
    drill: str = "",
) -> Applied:
    """Undo what a journal entry changed; arguments as for :func:`apply_plan`.

    ``skip_moved`` skips rows that have moved since, instead of refusing.

    Raises:
        Refused: not allowed, not an entry about groups, something has moved, or groups of the
            source would be written during a drill.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    require(may, "undoing a journal entry")
    entry.reversal()
    side = entry.header.side
    if side == "source":
        refuse_open_drills(config)
    with _writing(config, side) as (cluster, store):
        rows = entry.rows
        keys = ((row.write.group, row.write.topic, row.write.partition) for row in rows)
        left_alone = _find_left_alone(config, cluster, side, keys, drill)
        applied = Applier(config, cluster, store, side=side).undo(
            entry.header.id, rows, skip_moved=skip_moved, left_alone=left_alone
        )
    remember(applied.id, config.name, files)
    return applied


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The result of a content verification.

    Attributes:
        verification: its checks.
        unasked: group-partitions that could not be compared, with the reason.
        notes: messages for the operator about the snapshot.
    """

    verification: Verification
    unasked: tuple[tuple[GroupRow | PlanRow, str], ...]
    notes: tuple[str, ...]


def verify_content(
    flow: Flow,
    *,
    group: Callable[[str], bool],
    translated: bool = False,
    plan: Plan | None = None,
    sample: int = 20,
    seed: int = 0,
    timeout: float = 120.0,
    snapshot: Snapshot | None = None,
) -> VerificationReport:
    """Compare groups' next records, and sampled ranges, on both clusters; changes nothing.

    Args:
        flow: whose records are compared.
        group: predicate that selects the groups.
        translated: compare at translated offsets instead of the committed offsets on the target.
        plan: compare at the offsets of a plan, applied or not; groups that continue to consume
            on either cluster then do not affect the result.
        sample, seed, timeout: as for :func:`k2ktui.sync.verify.groups.verify`.
        snapshot: one taken just before, with :func:`planned_offsets`; None to take one.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer; the comparison needs both.
        Refused: as for ``SnapshotReader.take``, or the plan belongs to another pipeline.
        ConfigError: ``group`` is a pattern that matches no group.
    """
    if plan is not None:
        refuse_other_pipeline(plan.pipeline, flow.config)
    with long_step("commits and mappings of both clusters are read"):
        snapshot, source, target = open_verification(flow, planned_offsets(plan), snapshot)
    if snapshot.source_down:
        raise ConnectionFailed(
            f"{snapshot.source_down}: its records cannot be compared",
            hint="Repeat when both clusters answer; groups, plan and apply need no source.",
        )
    asked: list[GroupPosition]
    unasked: Sequence[tuple[GroupRow | PlanRow, str]]
    reading: set[str] = set()
    names = [row.group for row in plan.rows] if plan is not None else snapshot.source.keys()
    require_match(group, set(names), "group")
    moved = snapshot.moved
    if plan is not None:
        asked, unasked = _planned_positions([r for r in plan.rows if group(r.group)], moved)
        asked = skip_left_out(flow.config, snapshot, pair_positions(snapshot, asked))
    else:
        rows = [row for row in make_group_rows(snapshot) if group(row.group)]
        asked, unasked = _positions(snapshot, rows, translated=translated)
        asked = skip_left_out(flow.config, snapshot, pair_positions(snapshot, asked))
        reading = {row.group for row in rows if row.state_source not in EMPTY_STATES}
    with open_record_comparison(flow.config) as records:
        result = verify(
            source,
            target,
            asked,
            replicas={at: r for at, r in snapshot.replicas.items() if at.topic not in moved},
            sample=sample,
            seed=seed,
            records=records,
            both_ways=snapshot.opposite.keys(),
            timeout=timeout,
        )
    notes = snapshot_notes(snapshot)
    if reading and not translated:
        active = counted(len(reading), "group")
        notes.append(
            f"still active on the source: {active}; records consumed there after the "
            "translation make the next records differ (--plan FILE compares at the plan's "
            "source offsets)"
        )
    return VerificationReport(result, tuple(unasked), tuple(notes))


def planned_offsets(plan: Plan | None) -> dict[SourcePartition, set[int]]:
    """Return the source offsets that a plan translates; empty without a plan."""
    offsets: dict[SourcePartition, set[int]] = {}
    for at, offset in (source for row in (plan.rows if plan else ()) for source in row.sources):
        offsets.setdefault(at, set()).add(offset)
    return offsets


def _positions(
    snapshot: Snapshot, rows: Sequence[GroupRow], *, translated: bool
) -> tuple[list[GroupPosition], list[tuple[GroupRow, str]]]:
    """Return what can be compared, and what cannot with the reason."""
    asked, unasked = [], []
    for row in rows:
        if row.chosen_by or row.moved_by:
            unasked.append((row, row.reason))
            continue
        offset = row.translated_offset if translated else row.target_offset
        if offset is None or row.source_offset is None or row.target_partition is None:
            missing = "has no translation" if translated else "has no committed offset there"
            reason = f"the group {missing}"
            unasked.append((row, f"{reason}: {row.reason}" if row.reason else reason))
            continue
        source = SourcePartition(row.topic, row.partition)
        target = (row.target_topic, row.target_partition)
        if target in snapshot.opposite and offset != row.translated_offset:
            unasked.append((row, _BOTH_WAYS))
            continue
        asked.append(GroupPosition(row.group, source, row.source_offset, target, offset))
    return asked, unasked


def _planned_positions(
    rows: Sequence[PlanRow], moved: MovedTopics
) -> tuple[list[GroupPosition], list[tuple[PlanRow, str]]]:
    """Return what can be compared at the plan's offsets, and what cannot with the reason."""
    asked, unasked = [], []
    for row in rows:
        move = next((m for at, _ in row.sources if (m := moved.get(at.topic))), None)
        if move is not None:
            unasked.append((row, f"its topic was {describe_move(move)}"))
            continue
        if row.proposed is None or row.choice is not None:
            why = row.reason if row.choice else f"nothing was planned: {row.reason}"
            unasked.append((row, why))
            continue
        target = (row.topic, row.partition)
        for source, offset in row.sources:
            asked.append(GroupPosition(row.group, source, offset, target, row.proposed))
    return asked, unasked


def _find_left_alone(
    config: PipelineConfig,
    cluster: TargetClusterReader,
    side: str,
    keys: Iterable[RowKey],
    drill: str,
) -> Mapping[RowKey, str]:
    """Return which rows are of topics that drills moved to the target, and why they stay."""
    if side == "source":
        return {}
    return find_left_alone(keys, read_moved_targets(config, cluster.cluster), drill)


@contextmanager
def _writing(
    config: PipelineConfig, side: str = "target"
) -> Iterator[tuple[TargetClusterReader, StateStore]]:
    """Connect to the cluster whose groups are written, and to the target's state topic."""
    cluster = TargetClusterReader(config, side=side)
    target = cluster.cluster if side == "target" else target_cluster(config)
    store = StateStore(config, target)
    try:
        yield cluster, store
    finally:
        store.close()
        cluster.close()
        target.disconnect()
