"""A plan: which offset to commit for which group, immutable, hashed and with an expiry time.

A plan is made once and saved; it is applied exactly as shown or refused. This module does not talk
to Kafka.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import FailFast, TypeAdapter

from k2ktui.engine.bounded import Count, Number, Seconds, Text, read_as
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.choice import LEAVE_OUT, Choice, RowKey
from k2ktui.engine.moves.groups import EMPTY_STATES
from k2ktui.engine.moves.pins import PinnedLog
from k2ktui.engine.moves.written import Ours
from k2ktui.engine.records.mapping_version import MappingVersion, is_stale
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    MalformedRecord,
    field,
    integer,
    items,
    mapping,
    parse_object,
    rows,
)
from k2ktui.engine.strict_json import text as strict_text
from k2ktui.text import duration, list_names, moment

VERSION = 2
_LARGEST_FILE = 512 << 20
_ID_LENGTH = 12
_NAMED = 5
_SOURCE = re.compile(r"[^,@]+-([0-9]{1,10})@([0-9]{1,19})")
_SPECIAL = re.compile(r'[,"\r\n]')


class Action(StrEnum):
    """What happens to a committed offset on the target; ``update`` changes its metadata only.

    ``BLOCKED`` leaves a commit alone that is not where it should be; the row has the reason.
    ``LEAVE_OUT`` leaves it alone because an operator chose so.
    """

    CREATE = "create"
    ADVANCE = "advance"
    REWIND = "rewind"
    UPDATE = "update"
    KEEP = "keep"
    # Plan files and --json have always said "skip", which people read as skipped records.
    BLOCKED = "skip"
    LEAVE_OUT = LEAVE_OUT

    @property
    def word(self) -> str:
        """The action as people read it."""
        return _WORDS.get(self, str(self))


_WORDS = {Action.BLOCKED: "blocked", Action.LEAVE_OUT: "left out"}


_CHANGES = frozenset({Action.CREATE, Action.ADVANCE, Action.REWIND, Action.UPDATE})


class Rewind(StrEnum):
    """What to do where the target commit is ahead of the translation."""

    NEVER = "never"
    FOLLOW = "follow"


class UnusablePlan(ValueError):
    """The plan file is damaged, modified, expired or of another version."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One committed offset on the target.

    Attributes:
        group: consumer group.
        topic: target topic.
        partition: target partition.
        source: origin of the translation: ``topic-partition@offset``, several joined by commas;
            "" for a group that exists on the target only.
        state_source: group state on the source; empty if unknown.
        state_target: group state on the target; empty if the group does not exist there.
        current: committed offset on the target now, None if there is none.
        proposed: translated offset, None if there is none.
        basis: why the translation can be trusted.
        reread: upper bound of the records read again; None if unknown.
        skipped: upper bound of the records never read; None if unknown.
        action: what applying the plan does.
        reason: why, where it is not obvious.
        version: version of the mapping behind the translation.
        metadata: the application's commit metadata, which is committed byte for byte.
        choice: what an operator chose instead of the translated offset; None for a translation.
    """

    group: Text
    topic: Text
    partition: Number
    source: Text
    state_source: Text
    state_target: Text
    current: Count | None
    proposed: Count | None
    basis: Basis
    reread: Count | None
    skipped: Count | None
    action: Action
    reason: Text
    version: MappingVersion
    metadata: Text = ""
    choice: Choice | None = None

    @property
    def key(self) -> RowKey:
        """Consumer group, target topic and target partition."""
        return self.group, self.topic, self.partition

    @property
    def sources(self) -> tuple[tuple[SourcePartition, int], ...]:
        """The source partitions of the translation, each with its committed offset."""
        partitions = []
        for part in filter(None, self.source.split(",")):
            name, _, offset = part.rpartition("@")
            topic, _, partition = name.rpartition("-")
            partitions.append((SourcePartition(topic, int(partition)), int(offset)))
        return tuple(partitions)

    @property
    def changes(self) -> bool:
        """Whether applying the plan writes this row."""
        return self.action in _CHANGES

    @property
    def stays_as_chosen(self) -> bool:
        """Whether applying the plan remembers the choice, and writes no offset."""
        return self.choice is not None and self.action in (Action.KEEP, Action.LEAVE_OUT)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows to apply, and the state that they depend on. Times are epoch seconds.

    ``files`` are the pipeline's configuration files, for the command that applies the plan;
    ``files_digest`` proves that their contents are the same, "" if unknown.
    ``logs`` are the target partitions as they were; the plan is refused if they no longer match.
    ``commits_at`` is when the source's committed offsets were kept, if the source did not answer.
    ``is_stopped_by_conflict`` says that nothing is committed because several pipelines map a
    partition (``errorHandling.onMultipleTargetCommittedOffsets: fail``).
    ``notes`` are for whoever reads the plan: what could not be read, for example a group, which
    then has no row. The digest leaves them out.
    ``side`` is the cluster whose groups are written, ``source`` or ``target``; ``target_cluster``
    is the id of that cluster.
    """

    pipeline: Text
    source_cluster: Text
    target_cluster: Text
    created_at: Seconds
    expires_at: Seconds
    made_by: Text
    rewind: Rewind
    rows: Annotated[tuple[PlanRow, ...], FailFast()]
    files: Annotated[tuple[Text, ...], FailFast()] = ()
    files_digest: Text = ""
    logs: Annotated[tuple[PinnedLog, ...], FailFast()] = ()
    commits_at: Seconds | None = None
    is_stopped_by_conflict: bool = False
    notes: Annotated[tuple[Text, ...], FailFast()] = ()
    side: Literal["source", "target"] = "target"

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's contents as hex text."""
        return hashlib.sha256(_canonical(self).encode()).hexdigest()

    @property
    def id(self) -> str:
        """Short id of the plan: the beginning of its digest."""
        return self.digest[:_ID_LENGTH]

    @property
    def changes(self) -> tuple[PlanRow, ...]:
        """The rows that applying the plan writes."""
        return tuple(row for row in self.rows if row.changes)

    @property
    def applied(self) -> tuple[PlanRow, ...]:
        """The rows that applying the plan writes, or remembers as an operator chose them."""
        return tuple(row for row in self.rows if row.changes or row.stays_as_chosen)


