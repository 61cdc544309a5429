"""Make a plan from a snapshot: what to commit on the target, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.moves.choice import Choice, RowKey, RowValue, ValueKind, chosen_offset
from k2ktui.engine.moves.groups import (
    EMPTY_STATES,
    GroupView,
    Snapshot,
    TranslatedGroup,
    describe_move,
    remembered_choice,
    source_text,
    standing_at,
    translate_groups,
    with_conflicting_pipelines,
)
from k2ktui.engine.moves.pins import pin_logs
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind, decide_action
from k2ktui.engine.moves.written import find_ours
from k2ktui.engine.records.mapping_version import MappingVersion, split_guard
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, Refused
from k2ktui.text import counted, duration, safe_text

_ITS_OWN = "the application has committed further on the target itself"
_ON_CONFLICT = "errorHandling.onMultipleTargetCommittedOffsets"
_OTHERS_STOPPED = f"other partitions are mapped by several pipelines, and {_ON_CONFLICT} is fail"
_ACTIVE = "still active on the source"
_NAMED = 10


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options for making a plan.

    Attributes:
        made_by: ``user@host``.
        valid_s: seconds until the plan expires.
        rewind: what to do where the target commit is ahead of the translation.
        guard_prefix: prefix of the mark that earlier releases wrote into commit metadata.
        guarded: whether to keep an older mapping from overwriting a newer one.
        own_only: whether to never rewind over an offset that an application committed on the
            target.
        conflicts: what to do if several pipelines map a partition: ``fail`` (commit nothing),
            ``skip`` (leave out the partition), ``ignore`` (use one of the mappings).
        group: selects groups, all by default.
        topic: selects source topics, all by default.
        choices: what ``made_by`` chose for rows instead of the translated offset; no times.
        keeps_choices: whether rows stay where operators chose earlier, until their source commits
            move; otherwise they are planned again.
    """

    made_by: str
    valid_s: float = 900.0
    rewind: Rewind = Rewind.NEVER
    guard_prefix: str = "k2k_"
    guarded: bool = True
    own_only: bool = False
    conflicts: Literal["fail", "skip", "ignore"] = "fail"
    group: Callable[[str], bool] = lambda _: True
    topic: Callable[[str], bool] = lambda _: True
    choices: Mapping[RowKey, RowValue] = field(default_factory=dict)
    keeps_choices: bool = False


def make_plan(snapshot: Snapshot, options: PlanOptions) -> Plan:
    """Decide what to commit for every chosen group, without changing anything.

    Rows of topics that were moved to the target are left out.

    Raises:
        ConfigError: a choice is for no row, or leads to no offset.
        Refused: a choice is for a row of a topic that was moved to the target.
    """
    chosen = _choose(snapshot, options)
    if options.choices:
        _refuse_moved(snapshot, options)
        _check_choices(snapshot, chosen, options)
    stopped = options.conflicts == "fail" and bool(_conflicts(snapshot, chosen))
    rows = [_RowPlanner(snapshot, options, *row, stopped).plan() for row in chosen]
    places = {(row.topic, row.partition) for row in rows}
    return Plan(
        pipeline=snapshot.pipeline,
        source_cluster=snapshot.source_cluster,
        target_cluster=snapshot.target_cluster,
        created_at=snapshot.taken_at,
        expires_at=snapshot.taken_at + options.valid_s,
        made_by=options.made_by,
        rewind=options.rewind,
        rows=tuple(rows),
        logs=pin_logs(places, snapshot.logs, snapshot.target_ids),
        commits_at=snapshot.commits_at if snapshot.source_down else None,
        is_stopped_by_conflict=stopped,
    )


def set_row(
    snapshot: Snapshot, options: PlanOptions, key: RowKey, value: RowValue, *, stopped: bool
) -> PlanRow:
    """Return a row of a plan as it would be with a value.

    Args:
        snapshot: what the plan was made of.
        options: how it was made.
        key: the row.
        value: what it is set to; no time.
        stopped: the plan's ``is_stopped_by_conflict``.

    Raises:
        ValueError: the plan has no such row, or the value leads to no offset.
    """
    group, *target = key
    views = {group: snapshot.source[group]} if group in snapshot.source else {}
    for translated, translation in _choose(replace(snapshot, source=views), options):
        if translation.target == tuple(target):
            if value.kind is not ValueKind.LEAVE_OUT:
                log = snapshot.logs.get(translation.target)
                chosen_offset(value, translation.offset, log)
            chosen = replace(options, choices={key: value})
            return _RowPlanner(snapshot, chosen, translated, translation, stopped).plan()
    raise ValueError("the plan has no such row")


def _choose(snapshot: Snapshot, options: PlanOptions) -> list[tuple[TranslatedGroup, Translation]]:
    return [row for row in _select(snapshot, options) if _find_move(snapshot, row[1]) is None]


