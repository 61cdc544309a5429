"""What a view says when the pair has failed over: nothing of the past is a loss."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import Drill, DrillFigures
from k2ktui.engine.drill.tail import PartitionEnd
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.ratings import Rating, rate
from k2ktui.engine.severity import Severity
from k2ktui.present.failover import failover_lines
from k2ktui.watch.model import View
from tests.support.console.views import NOON, Made, lines_of, problems_of
from tests.support.drill.made_drills import NOON_MS, new_drill, switched_over


def busy() -> Made:
    """A pair whose groups have read on the target since, and whose old pipeline has ended."""
    made = Made(running=False)
    first = made.partition("orders", 0, end=90_000, lag=42_747)
    second = made.partition("orders", 1, end=40_000)
    made.group("billing", first, divergence=7_290)
    made.group("billing", second, divergence=0)
    made.group("search", second, basis=Basis.UNMAPPED)
    made.rows[-1] = replace(made.rows[-1], target_offset=40_007, state_target="Stable")
    return made


def failed_over(drill: Drill | None = None) -> View:
    made = busy()
    made.drills = (drill or switched_over(),)
    return made.view()


def test_before_the_drill_the_same_facts_are_problems() -> None:
    words = {problem.message for problem in problems_of(busy().view())}
    assert any("it would skip 7,290" in word for word in words)


def test_nothing_says_that_records_are_lost() -> None:
    view = failed_over()
    assert problems_of(view) == []
    assert {summary.rating for summary in view.summaries} == {Rating.MOVED}
    assert {rate(row) for row in view.groups} == {Rating.MOVED}
    groups = view.failover.groups
    assert groups is not None and (groups.moved, groups.total, groups.lost_records) == (2, 2, 0)
    assert (view.failover.rpo_records, view.failover.failed_over) == (0, True)
    totals = view.totals
    assert (totals.lag_records, totals.skips, totals.diverging, totals.unknown) == (None, 0, 0, 0)
    assert totals.states == {"fenced": 2}
    text = lines_of(view)
    assert "7,290" not in text and "42,747" not in text
    assert text.splitlines()[0].endswith("; this pipeline is fenced")
    assert "RPO: 0 records missing when it was opened" in text
    assert view.again[0].unknown == 0


def test_the_lag_of_a_moved_group_is_that_on_the_target() -> None:
    [billing] = [summary for summary in failed_over().summaries if summary.group == "billing"]
    # The target ends at 47,260 and at 40,007; the group has committed 97,292 and 40,002 there.
    assert billing.lag == 5


def test_a_disaster_keeps_what_is_known_to_be_missing() -> None:
    drill = switched_over()
    figures = DrillFigures(rpo_at_least=10, silent_s=12.0, opened_ms=NOON_MS - 60_000)
    view = failed_over(replace(drill, figures=figures))
    assert (view.failover.rpo_records, view.failover.rpo_at_least) == (None, 10)
    lines = list(failover_lines(view, NOON))
    assert lines[0] == "Groups: 2 groups: 2 moved"
    assert lines[1].startswith("RPO: at least 10 records missing when it was opened")


def test_a_group_that_would_read_again_or_was_not_moved_is_still_shown() -> None:
    made = busy()
    at = made.partition("orders", 2, end=500)
    made.group("late", at, divergence=-40)
    made.group("left", at)
    made.drills = (switched_over(),)
    words = {summary.group: summary.rating for summary in made.view().summaries}
    assert words["late"].word == "re-reads" and words["late"].severity is Severity.WARN
    assert words["left"].word == "not moved"


def test_what_came_from_the_other_side_is_no_loss_of_the_reverse_pipeline() -> None:
    made = Made()
    made.partition("orders", 0, end=1_280_000, lag=1_279_990)
    made.partition("orders", 1, end=500, lag=20)
    there = replace(
        switched_over(),
        source_cluster="CHbS4_THSQ-SqJF5kYBYBA",
        target_cluster="lQmMYe12RG21HTTP1Fo2zw",
        opened_ends=(PartitionEnd("orders", 0, 1_279_997), PartitionEnd("orders", 1, 470)),
    )
    made.opposite = (there,)
    view = made.view()
    assert view.totals.lag_records == 1_280_010
    assert view.failover.rpo_records == 3 + 20
    assert view.failover.rpo_s == 3.0  # of the partition that is past what the drill found
    assert view.pair_state.drill == there.id and not view.pair_state.moved
    # A drill between other clusters says nothing of this pair.
    made.opposite = (replace(there, target_cluster="another"),)
    assert made.view().failover.rpo_records == 1_280_010
    # Nor does that of another pipeline between the same clusters.
    made.opposite = (replace(there, opened_ends=(PartitionEnd("payments", 0, 10**9),)),)
    assert made.view().failover.rpo_records == 1_280_010


def test_a_failback_that_has_opened_nothing_yet_is_known_by_the_name_of_its_pipeline() -> None:
    made = busy()
    made.drills = (switched_over(),)
    back = replace(
        new_drill(DrillKind.FAILBACK),
        pipeline="orders-reverse",
        source_cluster="CHbS4_THSQ-SqJF5kYBYBA",
        target_cluster="lQmMYe12RG21HTTP1Fo2zw",
    )
    made.opposite = (back,)
    assert made.view().pair_state.phase == "failing back"
    made.opposite = (replace(back, pipeline="payments-reverse"),)
    assert made.view().pair_state.phase == "failed over"