def decide_action(
    row: PlanRow,
    rewind: Rewind,
    present: Ours | None,
    *,
    guarded: bool = True,
    metadata: str | None = None,
    longest: int | None = None,
    side: str = "target",
) -> PlanRow:
    """Return the row with its action.

    Args:
        row: the proposal; its action and reason are replaced.
        rewind: what to do where the target commit is ahead of the translation.
        present: what is known of the current target commit if it is ours, otherwise None.
        guarded: whether to keep an older mapping from overwriting a newer one.
        metadata: the metadata of the current target commit, None without one.
        longest: length of the longest metadata that the target accepts, None if unknown.
        side: the cluster whose group is written.
    """
    action, why = _decision(row, rewind, present, side, guarded=guarded)
    if action is Action.KEEP and present is not None and metadata not in (None, row.metadata):
        action, why = Action.UPDATE, "its metadata has changed"
    length = metadata_length(row.metadata)
    if action in _CHANGES and longest is not None and length > longest:
        action, why = (
            Action.BLOCKED,
            f"its metadata has {length:,} characters, and the target's brokers accept {longest:,} "
            "(offset.metadata.max.bytes)",
        )
    reason = "; ".join(part for part in (why, row.reason) if part)
    return replace(row, action=action, reason=reason)


def metadata_length(metadata: str) -> int:
    """Return a length as brokers count it for ``offset.metadata.max.bytes``: in UTF-16 units."""
    return len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2


