"""What is asked of the target to find strange records, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k2ktui.config import load
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.mapping.strange_records import (
    NOT_MAPPED,
    PARTLY_MAPPED,
    OtherWriters,
    StrangeRecords,
)
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.engine.records.producer_registration import ProducerRegistration
from k2ktui.engine.records.state import FirstLanded, Landed, Position, SourcePartition
from k2ktui.errors import ConnectionFailed
from k2ktui.log.batch import TRANSACTIONAL, Batch
from k2ktui.replication.copying.registration_reader import (
    RegistrationReader,
    RegistrationsUnavailable,
)
from k2ktui.sync.mapping import strange_reader
from k2ktui.sync.mapping.source import CopierState
from k2ktui.sync.mapping.strange_reader import StrangeReader, TargetEnds
from tests.unit.config.files import MINIMAL, Files

OWN, LATER, OTHER, STRANGER = 11, 12, 50, 7
AT, TARGET = SourcePartition("t", 0), ("t", 0)


def batch(first: int, count: int, producer: int, size: int = 100) -> Batch:
    view = memoryview(bytearray(size))
    attributes = TRANSACTIONAL if producer >= 0 else 0
    return Batch(view, first, first + count - 1, 0, 2, attributes, 0, 0, producer, count)


def position(*landed: tuple[int, int], at: SourcePartition = AT, first: int = 0) -> Position:
    spans = tuple(Landed("t", at.partition, *one) for one in landed)
    firsts = (FirstLanded("t", at.partition, 0, first),) if landed else ()
    return Position(0, 0, -1, "", 1, 0, "t", at.partition, "id", landed=spans, first_landed=firsts)


@dataclass
class Target:
    """A target cluster with one topic, whose batches are fetched a response at a time."""

    batches: Mapping[tuple[str, int], Sequence[Batch]] = field(default_factory=dict)
    starts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    refusal: str = ""
    down: bool = False
    unavailable: Exception | None = None
    registered: tuple[int, ...] = ()
    config: object = None
    label: str = "target"
    fetches: int = 0
    registrations_read: int = 0

    def offsets(self, where: Sequence[tuple[str, int]], spec: object) -> Mapping[Any, int]:
        if self.down:
            raise ConnectionFailed("no route")
        return {at: self.starts.get(at, 0) for at in where}

    def run(self, requests: Mapping[tuple[str, int], Any], timeout: float) -> None:
        for at, request in requests.items():
            self.fetches += 1
            if self.refusal:
                request.refuse(self.refusal)
            while not self.refusal and (offset := request.next_offset()) is not None:
                left = [one for one in self.batches.get(at, ()) if one.last_offset >= offset]
                request.set_bounds(0, 10_000, 10_000)
                for one in left[:2]:
                    request.add_batch(one)
                request.advance(left[:2][-1].last_offset + 1 if left else offset)
                if not left[2:]:
                    request.finish()

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., PipelineConfig]:
    def read(text: str = "") -> PipelineConfig:
        return load(Files(tmp_path).write({"a.yaml": MINIMAL, "b.yaml": text})).config

    return read


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()

    class Client:
        def __init__(self, *_: object) -> None:
            self.open = self.close = lambda *_: None

        def run(self, _: object) -> None:
            made.registrations_read += 1
            if made.unavailable:
                raise made.unavailable
            reader.registrations.update(
                {n: ProducerRegistration(n, "a", "b") for n in made.registered}
            )

    reader = RegistrationReader("commits")
    monkeypatch.setattr(strange_reader, "RegistrationReader", lambda topic: reader)
    monkeypatch.setattr(strange_reader, "Fetcher", lambda cluster: made)
    monkeypatch.setattr(strange_reader, "WireClient", Client)
    monkeypatch.setattr(strange_reader, "wire", lambda *_: {})
    return made


@dataclass
class Looked:
    """A reader, what it is given, and how often it reads positions again."""

    reader: StrangeReader
    again: CopierState | None = None
    asked: int = 0

    def __call__(
        self,
        copier: CopierState,
        end: int,
        replicas: Mapping[SourcePartition, Replica] | None = None,
    ) -> OtherWriters:
        def read_copier() -> CopierState:
            self.asked += 1
            return self.again or copier

        partitions = {(p.target_topic, p.target_partition or 0) for p in copier.positions.values()}
        ends = TargetEnds({"t": "id"}, dict.fromkeys(partitions, end))
        return self.reader.read(copier, ends, read_copier, replicas)


def state(one: Position, **others: Any) -> CopierState:
    return CopierState({AT: one}, registered={OWN}, **others)


@pytest.fixture
def look(config: Callable[..., PipelineConfig], target: Target) -> Looked:
    return Looked(StrangeReader(config(), target))  # type: ignore[arg-type]


def test_nothing_is_asked_while_the_log_ends_where_the_pipeline_says(
    look: Looked, target: Target
) -> None:
    for end in (10, 10, 30):
        writers = look(state(position((0, end))), end + 1)
        assert writers == OtherWriters()
    assert (look.asked, target.fetches) == (0, 0)


def test_records_that_were_copied_meanwhile_need_the_positions_only(
    look: Looked, target: Target
) -> None:
    look.again = state(position((0, 20)))
    assert look(state(position((0, 10))), 21) == OtherWriters()
    assert (look.asked, target.fetches) == (1, 0)


def test_headers_tell_whose_records_they_are(look: Looked, target: Target) -> None:
    target.batches = {TARGET: [batch(11, 3, OWN), batch(15, 2, OTHER), batch(17, 4, STRANGER)]}
    target.batches[TARGET].append(batch(21, 3, -1))  # type: ignore[attr-defined]
    target.registered = (OTHER,)
    one = StrangeRecords("t", 0, 17, 24, 7, (STRANGER,), 3)
    assert look(state(position((0, 10))), 24).strange == (one,)
    assert (target.fetches, target.registrations_read) == (1, 1)
    assert look(state(position((0, 10))), 24).strange == (one,), "it stays"
    assert (target.fetches, target.registrations_read) == (1, 1)
    target.batches = {TARGET: [batch(24, 1, STRANGER)]}
    assert look(state(position((0, 10))), 25).records == 8
    assert (target.fetches, target.registrations_read) == (2, 1), "its id was decided"
    target.starts = {TARGET: 25}
    assert look(state(position((0, 10))), 25).strange == (), "until retention has deleted it"


def test_own_producer_ids_need_no_registrations(look: Looked, target: Target) -> None:
    target.batches = {TARGET: [batch(11, 3, OWN)]}
    assert look(state(position((0, 10))), 15) == OtherWriters()
    assert (target.fetches, target.registrations_read) == (1, 0)


def test_without_read_it_cannot_be_told_and_is_read_when_it_can(
    look: Looked, target: Target
) -> None:
    target.refusal = "the principal may not read it"
    target.batches = {TARGET: [batch(11, 2, STRANGER)]}
    for _ in range(2):
        writers = look(state(position((0, 10))), 13)
        assert (writers.unread, writers.records) == ({"the principal may not read it": 1}, None)
    target.refusal = ""
    assert look(state(position((0, 10))), 13).records == 2


def test_what_is_known_stays_while_the_target_does_not_answer(look: Looked, target: Target) -> None:
    target.batches = {TARGET: [batch(11, 2, STRANGER)]}
    strange = look(state(position((0, 10))), 13).strange
    target.down = True
    writers = look(state(position((0, 10))), 13)
    assert (writers.strange, writers.unread) == (strange, {"no route": 1})


def test_what_only_takes_longer_is_no_refusal(look: Looked, target: Target) -> None:
    target.refusal = "not read within 1.5 s"
    writers = look(state(position((0, 10))), 13)
    assert (writers.unread, len(writers.untold), writers.records) == ({}, 1, None)


@pytest.mark.parametrize("is_lasting", [False, True])
def test_registrations_that_only_take_longer_are_no_refusal(
    look: Looked, target: Target, is_lasting: bool
) -> None:
    target.batches = {TARGET: [batch(11, 2, STRANGER)]}
    target.unavailable = RegistrationsUnavailable("no", unauthorized=is_lasting)
    writers = look(state(position((0, 10))), 13)
    assert (dict(writers.unread), len(writers.untold)) == (
        {"no": 1} if is_lasting else {},
        not is_lasting,
    )


def test_what_was_given_up_is_read_when_the_rest_is_deleted(look: Looked, target: Target) -> None:
    size = 600_000
    target.batches = {TARGET: [batch(11 + 5 * n, 5, STRANGER, size) for n in range(6)]}
    assert look(state(position((0, 10))), 41).records == 10
    target.starts = {TARGET: 21}
    [one] = look(state(position((0, 10))), 41).strange
    assert (one.first, one.records) == (21, 10)


def test_a_topic_that_is_gone_is_forgotten(look: Looked) -> None:
    look(state(position((0, 10))), 11)
    look.reader.read(state(position((0, 10))), TargetEnds({}, {}), lambda: state(position()))
    assert not look.reader._logs  # noqa: SLF001


def test_many_headers_are_read_a_part_at_a_time(look: Looked, target: Target) -> None:
    size = 600_000
    target.batches = {TARGET: [batch(11 + 5 * n, 5, OWN, size) for n in range(6)]}
    said = [look(state(position((0, 10))), 41).untold for _ in range(3)]
    assert [bool(one) for one in said] == [True, True, False]
    target.batches = {TARGET: [batch(41 + 5 * n, 5, STRANGER, size) for n in range(6)]}
    [one] = look(state(position((0, 10))), 71).strange
    assert (one.first, one.records, one.at_least) == (41, 10, True), "the rest changes little"


def test_what_was_followed_by_copies_is_found_by_the_mapping(look: Looked, target: Target) -> None:
    target.batches = {TARGET: [batch(11, 3, STRANGER), batch(14, 1, OWN)]}
    columns = MappingRanges()
    rows = np.array([(0, 5, 5), (5, 15, 5)], dtype=np.int64)
    columns.append(rows[:, 0], rows[:, 1], rows[:, 2])
    now = state(position((15, 20), first=5))
    assert look(now, 21) == OtherWriters(untold={NOT_MAPPED: 1})
    replica = Replica(now.positions[AT], {TARGET: columns})
    [why] = look(now, 21, {AT: replace(replica, behind=True)}).untold
    assert "cannot be used" in why
    writers = look(now, 21, {AT: replica})
    assert writers == OtherWriters((StrangeRecords("t", 0, 11, 14, 3, (STRANGER,), 0),))


def test_a_mapping_that_does_not_reach_back_to_the_first_copy_is_said(
    look: Looked, target: Target
) -> None:
    target.batches = {TARGET: [batch(11, 4, OWN)]}
    columns = MappingRanges()
    rows = np.array([(0, 5, 5), (5, 15, 5)], dtype=np.int64)
    columns.append(rows[:, 0], rows[:, 1], rows[:, 2])
    now = state(position((15, 20), first=0))
    replica = Replica(now.positions[AT], {TARGET: columns})
    for _ in range(2):
        writers = look(now, 21, {AT: replica})
        assert (dict(writers.untold), writers.records) == ({PARTLY_MAPPED: 1}, 0)
        assert writers.notes() == []


def test_a_topic_that_was_moved_is_written_by_its_clients(look: Looked, target: Target) -> None:
    target.batches = {TARGET: [batch(11, 2, STRANGER)]}
    moved = MovedTopics([MovedTopic("t", "t", "d", 1, "ann")])
    assert look(state(position((0, 10)), find_moved=lambda: moved), 13) == OtherWriters()


def test_what_cannot_be_told_of_a_partition_is_said(look: Looked, target: Target) -> None:
    two = {SourcePartition(name, 0): position((0, 10)) for name in "ab"}
    [why] = look(CopierState(two, registered={OWN}), 100).untold
    assert why == "several source partitions are copied into it"
    again = replace(position((0, 10)), target_topic_id="before")
    [why] = look(state(again), 100).untold
    assert "created again" in why
    assert look(state(position()), 5) == OtherWriters(
        untold={"nothing is copied into it yet, and what it held before is not judged": 1}
    )
    assert target.fetches == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("features: {exactlyOnce: disabled}", "features.exactlyOnce is disabled"),
        ("replication: [{sink: {partition: producer}}]", "several target partitions"),
        ("", "not all producer ids"),
    ],
)
def test_of_some_pipelines_nothing_can_be_told(
    config: Callable[..., PipelineConfig], target: Target, text: str, why: str
) -> None:
    look = Looked(StrangeReader(config(text), target))  # type: ignore[arg-type]
    registered = {OWN} if text else None
    writers = look(CopierState({AT: position((0, 10))}, registered=registered), 100)
    assert why in writers.why
    assert (writers.records, target.fetches) == (None, 0)


@pytest.mark.parametrize(
    "text", ["target: {writers: shared}", "features: {bidirectionalReplication: enabled}"]
)
def test_where_others_write_it_is_seen_once(
    config: Callable[..., PipelineConfig], target: Target, text: str
) -> None:
    look = Looked(StrangeReader(config(text), target))  # type: ignore[arg-type]
    target.batches = {TARGET: [batch(11, 2, STRANGER), batch(13, 20, STRANGER)]}
    assert look(state(position((0, 10))), 13).expected
    assert look(state(position((0, 10))), 33).records == 0
    assert (target.fetches, look.asked) == (1, 1)
