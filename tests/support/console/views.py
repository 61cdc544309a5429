"""Views of a pipeline that never was, put together as real ones are; and a feed that shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.drill.rehearsals import Rehearsal, list_rehearsals
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.members import make_member
from k2ktui.engine.moves.audit import Audit, AuditRow
from k2ktui.engine.moves.groups import CommittedOffset, GroupRow, GroupView
from k2ktui.engine.moves.journal import JournalHeader, Runner, RunnerState
from k2ktui.engine.moves.lags import ReadLogs
from k2ktui.engine.records.hold import NO_HOLDS, Holds
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import HeldBack
from k2ktui.present.view_lines import view_lines
from k2ktui.watch.assemble import Assembler
from k2ktui.watch.facts import (
    ComparisonFacts,
    Facts,
    GroupFacts,
    MappedSummary,
    SourceFacts,
    StateFacts,
    TargetFacts,
)
from k2ktui.watch.feed import Feed, Listener
from k2ktui.watch.history import GroupSample, Sample
from k2ktui.watch.model import ClusterView, Part, PartName, PipelinePair, RangeRow, View
from k2ktui.watch.severity import Problem, find_problems

# A clock that stands still: pictures of a screen must be the same everywhere.
NOON = 1_795_262_400.0
TOPIC_ID = "9f21" * 8
SOURCE_ID, TARGET_ID = "lQmMYe12RG21HTTP1Fo2zw", "CHbS4_THSQ-SqJF5kYBYBA"


@dataclass
class Made:
    """A made pipeline: change what is known, then take a view.

    Attributes:
        errors: parts that do not answer, and why.
        unread: parts that were never read.
        heartbeat_at: when MirrorMaker 2 was seen alive last.
        compares: whether MirrorMaker 2 is watched beside the pipeline.
        audited: what it would make of the groups.
        runners: the heartbeats; those of one run, if None.
        held: what open transactions hold back.
        holds: what operators hold.
        moved: topics that drills moved to the target.
        deleted: topics that were deleted on the source.
        comparison: the last comparison of all records.
        changed: fields of what was read of parts, that differ from all this.
    """

    pair: PipelinePair = field(default_factory=lambda: PipelinePair("orders"))
    now: float = NOON
    positions: dict[SourcePartition, Position] = field(default_factory=dict)
    starts: dict[SourcePartition, int] = field(default_factory=dict)
    ends: dict[SourcePartition, int] = field(default_factory=dict)
    mapped: dict[SourcePartition, MappedSummary] = field(default_factory=dict)
    rows: list[GroupRow] = field(default_factory=list)
    source_groups: dict[str, GroupView] = field(default_factory=dict)
    target_groups: dict[str, GroupView] = field(default_factory=dict)
    errors: dict[PartName, str] = field(default_factory=dict)
    unread: set[PartName] = field(default_factory=set)
    running: bool = True
    journal: list[JournalHeader] = field(default_factory=list)
    drills: tuple[Drill, ...] = ()
    opposite: tuple[Drill, ...] = ()
    heartbeat_at: float | None = None
    compares: bool = False
    audited: list[AuditRow] = field(default_factory=list)
    runners: tuple[Runner, ...] | None = None
    held: dict[SourcePartition, HeldBack] = field(default_factory=dict)
    holds: Holds = NO_HOLDS
    moved: MovedTopics = NO_MOVED_TOPICS
    deleted: frozenset[str] = frozenset()
    objectives: Objectives = NO_OBJECTIVES
    rehearsals: tuple[Rehearsal, ...] = ()
    comparison: ComparisonRecord | None = None
    changed: dict[PartName, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known: dict[PartName, Facts] = {}
        self._assembler = Assembler(
            self.pair,
            lambda topic: "verbatim",
            addresses=("src:9092", "dst:9092"),
            objectives=self.objectives,
        )

    def partition(
        self, topic: str, partition: int, *, end: int, lag: int = 0, start: int = 0
    ) -> SourcePartition:
        """Add a partition, or change it."""
        at = SourcePartition(topic, partition)
        self.starts[at], self.ends[at] = start, end
        position = Position(end - lag, start, 0, TOPIC_ID, 1, 0, topic, partition, TOPIC_ID, 0, 0)
        self.positions[at] = position
        self.mapped[at] = MappedSummary(
            end - lag - start, start, (), ((start, start + 7, end - lag),)
        )
        return at

    def group(
        self,
        name: str,
        at: SourcePartition,
        *,
        basis: Basis = Basis.EXACT,
        divergence: int | None = None,
        members: int = 0,
    ) -> None:
        """Add a group with a committed offset on a partition."""
        offset = self.ends[at] - 5
        translated = None if basis is Basis.UNMAPPED else offset + 7
        now = None if divergence is None or translated is None else translated + divergence
        state = "Stable" if members else "Empty"
        where = (at.topic, at.partition)
        known = self.source_groups.get(name, GroupView(state, members, {}))
        offsets = {**known.offsets, where: CommittedOffset(offset)}
        named = tuple(
            make_member(f"{name}-{n}", f"/10.0.0.{n + 1}", "", {at.topic: [n]})
            for n in range(members)
        )
        self.source_groups[name] = GroupView(state, members, offsets, named=named)
        self.target_groups[name] = GroupView("Empty" if now is not None else "", 0, {})
        self.rows.append(
            GroupRow(
                name,
                at.topic,
                at.partition,
                state,
                "Empty" if now is not None else "",
                offset,
                at.topic,
                at.partition,
                now,
                translated,
                basis,
                None if basis is Basis.UNMAPPED else 0,
                None if basis is Basis.UNMAPPED else 0,
                divergence,
                "no mapping reaches so far back" if basis is Basis.UNMAPPED else "",
                None if divergence is None else max(0, -divergence),
                None if divergence is None else max(0, divergence),
            )
        )

    def checkpoint(self, name: str, at: SourcePartition, again: int | None) -> None:
        """Let MirrorMaker 2 have a checkpoint that is so many records back; None: it has none."""
        self.compares = True
        right = self.ends[at] + 2
        downstream = None if again is None else right - again
        self.audited.append(
            AuditRow(
                group=name,
                topic=at.topic,
                partition=at.partition,
                target_topic=f"mirror.{at.topic}",
                state_target="Empty",
                source_offset=self.ends[at] - 5,
                checkpoint_offset=downstream,
                checkpoint_upstream=None if again is None else self.ends[at] - 60,
                checkpoint_age_s=None if again is None else 35.0,
                synced_offset=downstream,
                right_offset=right,
                basis=str(Basis.EXACT),
                checkpoint_reread=again,
                checkpoint_skipped=None if again is None else 0,
                synced_reread=again,
                synced_skipped=None if again is None else 0,
                note="records were compared on both clusters",
            )
        )

    def copy(self, records: int) -> None:
        """Let as many records come and be copied on every partition."""
        for at, end in self.ends.items():
            self.ends[at] = end + records
            old = self.positions[at]
            self.positions[at] = replace(old, offset=old.offset + records)

    def view(self) -> View:
        """Read what can be read now, and return the view."""
        for name, facts in self.facts().items():
            if name not in self.errors and name not in self.unread:
                self._known[name] = facts
        parts = {
            name: Part(
                self._known[name].taken_at if name in self._known else None,
                self.errors.get(name, ""),
            )
            for name in PartName
            if self.compares or name is not PartName.COMPARISON
        }
        return self._assembler.view(self.now, dict(self._known), parts)

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        """What views remember of a partition."""
        return self._assembler.history.series(topic, partition)

    def lags(self, group: str) -> Sequence[GroupSample]:
        """What views remember of a group's lag."""
        return self._assembler.group_history.series(group)

    def forget(self, *names: PartName) -> None:
        """Forget what was read of parts, as if they had never answered; all, without names."""
        for name in names or tuple(PartName):
            self._known.pop(name, None)

    def facts(self) -> Mapping[PartName, Facts]:
        """Return what can be read now, of each part."""
        now = self.now
        ages = {at: 3.0 for at, p in self.positions.items() if p.offset < self.ends[at]}
        ids = {at.topic: TOPIC_ID for at in self.ends if at.topic not in self.deleted}
        targets = {(at.topic, at.partition): p.offset + 7 for at, p in self.positions.items()}
        rows = tuple(sorted(self.audited, key=lambda row: (row.group, row.topic, row.partition)))
        audit = Audit("mirror->target", now, rows, ())
        compared = {PartName.COMPARISON: ComparisonFacts(now, audit)} if self.compares else {}
        facts: dict[PartName, Any] = {
            **compared,
            PartName.SOURCE: SourceFacts(
                now,
                ClusterView(SOURCE_ID, "4.3", "src:9092"),
                dict(self.starts),
                dict(self.ends),
                ids,
                tuple(self.ends),
                ages,
                high={at: self.ends[at] + held.records for at, held in self.held.items()},
                held_back=dict(self.held),
                positions=dict(self.positions),
                drills=self.opposite,
                deleted=self.deleted,
            ),
            PartName.TARGET: TargetFacts(
                now,
                ClusterView(TARGET_ID, "4.3", "dst:9092"),
                dict(self.positions),
                targets,
                heartbeat_at=self.heartbeat_at,
                moved=self.moved,
            ),
            PartName.GROUPS: GroupFacts(
                now,
                tuple(sorted(self.rows, key=lambda row: (row.group, row.topic, row.partition))),
                dict(self.source_groups),
                dict(self.target_groups),
                dict(self.mapped),
                commits_at=now,
                logs=self._logs(targets),
            ),
            PartName.STATE: StateFacts(
                now,
                self._runners(),
                tuple(self.journal),
                drills=self.drills,
                rehearsals=list_rehearsals(self.rehearsals, self.drills),
                holds=self.holds,
                comparison=self.comparison,
            ),
        }
        return {name: replace(of, **self.changed.get(name, {})) for name, of in facts.items()}

    def _logs(self, targets: Mapping[tuple[str, int], int]) -> ReadLogs:
        """Return what lags of groups are measured against: a record was written each second."""
        ends = {(at.topic, at.partition): end for at, end in self.ends.items()}
        written: dict[tuple[str, int], dict[int, float]] = {at: {} for at in ends}
        for row in self.rows:
            at, offset = (row.topic, row.partition), row.source_offset
            if offset is not None and at in ends:
                written[at][offset] = self.now - (ends[at] - offset)
        return ReadLogs(ends, targets, written, self.now)

    def _runners(self) -> tuple[Runner, ...]:
        if self.runners is not None:
            return self.runners
        state = RunnerState.RUNNING if self.running else RunnerState.STOPPED
        at_ms = int(self.now * 1000)
        return (Runner("r1", "bastion1", "ops", 4711, at_ms - 60_000, at_ms, state, 12, 4),)