def _select(snapshot: Snapshot, options: PlanOptions) -> list[tuple[TranslatedGroup, Translation]]:
    return [
        (group, translation)
        for group in translate_groups(snapshot)
        if options.group(group.group)
        for translation in group.translations
        if any(options.topic(source.topic) for source in translation.sources)
    ]


def _find_move(snapshot: Snapshot, translation: Translation) -> MovedTopic | None:
    """Return by what the topic of a row was moved; None if it was not."""
    sources = translation.sources if snapshot.moved else ()
    moves = (snapshot.moved.get(source.topic) for source in sources)
    return next((move for move in moves if move is not None), None)


def moved_positions(snapshot: Snapshot, options: PlanOptions) -> list[MovedTopic]:
    """Return what moved the topic of each chosen source commit that a plan leaves out."""
    if not snapshot.moved:
        return []
    return [
        move
        for name, view in snapshot.source.items()
        if options.group(name)
        for (topic, _), commit in view.offsets.items()
        if commit.offset >= 0 and options.topic(topic)
        if (move := snapshot.moved.get(topic)) is not None
    ]


def _refuse_moved(snapshot: Snapshot, options: PlanOptions) -> None:
    if not snapshot.moved:
        return
    moved: dict[RowKey, MovedTopic] = {
        (group.group, *row.target): move
        for group, row in _select(snapshot, options)
        if (move := _find_move(snapshot, row)) is not None
    }
    wrong = [
        f"{safe_text(key[0])} {safe_text(key[1])}:{key[2]}: {safe_text(describe_move(moved[key]))}"
        for key in options.choices
        if key in moved
    ]
    if wrong:
        more = [f"… and {len(wrong) - _NAMED} more"] if len(wrong) > _NAMED else []
        raise Refused(
            "rows of topics that were moved to the target cannot be set:\n    "
            + "\n    ".join(wrong[:_NAMED] + more),
            unchanged="No plan was made.",
            hint="Their clients are on the target: set their offsets there.",
        )


def _conflicts(
    snapshot: Snapshot, chosen: Iterable[tuple[TranslatedGroup, Translation]]
) -> dict[SourcePartition, tuple[str, ...]]:
    partitions = {source for _, translation in chosen for source in translation.sources}
    known = snapshot.conflicting_pipelines
    return {source: names for source in sorted(partitions) if (names := known.get(source))}


@dataclass(frozen=True, slots=True)
class _RowPlanner:
    """Decides what to commit for one group on one target partition.

    ``is_stopped``: nothing is written, as several pipelines map what others of the rows are about.
    """

    snapshot: Snapshot
    options: PlanOptions
    group: TranslatedGroup
    translation: Translation
    is_stopped: bool

    def plan(self) -> PlanRow:
        """Return the row."""
        snapshot, options = self.snapshot, self.options
        group, translation = self.group, self.translation
        current = group.target.committed(translation.target)
        present = None
        if current is not None:
            known = snapshot.written.get(group.group)
            at, prefix = translation.target, options.guard_prefix
            present = find_ours(known, at, current.offset, current.metadata, prefix)
        topic, partition = translation.target
        row = PlanRow(
            group=group.group,
            topic=topic,
            partition=partition,
            source=source_text(group, translation),
            state_source=group.source.state,
            state_target=_state(group.target),
            current=current.offset if current else None,
            proposed=translation.offset,
            basis=translation.basis,
            reread=translation.reread,
            skipped=translation.skipped,
            action=Action.BLOCKED,
            reason=self._reason(),
            version=_mapping_version(snapshot.replicas, translation),
            metadata=self._metadata(),
        )
        value = options.choices.get(row.key)
        earlier = remembered_choice(snapshot, group, translation)
        if earlier is not None and value is None and options.keeps_choices:
            return self._stay(row, earlier)
        if value is None and (recorded := recorded_choice(snapshot, row)) is not None:
            before = _before(recorded, is_over=earlier is None)
            row = replace(row, reason="; ".join(filter(None, (before, row.reason))))
        if value is not None:
            row = self._choose(row, value)
        if row.action is Action.LEAVE_OUT:
            return row
        refused = self._refusal()
        if refused:
            return replace(row, reason="; ".join(part for part in (refused, row.reason) if part))
        if options.own_only and present is None and _further(row):
            return replace(row, reason=f"{_ITS_OWN}; {row.reason}" if row.reason else _ITS_OWN)
        return decide_action(
            row,
            options.rewind if value is None else Rewind.FOLLOW,
            present,
            guarded=options.guarded,
            metadata=current.metadata if current is not None else None,
            longest=snapshot.longest_metadata,
        )

    def _stay(self, row: PlanRow, choice: Choice) -> PlanRow:
        """Return a row that stays where an operator chose before."""
        effect = standing_at(self.snapshot, self.group, self.translation, row.current)
        return replace(
            row,
            proposed=row.current,
            basis=Basis.CHOSEN,
            reread=effect.reread,
            skipped=effect.skipped,
            action=Action.LEAVE_OUT if row.current is None else Action.KEEP,
            reason=choice.text,
            choice=choice,
        )

    def _choose(self, row: PlanRow, value: RowValue) -> PlanRow:
        """Return a row as it is set, with its effect counted again; its action is not decided."""
        snapshot, by = self.snapshot, self.options.made_by
        leaves_out = value.kind is ValueKind.LEAVE_OUT
        log = snapshot.logs.get(self.translation.target)
        offset = None if leaves_out else chosen_offset(value, row.proposed, log)
        stays_at = row.current if leaves_out else offset
        effect = standing_at(snapshot, self.group, self.translation, stays_at)
        instead = f"{row.proposed:,} ({row.basis})" if row.proposed is not None else "no offset"
        what = "left out" if leaves_out else f"chosen: {value.text}"
        reason = f"{what}, by {by}; translated: {instead}"
        return replace(
            row,
            proposed=offset,
            basis=Basis.CHOSEN,
            reread=effect.reread,
            skipped=effect.skipped,
            action=Action.LEAVE_OUT if leaves_out else row.action,
            reason="; ".join(part for part in (reason, row.reason) if part),
            choice=Choice(by, value.text, row.source, round(snapshot.taken_at * 1000)),
        )

    def _reason(self) -> str:
        snapshot, source = self.snapshot, self.group.source
        parts = [with_conflicting_pipelines(snapshot, self.translation)]
        if snapshot.source_down:
            age = duration(snapshot.taken_at - (source.seen_at or snapshot.commits_at))
            parts.append(f"the source's commits are {age} old")
        elif not source.empty:
            parts.append(_ACTIVE)
        return "; ".join(part for part in parts if part)

    def _refusal(self) -> str:
        target, known = self.group.target, self.snapshot.conflicting_pipelines
        if target.error:
            return f"on the target: {target.error}"
        if why := target.unsettled.get(self.translation.target):
            return f"on the target: {why}"
        rivals = any(known.get(source) for source in self.translation.sources)
        if self.is_stopped and not rivals:
            return _OTHERS_STOPPED
        if self.options.conflicts != "ignore" and rivals:
            return f"{_ON_CONFLICT} is {self.options.conflicts}"
        return ""

    def _metadata(self) -> str:
        """Return the application's own metadata, from the first source partition that has any."""
        for at in self.translation.sources:
            committed = self.group.source.offsets[at.topic, at.partition]
            own = split_guard(self.options.guard_prefix, committed.metadata)[1]
            if own:
                return own
        return ""


