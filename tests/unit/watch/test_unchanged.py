"""Views are made again where something changed, and are the same objects where nothing did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.state import SourcePartition
from k2ktui.watch.history import Trends
from k2ktui.watch.model import Direction, PartitionRow, PartName, View
from tests.support.console.views import Made, large, usual

AT = SourcePartition("payments", 0)


def raise_end(made: Made) -> None:
    made.ends[AT] += 10


def move_position(made: Made) -> None:
    made.positions[AT] = replace(made.positions[AT], offset=made.positions[AT].offset + 1)


def raise_start(made: Made) -> None:
    made.starts[AT] += 1


def map_less(made: Made) -> None:
    made.mapped[AT] = replace(made.mapped[AT], records=made.mapped[AT].records - 1)


def add_partition(made: Made) -> None:
    made.partition("more", len(made.ends), end=50, lag=3)


def lose_source(made: Made) -> None:
    made.errors[PartName.SOURCE] = "down"


def find_source(made: Made) -> None:
    made.errors.clear()


def move_group(made: Made) -> None:
    made.rows[0] = replace(made.rows[0], target_offset=(made.rows[0].target_offset or 0) + 1)


def do_nothing(made: Made) -> None:
    pass


CHANGES = [
    raise_end,
    move_position,
    raise_start,
    map_less,
    add_partition,
    lose_source,
    find_source,
    move_group,
    do_nothing,
]


def facts_of(view: View) -> Any:
    """What a view shows of one moment: rates and trends depend on earlier ones."""
    rows = [
        replace(row, rate=None, eta_s=None, direction=Direction.UNKNOWN) for row in view.partitions
    ]
    totals = replace(view.totals, rate=None, eta_s=None, direction=Direction.UNKNOWN)
    return rows, totals, view.summaries, view.groups


@given(st.lists(st.sampled_from(CHANGES), max_size=8))
def test_a_view_shows_every_change(changes: list[Callable[[Made], None]]) -> None:
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
    after = made.view()
    assert after.partitions is before.partitions
    assert after.summaries is before.summaries
    made.copy(5)
    made.now += 5
    changed = made.view()
    assert changed.partitions != after.partitions
    assert all(isinstance(row, PartitionRow) for row in changed.partitions)


def test_the_rate_of_what_does_not_move_is_exactly_zero() -> None:
    trends = Trends(2)
    for number in range(7):
        trends.add(1_795_262_400.0 + 5.1 * number, np.array([1_000_003.0, np.nan]))
    lines = trends.lines()
    assert lines.slope[0] == 0.0
    assert list(lines.directions) == [Direction.STEADY, Direction.UNKNOWN]