def lines_of(view: View, now: float = NOON) -> str:
    """Return what ``watch`` prints of a view."""
    return "\n".join(view_lines(view, now))


def problems_of(view: View, kind: str = "", now: float = NOON) -> list[Problem]:
    """Return the problems of a view, or those of a kind."""
    return [problem for problem in find_problems(view, now) if not kind or problem.kind == kind]


def runner(host: str = "bastion2", **values: Any) -> Runner:
    """Return a heartbeat of a second ago."""
    now = int(time.time() * 1000)
    given = {
        "runner": f"{host}-1",
        "host": host,
        "user": "ann",
        "pid": 4711,
        "started_ms": now - 60_000,
        "at_ms": now - 1000,
        "state": RunnerState.RUNNING,
        **values,
    }
    return Runner(**given)


def without_members(view: View) -> View:
    """Return a view as a recording has it: not by name who is in its groups."""
    summaries = (
        replace(of, source=replace(of.source, named=()), target=replace(of.target, named=()))
        for of in view.summaries
    )
    return replace(view, summaries=tuple(summaries))


def usual(pair: PipelinePair | None = None) -> Made:
    """Return a pipeline with a bit of everything: lag, a group that skips, one unmapped."""
    made = Made(pair or PipelinePair("orders"))
    for partition in range(4):
        made.partition("clicks", partition, end=90_000 + partition, lag=1200 * (partition == 2))
    payments = [made.partition("payments", p, end=40_000, start=10_000) for p in range(2)]
    made.partition("invoices", 0, end=510)
    made.group("billing", payments[0], divergence=107, members=2)
    made.group("billing", payments[1], divergence=0, members=2)
    made.group("archive", payments[0], basis=Basis.UNMAPPED)
    made.group("reports", payments[1], divergence=-40)
    made.group("fulfilment", payments[0])
    return made


