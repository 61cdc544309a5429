"""Positions where records flow both ways, against two logs whose records are known one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.both_directions import translate_both_ways
from k2ktui.engine.mapping.opposite_copy import OppositeCopy, TailKind, find_returned_ends
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.records.state import Position, SourcePartition
from tests.support.model.two_way_logs import (
    STEPS,
    Pair,
    Where,
    find_tail,
    move_back,
    numbers_read,
    played,
)


@given(STEPS, st.integers(1, 2), st.integers(), st.lists(st.integers(0, 150), min_size=2))
def test_nothing_is_skipped_and_the_position_is_the_lowest_unread_record(
    steps: list[tuple[str, str, int]], partitions: int, seed: int, at: list[int]
) -> None:
    pair = played(steps, partitions, seed)
    read = [min(offset, log.end) for offset, log in zip(at, pair.sides["b"], strict=False)]
    done = numbers_read(pair, read)
    for log in pair.sides["a"]:
        row = move_back(pair, read, [0] * partitions).get(log.name)
        if row is None:
            continue
        unread = [offset for offset, number in log.records.items() if number not in done]
        again = [
            o
            for o, n in log.records.items()
            if row.offset is not None and o >= row.offset and n in done
        ]
        assert row.offset is not None
        assert all(offset >= row.offset for offset in unread), "nothing is skipped"
        assert row.skipped == 0 and row.reread is not None
        assert row.reread >= len(again)
        assert row.basis in (Basis.EXACT, Basis.END, Basis.AHEAD, Basis.BOUNDED)
        assert bool(row.reread) == (row.basis in (Basis.BOUNDED, Basis.AHEAD))
        ahead = any(at > b.position for at, b in zip(read, pair.sides["b"], strict=True))
        if not any(what == "compact" for what, _, _ in steps) and not ahead:
            assert row.reread == len(again), "the bound is the number"
            assert row.offset == min(unread, default=row.offset), "as high as possible"
            assert unread or row.basis is Basis.END


@given(STEPS, st.integers(1, 2), st.integers())
def test_a_group_that_has_read_everything_reads_nothing_again(
    steps: list[tuple[str, str, int]], partitions: int, seed: int
) -> None:
    """A planned switchover: both pipelines caught up, and the group read all of the other side."""
    pair = played(steps, partitions, seed)
    pair.settle()
    rows = move_back(pair, [log.end for log in pair.sides["b"]], [0] * partitions)
    for row in rows.values():
        log = next(log for log in pair.sides["a"] if log.name == row.target)
        assert row.offset is not None
        assert not [o for o in log.records if o >= row.offset]
        assert (row.basis, row.reread, row.skipped) == (Basis.END, 0, 0)


@given(STEPS, st.integers(), st.lists(st.integers(0, 150), min_size=1), st.integers(0, 80))
def test_records_that_the_target_has_deleted_are_counted(
    steps: list[tuple[str, str, int]], seed: int, at: list[int], start: int
) -> None:
    pair = played([step for step in steps if step[0] != "compact"], 1, seed)
    (log,), (there,) = pair.sides["a"], pair.sides["b"]
    start, read = min(start, log.position), [min(at[0], there.end)]
    done = numbers_read(pair, read)
    rows = move_back(pair, read, [start])
    for row in rows.values():
        assert row.offset is not None and row.offset >= start
        unread = [o for o, n in log.records.items() if n not in done]
        assert row.skipped == len([o for o in unread if o < start])
        kept = [o for o in unread if o >= start]
        assert row.offset == min(kept, default=row.offset)
        again = [o for o, n in log.records.items() if o >= row.offset and n in done]
        ahead = max(0, read[0] - there.position)  # read, and not copied yet
        assert len(again) <= (row.reread or 0) <= len(again) + ahead


@given(
    STEPS,
    st.integers(),
    st.lists(st.integers(0, 150), min_size=1),
    st.tuples(st.integers(0, 60), st.integers(1, 20)),
    st.sampled_from(["hole", "beginning", "behind"]),
)
def test_a_mapping_that_is_missing_widens_the_bound_and_skips_nothing(
    steps: list[tuple[str, str, int]],
    seed: int,
    at: list[int],
    hole: tuple[int, int],
    kind: str,
) -> None:
    pair = played([step for step in steps if step[0] != "compact"], 1, seed)
    (log,), (there,) = pair.sides["a"], pair.sides["b"]
    read = [min(at[0], there.end)]
    done = numbers_read(pair, read)
    first, end = min(hole[0], log.position), min(sum(hole), log.position)
    changes: dict[str, object] = {"holes": ((first, end),) if first < end else ()}
    if kind == "beginning":
        first, changes = 0, {"complete_from": end}
    if kind == "behind":
        end, changes = log.position, {"behind": True}
    for ranges in log.ranges.values():
        ranges.forget(first, end)
    for row in move_back(pair, read, [0], **changes).values():
        if row.offset is None:
            continue
        assert all(o >= row.offset for o, n in log.records.items() if n not in done)
        again = [o for o, n in log.records.items() if o >= row.offset and n in done]
        assert row.reread is not None and row.reread >= len(again)
        assert row.basis is Basis.BOUNDED or not again


def simple() -> Pair:
    """Side a: its records at 0 to 4, b's at 5 and 6, marker; side b: a's, marker, its own."""
    pair = Pair(1, 0)
    pair.write("a", 5)
    pair.copy("a", 9)
    pair.write("b", 2)
    pair.copy("b", 99)
    return pair


def test_the_way_back_by_hand() -> None:
    pair = simple()
    (a,), (b,) = pair.sides["a"], pair.sides["b"]
    assert (sorted(a.records), sorted(b.records)) == ([*range(7)], [0, 1, 2, 3, 4, 6, 7])
    expected = {
        0: (0, Basis.EXACT),
        3: (3, Basis.EXACT),  # came from a: the inverse of the forward mapping
        6: (5, Basis.EXACT),  # native: the reverse mapping
        7: (6, Basis.EXACT),
        8: (a.end, Basis.END),
    }
    for read, (offset, basis) in expected.items():
        (row,) = move_back(pair, [read], [0]).values()
        assert (row.offset, row.basis, row.reread, row.skipped) == (offset, basis, 0, 0), read


def test_records_that_were_not_copied_count_as_unread() -> None:
    """After a disaster: the tail of a was never copied, then b's records were copied after it."""
    pair = Pair(1, 0)
    pair.write("a", 5)
    pair.copy("a", 3)
    pair.write("b", 2)
    pair.copy("b", 99)
    (row,) = move_back(pair, [pair.sides["b"][0].end], [0]).values()
    assert (row.offset, row.basis, row.reread, row.skipped) == (3, Basis.BOUNDED, 2, 0)
    assert "records from offset 3 on were not copied to the source" in row.reason
    pair.copy("a", 99)  # replay: late records of b
    (row,) = move_back(pair, [6], [0]).values()
    assert (row.offset, row.basis, row.reread) == (3, Basis.BOUNDED, 2), "before it reads them"
    assert "both directions" in row.reason
    (row,) = move_back(pair, [pair.sides["b"][0].end], [0]).values()
    assert (row.basis, row.reread, row.skipped) == (Basis.AHEAD, 1, 0), "the marker is not passed"
    pair.copy("b", 99)  # it copies none of them, and passes them
    (row,) = move_back(pair, [pair.sides["b"][0].end], [0]).values()
    assert (row.basis, row.reread, row.skipped) == (Basis.END, 0, 0)


