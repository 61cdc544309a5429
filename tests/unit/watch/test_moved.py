"""What views say of topics that a drill moved to the target: by which, when, and no alarm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from k2ktui.cli.views import status_object
from k2ktui.console.screens.overview_facts import OverviewFigures
from k2ktui.console.screens.partition import coverage, figures
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.moves.groups import Finding
from k2ktui.engine.moves.ratings import GroupSide, Rating, rate_group
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic, MovedTopics
from k2ktui.engine.severity import Severity
from k2ktui.engine.status import HeldBack
from k2ktui.fleet.model import make_row
from k2ktui.present.failover import NOTHING_LEFT, failover_lines
from k2ktui.present.fleet import fleet_columns
from k2ktui.present.formatting import WORDS
from k2ktui.present.pair_state import RETIRE, moved_lines
from k2ktui.watch.model import View
from k2ktui.watch.once import Reading
from k2ktui.watch.severity import judge_partition
from tests.support.console.views import NOON, Made, lines_of, problems_of

DRILL = "20261121-101500-3f2a"
MOVE = MovedTopic("orders", "orders", DRILL, int(NOON * 1000) - 3_600_000, "ann@bastion")
PAYMENTS = replace(MOVE, topic="payments", target="payments", drill="20261122-080000-77aa")


def moved(*, start: int = 0) -> Made:
    """A moved topic of two partitions, one of which lags, and another topic that lags by 5."""
    made = Made(objectives=Objectives(rpo_records=100))
    first = made.partition("orders", 0, end=90_000, lag=42_000, start=start)
    made.partition("orders", 1, end=500)
    other = made.partition("payments", 0, end=40_000, lag=5)
    made.held = {first: HeldBack(7, 90_000, 1, 900.0)}
    made.moved = MovedTopics([MOVE])
    made.group("billing", other, divergence=0)
    return made


def test_the_row_says_which_drill_moved_it_and_when() -> None:
    first, second, other = moved().view().partitions
    for row in (first, second):
        assert (str(row.status.state), row.status.moved_by) == ("moved", DRILL)
        assert row.status.moved_at == NOON - 3600
        assert row.why.startswith(f"moved to the target by drill {DRILL} at 20")
        assert judge_partition(row).severity is Severity.INFO
        assert (row.status.lag_records, row.status.lag_s, row.status.coverage) == (None,) * 3
        assert row.status.held is None, "what the source holds back is the past"
    assert first.status.position == 48_000, "from where a failback would go on"
    assert (str(other.status.state), other.status.moved_by) == ("behind", "")


def test_it_is_in_no_sum_and_no_alarm() -> None:
    view = moved(start=50_000).view()  # retention has passed the position
    totals = view.totals
    assert (totals.lag_records, totals.lag_seconds, totals.rpo_s, totals.unknown) == (
        5,
        3.0,
        3.0,
        0,
    )
    assert (totals.moved_topics, totals.moved_partitions, totals.partitions) == (1, 2, 3)
    assert totals.states == {"behind": 1, "moved": 2}
    assert totals.coverage == 39_995 / 40_000
    assert problems_of(view) == [] and view.missed_rpo == []
    assert view.failover.rpo_records == 5 and view.failover.unknown_partitions == 0
    assert view.moved_topics == {DRILL: ("orders",)} and not view.is_left
    said = f"moved to the target: 1 topic by drill {DRILL}: orders"
    assert list(moved_lines(view)) == [said] and said in lines_of(view)


def test_after_the_release_it_counts_again() -> None:
    made = moved()
    made.view()
    made.moved = NO_MOVED_TOPICS
    view = made.view()
    assert (view.totals.lag_records, view.totals.moved_topics) == (42_005, 0)
    assert [str(row.status.state) for row in view.partitions] == ["behind", "caught-up", "behind"]
    assert view.moved_topics == {} and "moved to the target" not in lines_of(view)


def test_a_moved_topic_may_be_deleted_and_is_held_no_longer() -> None:
    made = moved()
    made.deleted = frozenset({"orders"})
    made.holds = Holds([Hold("orders", None, "ann@bastion", int(NOON * 1000))])
    view = made.view()
    assert view.totals.states == {"behind": 1, "moved": 2} and view.notes == ()
    assert view.totals.held_partitions == 0 and view.partitions[0].status.hold == ""
    assert problems_of(view) == []


def test_groups_on_it_live_on_the_target() -> None:
    made = moved()
    at = made.partition("orders", 1, end=500)
    made.group("billing", at, divergence=-70)
    row = replace(made.rows[-1], finding=Finding.MOVED, divergence=None, moved_by=DRILL)
    made.rows[-1] = replace(row, reread=None, skipped=None, reread_now=None, skipped_now=None)
    view = made.view()
    (billing,) = view.summaries
    assert (billing.moved, billing.moved_with_topic, billing.behind) == (1, 1, 0)
    assert (view.totals.diverging, view.totals.rereads, view.totals.commit_coverage) == (0, 0, 1.0)
    assert view.totals.bases == {"exact": 1}
    assert billing.rating.severity is Severity.OK
    # It may run on both clusters: some of its topics are still read on the source.
    active = GroupSide("Stable", 1)
    rows = [replace(row, state_source="Stable", state_target="Stable") for row in view.groups]
    assert rate_group(rows, active, active).severity is Severity.OK
    of_others = [replace(row, moved_by="") for row in rows]
    assert rate_group(of_others, active, active) is Rating.BOTH_ACTIVE


def test_its_panel_says_that_it_has_moved_and_nothing_of_lag_and_coverage() -> None:
    first, _, other = moved().view().partitions
    said, of_other = (
        "\n".join(
            "".join(cell.text for cell in line)
            for line in (*figures(row, WORDS), *coverage(row, 80, WORDS))
        )
        for row in (first, other)
    )
    (line,) = (line for line in said.splitlines() if line.startswith("Moved"))
    assert f"to the target by drill {DRILL} at 20" in line
    for name in ("Lag", "Coverage", "Why"):
        assert name not in said
    assert "Lag" in of_other and "Coverage" in of_other and "Moved" not in of_other


def test_overview_has_no_failover_when_every_topic_has_moved() -> None:
    def said(view: View) -> str:
        figures = OverviewFigures(view, NOON, WORDS)
        pair = figures.pair_lines(None)
        tile, severity = figures.failover_tile((60, 4))
        texts = ["".join(cell.text for cell in line) for line in (*pair, *tile)]
        assert severity is None or not view.is_left
        return "\n".join([figures.failover_title(), *texts])

    made = moved()
    assert "RPO" in said(made.view()) and "Rehearsal" in said(made.view())
    made.moved = MovedTopics([MOVE, PAYMENTS])
    left = said(made.view())
    assert NOTHING_LEFT in left and RETIRE in left
    assert "now" not in left.splitlines()[0]
    for name in ("RPO", "Rehearsal"):
        assert name not in left


def test_when_every_topic_has_moved_the_pipeline_can_be_retired() -> None:
    made = moved()
    made.moved = MovedTopics([MOVE, PAYMENTS])
    made.running = False
    view = made.view()
    assert view.is_left and view.totals.lag_records is None and view.totals.unknown == 0
    assert list(moved_lines(view))[-1] == RETIRE and RETIRE in lines_of(view)
    assert [line.split(" by drill ")[1] for line in list(moved_lines(view))[:2]] == [
        f"{DRILL}: orders",
        f"{PAYMENTS.drill}: payments",
    ]
    assert "lag none that counts" in lines_of(view)
    assert list(failover_lines(view, NOON)) == [NOTHING_LEFT[0].upper() + NOTHING_LEFT[1:]]
    assert NOTHING_LEFT in lines_of(view) and "RPO" not in lines_of(view)
    assert "RPO" in lines_of(moved().view())
    assert problems_of(view) == [], "that no job runs is no problem any more"
    made.moved = MovedTopics([MOVE])
    assert [p.message for p in problems_of(made.view())] == ["no job is running"]


def test_status_says_it_in_json() -> None:
    value = status_object(Reading(moved().view()))
    assert value["moved_topics"] == {DRILL: ["orders"]} and value["can_be_retired"] is False
    assert [row["moved_by"] for row in value["partitions"]] == [DRILL, DRILL, ""]
    assert value["partitions"][0]["moved_at"] == NOON - 3600


def test_a_row_of_the_fleet_names_what_is_held_and_what_has_moved(tmp_path: Path) -> None:
    made = moved()
    made.partition("clicks", 0, end=9)
    made.partition("clicks", 1, end=9)
    made.holds = Holds(
        [
            Hold("payments", None, "ann@bastion", int(NOON * 1000)),
            Hold("clicks", 1, "ann@bastion", int(NOON * 1000)),
        ]
    )
    row = make_row(tmp_path / "p.yaml", made.view(), None)
    value = row.as_json()
    assert value["held"] == ["clicks:1", "payments"]
    assert value["moved_topics"] == {DRILL: ["orders"]} and value["can_be_retired"] is False
    problem = next(c for c in fleet_columns(WORDS, lambda: NOON) if c.id == "problem")
    assert problem.cell(row).text == "held: clicks:1, payments; moved: orders"
    made.holds, made.running = Holds(), False
    made.moved = MovedTopics([MOVE, PAYMENTS, replace(MOVE, topic="clicks")])
    row = make_row(tmp_path / "p.yaml", made.view(), None)
    assert (row.run.word, row.severity) == ("moved", Severity.OK)
    assert "it can be retired" in problem.cell(row).text
