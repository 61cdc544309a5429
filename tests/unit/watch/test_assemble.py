"""What views say of what was read: states, lags, sums; unknown is never zero."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.group_sums import GroupSide, GroupSummary, judge_group, judge_group_row
from k2ktui.engine.moves.groups import Finding
from k2ktui.engine.moves.journal import RunKind, RunnerState
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.state import Gap, SourcePartition
from k2ktui.engine.severity import Severity
from k2ktui.engine.status import HeldBack, PartitionState
from k2ktui.present.view_lines import view_lines
from k2ktui.watch.assemble import Assembler
from k2ktui.watch.codec import dumps, loads
from k2ktui.watch.facts import Facts, MappedSummary, SourceFacts, TargetFacts
from k2ktui.watch.model import LATE_S, Direction, Part, PartitionRow, PartName, PipelinePair, View
from k2ktui.watch.severity import find_problems
from tests.support.console.views import NOON, Made, beside_mirrormaker, usual

AT = SourcePartition("orders", 0)


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
    made = one()
    known = dict(made.facts())
    facts = known[PartName.SOURCE]
    assert isinstance(facts, SourceFacts)

    def seen(age_s: float) -> View:
        held = {AT: HeldBack(12, 1000, 4711, age_s)}
        source = replace(facts, high={AT: 1012}, held_back=held)
        parts = {name: Part(NOON) for name in known}
        return Assembler(PipelinePair("p")).view(NOON, {**known, PartName.SOURCE: source}, parts)

    young, old = seen(59.0), seen(75.0)
    assert (row(young).status.state, row(young).status.held_back) == ("caught-up", 12)
    assert not [p for p in find_problems(young, NOON) if p.kind == "partition"]
    assert row(old).status.state is PartitionState.HELD_BACK
    [problem] = [p for p in find_problems(old, NOON) if p.kind == "partition"]
    assert problem.severity is Severity.WARN
    assert (
        "12 records held back" in problem.message
        and "producer id 4711, 1 m 15 s old" in problem.message
    )
    assert any("held back 12 records" in line for line in view_lines(old, NOON))
    assert loads(dumps(old)).partitions == old.partitions


def test_what_was_not_read_is_unknown() -> None:
    for missing in (PartName.SOURCE, PartName.TARGET):
        made = one(lag=50)
        made.unread = {missing}
        view = made.view()
        status = row(view).status
        assert status.lag_records is None
        assert view.totals.lag_records is None
        assert view.totals.unknown == 1
        assert not [p for p in find_problems(view, NOON) if p.kind == "partition"]


def test_a_partition_without_a_position_is_new() -> None:
    made = one()
    del made.positions[AT]
    status = row(made.view()).status
    assert (status.state, status.position, status.coverage) == ("new", None, 0.0)


def test_records_that_were_deleted_before_they_were_copied() -> None:
    made = one(lag=900)
    made.starts[AT] = 400
    shown = row(made.view())
    assert shown.status.state is PartitionState.LOST
    assert "300 offsets deleted" in shown.why


def test_the_lag_is_of_the_moment_at_which_the_source_was_read() -> None:
    made = one(lag=900)
    known = dict(made.facts())
    source, target = known[PartName.SOURCE], known[PartName.TARGET]
    assert isinstance(source, SourceFacts)
    assert isinstance(target, TargetFacts)
    assembler = Assembler(PipelinePair("x"))

    def status(position: int, source: SourceFacts, error: str = "") -> tuple[object, ...]:
        newer = replace(target, positions={AT: replace(target.positions[AT], offset=position)})
        facts: dict[PartName, Facts] = {PartName.SOURCE: source, PartName.TARGET: newer}
        status = row(assembler.view(NOON, facts, {PartName.SOURCE: Part(NOON, error)})).status
        return (
            status.state,
            status.position,
            status.source_end,
            status.lag_records,
            status.lag_s,
        )

    assert status(100, source) == ("behind", 100, 1000, 900, 3.0)
    # A newer position with the older end would show no lag at all, and then 900 again.
    for position in (1000, 1200):
        assert status(position, source) == ("behind", 100, 1000, 900, 3.0)
    # Without the source the positions continue, and the lag is as it was.
    assert status(1200, source, "no route") == ("behind", 1200, 1200, 900, 3.0)
    unknown = replace(source, positions={})
    assert status(1200, unknown) == ("unknown", 1200, 1200, None, None)
    cut = replace(source, positions={AT: replace(target.positions[AT], offset=1200)})
    assert status(1200, replace(cut, truncated=frozenset({AT})))[0] is PartitionState.LOST


def test_a_position_behind_which_the_log_was_cut_is_a_loss() -> None:
    made = one()
    made.positions[AT] = replace(made.positions[AT], offset=1200)
    known = dict(made.facts())
    source = known[PartName.SOURCE]
    assert isinstance(source, SourceFacts)
    known[PartName.SOURCE] = replace(source, truncated=frozenset({AT}))
    cut = row(Assembler(PipelinePair("x")).view(NOON, known, {}))
    assert cut.status.state is PartitionState.LOST
    assert "200 before the position: it was truncated" in cut.why


def test_a_topic_that_is_gone_or_another() -> None:
    made = one()
    facts = made.facts()
    source = facts[PartName.SOURCE]
    assert isinstance(source, SourceFacts)
    for ids, state in (({}, "gone"), ({"orders": "00" * 16}, "re-created")):
        known = {**facts, PartName.SOURCE: replace(source, topic_ids=ids)}
        view = Assembler(PipelinePair("x")).view(NOON, known, {})
        assert row(view).status.state == state
        assert find_problems(view, NOON)[0].severity is Severity.BAD


def test_a_topic_that_was_deleted_is_a_note() -> None:
    """A pattern selects it, and the source says that it does not exist: no row, no problem."""
    made = one()
    facts = made.facts()
    source, target = facts[PartName.SOURCE], facts[PartName.TARGET]
    assert isinstance(source, SourceFacts) and isinstance(target, TargetFacts)
    source = replace(source, topic_ids={}, partitions=(), deleted=frozenset({"orders"}))
    log = DeletedLog("orders", 0, 1000, 1020, target.positions[AT].topic_id)

    def seen(source: SourceFacts, target: TargetFacts) -> View:
        known = {**facts, PartName.SOURCE: source, PartName.TARGET: target}
        return Assembler(PipelinePair("x")).view(NOON, known, {})

    for logs in ({}, {AT: replace(log, acknowledged="ops")}, {AT: replace(log, offset=7)}):
        view = seen(source, replace(target, deleted=logs))
        assert not view.partitions
        assert not [problem for problem in find_problems(view, NOON) if problem.kind == "partition"]
        assert "1 topic deleted on the source, no longer copied: orders" in view.notes
    finding = seen(source, replace(target, deleted={AT: log}))
    assert row(finding).status.state is PartitionState.GONE
    assert "20 offsets not copied" in row(finding).why and not finding.notes
    assert find_problems(finding, NOON)[0].severity is Severity.BAD
    # Of another cluster than the one on record, it says nothing.
    other = seen(source, replace(target, recorded=ClusterPair("another", "target")))
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
    assert view.totals.rate == 20
    assert view.totals.direction is Direction.FALLING
    assert view.totals.eta_s == 5
    assert [point.lag_records for point in view.points] == [600, 500, 400, 300, 200, 100]


def test_rows_that_did_not_change_are_the_same_objects() -> None:
    made = usual()
    for _ in range(3):
        before = made.view()
        made.now += 5
    now = made.view()
    assert all(a is b for a, b in zip(before.partitions, now.partitions, strict=True))
    made.ends[SourcePartition("clicks", 2)] += 1
    changed = [
        b.key for a, b in zip(now.partitions, made.view().partitions, strict=True) if a is not b
    ]
    assert changed == [("clicks", 2)]


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
    assert judge_group_row(view.groups[0]).severity is Severity.UNKNOWN
    [problem] = [p for p in find_problems(view, NOON) if p.kind == "group"]
    assert (problem.severity, "unknown" in problem.message) == (Severity.UNKNOWN, True)


def test_what_is_bad_once_is_looked_at_again_before_it_is_red() -> None:
    made = one()
    made.group("skips", AT, divergence=7)
    made.group("lost", AT, basis=Basis.UNMAPPED)
    sure = made.view()
    assert sure.settled
    assert {p.subject for p in find_problems(sure, NOON)} == {"skips", "lost"}
    made.rows = [replace(row, finding=Finding.CHECKING) for row in made.rows]
    view = made.view()
    assert not view.settled
    assert not [p for p in find_problems(view, NOON) if p.kind == "group"]
    assert {judge_group_row(row).word for row in view.groups} == {"checking"}
    assert (view.totals.skips, view.totals.diverging) == (0, 0)


def test_records_that_the_target_has_deleted_are_no_fault_of_the_commit() -> None:
    made = one()
    made.group("g", AT, divergence=0)
    made.rows = [replace(row, skipped=9, skipped_now=9) for row in made.rows]
    view = made.view()
    [summary] = view.summaries
    assert (summary.skips, summary.moved_skips, summary.ahead) == (9, 9, 0)
    [problem] = [p for p in find_problems(view, NOON) if p.kind == "group"]
    assert problem.severity is Severity.WARN
    assert "a move skips 9 unread records that the target has deleted" in problem.message
    assert "the source still has them" in problem.message
    text = "\n".join(view_lines(view, NOON))
    assert "as committed now 9 records skipped, 0 re-read; after a move 9 records skipped" in text


def test_problems_come_worst_first() -> None:
    made = usual()
    made.errors[PartName.SOURCE] = "no route"
    view = made.view()
    problems = find_problems(view, NOON)
    assert [p.severity for p in problems] == sorted((p.severity for p in problems), reverse=True)
    assert {p.kind for p in problems} == {"cluster", "group"}
    late = find_problems(view, NOON + 120)
    assert any("no heartbeat" in problem.message for problem in late)


@pytest.mark.parametrize("side", [PartName.SOURCE, PartName.TARGET])
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
    assert view.totals.rate is None and view.totals.eta_s is None
    assert {row.rate for row in view.partitions} == {None}
    assert {row.direction for row in view.partitions} == {Direction.UNKNOWN}
    text = "\n".join(view_lines(view, made.now))
    assert "throughput unknown" in text
    assert re.search(r"lag .*\(old: read 5 s ago\)", text)
    assert re.search(r"partitions .*\(old: read 5 s ago\)", text)


def test_records_held_back_on_a_source_that_is_down_are_old() -> None:
    made = usual()
    at = SourcePartition("clicks", 0)
    made.held[at] = HeldBack(350, made.ends[at], 4711, 75.0)
    text = "\n".join(view_lines(made.view(), NOON))
    assert "held back 350 records by open transactions on 1 partition of the source\n" in text
    made.errors[PartName.SOURCE] = "no route"
    made.now += 400
    text = "\n".join(view_lines(made.view(), made.now))
    assert re.search(r"held back 350 records .* of the source \(old: read 6 m 40 s ago\)", text)


def test_a_part_that_waits_for_long_is_old_and_a_problem() -> None:
    view = usual().view()
    parts = {**view.parts, PartName.SOURCE: Part(NOON, pending_s=LATE_S)}
    view = replace(view, parts=parts)
    assert view.copy_stale and not view.is_current
    assert any("no response for 5 s" in problem.message for problem in find_problems(view, NOON))


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
    text = "\n".join(view_lines(made.view(), made.now))
    assert re.search(r"job running .*\(old: read 10 m 0 s ago\)", text)
    assert "no heartbeat" not in text


def test_lines_say_the_same_and_nothing_hostile() -> None:
    made = usual(PipelinePair("a[/b]\x1b[2J"))
    made.view()
    made.errors[PartName.TARGET] = "no \x1b route"
    text = "\n".join(view_lines(made.view(), NOON))
    assert "\x1b" not in text
    assert "lag 1,200 records, the oldest 3.0 s old" in text
    assert "problem (bad) group billing: on the target it would skip 107 records" in text
    assert "stale: no \\x1b route" in text
    empty = "\n".join(view_lines(Made().view(), NOON))
    assert "lag unknown" in "\n".join(view_lines(_unread().view(), NOON))
    assert "pipeline orders" in empty


def _unread() -> Made:
    made = Made()
    made.unread = set(PartName)
    return made


def test_re_reads_by_us_and_by_mirrormaker_are_said_in_lines() -> None:
    made = beside_mirrormaker()
    text = "\n".join(view_lines(made.view(), NOON + 12))
    assert "k2ktui 0 (partitions: 1 unknown), MirrorMaker 2 mirror->target 4,075 " in text
    assert "(partitions: 2 not translated); read 12 s ago" in text
    assert "billing: k2ktui 0, MirrorMaker 2 4,075" in text
    assert "MirrorMaker 2" not in "\n".join(view_lines(usual().view(), NOON))


def test_a_comparison_that_fails_is_no_fault_of_the_pipeline() -> None:
    made = beside_mirrormaker()
    made.errors = {PartName.COMPARISON: "there is no checkpoints topic"}
    view = made.view()
    [problem] = [p for p in find_problems(view, NOON) if p.subject == "MirrorMaker 2"]
    assert problem.severity is Severity.WARN and "no checkpoints topic" in problem.message
    assert view.whole and view.summaries[1].theirs is None


@pytest.mark.parametrize(
    ("partitions", "missing", "word"),
    [(3, 3, "not moved"), (3, 1, "partly moved"), (3, 0, "in step")],
)
def test_a_group_that_is_committed_on_some_partitions_is_partly_moved(
    partitions: int, missing: int, word: str
) -> None:
    side = GroupSide("Empty", 0)
    group = GroupSummary("g", side, side, partitions, {"exact": partitions}, missing, 0, 0)
    assert judge_group(group).word == word


@pytest.mark.parametrize("members", [2, None])
def test_a_group_that_is_active_on_both_clusters_has_a_state_of_its_own(
    members: int | None,
) -> None:
    """Both sides read every record; in a bidirectional pair, that is no problem."""
    side = GroupSide("Stable", members)
    group = GroupSummary("g", side, side, 3, {"exact": 3}, 0, 0, 0)
    assert (judge_group(group).word, judge_group(group).severity) == ("both active", Severity.WARN)
    assert judge_group(replace(group, ahead=1, skips=7)).word == "skips"
    for one in (replace(group, source=GroupSide("Empty", 0)), replace(group, target=GroupSide())):
        assert judge_group(one).word == "in step"
    view = replace(usual().view(), summaries=(group,))
    (problem,) = (p for p in find_problems(view, NOON) if p.kind == "group")
    assert "active on both clusters" in problem.message and "stopped" in problem.message
    pair = replace(view.pair, bidirectional=True)
    assert not [p for p in find_problems(replace(view, pair=pair), NOON) if p.kind == "group"]


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
    assert [p.message for p in find_problems(view, NOON)] == ["no job is running"]
    line = next(line for line in view_lines(view, NOON) if "job stopped on" in line)
    assert "; sync running on bastion1 as ops, heartbeat" in line
    # Where nothing is copied, its run is the one that counts.
    assert not find_problems(replace(view, runners=(beat,)), NOON)
    silent = replace(beat, at_ms=beat.at_ms - 60_000)
    (bad,) = find_problems(replace(view, runners=(silent,)), NOON)
    assert (bad.severity, bad.key) == (Severity.BAD, "s")
    assert bad.message.startswith("k2ktui sync: no heartbeat for")