def test_what_is_not_known_is_named() -> None:
    pair = simple()
    (row,) = move_back(pair, [8], [0], unusable_reason="orders was created again").values()
    assert (row.offset, row.basis) == (None, Basis.UNMAPPED)
    assert row.reason == "opposite pipeline: orders was created again"
    (row,) = move_back(pair, [6], [0], holes=((2, 4),)).values()
    assert (row.offset, row.basis, row.reread) == (5, Basis.EXACT, 0), "read before the hole's end"
    pair.sides["a"][0].ranges[pair.sides["b"][0].name].forget(3, 5)
    (row,) = move_back(pair, [6], [0], holes=((3, 5),)).values()
    assert (row.offset, row.basis, row.reread) == (3, Basis.BOUNDED, 2)
    assert "whether 2 target offsets from 3 on were read is unknown" in row.reason


def test_records_before_the_start_of_the_opposite_pipeline() -> None:
    """They are not on the source; a group that has committed after them has read them here."""
    pair = simple()
    (a,), (b,) = pair.sides["a"], pair.sides["b"]
    copy = find_tail(a, pair)
    assert copy.replica.position is not None
    late = replace(
        copy, replica=replace(copy.replica, position=replace(copy.replica.position, start=2))
    )
    late.replica.target_ranges[b.name].forget(0, 2)
    source = SourcePartition(*b.name)
    position = Position(b.end, 0, 0, "", 1, 0, *a.name)
    replicas = {source: Replica(position, dict(b.ranges))}

    def move(current: dict[Where, int]) -> Translation:
        logs = {a.name: TargetLog(0, a.end)}
        (row,) = translate_both_ways(replicas, {source: 8}, logs, {a.name: late}, current=current)
        return row

    assert (move({}).offset, move({}).basis, move({}).reread) == (0, Basis.BOUNDED, 7)
    assert (move({a.name: 1}).offset, move({a.name: 1}).reread) == (1, 6)
    assert (move({a.name: 2}).offset, move({a.name: 2}).basis) == (a.end, Basis.END)


def test_a_partition_without_a_commit_that_shares_records() -> None:
    """Records of a are on both partitions of b, and records of b only on its first one."""
    pair = Pair(2, 3)
    pair.write("a", 20)
    pair.settle()
    first = pair.sides["b"][0]
    for _ in range(4):
        number = len(pair.origin)
        pair.origin[number] = "b"
        first.append(number)
    pair.settle()
    rows = move_back(pair, [first.end, None], [0, 0])
    assert sorted(rows) == [log.name for log in pair.sides["a"]]
    for row in rows.values():
        assert row.basis is Basis.UNMAPPED
        assert row.reason == (
            "topic-of-b-1 has records of this partition, and the group has no offset there"
        )


