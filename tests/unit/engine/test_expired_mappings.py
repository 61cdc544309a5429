"""Translation after mapping records have expired, against a model of what was copied.

The model copies with the engine's own readers, spans and moves, and keeps every mapping. Then some
or all of them are taken away: what is translated without them must agree with what they said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.intervals import OffsetIntervals, Span
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog, make_replica
from k2ktui.engine.mapping.translate import Basis, Translation, translate
from k2ktui.engine.moves.positions import SourceLog, TargetTopicState, plan_move
from k2ktui.engine.records.state import (
    FirstLanded,
    Landed,
    Position,
    SourcePartition,
    position_key,
    position_value,
    read_commit_record,
)
from k2ktui.replication.copying.landed_spans import LandedSpans
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Route
from tests.support.schedule.examples import examples

TARGET = ("t", 0)
A, B = SourcePartition("a", 0), SourcePartition("b", 0)
ROUTE = Route(CopyPath.VERBATIM, *TARGET, 1)
START = 5


def begin(start: int = START) -> Position:
    return Position(start, start, -1, "id", 1, -1, *TARGET, since=1)


@dataclass
class Model:
    """Two source partitions that are copied to one target partition.

    Attributes:
        shares_slot: whether one slot copies both.
        end: where the target's log ends.
        landed: target offset of each copied record, by its source offset, as all mappings say.
        spans: source offsets that each mapping record covers.
        ends: where each source log ends.
        copied: the position that copying reached, if an operator has moved it since.
    """

    shares_slot: bool
    transactional: bool = True
    term: int = 1
    end: int = 0
    positions: dict[SourcePartition, Position] = field(
        default_factory=lambda: {A: begin(), B: begin()}
    )
    landed: dict[SourcePartition, dict[int, int]] = field(default_factory=lambda: {A: {}, B: {}})
    spans: dict[SourcePartition, list[Span]] = field(default_factory=lambda: {A: [], B: []})
    ends: dict[SourcePartition, int] = field(default_factory=lambda: {A: 400, B: 400})
    copied: dict[SourcePartition, Position] = field(default_factory=dict)

    def native(self, count: int) -> None:
        """Another program writes to the target."""
        self.end += count

    def lap(self, work: list[tuple[SourcePartition, list[int], int]], *, fails: bool) -> None:
        """Copy in one transaction each; the last one fails if ``fails``.

        A piece of work has the gap before each record (offsets without one), and how many
        offsets without a record follow the last one.
        """
        slots = [(A, B)] if self.shares_slot else [(A,), (B,)]
        for slot, sources in enumerate(slots):
            spans = LandedSpans(
                [self.positions[s] for s in sources], transactional=self.transactional
            )
            readers = {
                s: PartitionReader(Assignment(s, self.positions[s], ROUTE), None, spans)
                for s in sources
            }
            mine = [one for one in work if one[0] in sources]
            for number, (source, gaps, rest) in enumerate(mine):
                is_lost = fails and number == len(mine) - 1
                self._copy(readers[source], spans, gaps, rest, slot, is_lost=is_lost)

    def _copy(
        self,
        reader: PartitionReader,
        spans: LandedSpans,
        gaps: list[int],
        rest: int,
        slot: int,
        *,
        is_lost: bool,
    ) -> None:
        first = at = reader.handed
        pairs = {}
        for gap in gaps:
            at += gap
            pairs[at] = self.end
            sources = np.array([at], dtype=np.int64)
            batch = OutgoingBatch(TARGET, memoryview(b""), 1, sources=sources)
            reader.acknowledge(batch, self.end)
            at, self.end = at + 1, self.end + 1
        at += rest
        if self.transactional and pairs:
            self.end += 1  # the marker
        if is_lost or at == first:
            return
        reader.handed = at
        position = reader.position(self.term, slot, 0)
        reader.mark_committed(at)
        spans.mark_committed()
        self.positions[reader.source] = read_back(position)
        self.copied.pop(reader.source, None)
        self._map(reader.source, (first, at), pairs)

    def _map(self, source: SourcePartition, span: Span, pairs: dict[int, int]) -> None:
        first = span[0]
        kept = {at: to for at, to in self.landed[source].items() if at < first}
        self.landed[source] = kept | pairs
        older = [(a, min(b, first)) for a, b in self.spans[source] if a < first]
        self.spans[source] = [*older, span]

    def move(self, source: SourcePartition, offset: int) -> None:
        """An operator moves a position."""
        before = self.positions[source]
        log = SourceLog(0, self.ends[source], "id")
        move = plan_move(
            source, before, offset, log, TargetTopicState(*TARGET, ""), self.copied.get(source)
        )
        if not move.changes:
            return
        self.term += 1
        self.copied.setdefault(source, before)
        after = move.stamp(self.term, 0)
        assert after is not None
        self.positions[source] = read_back(after)
        if after.since != before.since:
            self.landed[source], self.spans[source] = {}, []

    def forget_firsts(self) -> None:
        """A release that does not know the field writes the positions."""
        self.positions = {s: replace(p, first_landed=None) for s, p in self.positions.items()}

    def replica(self, source: SourcePartition, known: Iterable[Span], **more: object) -> Replica:
        """Return the copy of a source partition as the mapping records of some spans show it."""
        position, spans = self.positions[source], OffsetIntervals(tuple(known))
        ranges = MappingRanges()
        for at, to in sorted(self.landed[source].items()):
            if spans.touches(at, at + 1):
                ranges.append(np.array([at]), np.array([to]), np.array([1]))
        return replace(
            make_replica(position, spans.all(), unread=False),
            target_ranges={TARGET: ranges} if len(ranges) else {},
            **more,  # type: ignore[arg-type]
        )

    def unread(self, source: SourcePartition, committed: int) -> list[tuple[int, int]]:
        return [(at, to) for at, to in self.landed[source].items() if at >= committed]

    def read(self, source: SourcePartition, committed: int) -> list[int]:
        return [to for at, to in self.landed[source].items() if at < committed]


def read_back(position: Position) -> Position:
    """Return what a reader of the commit topic has of a position."""
    _, _, record = read_commit_record(position_key("g", A), position_value(position))
    assert isinstance(record, Position)
    return record


records = st.lists(st.integers(0, 2), max_size=4)
works = st.tuples(st.sampled_from([A, B]), records, st.integers(0, 2))
steps = st.one_of(
    st.tuples(st.just("lap"), st.lists(works, min_size=1, max_size=3), st.booleans()),
    st.tuples(st.just("lap"), st.lists(works, min_size=1, max_size=3), st.booleans()),
    st.tuples(st.just("native"), st.integers(1, 3)),
    st.tuples(st.just("move"), st.sampled_from([A, B]), st.integers(0, 30)),
    st.tuples(st.just("older release")),
    st.tuples(st.just("exactly-once"), st.booleans()),
)


def run(model: Model, taken: list[tuple[object, ...]], *, only: SourcePartition | None) -> None:
    for step in taken:
        match step:
            case ("lap", list(work), bool(fails)):
                mine = [one for one in work if only in (None, one[0])]
                model.lap(mine, fails=fails)
            case ("native", int(count)):
                model.native(count)
            case ("move", SourcePartition() as source, int(offset)):
                if only in (None, source):
                    model.move(source, offset)
            case ("exactly-once", bool(enabled)):
                model.transactional = enabled
            case _:
                model.forget_firsts()


def check(model: Model, row: Translation, commits: dict[SourcePartition, int], start: int) -> None:
    """Compare with what all mappings say: nothing is skipped, and what is read again is counted.

    Copies at or after a position that was moved back are made again, wherever a group is.
    """
    if row.basis is Basis.UNMAPPED:
        return
    assert row.offset is not None and row.reread is not None and row.skipped is not None
    assert start <= row.offset <= model.end
    unread = [(s, *pair) for s, at in commits.items() for pair in model.unread(s, at)]
    skipped = [(s, at) for s, at, to in unread if to < row.offset]
    retained = [(s, at) for s, at, to in unread if start <= to]
    assert not set(skipped) & set(retained), "a record on the target would be skipped"
    assert sum(at < model.positions[s].offset for s, at in skipped) <= row.skipped
    again = [to for s, at in commits.items() for to in model.read(s, at) if to >= row.offset]
    if row.basis in (Basis.EXACT, Basis.END):
        assert (row.reread, again) == (0, [])
    assert len(again) <= row.reread
    if row.basis is Basis.END and len(row.sources) == 1:
        (source,) = row.sources
        end = model.positions[source].offset
        assert not [at for s, at in retained if s == source and at < end]
        assert commits[source] <= max([end, *(at + 1 for at in model.landed[source])])


@given(
    st.lists(steps, max_size=8), st.data(), st.booleans(), st.integers(0, 40), st.integers(0, 12)
)
@settings(max_examples=examples(1500))
def test_what_one_partition_is_translated_to_agrees_with_the_mappings_that_expired(
    taken: list[tuple[object, ...]],
    data: st.DataObject,
    has_lost_start: bool,
    committed: int,
    source_start: int,
) -> None:
    model = Model(shares_slot=True)
    run(model, taken, only=A)
    known = (
        data.draw(st.lists(st.sampled_from(model.spans[A]), unique=True)) if model.spans[A] else []
    )
    start = data.draw(st.integers(0, model.end)) if has_lost_start else 0
    replica = model.replica(A, known, source_start=source_start, source_end=400)
    (row,) = translate({A: replica}, {A: committed}, {TARGET: TargetLog(start, model.end)})
    check(model, row, {A: committed}, start)
    if committed < model.positions[A].start and source_start < model.positions[A].start:
        assert row.basis is Basis.UNMAPPED


@given(
    st.lists(steps, max_size=8),
    st.data(),
    st.booleans(),
    st.tuples(st.integers(START, 40), st.integers(-1, 40)),
)
@settings(max_examples=examples(1500))
def test_with_two_source_partitions_nothing_is_skipped_where_mappings_expired(
    taken: list[tuple[object, ...]],
    data: st.DataObject,
    shares_slot: bool,
    committed: tuple[int, int],
) -> None:
    model = Model(shares_slot)
    run(model, taken, only=None)
    replicas = {}
    for source in (A, B):
        spans = model.spans[source]
        known = data.draw(st.lists(st.sampled_from(spans), unique=True)) if spans else []
        replicas[source] = model.replica(source, known, source_start=400, source_end=400)
    commits = {s: at for s, at in zip((A, B), committed, strict=True) if at >= 0}
    log = TargetLog(0, model.end)
    (row,) = translate(replicas, commits, {TARGET: log})
    # A group that has not committed a source partition is not said to have read any of it.
    if row.basis is not Basis.UNMAPPED:
        check(model, row, {A: 0, B: 0} | commits, 0)


def expired(model: Model, **more: object) -> Replica:
    return model.replica(A, (), **more)


def one(replica: Replica, committed: int, log: TargetLog) -> tuple[object, ...]:
    (row,) = translate({A: replica}, {A: committed}, {TARGET: log})
    return row.offset, row.basis, row.reread, row.skipped


@pytest.fixture
def model() -> Model:
    """20 records in two transactions after 7 native ones: 100, 110 to 7, 17 and their markers."""
    made = Model(shares_slot=True)
    made.positions[A] = begin(100)
    made.native(7)
    made.lap([(A, [0] * 10, 0), (A, [0] * 10, 0)], fails=False)
    assert (made.landed[A][100], made.landed[A][119], made.end) == (7, 27, 29)
    return made


def test_the_first_the_last_and_those_between(model: Model) -> None:
    log = TargetLog(0, model.end, clear_from=28)
    replica = expired(model, source_start=100)
    assert one(replica, 100, log) == (7, Basis.EXACT, 0, 0)
    assert one(replica, 90, log) == (7, Basis.EXACT, 0, 0)
    assert one(replica, 120, log) == (29, Basis.END, 0, 0)
    assert one(replica, 123, log) == (29, Basis.AHEAD, 3, 0)
    assert one(replica, 101, log)[1] is Basis.UNMAPPED
    assert one(replica, 119, log)[1] is Basis.UNMAPPED
    # Native records after the copies are not behind the group.
    assert one(replica, 120, TargetLog(0, 40)) == (28, Basis.END, 0, 0)
    # Before the start, the source has records that were never copied.
    assert one(expired(model, source_start=95), 90, log) == (0, Basis.UNMAPPED, None, 5)
    assert one(expired(model), 90, log) == (0, Basis.UNMAPPED, None, 10)
    assert one(expired(model), 100, log) == (7, Basis.EXACT, 0, 0)


def test_without_the_first_copy_the_log_start_offset_bounds_it(model: Model) -> None:
    """The last span is not the first copy: taken as such, it would skip records."""
    model.native(3)
    model.lap([(A, [0] * 5, 0)], fails=False)
    model.forget_firsts()
    (landed,) = model.positions[A].landed
    assert landed == Landed(*TARGET, 32, 37)
    replica = expired(model, source_start=100)
    assert one(replica, 100, TargetLog(2, 40)) == (2, Basis.BOUNDED, 30, 2)
    assert one(replica, 125, TargetLog(2, 40)) == (37, Basis.END, 0, 0)
    assert one(replace(replica, source_start=99), 99, TargetLog(2, 40)) == (
        2, Basis.UNMAPPED, None, 1
    )  # fmt: skip


def test_what_the_target_deleted_is_counted_and_what_it_lost_is_unmapped(model: Model) -> None:
    replica = expired(model)
    assert one(replica, 100, TargetLog(20, 40)) == (20, Basis.EXACT, 0, 13)
    assert one(replica, 120, TargetLog(35, 40)) == (35, Basis.END, 0, 0)
    for committed in (100, 120, 123):
        assert one(replica, committed, TargetLog(0, 20)) == (None, Basis.UNMAPPED, None, None)
    assert one(replica, 120, TargetLog(0, 20, high=28)) == (28, Basis.END, 0, 0)


def test_what_does_not_prove_it(model: Model) -> None:
    log, position = TargetLog(0, 40), model.positions[A]
    (landed,) = position.landed
    replica = expired(model)

    def basis(committed: int, **changes: object) -> Basis:
        changed = replace(replica, position=replace(position, **changes))  # type: ignore[arg-type]
        (row,) = translate({A: changed}, {A: committed}, {TARGET: log})
        return row.basis

    assert (basis(100), basis(120)) == (Basis.EXACT, Basis.END)
    # Without exactly-once; moved by an operator; by a release that kept no ends.
    assert basis(120, landed=(replace(landed, first=landed.end),)) is Basis.UNMAPPED
    assert basis(120, slot=-1) is Basis.UNMAPPED
    assert basis(120, landed=()) is Basis.UNMAPPED
    assert basis(100, landed=(), first_landed=None) is Basis.BOUNDED
    # Keys choose the partition: of other source partitions, it is not known which.
    assert basis(120, target_partition=None) is Basis.BOUNDED
    assert basis(100, target_partition=None) is Basis.BOUNDED
    many = tuple(Landed("t", number, 0, 28) for number in range(100))
    rows = translate(
        {A: replace(replica, position=replace(position, target_partition=None, landed=many))},
        {A: 120},
        dict.fromkeys([(at.topic, at.partition) for at in many], log),
    )
    assert len(rows) == 100 and {row.basis for row in rows} == {Basis.UNMAPPED}
    # Re-created topics, commits past the source's end, and records of both directions.
    assert one(replace(replica, unusable_reason="created again"), 120, log)[1] is Basis.UNMAPPED
    assert one(replace(replica, source_end=121), 122, log)[1] is Basis.UNMAPPED
    (row,) = translate({A: replica}, {A: 120}, {TARGET: log}, both_ways=[TARGET])
    assert row.basis is Basis.UNMAPPED


def test_a_move_back_leaves_copies_behind_until_they_are_copied_again(model: Model) -> None:
    """A group at the new position would skip what was copied from there on."""
    model.move(A, 110)
    log = TargetLog(0, 60)
    assert one(expired(model), 110, log)[1] is Basis.UNMAPPED
    assert one(expired(model), 100, log) == (7, Basis.EXACT, 0, 0)
    # Retention has deleted the next five on the source: the position moves, and nothing lands.
    model.lap([(A, [], 5)], fails=False)
    assert one(expired(model), 115, log)[1] is Basis.UNMAPPED
    model.lap([(A, [0] * 5, 0)], fails=False)
    assert one(expired(model), 120, TargetLog(0, 60)) == (34, Basis.END, 0, 0)
    # All of it again: where the first copy landed is another offset.
    model.move(A, 100)
    assert model.positions[A].first_landed is None
    model.lap([(A, [0] * 20, 0)], fails=False)
    assert one(expired(model), 100, TargetLog(0, 80)) == (35, Basis.EXACT, 0, 0)


def test_the_first_copy_is_noted_once_and_only_if_none_was_missed(model: Model) -> None:
    first = FirstLanded(*TARGET, 100, 7)
    assert model.positions[A].first_landed == (first,)
    model.lap([(A, [0], 0)], fails=False)
    assert model.positions[A].first_landed == (first,)
    model.forget_firsts()
    model.lap([(A, [0], 0)], fails=False)
    assert model.positions[A].first_landed is None
    # A transaction that is aborted has written none.
    model.lap([(B, [0, 0], 0)], fails=True)
    assert model.positions[B].first_landed is None
    model.lap([(B, [], 3)], fails=False)
    assert model.positions[B].first_landed == ()
    end = model.end
    model.lap([(B, [2, 0], 0)], fails=False)
    assert model.positions[B].first_landed == (FirstLanded(*TARGET, START + 5, end),)


def test_keys_choose_the_partition_and_no_first_copy_is_kept(model: Model) -> None:
    route = Route(CopyPath.RECORD, "t", None, 3)
    reader = PartitionReader(
        Assignment(A, begin(), route), None, LandedSpans([], transactional=True)
    )
    reader.acknowledge(OutgoingBatch(("t", 2), memoryview(b""), 1, first_source=START), 0)
    assert reader.position(1, 0, 0).first_landed is None


def test_a_group_without_a_commit_on_another_feeder_is_not_safe(model: Model) -> None:
    """B's mappings have expired, too: positions say that it feeds the partition."""
    model.lap([(B, [0] * 3, 0), (A, [0], 0)], fails=False)
    replicas = {A: model.replica(A, ()), B: model.replica(B, ())}
    log = {TARGET: TargetLog(0, model.end)}
    assert (model.landed[B], model.landed[A][120]) == ({5: 29, 6: 30, 7: 31}, 33)
    (row,) = translate(replicas, {A: 121}, log)
    assert row.basis is Basis.UNMAPPED and "b-0 feeds this partition too" in row.reason
    (row,) = translate(replicas, {A: 121, B: START}, log)
    assert (row.offset, row.basis, row.reread) == (29, Basis.BOUNDED, 5)
    (row,) = translate(replicas, {A: 121, B: START + 3}, log)
    assert (row.offset, row.basis, row.reread, row.skipped) == (32, Basis.BOUNDED, 2, 0)
    # Its first copy is after the first one of A.
    (row,) = translate(replicas, {A: 100}, log)
    assert (row.offset, row.basis) == (7, Basis.BOUNDED)
