"""Rows of a snapshot are made again where it differs from the last one, and only there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.opposite_copy import OppositeCopy
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.moves.groups import CommittedOffset, GroupView, Snapshot, make_group_rows
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.watch.unchanged import SnapshotRows, inputs_of_rows, summarize_mapping

S, T = SourcePartition("s", 0), ("t", 0)


def ranges() -> MappingRanges:
    made = MappingRanges()
    made.append(np.array([0, 60]), np.array([500, 560]), np.array([50, 40]))
    return made


def take(held: MappingRanges, at: float = 1000.0) -> Snapshot:
    """A snapshot as a reading makes it: everything is new except the mapping ranges."""
    group = GroupView("Empty", 0, {("s", 0): CommittedOffset(40)})
    there = GroupView("Empty", 0, {T: CommittedOffset(545)})
    position = Position(100, 0, 0, "id", 3, 0, *T)
    return Snapshot(
        "p",
        "A",
        "B",
        at,
        at,
        source={"g": group},
        target={"g": there},
        replicas={S: Replica(position, {T: held})},
        logs={T: TargetLog(0, 700)},
    )


def test_rows_and_summaries_of_an_equal_snapshot_are_the_same_objects() -> None:
    made, held = SnapshotRows(), ranges()
    first, second = take(held), take(held, 1005.0)
    rows, mapped = made.rows(first), made.summaries(first.replicas)
    assert rows == make_group_rows(first)
    assert made.rows(second) is rows
    assert made.summaries(second.replicas)[S] is mapped[S]


def consume(snapshot: Snapshot) -> Snapshot:
    group = GroupView("Empty", 0, {("s", 0): CommittedOffset(45)})
    return replace(snapshot, source={"g": group})


def commit_on_target(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, target={"g": GroupView("Empty", 0, {T: CommittedOffset(560)})})


def join_target(snapshot: Snapshot) -> Snapshot:
    there = replace(snapshot.target["g"], state="Stable", members=1)
    return replace(snapshot, target={"g": there})


def move_while_read(snapshot: Snapshot) -> Snapshot:
    group = GroupView("Empty", 0, {("s", 0): CommittedOffset(45)})
    return replace(snapshot, source_later={"g": group})


def delete_records(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, logs={T: TargetLog(550, 700)})


def lose_source(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, source_down="down")


def lose_mapping(snapshot: Snapshot) -> Snapshot:
    replica = replace(snapshot.replicas[S], holes=((30, 45),))
    return replace(snapshot, replicas={S: replica})


def create_topic_again(snapshot: Snapshot) -> Snapshot:
    replica = replace(snapshot.replicas[S], unusable_reason="created again")
    return replace(snapshot, replicas={S: replica})


def map_more(snapshot: Snapshot) -> Snapshot:
    held = snapshot.replicas[S].target_ranges[T]
    held.forget(30, 50)
    return snapshot


@pytest.mark.parametrize(
    "change",
    [
        consume,
        commit_on_target,
        join_target,
        move_while_read,
        delete_records,
        lose_source,
        lose_mapping,
        create_topic_again,
        map_more,
    ],
)
def test_rows_of_a_changed_snapshot_are_made_again(change: Callable[[Snapshot], Snapshot]) -> None:
    made, held = SnapshotRows(), ranges()
    before = list(made.rows(take(held)))
    made.summaries(take(held).replicas)
    changed = change(take(held))
    assert make_group_rows(changed) != before
    assert made.rows(changed) == make_group_rows(changed)
    replica = changed.replicas[S]
    assert made.summaries(changed.replicas)[S] == summarize_mapping(replica, True)


def test_what_is_extended_in_place_is_never_taken_for_unchanged() -> None:
    held = ranges()
    anchored = replace(take(held).replicas[S], anchors=OffsetAnchors())
    one = replace(take(held), replicas={S: anchored})
    two = replace(take(held), replicas={S: replace(anchored)})
    assert inputs_of_rows(one) != inputs_of_rows(two)
    opposite: dict[Any, Any] = {T: OppositeCopy.__new__(OppositeCopy)}
    assert inputs_of_rows(replace(one, opposite=opposite)) != inputs_of_rows(
        replace(one, opposite=opposite)
    )


@pytest.mark.parametrize("name", [field.name for field in fields(Replica)])
def test_every_field_of_a_replica_is_compared(name: str) -> None:
    one = take(ranges())
    values: dict[str, Any] = {"target_ranges": {}, "anchors": OffsetAnchors()}
    different: dict[str, Any] = {name: values.get(name, object())}
    changed = replace(one.replicas[S], **different)
    assert inputs_of_rows(one) != inputs_of_rows(replace(one, replicas={S: changed}))


def _append(held: MappingRanges) -> None:
    held.append(np.array([100]), np.array([700]), np.array([1]))


def _continue(held: MappingRanges) -> None:
    held.append(np.array([100]), np.array([600]), np.array([1]))


def _rewind(held: MappingRanges) -> None:
    held.append(np.array([70]), np.array([900]), np.array([1]))


def _merge(held: MappingRanges) -> None:
    held.merge_older(columns_of(50, 550, 10))


def columns_of(source: int, target: int, count: int) -> Any:
    made = MappingRanges()
    made.append(np.array([source]), np.array([target]), np.array([count]))
    return made.columns()


def _put(held: MappingRanges) -> None:
    held.put(columns_of(50, 550, 10))


def _forget(held: MappingRanges) -> None:
    held.forget(10, 20)


def _drop(held: MappingRanges) -> None:
    held.drop_before(55)


@pytest.mark.parametrize("change", [_append, _continue, _rewind, _merge, _put, _forget, _drop])
def test_every_change_of_ranges_is_a_new_revision(change: Callable[[MappingRanges], None]) -> None:
    held = ranges()
    before = held.revision
    change(held)
    assert held.revision > before
