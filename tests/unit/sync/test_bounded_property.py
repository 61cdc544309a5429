"""Whatever is asked of groups, a store that holds little says what one says that holds all.

The store is the real one; the mapping topic is a list, so that thousands of cases are quick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.replica import TargetLog
from k2ktui.engine.moves.groups import (
    CommittedOffset,
    GroupRow,
    GroupView,
    Snapshot,
    make_group_rows,
)
from k2ktui.engine.moves.plan import PlanRow
from k2ktui.engine.moves.planning import PlanOptions, make_plan
from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.engine.records.state import MappingRecord as OffsetMapping
from k2ktui.kafka.clients import TopicDescription
from k2ktui.sync.mapping import reload as mapping_reload
from k2ktui.sync.mapping import store as mapping_store
from k2ktui.sync.mapping.reader import TopicReader
from k2ktui.sync.mapping.store import MappingStore
from tests.support.schedule.examples import examples

Where = tuple[str, int]
NAME = "p"
SOURCES = [SourcePartition("s", number) for number in range(3)]


@dataclass(frozen=True)
class Record:
    """What is used of a message."""

    at: int
    name: bytes
    text: bytes
    ms: int

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.name

    def value(self) -> bytes:
        return self.text

    def timestamp(self) -> tuple[int, int]:
        return 1, self.ms


@dataclass
class Topic:
    """The mapping topic, one partition; it is its own cluster."""

    start: int = 0
    records: list[Record] = field(default_factory=list)
    label: str = "target"

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
        return {name: TopicDescription(name, "id", 1, 1) for name in names}

    def offsets(
        self,
        partitions: Collection[Where],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        denied: Any = None,
    ) -> dict[Where, int]:
        first = spec is OffsetSpec.earliest()
        return {at: self.start if first else len(self.records) for at in partitions}


class Reader(TopicReader):
    """Reads the records in memory, not with a consumer."""

    def __init__(self, topic: Any, name: str) -> None:
        super().__init__(topic, name)
        self._log: Topic = topic

    def seek(self, offsets: Mapping[int, int]) -> None:
        self.next = dict(offsets)

    def read(self, ends: Mapping[int, int], until: float) -> Iterator[dict[int, list[Any]]]:
        while 0 in self.next and self.next[0] < ends.get(0, 0):
            begin = max(self.next[0], self._log.start)
            records: Any = self._log.records[begin : begin + 7]
            self.next[0] = begin + len(records)
            yield {0: records}

    def close(self) -> None:
        return


@dataclass
class World:
    """Source partitions that are copied onto target partitions, and groups of both."""

    random: Random
    lanes: int
    rewinds: float
    lost: float
    started: int
    topic: Topic = field(default_factory=Topic)

    def __post_init__(self) -> None:
        self.term, self.ms = 1, 1_000
        begin = 20 if self.started else 0
        self.ends = {("t", number): self.random.randint(0, 9) for number in range(self.lanes)}
        self.at = dict.fromkeys(SOURCES, begin)
        self.starts = dict.fromkeys(SOURCES, begin)
        self.where: dict[SourcePartition, dict[int, tuple[Where, int]]] = {s: {} for s in SOURCES}
        if self.started == 2:
            self._reported_by_another_program()

    def _reported_by_another_program(self) -> None:
        for source in SOURCES:
            for offset in sorted(self.random.sample(range(20), 3)):
                self._write(source, offset, offset + 1, {self._target(source): [offset]})

    def _target(self, source: SourcePartition) -> Where:
        return ("t", source.partition % self.lanes)

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            source = self.random.choice(SOURCES)
            if self.random.random() < self.rewinds:
                self.term += 1
                low = self.starts[source]
                self.at[source] = self.random.randint(low, self.at[source])
            first = self.at[source]
            self.at[source] = end = first + self.random.randint(1, 6)
            kept = [o for o in range(first, end) if self.random.random() < 0.8]
            self._write(source, first, end, {self._target(source): kept})

    def _write(
        self, source: SourcePartition, first: int, end: int, landed: dict[Where, list[int]]
    ) -> None:
        self.ms += self.random.randint(0, 200_000)
        for offset in [o for o in self.where[source] if o >= first]:
            del self.where[source][offset]
        for target, offsets in landed.items():
            ranges = []
            for offset in offsets:
                self.where[source][offset] = target, self.ends[target]
                ranges.append(MappingRange(offset, self.ends[target], 1))
                self.ends[target] += 1
            self.ends[target] += self.random.randint(0, 2)  # a marker, a native record
            mapping = OffsetMapping(
                NAME, source, *target, self.term, tuple(ranges), covers=Covers(first, end)
            )
            if self.random.random() < self.lost:
                mapping = OffsetMapping("other", source, *target, self.term, covers=Covers(0, 1))
            key, value = mapping_key(mapping), mapping_value(mapping)
            self.topic.records.append(Record(len(self.topic.records), key, value, self.ms))

    def positions(self) -> dict[SourcePartition, Position]:
        return {
            s: Position(at, self.starts[s], -1, "", self.term, 0, *self._target(s))
            for s, at in self.at.items()
        }

    def groups(self) -> tuple[dict[str, GroupView], dict[str, GroupView]]:
        """Groups that have committed on some partitions, anywhere in the logs."""
        here, there = {}, {}
        for number in range(self.random.randint(1, 3)):
            some = self.random.sample(SOURCES, self.random.randint(1, 3))
            here[f"g{number}"] = GroupView(
                "Empty", 0, {(s.topic, s.partition): self._commit(self.at[s] + 2) for s in some}
            )
            there[f"g{number}"] = GroupView(
                "Empty",
                0,
                {
                    t: self._commit(end)
                    for t, end in self.ends.items()
                    if self.random.random() < 0.8
                },
            )
        return here, there

    def _commit(self, end: int) -> CommittedOffset:
        near = self.random.random() < 0.5
        return CommittedOffset(self.random.randint(max(0, end - 15) if near else 0, end))

    def logs(self) -> dict[Where, TargetLog]:
        late = self.random.random() < 0.3
        return {
            t: TargetLog(self.random.randint(0, end) if late else 0, end + 1)
            for t, end in self.ends.items()
        }


def a_store(topic: Topic, count: int) -> MappingStore:
    retention = SimpleNamespace(count=count, schedule_s=0.0, time_s=None)
    config: Any = SimpleNamespace(
        features=SimpleNamespace(offset_mapping=True),
        offset_mapping=SimpleNamespace(topic="m", retention=retention),
        coordination=SimpleNamespace(commit=SimpleNamespace(group=NAME, batch_timeout_s=0.0)),
    )
    cluster: Any = topic
    return MappingStore(config, cluster)


@pytest.fixture(autouse=True)
def _lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_store, "TopicReader", Reader)
    monkeypatch.setattr(mapping_reload, "TopicReader", Reader)
    monkeypatch.setattr(mapping_store, "_LATE_SLACK_S", 0.0)


def asked(
    store: MappingStore,
    world: World,
    sides: tuple[dict[str, GroupView], dict[str, GroupView]],
    logs: dict[Where, TargetLog],
) -> Snapshot:
    """Ask as a snapshot does."""
    here, there = sides
    positions = world.positions()
    store.refresh(20, positions)
    needed: dict[SourcePartition, int] = {}
    landed: dict[Where, int] = {}
    for view in here.values():
        for where, offset in view.offsets.items():
            at = SourcePartition(*where)
            needed[at] = min(offset.offset, needed.get(at, offset.offset))
    for view in there.values():
        for target, offset in view.offsets.items():
            landed[target] = min(offset.offset, landed.get(target, offset.offset))
    store.reach(needed, landed)
    replicas = {}
    for at in positions:
        replicas[at] = replace(store.replica(at), source_start=world.starts[at])
    return Snapshot(NAME, "A", "B", 1.0, 1.0, "", here, there, replicas=replicas, logs=logs)


def answers(snapshot: Snapshot) -> tuple[list[GroupRow], tuple[PlanRow, ...]]:
    return make_group_rows(snapshot), make_plan(snapshot, PlanOptions("me")).rows


def counted(world: World, row: GroupRow) -> int | None:
    """Count by hand what lies between a committed offset and its translation."""
    if row.target_offset is None or row.translated_offset is None:
        return None
    low, high = sorted((row.target_offset, row.translated_offset))
    source = SourcePartition(row.topic, row.partition)
    between = sum(low <= at < high for _, at in world.where[source].values())
    return between if row.target_offset > row.translated_offset else -between


@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.builds(
        World,
        st.integers(0, 2**32).map(Random),
        lanes=st.sampled_from([3, 3, 2, 1]),
        rewinds=st.sampled_from([0.0, 0.05]),
        lost=st.sampled_from([0.0, 0.0, 0.05]),
        started=st.integers(0, 2),
    ),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 8)), min_size=1, max_size=3),
)
def test_bounds_change_no_answer(world: World, rounds: list[tuple[int, int]]) -> None:
    everything = a_store(world.topic, 1 << 40)
    little = a_store(world.topic, rounds[0][1])
    for steps, count in rounds:
        world.grow(steps)
        sides, logs = world.groups(), world.logs()
        whole = answers(asked(everything, world, sides, logs))
        for bounded in (little, a_store(world.topic, count)):  # one that continues, and a fresh one
            assert answers(asked(bounded, world, sides, logs)) == whole
            for source in SOURCES:
                whole_copy = replace(everything.replica(source), target_ranges={}, held_from=0)
                copy = replace(bounded.replica(source), target_ranges={}, held_from=0)
                assert copy == whole_copy
        if world.lanes == 3 and not world.lost:
            for row in whole[0]:
                assert row.divergence == counted(world, row)
