"""A phase and the check that it asks decide alike, on clusters that answer without brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.drill import copier
from k2ktui.drill import logs as logs_module
from k2ktui.drill.checks import after, cut_over
from k2ktui.drill.checks.context import CheckContext, CheckLimits, DrillFacts
from k2ktui.drill.checks.registration import Ask
from k2ktui.drill.logs import SourceLogs, count_written
from k2ktui.drill.phases import moves, source
from k2ktui.drill.session import PhaseResult, Session
from k2ktui.engine.drill.checks import CheckFinding, DrillCheckOutcome, DrillKind
from k2ktui.engine.drill.model import Fence
from k2ktui.engine.moves.groups import CommittedOffset, GroupView
from k2ktui.engine.moves.plan import Action
from k2ktui.engine.producers import Producer, Written
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.topic_description import TopicDescription
from k2ktui.replication.topics.record_times import RecordTimes
from k2ktui.sync.flow import CopierObservation, Flow, FlowKind
from k2ktui.sync.mapping.source import CopierState, MappingSource, NothingCopied
from tests.support.drill.made_drills import new_drill
from tests.unit.engine.test_plan import PLAN, ROW
from tests.unit.golden.cases.clusters import ClusterAnswers, Partition
from tests.unit.replication.test_deleted_topics import config


@dataclass
class FakeWriters:
    """Who writes to the source, and where the logs ended when it was asked."""

    written: list[Written] = field(default_factory=list)
    asked: list[Mapping[Partition, int]] = field(default_factory=list)

    def __call__(self, _: object) -> FakeWriters:
        return self

    def read(self, starts: Mapping[Partition, int]) -> list[Written]:
        self.asked.append(starts)
        return self.written

    def close(self) -> None:
        return


@pytest.fixture(autouse=True)
def writers(monkeypatch: pytest.MonkeyPatch) -> FakeWriters:
    fake = FakeWriters()
    monkeypatch.setattr(logs_module, "WriterReader", fake)
    return fake


AT = SourcePartition("orders", 0)
NO_FACTS = DrillFacts()
PASS, FAIL, UNKNOWN = DrillCheckOutcome
_STOP_TOPICS = "Stop what creates or deletes topics on the source until the drill is over: {}."


@dataclass
class Logs(ClusterAnswers):
    """A cluster with logs, some of them with an open transaction, or without a leader.

    Some topics may not be described.
    """

    stable: Mapping[Partition, int] = field(default_factory=dict)
    leaderless: Collection[Partition] = ()
    denied: Collection[str] = ()

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaError]:
        denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        return super().describe(names) | {name: denied for name in names if name in self.denied}

    def offsets(
        self, partitions: Collection[Partition], spec: OffsetSpec, *rest: object, **named: object
    ) -> dict[Partition, int]:
        found = super().offsets(partitions, spec)
        if rest == (IsolationLevel.READ_COMMITTED,):
            found |= {at: end for at, end in self.stable.items() if at in found}
        return {at: end for at, end in found.items() if at not in self.leaderless}


@dataclass
class Mappings:
    """Positions that were recorded; None if nothing was copied yet."""

    known: Mapping[SourcePartition, Position] | None

    def read_copier(self) -> CopierState:
        if self.known is None:
            raise NothingCopied("nothing was copied")
        return CopierState(self.known)

    def close(self) -> None:
        return


@dataclass(frozen=True, slots=True)
class FakeFlow(Flow):
    """A flow that another program may copy."""

    known: Mapping[SourcePartition, Position] | None = None
    observe: Callable[[], CopierObservation | None] | None = None

    @property
    def pipeline(self) -> PipelineConfig | None:
        own = self.observe is None and self.kind is FlowKind.PIPELINE
        return self.config if own else None

    @property
    def is_mirror(self) -> bool:
        return self.observe is not None

    def open_mappings(self, source: Cluster, target: Cluster) -> MappingSource:
        return cast(MappingSource, Mappings(self.known))

    def observe_copier(self, target: Cluster) -> CopierObservation | None:
        return self.observe() if self.observe is not None else None


class Drill:
    """A drill of the topic ``orders``: its clusters, how far it is copied, and what it asks."""

    def __init__(self, *positions: int) -> None:
        self.source = Logs({"orders": [(0, 5)]})
        self.target = Logs({"orders": [(0, 5)]}, label="target")
        copied = {
            SourcePartition("orders", number): Position(offset, 0, -1, "", 1, 0, "orders", number)
            for number, offset in enumerate(positions)
        }
        self.flow = FakeFlow(config(), copied or None)

    def ask(self, ask: Ask, facts: DrillFacts = NO_FACTS) -> CheckFinding:
        with CheckContext(self.flow, facts, CheckLimits(frozen_s=0.0, sample_s=0.0)) as context:
            fakes = {"source": self.source, "target": self.target}
            context.cluster = cast(Any, fakes.__getitem__)  # type: ignore[method-assign]
            return ask(context)

    def open_logs(self) -> SourceLogs:
        return SourceLogs(self.flow, cast(Cluster, self.source), cast(Cluster, self.target))

    def drain(self) -> str:
        """What phase drain waits for; "" for nothing."""
        found: list[str] = []

        def wait(_: object, look: Callable[[], tuple[bool, str]], **__: object) -> str:
            held, live = look()
            found.extend([] if held else [live])
            raise InterruptedError

        session = cast(Session, SimpleNamespace(open_logs=self.open_logs, wait=wait))
        with pytest.raises(InterruptedError):
            source.run_drain(session)
        return "".join(found)


def test_what_is_copied_to_the_end_is_drained() -> None:
    drill = Drill(5)
    finding = drill.ask(cut_over.check_drained)
    assert finding.outcome is PASS
    assert finding.evidence == "1 of 1 partition drained; 0 records to copy, 0 in open transactions"
    assert drill.drain() == ""


@pytest.mark.parametrize(
    ("change", "evidence", "hint"),
    [
        ({"position": 3}, "2 records to copy, 0 in open transactions; orders-0: 2", "Wait until"),
        ({"stable": 4, "position": 4}, "1 in open transactions; orders-0: 1", "End the trans"),
        # The log was truncated: its records cannot all be on the target.
        ({"position": 7}, "orders-0: position 7, and the log ends at 5", "k2ktui status"),
        ({"start": 5, "position": 3}, "orders-0: position 3, and the log ends at 5", "not in the"),
        ({"position": None}, "5 records to copy, 0 in open transactions; orders-0: 5", "Wait"),
    ],
)
def test_what_the_phase_waits_for_fails_the_check(
    change: dict[str, int | None], evidence: str, hint: str
) -> None:
    position = change.get("position", 5)
    drill = Drill(*([] if position is None else [position]))
    drill.source.topics = {"orders": [(change.get("start") or 0, 5)]}
    drill.source.stable = {("orders", 0): change.get("stable") or 5}
    finding = drill.ask(cut_over.check_drained)
    assert finding.outcome is FAIL and finding.evidence.startswith("0 of 1 partition drained; ")
    assert finding.evidence.endswith(evidence) and hint in finding.hint
    if position is not None:
        assert drill.drain().endswith("left on orders-0")


def test_what_is_left_is_said_before_what_cannot_be_read() -> None:
    drill = Drill(5, 3)
    drill.source.topics = {"orders": [(0, 5), (0, 5)]}
    drill.source.leaderless = [("orders", 0)]
    finding = drill.ask(cut_over.check_drained)
    assert finding.outcome is FAIL and finding.evidence.startswith("0 of 2 partitions drained")
    drill.source.leaderless = [("orders", 1)]
    finding = drill.ask(cut_over.check_drained)
    assert finding.outcome is UNKNOWN
    assert finding.evidence.startswith("1 of 2 partitions drained")
    assert finding.evidence.endswith("; unknown: orders-1")


@pytest.mark.parametrize(
    ("logs", "evidence", "hint"),
    [
        (
            {"orders": [(0, 7)]},
            "1 of 1 partition moved in 0 s, 0 with an open transaction: orders-0 by 2",
            "Stop the producers that still write to orders on the source.",
        ),
        # The phase begins again, too, when a topic appears or goes.
        (
            {"orders": [(0, 5)], "orders.new": [(0, 0)]},
            "1 of 2 partitions moved in 0 s, 0 with an open transaction: orders.new-0 appeared",
            _STOP_TOPICS.format("orders.new"),
        ),
        (
            {"orders.new": [(0, 1)]},
            "2 of 2 partitions moved in 0 s, 0 with an open transaction: orders-0 is gone, "
            "orders.new-0 appeared",
            _STOP_TOPICS.format("orders, orders.new"),
        ),
    ],
)
def test_whatever_changes_the_logs_of_the_source_fails_the_check(
    logs: Mapping[str, Collection[tuple[int, int]]],
    evidence: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drill = Drill(5)
    finding = drill.ask(cut_over.check_producers)
    assert finding.outcome is PASS
    assert finding.evidence == "0 of 1 partition moved in 0 s, 0 with an open transaction"
    before = drill.open_logs().read()
    monkeypatch.setattr(cut_over, "sleep", lambda _: setattr(drill.source, "topics", logs))
    finding = drill.ask(cut_over.check_producers)
    assert finding.outcome is FAIL
    assert (finding.evidence, finding.hint) == (evidence, hint)
    assert count_written(before, drill.open_logs().read())


def test_who_still_writes_is_named(monkeypatch: pytest.MonkeyPatch, writers: FakeWriters) -> None:
    drill = Drill(5)
    writers.written = [Written(("orders", 0), Producer(9, 1, True, "tx-7"), 2, 6)]
    logs = {"orders": [(0, 7)]}
    monkeypatch.setattr(cut_over, "sleep", lambda _: setattr(drill.source, "topics", logs))
    finding = drill.ask(cut_over.check_producers)
    by = "orders-0 by 2; written by transactional id tx-7 (producer id 9 epoch 1) on orders 0"
    assert by in finding.evidence
    assert writers.asked == [{("orders", 0): 5}], "read from the end before on"


def wait_once(
    drill: Drill, change: Callable[[], None], fence: Fence = Fence.HAND
) -> tuple[str, list[str]]:
    """What the phase says of a log that changes after its first look, and what it records."""
    said, journal = [], []

    def wait(_: object, look: Callable[[], tuple[bool, str]], **__: object) -> str:
        look()
        change()
        said.append(look()[1])
        raise InterruptedError

    session = SimpleNamespace(
        drill=new_drill(DrillKind.PLANNED, fence=fence),
        open_logs=drill.open_logs,
        wait=wait,
        write=lambda text, **_: journal.append(text),
    )
    with pytest.raises(InterruptedError):
        source.run_fence_producers(cast(Session, session))
    return said[0], journal


def test_the_phase_names_who_writes_and_offers_to_go_back(
    writers: FakeWriters, monkeypatch: pytest.MonkeyPatch
) -> None:
    drill = Drill(5)
    monkeypatch.setattr(source, "_fence_by_acl", lambda *_: None)

    def write() -> None:
        drill.source.topics = {"orders": [(0, 7)]}
        writers.written = [Written(("orders", 0), Producer(-1), 2, 6)]

    said, journal = wait_once(drill, write, Fence.ACL)
    assert said.startswith("still written: orders-0, by a producer without id on orders 0 (2 rec")
    assert "; wait until they stop, or take the fence back: k2ktui drill abort " in said
    (entry,) = journal
    assert entry.startswith("written to the source while it is fenced: a producer without id")


def test_an_open_transaction_is_read_from_its_first_offset(writers: FakeWriters) -> None:
    drill = Drill(5)
    drill.source.stable = {("orders", 0): 3}
    writers.written = [Written(("orders", 0), Producer(4, 0, True, "tx"), 2, 4)]
    said, _ = wait_once(drill, lambda: None)
    assert writers.asked[0] == {("orders", 0): 3}
    assert said.startswith("open transactions on orders-0; written by transactional id tx (")


def test_a_log_that_one_reading_lacks_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    drill = Drill(5)
    lost = [("orders", 0)]
    monkeypatch.setattr(cut_over, "sleep", lambda _: setattr(drill.source, "leaderless", lost))
    finding = drill.ask(cut_over.check_producers)
    assert finding.outcome is UNKNOWN and finding.evidence.endswith("end offsets are unknown")
    monkeypatch.setattr(cut_over, "sleep", lambda _: setattr(drill.source, "leaderless", ()))
    assert drill.ask(cut_over.check_producers).outcome is UNKNOWN, "it was unknown before"


def test_a_topic_that_cannot_be_described_once_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    drill = Drill(5)
    drill.source.topics = {"orders": [(0, 5), (0, 5)]}
    monkeypatch.setattr(cut_over, "sleep", lambda _: setattr(drill.source, "denied", ["orders"]))
    assert drill.ask(cut_over.check_producers).outcome is UNKNOWN
    monkeypatch.setattr(cut_over, "sleep", lambda _: setattr(drill.source, "denied", ()))
    assert drill.ask(cut_over.check_producers).outcome is UNKNOWN
    assert drill.ask(cut_over.check_producers).outcome is PASS


def test_positions_of_partitions_that_cannot_be_read_are_not_drained() -> None:
    drill = Drill(5, 3)
    finding = drill.ask(cut_over.check_drained)
    assert finding.outcome is UNKNOWN and finding.evidence.endswith("; unknown: orders-1")
    drill.source.denied = ["orders"]
    finding = drill.ask(cut_over.check_drained)
    assert finding.outcome is UNKNOWN and finding.evidence.endswith("; unknown: orders")


def test_open_transactions_fail_the_check_before_anything_was_copied() -> None:
    drill = Drill()
    drill.source.stable = {("orders", 0): 3}
    finding = drill.ask(cut_over.check_producers)
    assert finding.outcome is FAIL and finding.evidence.endswith("transaction: orders-0")
    assert "--start-offset 3" in finding.hint


def test_the_phase_begins_again_when_a_topic_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    drill = Drill(5)
    drill.source.topics = {"orders": [(0, 5)], "orders.old": [(0, 1)]}
    now, seen = monotonic(), list[str]()
    monkeypatch.setattr(source, "monotonic", lambda: now)

    def wait(_: object, look: Callable[[], tuple[bool, str]], **__: object) -> str:
        nonlocal now
        for logs in (drill.source.topics, {"orders": [(0, 5)]}, {"orders": [(0, 5)]}):
            drill.source.topics = logs
            seen.append(look()[1])
            now += 20
        raise InterruptedError

    made = new_drill(DrillKind.PLANNED)
    made = replace(made, options=replace(made.options, frozen_s=30.0, fence=Fence.HAND))
    session = SimpleNamespace(drill=made, open_logs=drill.open_logs, wait=wait)
    with pytest.raises(InterruptedError):
        source.run_fence_producers(cast(Session, session))
    assert seen[1:] == ["still written: orders.old-0", "no write for 20 s of 30 s"]


STOPPED = CopierObservation("MirrorMaker 2", (), "its group is empty", "", "Stop it.")
WRITTEN = RecordTimes({("orders", 0): 1.0})
MARKER = RecordTimes(exhausted=frozenset({("orders", 0)}))


@pytest.mark.parametrize(
    ("before", "after", "times", "outcome", "evidence"),
    [
        ({}, {}, WRITTEN, PASS, "MirrorMaker 2 is stopped: its group is empty"),
        (
            {},
            {"topics": {"orders": [(0, 6)]}},
            WRITTEN,
            FAIL,
            "MirrorMaker 2 still copies: records were written to orders-0",
        ),
        # A topic that was not there is one that it has created.
        (
            {"topics": {}},
            {"topics": {"orders": [(0, 1)]}},
            WRITTEN,
            FAIL,
            "MirrorMaker 2 still copies: records were written to orders-0",
        ),
        # The marker that aborts the transaction of a killed program is no record of a copy...
        (
            {},
            {"topics": {"orders": [(0, 6)]}},
            MARKER,
            PASS,
            "MirrorMaker 2 is stopped: its group is empty",
        ),
        # ... but a transaction that is open may hold some.
        (
            {},
            {"topics": {"orders": [(0, 6)]}, "stable": {("orders", 0): 5}},
            MARKER,
            FAIL,
            "MirrorMaker 2 still copies: records were written to orders-0",
        ),
        # What could not be read does not show that it copies.
        *(
            (before, after, times, UNKNOWN, f"it is not known whether records were written to {at}")
            for before, after, times, at in (
                ({"leaderless": [("orders", 0)]}, {"leaderless": ()}, WRITTEN, "orders-0"),
                ({}, {"leaderless": [("orders", 0)]}, WRITTEN, "orders-0"),
                ({"denied": ["orders"]}, {"denied": ()}, WRITTEN, "orders, orders-0"),
                ({}, {"topics": {"orders": [(0, 6)]}}, RecordTimes(), "orders-0"),
                ({}, {"topics": {"orders": [(0, 4)]}}, WRITTEN, "orders-0"),
            )
        ),
    ],
)
def test_only_records_of_a_copy_are_a_sign_that_another_program_copies(
    before: Mapping[str, object],
    after: Mapping[str, object],
    times: RecordTimes,
    outcome: DrillCheckOutcome,
    evidence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drill = Drill(5)
    monkeypatch.setattr(copier, "read_times", lambda *_: times)
    for name, value in before.items():
        setattr(drill.target, name, value)

    def observe() -> CopierObservation:
        for name, value in after.items():
            setattr(drill.target, name, value)
        return STOPPED

    drill.flow = replace(drill.flow, observe=observe)
    finding = drill.ask(cut_over.check_replicator)
    assert (finding.outcome, finding.evidence) == (outcome, evidence)


def test_what_the_other_program_shows_counts_if_the_ends_of_its_copies_cannot_be_read() -> None:
    drill = Drill(5)
    drill.target.error = K2kError("the target is gone")
    drill.flow = replace(drill.flow, observe=lambda: replace(STOPPED, signs=("it beats",)))
    finding = drill.ask(cut_over.check_replicator)
    assert finding.outcome is FAIL and finding.evidence == "MirrorMaker 2 still copies: it beats"
    drill.flow = replace(drill.flow, observe=lambda: STOPPED)
    finding = drill.ask(cut_over.check_replicator)
    assert finding.outcome is UNKNOWN and finding.evidence.endswith(": the target is gone")
    # The ends are not asked for if there are no traces to watch beside them.
    drill.flow = FakeFlow(config(), kind=FlowKind.ALL_PIPELINES)
    finding = drill.ask(cut_over.check_replicator)
    assert finding.outcome is UNKNOWN and "see that it stays stopped" in finding.evidence


class Groups:
    """The group ``g`` on the target, at one offset."""

    def __init__(self, offset: int) -> None:
        commits = {("t", 0): CommittedOffset(offset, "")}
        self._views = {"g": GroupView("Empty", 0, offsets=commits)}

    def views(self, _: Collection[str]) -> dict[str, GroupView]:
        return self._views

    def close(self) -> None:
        return


def test_verify_keeps_what_the_drill_has_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is made later lets an offset be that is ahead; the drill did not commit it."""
    drill = Drill(5)
    ahead = replace(PLAN, rows=(replace(ROW, current=9, proposed=7, action=Action.BLOCKED),))
    monkeypatch.setattr(moves, "make_plan", lambda _: ahead)
    monkeypatch.setattr(moves, "_compare", lambda *_: PhaseResult("compared"))
    monkeypatch.setattr(cut_over, "ConsumerGroupReader", lambda *_: Groups(9))
    session = SimpleNamespace(applied={ROW.key: 7})
    moves.run_verify(cast(Session, session))
    finding = drill.ask(cut_over.check_applied, DrillFacts(applied=session.applied))
    assert finding.outcome is FAIL and "g t-0: 9, not 7" in finding.evidence
    resumed = SimpleNamespace(applied=None)
    moves.run_verify(cast(Session, resumed))
    finding = drill.ask(cut_over.check_applied, DrillFacts(applied=resumed.applied))
    assert finding.outcome is UNKNOWN, "another process has applied them"
    planned = replace(ahead, rows=(replace(ROW, current=7, proposed=7, action=Action.KEEP),))
    monkeypatch.setattr(moves, "make_plan", lambda _: planned)
    moves.run_verify(cast(Session, resumed))
    assert resumed.applied == {ROW.key: 7}


@pytest.mark.parametrize(("offset", "outcome"), [(5, PASS), (3, FAIL)])
def test_a_group_behind_its_applied_offset_does_not_catch_up(
    offset: int, outcome: DrillCheckOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    drill = Drill(5)
    drill.target.topics = {"t": [(0, offset)]}
    monkeypatch.setattr(after, "ConsumerGroupReader", lambda *_: Groups(offset))
    finding = drill.ask(after.check_target_lag, DrillFacts(applied={("g", "t", 0): 5}))
    assert finding.outcome is outcome
    if outcome is FAIL:
        assert finding.evidence.endswith(
            "1 not catching up: g: 0, before its applied offset on t-0"
        )
        assert finding.hint.startswith("Find out what has set g back on the target")