def _decision(
    row: PlanRow, rewind: Rewind, present: Ours | None, side: str, *, guarded: bool
) -> tuple[Action, str]:
    if row.proposed is None:
        return Action.BLOCKED, "no offset is available"
    if row.basis is Basis.UNMAPPED:
        return Action.BLOCKED, "the effect on the group is unknown; set the offset yourself"
    if row.state_target not in EMPTY_STATES:
        return Action.BLOCKED, f"the group is {row.state_target} on the {side}: stop it there first"
    if guarded and is_stale(row.version, present.version if present is not None else None):
        return Action.BLOCKED, "the offset on the target comes from a newer mapping"
    if row.current is None:
        return Action.CREATE, ""
    if row.current == row.proposed:
        return Action.KEEP, ""
    if row.current < row.proposed:
        return Action.ADVANCE, ""
    if rewind is Rewind.FOLLOW:
        return Action.REWIND, ""
    if present is not None and present.overwrote_newer:
        return Action.REWIND, "a process that was suspended committed what an older mapping says"
    return Action.BLOCKED, "the target is ahead; rewinding is off (--rewind follow)"


def uncertain_first(rows: Iterable[PlanRow]) -> list[PlanRow]:
    """Sort rows for display: inexact rows and rows that skip records come first."""

    def rank(row: PlanRow) -> tuple[bool, bool, str, str, int]:
        certain = row.basis in (Basis.EXACT, Basis.END) and not row.skipped
        plain = row.action is not Action.BLOCKED
        return certain, plain, row.group, row.topic, row.partition

    return sorted(rows, key=rank)


def plan_remarks(plan: Plan) -> list[str]:
    """Return what an operator should know or do before applying a plan."""
    reading = {row.group for row in plan.changes if row.state_source not in EMPTY_STATES}
    held = {row.group for row in plan.rows if row.state_target not in EMPTY_STATES}
    remarks = []
    if plan.commits_at is not None:
        age = duration(plan.created_at - plan.commits_at)
        remarks.append(
            f"the source did not answer: its commits are of {moment(plan.commits_at)}, {age} "
            "before this plan. Records that groups read there since then are re-read on the target"
        )
    if reading:
        remarks.append(
            f"still active on the source: {_some(reading)}. Records that they read there from "
            "now on are re-read on the target: stop them, then make a new plan"
        )
    if held:
        remarks.append(f"not changed, because it has members on the {plan.side}: {_some(held)}")
    return remarks


def _some(groups: Collection[str]) -> str:
    return list_names(sorted(groups), _NAMED)


def dump_plan(plan: Plan) -> str:
    """Return the plan as the text of a file: JSON with its digest, one row per line."""
    digest = plan.digest
    whole = {**_head(plan), "id": digest[:_ID_LENGTH], "sha256": digest}
    if plan.notes:
        whole["notes"] = plan.notes
    return plan_text(whole, map(_row_as_json, plan.rows))


def plan_text(whole: Mapping[str, object], rows: Iterable[object]) -> str:
    """Return the text of a plan file: JSON, with a line for each field and row."""
    fields = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in whole.items()]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return "{\n" + ",\n".join([*fields, f' "rows": [\n{lines}\n ]']) + "\n}\n"


def load_plan(text: str, now: float) -> Plan:
    """Read a plan file.

    Args:
        text: contents of the file.
        now: current time in epoch seconds, to reject an expired plan.

    Raises:
        UnusablePlan: it is damaged, modified, expired, or of another version.
    """
    plan, digest = _read(text)
    require_usable(plan.digest, digest, plan.expires_at, now)
    return plan


def require_usable(digest: str, stated: str, expires_at: float, now: float) -> None:
    """Require that a plan is as it was made, and has not expired; raises ``UnusablePlan``.

    Args:
        digest, stated: of what is in the file, and as the file states it.
        expires_at, now: epoch seconds.
    """
    if digest != stated:
        raise UnusablePlan("it was modified after it was made")
    if now > expires_at:
        raise UnusablePlan(f"it expired {duration(now - expires_at)} ago; make a new one")


