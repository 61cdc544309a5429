"""What views say of partitions that an operator holds: by whom, and that their lag is no alarm."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.severity import Severity
from k2ktui.present.failover import failover_lines, held_line
from k2ktui.watch.severity import judge_partition
from tests.support.console.views import NOON, Made, lines_of, problems_of
from tests.support.drill.made_drills import switched_over

HOLD = Hold("orders", None, "ann@bastion", int(NOON * 1000) - 3_600_000, "it moves")


def held(*, start: int = 0) -> Made:
    """A held topic of two partitions, one of which lags, and another topic that lags by 5."""
    made = Made(objectives=Objectives(rpo_records=100))
    made.partition("orders", 0, end=90_000, lag=42_000, start=start)
    made.partition("orders", 1, end=500)
    made.partition("payments", 0, end=40_000, lag=5)
    made.holds = Holds([HOLD])
    return made


def test_the_row_says_who_holds_it_since_when_and_why() -> None:
    first, second, other = held().view().partitions
    said = f"{HOLD.describe()}; not copied until k2ktui release"
    assert said.startswith("held by ann@bastion since 20")
    for row in (first, second):
        assert (str(row.status.state), row.why) == ("held", said)
        assert judge_partition(row).severity is Severity.INFO
    assert first.status.lag_records == 42_000, "the row itself still shows it"
    assert (str(other.status.state), other.status.hold, other.why) == ("behind", "", "")


def test_its_lag_is_counted_apart() -> None:
    view = held().view()
    totals = view.totals
    assert (totals.lag_records, totals.lag_seconds, totals.rpo_s) == (5, 3.0, 3.0)
    assert (totals.held_partitions, totals.held_records, totals.held_s) == (2, 42_000, 3.0)
    assert problems_of(view) == []
    assert (view.failover.rpo_records, view.failover.held_records) == (5, 42_000)
    assert view.missed_rpo == []
    apart = "held by operators: 2 partitions, 42,000 records not copied, the oldest 3.0 s old"
    assert held_line(view) == apart and apart in lines_of(view)
    assert "lag 5 records" in lines_of(view)
    said = "Held by operators, and lost besides: 42,000 records of 2 partitions"
    assert said in failover_lines(view, NOON)


def test_after_the_release_it_counts_again() -> None:
    made = held()
    made.view()
    made.holds = Holds([replace(HOLD, partition=1)])
    view = made.view()
    assert (view.totals.lag_records, view.totals.held_records) == (42_005, 0)
    assert [str(row.status.state) for row in view.partitions] == ["behind", "held", "behind"]
    made.holds = Holds()
    view = made.view()
    assert view.totals.held_partitions == 0 and "held by" not in lines_of(view)


def test_what_the_source_deletes_meanwhile_is_a_problem() -> None:
    (problem,) = problems_of(held(start=50_000).view())
    assert problem.severity is Severity.BAD and problem.key == ("orders", 0)
    assert problem.message.startswith("lost: 2,000 offsets deleted on the source before")


def test_after_a_failover_nothing_is_held() -> None:
    made = held()
    made.drills = (switched_over(),)
    view = made.view()
    assert view.totals.states == {"fenced": 3}
    assert (view.totals.held_partitions, view.failover.held_records) == (0, None)
