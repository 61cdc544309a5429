"""A target that lost the end of its log, and groups that committed past the source's end."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.both_directions import translate_both_ways
from k2ktui.engine.mapping.opposite_copy import OppositeCopy
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis, Translation, translate
from k2ktui.engine.moves.resume_effect import standing
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.mm2.publish import syncs_of

A, TARGET = SourcePartition("a", 0), ("t", 0)


def ranges_of(*rows: tuple[int, int, int]) -> MappingRanges:
    ranges = MappingRanges()
    for source, target, count in rows:
        ranges.append(np.array([source]), np.array([target]), np.array([count]))
    return ranges


def replica(ranges: MappingRanges, position: int, source_end: int | None = None) -> Replica:
    place = Position(position, 0, 0, "id", 1, 0, *TARGET)
    return Replica(place, {TARGET: ranges}, source_end=source_end)


def one(copy: Replica, committed: int, log: TargetLog) -> Translation:
    (row,) = translate({A: copy}, {A: committed}, {TARGET: log})
    return row


def test_records_above_the_targets_end_are_lost() -> None:
    """Mapped up to 1,000, and the target's log ends at 20."""
    copy, log = replica(ranges_of((0, 0, 1000)), 1000), TargetLog(0, 20)
    for committed in (20, 500, 1000):
        row = one(copy, committed, log)
        assert (row.basis, row.offset, row.reread, row.skipped) == (
            Basis.UNMAPPED,
            None,
            None,
            None,
        )
        assert "the target has lost" in row.reason
    row = one(copy, 19, log)
    assert (row.basis, row.offset, row.skipped) == (Basis.EXACT, 19, 980)
    assert "lost 980 unread records" in row.reason


def test_what_was_copied_while_it_was_read_is_not_lost() -> None:
    """The end was read before the mapping, or an open transaction holds it back."""
    copy = replica(ranges_of((0, 0, 1000)), 1000)
    for committed, basis in ((500, Basis.EXACT), (999, Basis.EXACT), (1000, Basis.END)):
        row = one(copy, committed, TargetLog(0, 20, high=1000))
        assert (row.basis, row.offset, row.skipped) == (basis, committed, 0)


def test_records_that_the_target_has_overwritten_are_lost() -> None:
    """Its log ended at 20, and the pipeline went on there until it was longer than before."""
    copy, log = replica(ranges_of((0, 0, 1000), (1000, 20, 5000)), 6000), TargetLog(0, 5020)
    row = one(copy, 500, log)
    assert (row.basis, row.offset) == (Basis.UNMAPPED, None)
    assert "the target has lost" in row.reason
    row = one(copy, 10, log)
    assert (row.basis, row.offset, row.skipped) == (Basis.EXACT, 10, 980)
    assert one(copy, 1000, log).offset == 20
    assert (one(copy, 1500, log).basis, one(copy, 1500, log).skipped) == (Basis.EXACT, 0)
    row = one(copy, 1500, log)
    known = standing({A: copy}, row, {A: 1500}, 800, log)
    assert known.skipped is None  # which records are at these offsets is not counted


def test_a_mirror_is_not_exact_beyond_the_targets_end() -> None:
    anchors = OffsetAnchors()
    anchors.add_record(10, 10)
    anchors.add_record(100, 100)
    place = Position(101, 0, 0, "id", 1, 0, *TARGET)
    copy = Replica(place, {TARGET: ranges_of((10, 10, 1), (100, 100, 1))}, anchors=anchors)
    assert one(copy, 101, TargetLog(0, 101)).basis is Basis.EXACT
    for committed in (100, 101, 105):
        assert one(copy, committed, TargetLog(0, 60)).basis is Basis.UNMAPPED
    assert one(copy, 50, TargetLog(0, 60)).basis is Basis.BOUNDED


def test_a_log_that_cannot_be_read_proves_nothing() -> None:
    (row,) = translate({A: replica(ranges_of((0, 0, 10)), 10)}, {A: 5}, {})
    assert (row.basis, row.offset) == (Basis.UNMAPPED, None)


def test_no_sync_is_published_of_a_lost_record() -> None:
    copies = {A: replica(ranges_of((0, 0, 1000)), 1000)}
    assert not syncs_of(copies, {TARGET: TargetLog(0, 20)})
    assert not syncs_of(copies, {})
    assert len(syncs_of(copies, {TARGET: TargetLog(0, 20, high=1000)})) == 1


def test_both_directions_are_not_exact_beyond_the_targets_end() -> None:
    """Natives 0..4 were copied back; 5..14 are copies of the source; the log ends at 10."""
    ours = replica(ranges_of((5, 5, 10)), 15)
    there = Replica(Position(15, 0, 0, "id", 1, 0, "a", 0), {("a", 0): ranges_of((0, 0, 5))})
    opposite = {TARGET: OppositeCopy(there, 15)}

    def row(committed: int, log: TargetLog) -> Translation:
        (translation,) = translate_both_ways({A: ours}, {A: committed}, {TARGET: log}, opposite)
        return translation

    whole, cut = TargetLog(0, 15), TargetLog(0, 10)
    assert (row(15, whole).basis, row(15, whole).offset) == (Basis.END, 15)
    assert row(15, cut).basis is Basis.UNMAPPED
    assert row(12, cut).basis is Basis.UNMAPPED
    assert (row(7, cut).offset, row(7, cut).skipped) == (7, 5)