def test_a_source_that_is_lost_again_after_a_failback() -> None:
    """The opposite mappings are lost with it; a group that has read what came back is exact."""
    pair = Pair(1, 0)
    pair.write("b", 10)
    pair.settle()
    pair.write("a", 5)
    pair.settle()
    pair.write("b", 4)
    pair.settle()
    (source,), (target,) = pair.sides["b"], pair.sides["a"]
    end = 1 + max(at for at, number in source.records.items() if pair.origin[number] == "a")
    at = SourcePartition(*source.name)
    name, number = target.name
    position = Position(source.position, 0, 0, "", 1, 0, name, number)
    replicas = {at: Replica(position, dict(source.ranges))}
    lost = OppositeCopy(Replica(None), 0, TailKind.UNCHECKED, {at: end})
    logs = {target.name: TargetLog(0, target.end)}
    for committed in range(source.end + 1):
        (row,) = translate_both_ways(replicas, {at: committed}, logs, {target.name: lost})
        if committed < end:
            assert row.basis is Basis.UNMAPPED and "had not read all records" in row.reason
            continue
        unread = [number for offset, number in source.records.items() if offset >= committed]
        assert row.basis in (Basis.EXACT, Basis.END) and row.offset is not None
        numbers = [number for offset, number in target.records.items() if offset >= row.offset]
        assert numbers == unread


def test_a_lost_mapping_of_a_partition_that_the_group_does_not_read() -> None:
    """A group that reads one partition is not held up by what is missing of another one."""
    pair = Pair(2, 0)
    pair.write("b", 20)
    pair.settle()
    at = [SourcePartition(*log.name) for log in pair.sides["b"]]
    replicas = {}
    for one, log, target in zip(at, pair.sides["b"], pair.sides["a"], strict=True):
        position = Position(log.position, 0, 0, "", 1, 0, *target.name)
        replicas[one] = Replica(position, {target.name: log.ranges[target.name]})
    replicas[at[1]] = replace(replicas[at[1]], complete_from=4)
    target = pair.sides["a"][0]
    lost = OppositeCopy(Replica(None), 0, TailKind.UNCHECKED, find_returned_ends(replicas))
    logs = {log.name: TargetLog(0, log.end) for log in pair.sides["a"]}
    copies = {log.name: lost for log in pair.sides["a"]}

    def bases(*commits: int) -> list[Basis]:
        rows = translate_both_ways(replicas, dict(zip(at, commits, strict=False)), logs, copies)
        return [row.basis for row in rows if row.target == target.name]

    end = pair.sides["b"][0].end
    assert bases(end) == bases(end, -1) == bases(end, 4) == [Basis.END]
    assert bases(end, 3) == [Basis.UNMAPPED]
    seen = replace(replicas[at[1]], left_out_end=2)
    copies = dict.fromkeys(
        copies, replace(lost, returned=find_returned_ends({**replicas, at[1]: seen}))
    )
    replicas[at[1]] = seen
    assert bases(end) == [Basis.UNMAPPED], "it has not read what is known to have come back"


@pytest.mark.parametrize("kind", ["beginning", "hole", "behind"])
def test_a_source_that_is_lost_when_the_mapping_has_lost_what_came_from_the_target(
    kind: str,
) -> None:
    """Retention has deleted the mappings that named it: a group that had read on is still exact."""
    pair = Pair(1, 0)
    pair.write("b", 5)
    pair.settle()
    pair.write("a", 5)
    pair.settle()
    pair.write("b", 6)
    pair.settle()
    (source,), (target,) = pair.sides["b"], pair.sides["a"]
    came = [at for at, number in source.records.items() if pair.origin[number] == "a"]
    end = source.position if kind == "behind" else max(came) + 1
    at = SourcePartition(*source.name)
    position = Position(source.position, 0, 0, "", 1, 0, *target.name)
    ranges = dict(source.ranges)
    if kind == "beginning":
        ranges[target.name].forget(0, end)
    replica = Replica(position, ranges)
    missing = {
        "beginning": replace(replica, complete_from=end),
        "hole": replace(replica, holes=((min(came), end),)),
        "behind": replace(replica, behind=True),
    }
    replicas = {at: missing[kind]}
    lost = OppositeCopy(Replica(None), 0, TailKind.UNCHECKED, find_returned_ends(replicas))
    logs, mapped = {target.name: TargetLog(0, target.end)}, 0
    for committed in range(source.end + 1):
        (row,) = translate_both_ways(replicas, {at: committed}, logs, {target.name: lost})
        if row.basis is Basis.UNMAPPED:
            continue
        mapped += 1
        unread = [number for offset, number in source.records.items() if offset >= committed]
        assert row.offset is not None
        numbers = {number for offset, number in target.records.items() if offset >= row.offset}
        assert numbers >= set(unread), "nothing is skipped"
    assert mapped == source.end + 1 - end, "exactly the groups past what is lost"
    (row,) = translate_both_ways(replicas, {at: end - 1}, logs, {target.name: lost})
    assert "mapping" in row.reason
