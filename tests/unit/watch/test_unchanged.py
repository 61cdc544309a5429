"""What did not change is the same object, what did is made again: views, and rows of snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.opposite_copy import OppositeCopy
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.moves.groups import CommittedOffset, GroupView, Snapshot, make_group_rows
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.trend import Direction
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.watch.model import PartName, View
from k2ktui.watch.unchanged import SnapshotRows, inputs_of_rows, summarize_mapping
from tests.support.console.views import Made, large, usual

AT = SourcePartition("payments", 0)


def move_position(made: Made) -> None:
    made.positions[AT] = replace(made.positions[AT], offset=made.positions[AT].offset + 1)


def map_less(made: Made) -> None:
    made.mapped[AT] = replace(made.mapped[AT], records=made.mapped[AT].records - 1)


def move_group(made: Made) -> None:
    made.rows[0] = replace(made.rows[0], target_offset=(made.rows[0].target_offset or 0) + 1)


CHANGES: list[Callable[[Made], object]] = [
    lambda made: made.ends.update({AT: made.ends[AT] + 10}),
    lambda made: made.starts.update({AT: made.starts[AT] + 1}),
    lambda made: made.partition("more", len(made.ends), end=50, lag=3),
    lambda made: made.errors.update({PartName.SOURCE: "down"}),
    lambda made: made.errors.clear(),
    lambda made: None,
    move_position,
    map_less,
    move_group,
]


def facts_of(view: View) -> Any:
    """What a view shows of one moment: rates and trends depend on earlier ones."""
    rows = [
        replace(row, rate=None, eta_s=None, direction=Direction.UNKNOWN) for row in view.partitions
    ]
    totals = replace(view.totals, rate=None, eta_s=None, direction=Direction.UNKNOWN)
    summaries = [
        replace(group, direction=Direction.UNKNOWN, eta_s=None, moved_eta_s=None)
        for group in view.summaries
    ]
    groups = [replace(row, direction=Direction.UNKNOWN, eta_s=None) for row in view.groups]
    return rows, totals, summaries, groups


@given(st.lists(st.sampled_from(CHANGES), max_size=8))
def test_a_view_shows_every_change(changes: list[Callable[[Made], object]]) -> None:
    made = usual()
    made.view()
    for change in changes:
        change(made)
        made.now += 5
        shown = made.view()
        # One that has no earlier view to take anything from.
        fresh = usual()
        for name in ("positions", "starts", "ends", "mapped", "rows", "now"):
            setattr(fresh, name, getattr(made, name))
        fresh.view()
        fresh.errors = made.errors
        if not made.errors:
            assert facts_of(shown) == facts_of(fresh.view())


def test_what_did_not_change_is_the_same_object() -> None:
    made = large(200, 20)
    for _ in range(3):
        before = made.view()
        made.now += 5
        # New with every reading, while nothing is copied.
        made.heartbeat_at = made.now - 3
        made.changed = {
            PartName.TARGET: {
                "notes": (f"seen at {made.now}",),
                "nothing_copied": NothingCopied(""),
            },
            PartName.SOURCE: {"no_drills": f"no answer at {made.now}"},
        }
    after = made.view()
    assert after.partitions is before.partitions
    assert after.summaries is before.summaries
    made.ends[SourcePartition("topic-0001", 7)] += 1
    rows = zip(after.partitions, made.view().partitions, strict=True)
    assert [new.key for old, new in rows if old is not new] == [("topic-0001", 7)]


S, T = SourcePartition("s", 0), ("t", 0)


def ranges(*rows: tuple[int, int, int]) -> MappingRanges:
    made = MappingRanges()
    made.append(*(np.array(column) for column in zip(*rows, strict=True)))
    return made


def held() -> MappingRanges:
    return ranges((0, 500, 50), (60, 560, 40))


def group(
    offset: int, at: tuple[str, int] = ("s", 0), state: str = "Empty"
) -> dict[str, GroupView]:
    return {"g": GroupView(state, 0, {at: CommittedOffset(offset)})}


def take(at: float = 1000.0, mapped: MappingRanges | None = None, **changed: Any) -> Snapshot:
    """A snapshot as a reading makes it: everything is new except the mapping ranges."""
    position = Position(100, 0, 0, "id", 3, 0, *T)
    replicas = {S: Replica(position, {T: mapped or held()})}
    given = {"source": group(40), "target": group(545, T), "logs": {T: TargetLog(0, 700)}}
    return Snapshot("p", "A", "B", at, at, **{**given, "replicas": replicas, **changed})


def test_rows_and_summaries_of_an_equal_snapshot_are_the_same_objects() -> None:
    made, mapped = SnapshotRows(), held()
    first, second = take(mapped=mapped), take(1005.0, mapped)
    rows, summaries = made.rows(first), made.summaries(first.replicas)
    assert rows == make_group_rows(first)
    assert made.rows(second) is rows
    assert made.summaries(second.replicas)[S] is summaries[S]


@pytest.mark.parametrize(
    "changed",
    [
        {"source": group(45)},
        {"target": group(560, T)},
        {"target": group(545, T, "Stable")},
        {"source_later": group(45)},
        {"logs": {T: TargetLog(550, 700)}},
        {"source_down": "down"},
        {"replicas": {S: replace(take().replicas[S], holes=((30, 45),))}},
        {"replicas": {S: replace(take().replicas[S], unusable_reason="created again")}},
        {},
    ],
    ids=lambda changed: "-".join(changed) or "mapping",
)
def test_rows_of_a_changed_snapshot_are_made_again(changed: dict[str, Any]) -> None:
    made, mapped = SnapshotRows(), held()
    before = list(made.rows(take(mapped=mapped)))
    made.summaries(take(mapped=mapped).replicas)
    if not changed:
        mapped.forget(30, 50)
    after = take(mapped=mapped, **changed)
    assert make_group_rows(after) != before
    assert made.rows(after) == make_group_rows(after)
    assert made.summaries(after.replicas)[S] == summarize_mapping(after.replicas[S], True)


def test_what_is_extended_in_place_is_never_taken_for_unchanged() -> None:
    anchored = replace(take().replicas[S], anchors=OffsetAnchors())
    one = take(replicas={S: anchored})
    two = take(replicas={S: replace(anchored)})
    assert inputs_of_rows(one) != inputs_of_rows(two)
    opposite: dict[Any, Any] = {T: OppositeCopy.__new__(OppositeCopy)}
    assert inputs_of_rows(replace(one, opposite=opposite)) != inputs_of_rows(
        replace(one, opposite=opposite)
    )


@pytest.mark.parametrize("name", [field.name for field in fields(Replica)])
def test_every_field_of_a_replica_is_compared(name: str) -> None:
    one = take()
    values: dict[str, Any] = {"target_ranges": {}, "anchors": OffsetAnchors()}
    different: dict[str, Any] = {name: values.get(name, object())}
    changed = replace(one.replicas[S], **different)
    assert inputs_of_rows(one) != inputs_of_rows(replace(one, replicas={S: changed}))


def append(*row: int) -> Callable[[MappingRanges], None]:
    return lambda mapped: mapped.append(*(np.array([value]) for value in row))


@pytest.mark.parametrize(
    "change",
    [
        append(100, 700, 1),
        append(100, 600, 1),
        append(70, 900, 1),
        lambda mapped: mapped.merge_older(ranges((50, 550, 10)).columns()),
        lambda mapped: mapped.put(ranges((50, 550, 10)).columns()),
        lambda mapped: mapped.forget(10, 20),
        lambda mapped: mapped.drop_before(55),
    ],
    ids=["append", "continue", "rewind", "merge", "put", "forget", "drop"],
)
def test_every_change_of_ranges_is_a_new_revision(change: Callable[[MappingRanges], None]) -> None:
    mapped = held()
    before = mapped.revision
    change(mapped)
    assert mapped.revision > before