def read(text: str) -> Plan:
    """Read a plan file for display, without checking its digest and expiry time.

    Raises:
        UnusablePlan: it is damaged, or of another version.
    """
    return _read(text)[0]


def _read(text: str) -> tuple[Plan, str]:
    """Return the plan in a file and the digest that the file states."""
    try:
        value = parse_object(text, largest=_LARGEST_FILE)
        version = integer(field(value, "v"))
        if version == 1:
            raise UnusablePlan(
                "it is of an earlier release, which did not note the topic ids and log bounds of "
                "the target; make a new one"
            )
        if version != VERSION:
            raise UnusablePlan(f"it is of version {version}, this release reads {VERSION}")
        return _plan(value), strict_text(field(value, "sha256"))
    except MalformedRecord as error:
        raise UnusablePlan(f"it is not a plan file, or is damaged ({error})") from error


def to_csv(plan: Plan) -> str:
    """Return the plan as CSV for ``kafka-consumer-groups --reset-offsets --from-file``.

    Columns: group, topic, partition, offset; only rows that change an offset.
    """
    # The tool commits no metadata: a row that only changes metadata would lose it.
    rows = [row for row in plan.changes if row.action is not Action.UPDATE]
    lines = [f"{_quote(r.group)},{r.topic},{r.partition},{r.proposed}" for r in rows]
    return "".join(f"{line}\n" for line in lines)


def _quote(name: str) -> str:
    # Python's csv module does not quote a lone carriage return.
    return '"' + name.replace('"', '""') + '"' if _SPECIAL.search(name) else name


def _head(plan: Plan) -> dict[str, Any]:
    apart = ("rows", "logs", "notes")
    fields = {name: getattr(plan, name) for name in Plan.__slots__ if name not in apart}
    if plan.commits_at is None:
        del fields["commits_at"]
    for name in ("is_stopped_by_conflict", "files_digest"):
        if not fields[name]:
            del fields[name]
    if plan.side == "target":
        del fields["side"]
    logs = [[log.topic, log.partition, log.topic_id, log.start, log.end] for log in plan.logs]
    return {"v": VERSION, **fields, "logs": logs}


def _row_as_json(row: PlanRow) -> dict[str, Any]:
    # dataclasses.asdict takes ten times as long, which matters for 50,000 rows.
    fields = {name: getattr(row, name) for name in PlanRow.__slots__}
    if row.choice is None:
        del fields["choice"]
    else:
        fields["choice"] = {name: getattr(row.choice, name) for name in Choice.__slots__}
    return {**fields, "version": {"term": row.version.term, "position": row.version.position}}


def _canonical(plan: Plan) -> str:
    whole = {**_head(plan), "rows": [_row_as_json(row) for row in plan.rows]}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"))


def _plan(value: dict[str, Any]) -> Plan:
    # These fields have defaults, but are in every file.
    for row in items(field(value, "rows")):
        field(mapping(row), "metadata")
    field(value, "files")
    names = PinnedLog.__slots__
    logs = [dict(zip(names, log, strict=True)) for log in rows(field(value, "logs"), len(names))]
    plan = read_as(_PLAN, {**value, "logs": logs})
    for row in plan.rows:
        if row.source or row.choice is None:
            _check_sources(row.source)
        if row.changes and row.proposed is None:
            raise MalformedRecord("a row that changes an offset to none")
        if (row.choice is None) is (row.basis is Basis.CHOSEN):
            raise MalformedRecord("a chosen row without its choice, or the reverse")
    return plan


def _check_sources(source: str) -> None:
    for part in source.split(","):
        place = _SOURCE.fullmatch(part)
        if place is None:
            raise MalformedRecord("a row without a source partition and its offset")
        integer(int(place[1]), high=LARGEST_INT), integer(int(place[2]))


_PLAN = TypeAdapter(Plan)
