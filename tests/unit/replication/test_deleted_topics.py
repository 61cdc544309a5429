"""A topic that a pattern selects is deleted on the source: a note, unless records are lost."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.copying.slot_task import Fault, FaultKind, SourceLogBounds
from k2ktui.replication.reports.events import Event, Note, Resumed, Stopped
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.replication.reports.status import PartitionFigures, RunStatus
from k2ktui.replication.slots import SlotState, make_slots
from k2ktui.replication.topics.deleted_topics import DeletedTopics
from k2ktui.replication.topics.selected_topics import SelectedTopics

AT = SourcePartition("orders", 0)
POSITIONS = {AT: Position(120, 0, -1, "9f21", 3, 0, "orders", 0)}
GONE = Fault(AT, FaultKind.GONE, "topic orders no longer exists on the source", "Fix it.", 120)


def config(topic: object = "orders.*", **more: object) -> PipelineConfig:
    side = {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:9"}}}
    sections = {"source": {"topic": topic}, "sink": {"topic": "source", "partition": "source"}}
    tree = {"name": "p", "source": side, "target": side, "replication": sections, **more}
    return PipelineConfig.model_validate(tree)


class Run:
    """The part of a run that concerns deleted topics."""

    def __init__(self, pipeline: PipelineConfig | None = None) -> None:
        self.events: list[Event] = []
        self.written: list[DeletedLog] = []
        self.error: Exception | None = None
        self.status = RunStatus("p", self.events.append).add_driver()
        self.stopped = self.status.stopped
        self.status.partitions[AT] = PartitionFigures({})
        ownership: Any = self
        notifier = ThrottledNotifier(self.status.report)
        self.deleted = DeletedTopics(pipeline or config(), ownership, self.status, notifier)
        self.slot: SlotState = make_slots(1)[0]
        self.slot.sources.append(AT)

    def write_deleted(self, logs: Iterable[DeletedLog]) -> None:
        if self.error is not None:
            raise self.error
        self.written += logs

    def find(self, record: DeletedLog | None = None, *, end: int = -1) -> list[SourcePartition]:
        self.deleted.look({AT: record}, (), {AT: end} if end >= 0 else {})
        return self.deleted.settle([self.slot], POSITIONS)

    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]


def test_all_copied_is_a_note() -> None:
    """No fault, no series; the slot forgets the partition."""
    run = Run()
    assert run.deleted.suspect(GONE, SourceLogBounds(0, 120))
    assert AT in run.deleted and run.deleted.pending and not run.events
    assert run.find(end=100) == [AT]
    assert not run.status.partitions
    [note] = run.notes()
    assert "1 topic deleted on the source" in note and "last known end were copied" in note
    assert not run.stopped.faults and not run.written and AT in run.deleted
    assert run.find(end=100) == [] and len(run.notes()) == 1


def test_what_was_not_copied_is_stopped_until_it_is_acknowledged() -> None:
    run = Run()
    run.deleted.suspect(GONE, SourceLogBounds(0, 140))
    assert run.find() == [AT]
    [log] = run.written
    assert (log.offset, log.end, log.topic_id, log.acknowledged) == (120, 140, "9f21", "")
    [fault] = run.stopped.faults
    assert (fault.kind, fault.offset) == (FaultKind.GONE, 120)
    assert "20 offsets not copied" in fault.message and "offsets acknowledge" in fault.hint
    assert [type(event) for event in run.events] == [Stopped]

    run.find(replace(log, acknowledged="ops@bastion"))
    assert not run.stopped.faults
    assert not run.status.partitions
    assert "acknowledged by ops@bastion" in run.notes()[0]

    # A later run knows only what is on record.
    later = Run()
    later.deleted.begin({AT: log})
    later.find()
    assert [fault.kind for fault in later.stopped.faults] == ["gone"] and not later.written
    last = Run()
    last.deleted.begin({AT: replace(log, acknowledged="ops@bastion")})
    last.find()
    assert not last.stopped.faults and not last.notes()


def test_a_run_that_has_not_seen_the_end_says_so() -> None:
    run = Run()
    run.find()
    assert not run.stopped.faults and "has not seen where they ended" in run.notes()[0]


def test_a_lap_is_waited_for() -> None:
    """Its position may still move to the end."""
    run = Run()
    run.slot.running = Future()
    assert run.find(end=140) == [] and not run.events and run.deleted.pending
    run.slot.running = None
    positions = {AT: replace(POSITIONS[AT], offset=140)}
    assert run.deleted.settle([run.slot], positions) == [AT]
    assert not run.stopped.faults and run.notes()


def test_a_topic_that_exists_is_copied_again() -> None:
    run = Run()
    run.deleted.suspect(GONE, None)
    run.deleted.look({}, [AT], {})
    assert AT not in run.deleted and not run.events
    run.find(end=140)
    assert run.stopped.faults
    run.deleted.look({}, [AT], {})
    assert AT not in run.deleted and not run.stopped.faults
    run.stopped.report_resumed([AT], ())
    assert Resumed("orders", 0) in run.events


def test_on_source_data_loss_continue_decides_beforehand() -> None:
    run = Run(config(onSourceDataLoss="continue"))
    run.find(end=140)
    assert not run.stopped.faults and not run.written
    assert "were not copied (onSourceDataLoss: continue)" in run.notes()[0]


def test_a_name_is_missed_for_ever() -> None:
    run = Run(config(["orders"]))
    assert not run.deleted.suspect(GONE, None)


def test_a_target_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k2ktui.replication.topics.deleted_topics._RETRY_S", 0.0)
    run = Run()
    run.error = TimedOut("no answer")
    assert run.find(end=140) == [] and run.deleted.pending and not run.stopped.faults
    run.error = None
    assert run.deleted.settle([run.slot], POSITIONS) == [AT]
    assert run.written and run.stopped.faults


class Source:
    """A cluster that lists no topic, and says of each why it does not describe it."""

    def __init__(self, code: int) -> None:
        self._answer = KafkaError(code)

    def topic_names(self) -> frozenset[str]:
        return frozenset()

    def describe(self, names: Any) -> dict[str, TopicDescription | KafkaError]:
        return dict.fromkeys(names, self._answer)


def test_a_refused_right_is_a_fault() -> None:
    cluster: Any = Source(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    described = SelectedTopics(config(), cluster).describe(["orders", "else"])
    assert (described.deleted, list(described.refused)) == (frozenset(), ["orders"])
    assert "may not describe orders" in described.refused["orders"].message

    cluster = Source(KafkaError.UNKNOWN_TOPIC_OR_PART)
    described = SelectedTopics(config(), cluster).describe(["orders", "else"])
    assert described.deleted == {"orders"} and not (described.refused or described.faults)
    described = SelectedTopics(config(["orders"]), cluster).describe(["orders"])
    assert not described.deleted and [fault.kind for fault in described.faults] == ["gone"]