def test_a_commit_past_the_sources_end() -> None:
    """Committed 1,090; the source's log ends at 1,010, of which 1,000 are copied."""
    ranges = ranges_of((0, 0, 1000))
    row = one(replica(ranges, 1000, source_end=1010), 1090, TargetLog(0, 1000))
    assert (row.basis, row.offset, row.reread, row.skipped) == (Basis.UNMAPPED, None, None, None)
    assert "past the source's end (1010)" in row.reason
    row = one(replica(ranges, 1000, source_end=1090), 1090, TargetLog(0, 1000))
    assert (row.basis, row.reread) == (Basis.AHEAD, 90)
    # The copy is of the log as it was before the source lost its end: it has what the group read.
    row = one(replica(ranges, 1000, source_end=910), 1000, TargetLog(0, 1000))
    assert (row.basis, row.offset) == (Basis.END, 1000)


class _Cluster:
    """A source log, its copy and a group, which only grow; a reader sees them one by one."""

    def __init__(self) -> None:
        self.source = self.target = self.mapped = self.committed = 0
        self.ranges = MappingRanges()

    def act(self, step: str) -> None:
        """Let something happen: write, copy in a transaction, commit it, or read."""
        if step == "write":
            self.source += 3
        elif step == "copy" and self.target < self.source:
            self.target += 1
        elif step == "commit" and self.mapped < self.target:
            at = np.array([self.mapped])
            self.ranges.append(at, at, np.array([self.target - self.mapped]))
            self.mapped = self.target
        elif step == "consume":
            self.committed = self.source


steps = st.lists(st.sampled_from(["write", "copy", "commit", "consume"]), max_size=8)


@given(st.lists(steps, min_size=7, max_size=7))
def test_a_busy_pipeline_raises_no_false_alarm(meanwhile: list[list[str]]) -> None:
    """Whatever happens between two readings, taken in the order of sync/moves/snapshot.py."""
    world, between = _Cluster(), iter(meanwhile)

    def pause() -> None:
        for step in next(between):
            world.act(step)

    pause()
    replicated = world.mapped  # positions
    pause()
    committed = world.committed
    pause()
    source_end = world.source if committed > replicated else None
    pause()
    end = world.mapped  # the last stable offset
    pause()
    position = world.mapped
    pause()
    ranges = MappingRanges()
    if len(world.ranges):
        ranges.put(world.ranges.columns())
    pause()
    high = world.target if (ranges.target_end or 0) > end else None
    copy = replica(ranges, position, source_end)
    row = one(copy, committed, TargetLog(0, end, high=high))
    assert row.basis is not Basis.UNMAPPED
    assert row.skipped == 0


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@given(lengths, st.data())
def test_only_what_is_on_the_target_is_translated(counts: list[int], data: st.DataObject) -> None:
    """A model: the target's log is cut now and then, and what follows is appended at its end."""
    log: list[int] = []
    ranges, source = MappingRanges(), 0
    for count in counts:
        if data.draw(st.booleans()) and log:
            del log[data.draw(st.integers(0, len(log))) :]
        ranges.append(np.array([source]), np.array([len(log)]), np.array([count]))
        log += range(source, source + count)
        source += count
    if data.draw(st.booleans()):
        del log[data.draw(st.integers(0, len(log))) :]
    copy = replica(ranges, source)
    for committed in range(source + 1):
        row = one(copy, committed, TargetLog(0, len(log)))
        unread = range(committed, source)
        if row.basis is Basis.UNMAPPED:
            # The next record is lost, or there is none and the last one is.
            assert (committed if unread else source - 1) not in log
            continue
        assert row.offset is not None
        rest = log[row.offset :]
        assert set(rest) == set(unread) & set(log)
        assert row.skipped == len(set(unread) - set(log))
        assert not unread or rest[0] == committed


@given(lengths, st.data())
def test_counts_do_not_rest_on_ascending_target_offsets(
    counts: list[int], data: st.DataObject
) -> None:
    ranges, pairs, source = MappingRanges(), [], 0
    for count in counts:
        target = data.draw(st.integers(0, 20))
        ranges.append(np.array([source]), np.array([target]), np.array([count]))
        pairs += [(source + n, target + n) for n in range(count)]
        source += count
    low, high = sorted(data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
    first, last = sorted(data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
    within = [1 for s, t in pairs if low <= s < high and first <= t < last]
    assert ranges.count_within((low, high), (first, last)) == len(within)
    begin = ranges.begins_before(first)
    late = [s for s, t in pairs if t >= first]
    assert not late or begin is None or begin <= min(late)
    goes_back = any(b <= a for (_, a), (_, b) in itertools.pairwise(pairs))
    assert ranges.goes_back == goes_back