class StubFeed(Feed):
    """A feed that a test controls."""

    def __init__(self, made: Made, *, replay: bool = False) -> None:
        super().__init__()
        self.made, self.replay = made, replay
        self.refreshed, self.closed = 0, False
        self.clock: float | None = None
        self._listener: Listener = lambda view: None

    def start(self, listener: Listener) -> None:
        """Show the first view."""
        self._listener = listener
        self.tell()

    def tell(self) -> None:
        """Show a view of what is known now."""
        self._listener(self.made.view())

    def refresh(self) -> None:
        self.refreshed += 1
        self.tell()

    def pause(self, on: bool) -> None:
        self.paused = on

    def now(self) -> float:
        return self.made.now if self.clock is None else self.clock

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        return self.made.series(topic, partition)

    def lags(self, group: str) -> Sequence[GroupSample]:
        return self.made.lags(group)

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        return self.made.mapped[SourcePartition(topic, partition)].ranges

    def close(self) -> None:
        self.closed = True


def compared(made: Made, different: Mapping[SourcePartition, tuple[int, int]]) -> ComparisonRecord:
    """Return a comparison of all records of an hour ago, with differences and unproven records."""
    return ComparisonRecord(
        at_ms=round((made.now - 3600) * 1000),
        who="ann@bastion1",
        source_cluster=SOURCE_ID,
        target_cluster=TARGET_ID,
        partitions=len(made.ends),
        differences=sum(differences for differences, _ in different.values()),
        unproven=sum(unproven for _, unproven in different.values()),
        counts={"equal": 1234},
        sample=1.0,
        is_whole=True,
        positions={at: (made.starts[at], end) for at, end in made.ends.items()},
        different=different,
    )


def beside_mirrormaker() -> Made:
    """Return the usual pipeline with a MirrorMaker 2 that copies the same topics."""
    made = usual()
    payments = [SourcePartition("payments", number) for number in (0, 1)]
    made.checkpoint("billing", payments[0], 4_075)
    made.checkpoint("billing", payments[1], 0)
    made.checkpoint("reports", payments[1], None)
    made.checkpoint("fulfilment", payments[0], 0)
    return made


def large(partitions: int = 5_000, groups: int = 1_000) -> Made:
    """Return a pipeline of many topics of fifty partitions, and groups of five partitions each."""
    made = Made(PipelinePair("large"))
    where = [
        made.partition(f"topic-{n // 50:04}", n % 50, end=1_000_000 + n, lag=n % 3)
        for n in range(partitions)
    ]
    for number in range(groups):
        for part in range(5):
            at = where[(number * 5 + part) % partitions]
            made.group(f"group-{number:05}", at, divergence=0 if number % 50 else 3)
    return made


def after_a_minute() -> Made:
    """The usual pipeline after a minute."""
    made = usual()
    for number in range(12):
        made.view()
        made.now += 5
        made.copy(100 + number % 3)
    return made
