"""What views say of what was read: states, lags, sums; unknown is never zero."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import Finding, GroupView
from k2ktui.engine.moves.journal import RunKind, RunnerState
from k2ktui.engine.moves.ratings import Rating, rate
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.state import Gap, SourcePartition
from k2ktui.engine.severity import Severity
from k2ktui.engine.status import HeldBack, PartitionState
from k2ktui.engine.trend import Direction
from k2ktui.watch.codec import dumps, loads
from k2ktui.watch.facts import MappedSummary
from k2ktui.watch.model import LATE_S, Part, PartitionRow, PartName, PipelinePair, View
from tests.support.console.views import (
    NOON,
    Made,
    beside_mirrormaker,
    lines_of,
    problems_of,
    usual,
)

AT = SourcePartition("orders", 0)
SOURCE, TARGET = PartName.SOURCE, PartName.TARGET


def one(**partition: int) -> Made:
    made = Made()
    made.partition("orders", 0, **{"end": 1000, **partition})
    return made


def row(view: View) -> PartitionRow:
    [partition] = view.partitions
    return partition


def test_lag_and_state_of_a_partition() -> None:
    assert row(one().view()).status.state is PartitionState.CAUGHT_UP
    behind = row(one(lag=50).view()).status
    assert (behind.state, behind.lag_records, behind.lag_s) == ("behind", 50, 3.0)
    assert (behind.position, behind.source_end, behind.target_end) == (950, 1000, 957)


def test_an_open_transaction_is_not_caught_up() -> None:
    def seen(age_s: float) -> View:
        made = one()
        made.held = {AT: HeldBack(12, 1000, 4711, age_s)}
        return made.view()

    young, old = seen(59.0), seen(75.0)
    assert (row(young).status.state, row(young).status.held_back) == ("caught-up", 12)
    assert not problems_of(young, "partition")
    assert row(old).status.state is PartitionState.HELD_BACK
    [problem] = problems_of(old, "partition")
    assert problem.severity is Severity.WARN and "12 records held back" in problem.message
    assert "producer id 4711, 1 m 15 s old" in problem.message
    assert "held back 12 records" in lines_of(old)
    assert loads(dumps(old)).partitions == old.partitions


def test_what_was_not_read_is_unknown() -> None:
    for missing in (SOURCE, TARGET):
        made = one(lag=50)
        made.unread = {missing}
        view = made.view()
        assert row(view).status.lag_records is None
        assert (view.totals.lag_records, view.totals.unknown) == (None, 1)
        assert not problems_of(view, "partition")


def test_a_partition_without_a_position_is_new() -> None:
    made = one()
    del made.positions[AT]
    status = row(made.view()).status
    assert (status.state, status.position, status.coverage) == ("new", None, 0.0)


def test_records_that_were_deleted_before_they_were_copied() -> None:
    made = one(lag=900, start=400)
    shown = row(made.view())
    assert shown.status.state is PartitionState.LOST
    assert "300 offsets deleted" in shown.why


def test_the_lag_is_of_the_moment_at_which_the_source_was_read() -> None:
    made = one(lag=900)
    paired = dict(made.positions)

    def status(position: int, **source: object) -> tuple[object, ...]:
        made.positions[AT] = replace(made.positions[AT], offset=position)
        made.changed = {SOURCE: {"positions": paired, "ages": {AT: 3.0}, **source}}
        shown = row(made.view()).status
        return shown.state, shown.position, shown.source_end, shown.lag_records, shown.lag_s

    assert status(100) == ("behind", 100, 1000, 900, 3.0)
    # A newer position with the older end would show no lag at all, and then 900 again.
    for position in (1000, 1200):
        assert status(position) == ("behind", 100, 1000, 900, 3.0)
    # Without the source the positions continue, and the lag is as it was.
    made.errors = {SOURCE: "no route"}
    assert status(1200) == ("behind", 1200, 1200, 900, 3.0)
    made.errors = {}
    assert status(1200, positions={}) == ("unknown", 1200, 1200, None, None)
    cut = {"positions": {AT: replace(paired[AT], offset=1200)}, "truncated": frozenset({AT})}
    assert status(1200, **cut)[0] is PartitionState.LOST


def test_a_position_behind_which_the_log_was_cut_is_a_loss() -> None:
    made = one()
    made.positions[AT] = replace(made.positions[AT], offset=1200)
    made.changed = {SOURCE: {"truncated": frozenset({AT})}}
    cut = row(made.view())
    assert cut.status.state is PartitionState.LOST
    assert "200 before the position: it was truncated" in cut.why


def test_a_topic_that_is_gone_or_another() -> None:
    for ids, state in (({}, "gone"), ({"orders": "00" * 16}, "re-created")):
        made = one()
        made.changed = {SOURCE: {"topic_ids": ids}}
        view = made.view()
        assert row(view).status.state == state
        assert problems_of(view)[0].severity is Severity.BAD


def test_a_topic_that_was_deleted_is_a_note() -> None:
    """A pattern selects it, and the source says that it does not exist: no row, no problem."""
    made = one()
    made.deleted = frozenset({"orders"})
    log = DeletedLog("orders", 0, 1000, 1020, made.positions[AT].topic_id)

    def seen(**target: object) -> View:
        made.changed = {SOURCE: {"partitions": ()}, TARGET: target}
        return made.view()

    for logs in ({}, {AT: replace(log, acknowledged="ops")}, {AT: replace(log, offset=7)}):
        view = seen(deleted=logs)
        assert not view.partitions and not problems_of(view, "partition")
        assert "1 topic deleted on the source, no longer copied: orders" in view.notes
    finding = seen(deleted={AT: log})
    assert row(finding).status.state is PartitionState.GONE
    assert "20 offsets not copied" in row(finding).why and not finding.notes
    assert problems_of(finding)[0].severity is Severity.BAD
    # Of another cluster than the one on record, it says nothing.
    other = seen(recorded=ClusterPair("another", "target"))
    assert row(other).status.state is PartitionState.GONE


def test_coverage_leaves_out_gaps_and_holes() -> None:
    made = one()
    made.positions[AT] = replace(made.positions[AT], gaps=(Gap(100, 200, "truncated"),))
    made.mapped[AT] = MappedSummary(700, 50, ((300, 310),))
    shown = row(made.view())
    assert shown.spans == ((50, 100), (200, 300), (310, 1000))
    assert shown.gaps == ((100, 200),)
    # What is not copied yet lowers the coverage, but it is not unmapped.
    assert (shown.status.lag_records, shown.status.unmapped) == (0, 150)
    assert row(one(lag=600).view()).status.unmapped == 0


def test_rates_trends_and_time_to_catch_up() -> None:
    made = one(lag=600)
    for _ in range(6):
        view = made.view()
        made.now += 5
        old = made.positions[AT]
        made.positions[AT] = replace(old, offset=old.offset + 100)
    totals = view.totals
    assert (totals.rate, totals.direction, totals.eta_s) == (20, Direction.FALLING, 5)
    assert [point.lag_records for point in view.points] == [600, 500, 400, 300, 200, 100]


def test_groups_are_summed_up() -> None:
    view = usual().view()
    by_name = {group.group: group for group in view.summaries}
    assert (by_name["billing"].skips, by_name["reports"].rereads) == (107, 40)
    assert by_name["fulfilment"].missing == 1
    assert (view.totals.diverging, view.totals.skips, view.totals.rereads) == (2, 107, 40)
    assert by_name["billing"].lag == 10


def test_a_divergence_that_is_unknown_is_no_all_clear() -> None:
    made = one()
    made.group("g", AT, divergence=0)
    made.rows = [replace(row, divergence=None) for row in made.rows]
    view = made.view()
    assert rate(view.groups[0]) is Rating.UNKNOWN
    [problem] = problems_of(view, "group")
    assert problem.severity is Severity.UNKNOWN and "unknown" in problem.message


def test_what_is_bad_once_is_looked_at_again_before_it_is_red() -> None:
    made = one()
    made.group("skips", AT, divergence=7)
    made.group("lost", AT, basis=Basis.UNMAPPED)
    sure = made.view()
    assert sure.settled and {p.subject for p in problems_of(sure)} == {"skips", "lost"}
    made.rows = [replace(row, finding=Finding.CHECKING) for row in made.rows]
    view = made.view()
    assert not view.settled and not problems_of(view, "group")
    assert {rate(row) for row in view.groups} == {Rating.CHECKING}
    assert (view.totals.skips, view.totals.diverging) == (0, 0)


def test_records_that_the_target_has_deleted_are_no_fault_of_the_commit() -> None:
    made = one()
    made.group("g", AT, divergence=0)
    made.rows = [replace(row, skipped=9, skipped_now=9) for row in made.rows]
    view = made.view()
    [summary] = view.summaries
    assert (summary.skips, summary.moved_skips, summary.ahead) == (9, 9, 0)
    [problem] = problems_of(view, "group")
    assert problem.severity is Severity.WARN
    assert "a move skips 9 unread records that the target has deleted" in problem.message
    assert "the source still has them" in problem.message
    said = "as committed now 9 records skipped, 0 re-read; after a move 9 records skipped"
    assert said in lines_of(view)


def test_problems_come_worst_first() -> None:
    made = usual()
    made.errors[SOURCE] = "no route"
    view = made.view()
    problems = problems_of(view)
    assert [p.severity for p in problems] == sorted((p.severity for p in problems), reverse=True)
    assert {p.kind for p in problems} == {"cluster", "group"}
    assert any("no heartbeat" in problem.message for problem in problems_of(view, now=NOON + 120))


@pytest.mark.parametrize("side", [SOURCE, TARGET])
def test_rates_of_a_side_that_is_down_are_unknown(side: PartName) -> None:
    made = usual()
    for _ in range(5):
        made.now += 5
        made.copy(500)
        view = made.view()
    assert view.totals.rate and view.is_current
    made.errors[side] = "no route"
    made.now += 5
    made.copy(500)
    view = made.view()
    assert view.copy_stale and not view.is_current
    assert (view.totals.rate, view.totals.eta_s) == (None, None)
    rates = {(row.rate, row.direction) for row in view.partitions}
    assert rates == {(None, Direction.UNKNOWN)}
    text = lines_of(view, made.now)
    assert "throughput unknown" in text
    assert re.search(r"lag .*\(old: read 5 s ago\)", text)
    assert re.search(r"partitions .*\(old: read 5 s ago\)", text)


def test_records_held_back_on_a_source_that_is_down_are_old() -> None:
    made = usual()
    at = SourcePartition("clicks", 0)
    made.held[at] = HeldBack(350, made.ends[at], 4711, 75.0)
    said = "held back 350 records by open transactions on 1 partition of the source"
    assert f"{said}\n" in lines_of(made.view())
    made.errors[SOURCE] = "no route"
    made.now += 400
    assert f"{said} (old: read 6 m 40 s ago)" in lines_of(made.view(), made.now)


def test_a_part_that_waits_for_long_is_old_and_a_problem() -> None:
    view = usual().view()
    parts = {**view.parts, SOURCE: Part(NOON, pending_s=LATE_S)}
    view = replace(view, parts=parts)
    assert view.copy_stale and not view.is_current
    assert any("no response for 5 s" in problem.message for problem in problems_of(view))


def test_only_what_was_read_whole_and_is_current_has_no_problem() -> None:
    made = usual()
    assert made.view().is_current
    made.errors[PartName.STATE] = "no route"
    assert not made.view().is_current
    assert not _unread().view().is_current
    assert not replace(usual().view(), source_down="no route").is_current


def test_a_heartbeat_that_cannot_be_read_is_no_silence() -> None:
    made = usual()
    made.view()
    made.errors[PartName.STATE] = "no route"
    made.now += 600
    text = lines_of(made.view(), made.now)
    assert re.search(r"job running .*\(old: read 10 m 0 s ago\)", text)
    assert "no heartbeat" not in text


def test_lines_say_the_same_and_nothing_hostile() -> None:
    made = usual(PipelinePair("a[/b]\x1b[2J"))
    made.view()
    made.errors[TARGET] = "no \x1b route"
    text = lines_of(made.view())
    assert "\x1b" not in text
    assert "lag 1,200 records, the oldest 3.0 s old" in text
    assert "problem (bad) group billing: on the target it would skip 107 records" in text
    assert "stale: no \\x1b route" in text
    assert "lag unknown" in lines_of(_unread().view())
    assert "pipeline orders" in lines_of(Made().view())


def _unread() -> Made:
    return Made(unread=set(PartName))


def test_re_reads_by_us_and_by_mirrormaker_are_said_in_lines() -> None:
    text = lines_of(beside_mirrormaker().view(), NOON + 12)
    assert "k2ktui 0 (partitions: 1 unknown), MirrorMaker 2 mirror->target 4,075 " in text
    assert "(partitions: 2 not translated); read 12 s ago" in text
    assert "billing: k2ktui 0, MirrorMaker 2 4,075" in text
    assert "MirrorMaker 2" not in lines_of(usual().view())


def test_a_comparison_that_fails_is_no_fault_of_the_pipeline() -> None:
    made = beside_mirrormaker()
    made.errors = {PartName.COMPARISON: "there is no checkpoints topic"}
    view = made.view()
    [problem] = [p for p in problems_of(view) if p.subject == "MirrorMaker 2"]
    assert problem.severity is Severity.WARN and "no checkpoints topic" in problem.message
    assert view.whole and view.summaries[1].theirs is None


@pytest.mark.parametrize("members", [2, None])
def test_a_group_that_is_active_on_both_clusters_has_a_state_of_its_own(
    members: int | None,
) -> None:
    """Both sides read every record; in a bidirectional pair, that is no problem."""
    made = one()
    made.group("g", AT, divergence=0)
    made.source_groups["g"] = made.target_groups["g"] = GroupView("Stable", members)
    view = made.view()
    (problem,) = problems_of(view, "group")
    assert problem.severity is Severity.WARN
    assert "active on both clusters" in problem.message and "stopped" in problem.message
    pair = replace(view.pair, bidirectional=True)
    assert not problems_of(replace(view, pair=pair), "group")


def test_the_ranges_of_a_view_end_at_its_position() -> None:
    """Mappings are read at another moment than positions, and may be ahead."""
    made = usual()
    at = SourcePartition("payments", 0)
    ranges = tuple((30_000 + 1000 * n, 30_007 + 1000 * n, 1000) for n in range(20))
    made.mapped[at] = replace(made.mapped[at], ranges=(*ranges[:9], (39_000, 39_007, 1500)))
    (row,) = (row for row in made.view().partitions if row.key == ("payments", 0))
    assert row.ranges == (*ranges[2:9], (39_000, 39_007, 1000))


def test_a_run_of_sync_is_no_run_of_the_pipeline() -> None:
    made = one()
    made.running = False
    view = made.view()
    (copying,) = view.runners
    beat = replace(copying, runner="s", kind=RunKind.SYNC, state=RunnerState.RUNNING)
    view = replace(view, runners=(beat, copying))
    assert loads(dumps(view)).runners == view.runners
    assert [p.message for p in problems_of(view)] == ["no job is running"]
    line = next(line for line in lines_of(view).splitlines() if "job stopped on" in line)
    assert "; sync running on bastion1 as ops, heartbeat" in line
    # Where nothing is copied, its run is the one that counts.
    assert not problems_of(replace(view, runners=(beat,)))
    silent = replace(beat, at_ms=beat.at_ms - 60_000)
    (bad,) = problems_of(replace(view, runners=(silent,)))
    assert (bad.severity, bad.key) == (Severity.BAD, "s")
    assert bad.message.startswith("k2ktui sync: no heartbeat for")