def _check_choices(
    snapshot: Snapshot,
    chosen: Iterable[tuple[TranslatedGroup, Translation]],
    options: PlanOptions,
) -> None:
    """Refuse all choices that are for no row, or lead to no offset, at once."""
    proposed = {(group.group, *row.target): row.offset for group, row in chosen}
    wrong = []
    for key, value in options.choices.items():
        group, topic, partition = key
        try:
            if key not in proposed:
                raise ValueError("the plan has no such row")
            if value.kind is not ValueKind.LEAVE_OUT:
                chosen_offset(value, proposed[key], snapshot.logs.get((topic, partition)))
        except ValueError as error:
            where = f"{safe_text(group)} {safe_text(topic)}:{partition}={safe_text(value.text)}"
            wrong.append(f"{where}: {error}")
    if wrong:
        more = [f"… and {len(wrong) - _NAMED} more"] if len(wrong) > _NAMED else []
        raise ConfigError(
            "rows that cannot be set:\n    " + "\n    ".join(wrong[:_NAMED] + more),
            unchanged="No plan was made.",
            hint="A row is a group and a target partition: k2ktui plan -f FILE shows them.",
        )


def recorded_choice(snapshot: Snapshot, row: PlanRow) -> Choice | None:
    """Return what an operator chose for a row before, whether or not it still holds."""
    written = snapshot.written.get(row.group)
    return None if written is None else written.choices.get((row.topic, row.partition))


def _before(choice: Choice, *, is_over: bool) -> str:
    return (
        f"{choice.text}, before its source commit moved" if is_over else f"until now {choice.text}"
    )


def _further(row: PlanRow) -> bool:
    return row.current is not None and row.proposed is not None and row.current > row.proposed


def _state(view: GroupView) -> str:
    """Return the state on the target; a group with members never counts as empty."""
    if view.members and view.state in EMPTY_STATES:
        return f"{view.state or 'Unknown'} with {counted(view.members, 'member')}"
    return view.state


def _mapping_version(
    replicas: Mapping[SourcePartition, Replica], rows: Translation
) -> MappingVersion:
    """Return the version of the mapping that a translation was made from."""
    positions = [p for s in rows.sources if (p := replicas[s].position) is not None]
    return MappingVersion(
        max((p.term for p in positions), default=0), sum(p.offset for p in positions)
    )
