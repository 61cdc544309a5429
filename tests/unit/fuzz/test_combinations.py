"""Records that are valid one by one, in any combination: damaged at worst, never an exception."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.log import MappingLog
from k2ktui.engine.mapping.opposite_copy import OppositeCopy, find_pair, find_uncopied
from k2ktui.engine.mapping.replica import Replica, TargetLog, make_replica
from k2ktui.engine.moves.apply import reverse_writes
from k2ktui.engine.moves.groups import CommittedOffset, GroupView, Snapshot, make_group_rows
from k2ktui.engine.moves.journal import JournalKey, JournalRow, JournalRows
from k2ktui.engine.moves.journal_format import read_state_value, state_value
from k2ktui.engine.moves.plan import dump_plan, load_plan
from k2ktui.engine.moves.planning import PlanOptions, make_plan
from k2ktui.engine.records.state import (
    Covers,
    Gap,
    MappingRange,
    MappingRecord,
    Position,
    ScatteredRun,
    SourcePartition,
    mapping_key,
    mapping_value,
    position_key,
    position_value,
    read_commit_record,
)
from k2ktui.mm2.publish import checkpoints_of, syncs_of
from k2ktui.sync.mapping.republish import make_repeats
from k2ktui.sync.mapping.sort import MappingSorter
from k2ktui.sync.moves.apply import read_results
from k2ktui.sync.verify.groups import sample_ranges
from k2ktui.watch.unchanged import summarize_mapping
from tests.support.schedule.examples import examples

FROM, TO = SourcePartition("s", 0), ("t", 0)
_BACK = SourcePartition("t", 0)
_LARGEST = 1 << 53
# Shrinking takes minutes here; the records of a failure are printed anyway.
_NO_SHRINK = (Phase.explicit, Phase.generate)

# Small, so that they meet; and the largest ones that a record may have.
offsets = st.integers(0, 30) | st.sampled_from([0, 1, _LARGEST - 9, _LARGEST - 2])
counts = st.integers(1, 9) | st.just((1 << 31) - 1)
targets = st.sampled_from([("t", 0), ("t", 1), ("other", 0)])


# Few spans, so that the parts of a set come together, and records of several terms overlap.
spans = st.sampled_from([(0, 20), (0, 20), (0, 30), (5, 15), (10, 40), (20, 30)]) | st.tuples(
    offsets, st.just(_LARGEST - 1)
)
parts = st.sampled_from([(0, 1), (0, 1), (0, 2), (1, 2), (0, 2), (1, 2), (0, 3), (2, 3)])


@st.composite
def mappings(draw: st.DrawFn, source: SourcePartition) -> MappingRecord:
    """A mapping record that is valid alone, in most cases."""
    low, high = draw(spans)
    rows, runs, at = [], [], low
    for gap, target, count in draw(st.lists(st.tuples(st.integers(0, 4), offsets, counts))):
        if at + gap + count <= high:
            rows.append(MappingRange(at + gap, target, count))
            at += gap + count
    if draw(st.booleans()):
        for start, target, deltas in draw(
            st.lists(
                st.tuples(st.integers(0, 20), offsets, st.lists(st.integers(0, 3), max_size=4)),
                max_size=2,
            )
        ):
            sources = [low + start]
            for delta in deltas:
                sources.append(sources[-1] + delta)
            runs.append(
                ScatteredRun(target, tuple(source for source in sources if source < high) or (low,))
            )
    left = draw(st.lists(st.tuples(offsets, st.integers(1, 5)), max_size=2))
    return MappingRecord(
        "g",
        source,
        *draw(targets),
        draw(st.integers(1, 3)),
        tuple(rows),
        tuple(runs),
        Covers(low, high, *draw(parts)),
        draw(st.integers(0, 3)) == 0,
        tuple((a, a + n) for a, n in left),
    )


@st.composite
def positions(draw: st.DrawFn) -> Position:
    gaps = draw(st.lists(st.tuples(offsets, offsets), max_size=3))
    position = Position(
        draw(offsets),
        draw(offsets),
        -1,
        "",
        draw(st.integers(1, 3)),
        0,
        *draw(targets),
        since=draw(st.integers(0, 3)),
        gaps=tuple(Gap(*gap, "truncated") for gap in gaps),
    )
    read = read_commit_record(position_key("g", FROM), position_value(position))[2]
    assert isinstance(read, Position)
    return read


def read_log(
    source: SourcePartition, batches: Sequence[Sequence[MappingRecord]], since: int, keep: int
) -> tuple[MappingLog, MappingSorter]:
    """Read records as the mapping store does, and hold only some in memory meanwhile."""
    sorter, log, offset = MappingSorter(("g",)), MappingLog(since), 0
    for batch in batches:
        messages = []
        for record in batch:
            key, value, at = mapping_key(record), mapping_value(record), (1, 1000 + offset)
            messages.append(
                Message(topic="m", partition=0, offset=offset, key=key, value=value, timestamp=at)
            )
            offset += 1
        for _, pieces in sorter.sort(messages):
            for piece in pieces:
                log.take(piece)
        log.trim(keep)
    return log, sorter


def copy_of(log: MappingLog, position: Position, ends: tuple[int | None, int | None]) -> Replica:
    return replace(
        make_replica(position, log.known.all(), unread=False),
        target_ranges=log.target_ranges,
        source_start=ends[0],
        mapped=log.mapped,
        held_from=log.hot_from,
        left_out_end=log.left_out_end,
        source_end=ends[1],
    )


@settings(
    max_examples=examples(300),
    deadline=None,
    phases=_NO_SHRINK,
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(st.lists(mappings(FROM), min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(st.lists(mappings(_BACK), min_size=1, max_size=3), max_size=2),
    st.tuples(positions(), positions()),
    st.lists(offsets, min_size=1, max_size=6),
    st.data(),
)
def test_readers_of_mappings(
    batches: list[list[MappingRecord]],
    back: list[list[MappingRecord]],
    place: tuple[Position, Position],
    commits: list[int],
    data: st.DataObject,
) -> None:
    keep = data.draw(st.sampled_from([1, 3, 1000]))
    ends = data.draw(st.tuples(st.none() | offsets, st.none() | offsets))
    bounds = data.draw(st.tuples(offsets, offsets, st.none() | offsets))
    log, _ = read_log(FROM, batches, place[0].since, keep)
    other, _ = read_log(_BACK, back, place[1].since, keep)
    low = data.draw(offsets)
    span = (low, min(low + data.draw(st.integers(1, 50)), _LARGEST - 1))
    repeats = [
        Message(topic="m", partition=0, offset=99, key=key, value=value, timestamp=(1, 2))
        for key, value in make_repeats("g", FROM, log, span)
    ]
    replica = copy_of(log, place[0], ends)
    opposite = copy_of(other, place[1], (None, None))
    tail = max([place[1].offset, *bounds[:2]])
    start, end = sorted(bounds[:2])
    logs = {at: TargetLog(start, end, high=bounds[2]) for at in [*replica.target_ranges, TO]}
    source = {
        f"g{n}": GroupView("Empty", 0, {("s", 0): CommittedOffset(at)})
        for n, at in enumerate(commits)
    }
    target = {
        f"g{n}": GroupView("Empty", 0, {at: CommittedOffset(commits[-1 - n]) for at in logs})
        for n in range(len(commits))
    }
    both = data.draw(st.booleans())
    snapshot = Snapshot(
        "p",
        "a",
        "b",
        1.0,
        1.0,
        source=source,
        target=target,
        replicas={FROM: replica},
        opposite={TO: OppositeCopy(opposite, tail)} if both else {},
        logs=logs,
    )
    rows = make_group_rows(snapshot)
    assert len(rows) >= len(commits)
    assert load_plan(dump_plan(plan := make_plan(snapshot, PlanOptions("x"))), 1.0) == plan
    checkpoints_of(snapshot)
    syncs_of(snapshot.replicas, logs)
    sample_ranges(snapshot.replicas, 5, 1)
    summarize_mapping(replica, with_ranges=True)
    find_uncopied(replica.target_ranges.values(), start, end)
    find_pair(TO, start, snapshot.replicas, OppositeCopy(opposite, tail))
    log.only_before({0: 3}, low)
    older, _ = read_log(FROM, batches, place[0].since, 1000)
    log.refill(older, 0)
    sorter = MappingSorter(("g",))
    sorter.sort(repeats)
    assert not sorter.malformed, [repeat.value() for repeat in repeats]


@given(st.lists(st.text(max_size=12) | st.sampled_from(["applied", "unknown: begun"]), max_size=5))
def test_an_entry_with_results_of_another_release(results: list[str]) -> None:
    """What is not known to be applied is not undone."""
    rows = tuple(JournalRow("t", n, 1, "", 5, "", result) for n, result in enumerate(results))
    read = [read_state_value(JournalKey("e", "g"), state_value(JournalRows("e", "g", rows)))]
    rows_read = read_results([record for record in read if isinstance(record, JournalRows)])
    applied = [n for n, result in enumerate(results) if result in ("applied", "unknown: begun")]
    assert [write.partition for write in reverse_writes(rows_read)] == applied
