"""Groups in time: lags in seconds, trends, and when a group has caught up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.engine.log_times import CommitTimes, LogSpan
from k2ktui.engine.moves.groups import Finding, Snapshot
from k2ktui.engine.moves.lags import GroupLag, ReadLogs, measure_lags, sum_group_lags
from k2ktui.engine.moves.ratings import GroupSummary
from k2ktui.engine.trend import Direction
from k2ktui.sync.group_lags import GroupLagReader
from k2ktui.watch.codec import dumps, loads
from k2ktui.watch.model import PartName, View, pause_view
from tests.support.console.views import Made

GROUPS = PartName.GROUPS


class Backlog:
    """A group with a backlog: records come and are read at a steady rate; it commits every 7 s."""

    def __init__(self, *, comes: float = 40.0, reads: float = 90.0, left: float = 12_000) -> None:
        self.made, self.comes, self.reads = Made(), comes, reads
        self.at = self.made.partition("orders", 0, end=500_000)
        self.made.group("billing", self.at, divergence=0)
        self._times, self.began, self._left = CommitTimes(), self.made.now, left

    def written_at(self, offset: float) -> float:
        """Return when a record was written."""
        return self.began + (offset - 500_000) / self.comes

    def poll(self) -> View:
        """Return the view after five seconds."""
        made, since = self.made, self.made.now - self.began
        end = round(500_000 + self.comes * since)
        committed = round(500_000 - self._left + self.reads * (since - since % 7))
        made.ends[self.at] = end
        made.rows = [replace(made.rows[0], source_offset=committed)]
        log, where = LogSpan(0, end, end), ("orders", 0)
        asked = self._times.observe({where: {committed}}, {where: log}, made.now)
        self._times.learn({place: self.written_at(place[2]) for place in asked})
        logs = ReadLogs({where: end}, {}, self._times.times(), made.now)
        made.changed = {GROUPS: {"logs": logs}}
        view = made.view()
        made.now += 5
        return view

    def summary(self, view: View) -> GroupSummary:
        """Return the group of a view."""
        (group,) = view.summaries
        return group


def test_the_age_is_that_of_the_record_and_the_forecast_comes_true() -> None:
    backlog = Backlog()
    view = backlog.poll()
    first = backlog.summary(view)
    assert first.lag_s is not None and first.untimed == 0, "the record's own timestamp"
    assert (first.direction, first.eta_s) == (Direction.UNKNOWN, None)
    for _ in range(11):
        view = backlog.poll()
        group, (row,) = backlog.summary(view), view.groups
        age = view.taken_at - backlog.written_at(row.source_offset or 0)
        assert group.lag_s == pytest.approx(age, rel=0.1)
        assert (row.lag_s, row.lag_records) == (group.lag_s, group.lag)
    assert group.direction is row.direction is Direction.FALLING
    # The rest is read at 50 records a second more than come.
    left = 12_000 - 50 * (view.taken_at - backlog.began)
    assert group.eta_s == pytest.approx(left / 50, rel=0.2)
    assert row.eta_s == pytest.approx(left / 50, rel=0.2)
    assert backlog.made.lags("billing")[-1].lag_records == group.lag
    assert loads(dumps(view)).summaries == view.summaries
    paused = backlog.summary(pause_view(view))
    assert (paused.direction, paused.eta_s, paused.lag_s) == ("unknown", None, group.lag_s)


def test_after_a_move_what_is_read_again_takes_its_time_too() -> None:
    backlog = Backlog()
    backlog.made.rows = [replace(backlog.made.rows[0], reread=4_000)]
    for _ in range(12):
        group = backlog.summary(backlog.poll())
    assert group.eta_s is not None and group.lag is not None and group.moved_rereads == 4_000
    assert group.moved_eta_s == pytest.approx(group.eta_s * (group.lag + 4_000) / group.lag)


@pytest.mark.parametrize(
    ("comes", "direction"), [(40.0, Direction.STEADY), (90.0, Direction.RISING)]
)
def test_a_group_that_does_not_catch_up_has_no_forecast(comes: float, direction: Direction) -> None:
    backlog = Backlog(comes=comes, reads=40.0)
    for _ in range(30):
        group = backlog.summary(backlog.poll())
    assert (group.direction, group.eta_s, group.moved_eta_s) == (direction, None, None)


def test_old_readings_have_no_trend() -> None:
    backlog = Backlog()
    for _ in range(12):
        backlog.poll()
    backlog.made.errors = {GROUPS: "no route"}
    group = backlog.summary(backlog.poll())
    assert (group.direction, group.eta_s) == (Direction.UNKNOWN, None)


def test_the_lag_of_a_group_is_the_sum_and_the_oldest() -> None:
    made = Made()
    for number in range(3):
        made.group("billing", made.partition("orders", number, end=100))
    logs = ReadLogs(
        {("orders", number): 100 for number in range(3)},
        {("orders", 2): 140},
        {("orders", 0): {95: 940.0}, ("orders", 1): {95: float("nan")}},
        1_000.0,
    )
    moved = replace(made.rows[2], finding=Finding.MOVED, target_offset=120)
    rows = [*made.rows[:2], moved, replace(moved, partition=9)]
    lags = measure_lags(rows, logs)
    assert lags[:3] == [GroupLag(5, 60.0), GroupLag(5, None, 1), GroupLag(20)]
    # Two source partitions share the position on the target.
    assert sum_group_lags(rows, lags) == {"billing": GroupLag(30, 60.0, 1)}
    assert measure_lags(made.rows[:1], ReadLogs()) == [GroupLag()]
    caught_up = replace(made.rows[0], source_offset=100)
    assert measure_lags([caught_up], logs) == [GroupLag(0, 0.0)]


def test_a_time_in_the_future_and_a_position_beyond_the_log_say_nothing() -> None:
    made, where = Made(), ("orders", 0)
    made.group("billing", made.partition("orders", 0, end=100))
    logs = ReadLogs({where: 100}, {}, {}, 1_000.0, {where: 110})
    for ahead, lag in ((30.0, GroupLag(5, 0.0)), (90.0, GroupLag(5, None, 1))):
        timed = replace(logs, written={where: {95: logs.at + ahead}})
        assert measure_lags(made.rows, timed) == [lag]
    for offset, lag in ((110, GroupLag(0, 0.0)), (111, GroupLag())):
        assert measure_lags([replace(made.rows[0], source_offset=offset)], logs) == [lag]


def test_while_the_source_is_down_no_lag_is_measured() -> None:
    down = Snapshot("orders", "s", "t", 1.0, 0.0, source_down="no route")
    reader = object.__new__(GroupLagReader)
    assert reader.measure(down, ["billing"]) == {}
