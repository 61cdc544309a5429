"""What a failover now would do, in words, and the same on every surface."""

from __future__ import annotations

import json
from dataclasses import replace

from k2ktui.cli.views import status_object
from k2ktui.console.screens.overview_facts import OverviewFigures
from k2ktui.console.widgets.styled_text import plain
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.records.state import SourcePartition
from k2ktui.present.failover import (
    failover_lines,
    group_cells,
    loss_cells,
)
from k2ktui.present.formatting import UNICODE, Cell
from k2ktui.present.view_lines import view_lines
from k2ktui.watch.model import PartName, View
from k2ktui.watch.once import Reading
from k2ktui.watch.severity import find_problems
from tests.support.console.views import Made, usual


def text(cells: list[Cell]) -> str:
    return "".join(cell.text for cell in cells).strip()


def losing() -> Made:
    """The usual groups; of one, the target has deleted 12 unread records."""
    made = usual()
    made.rows = [
        replace(row, skipped=12) if row.group == "fulfilment" else row for row in made.rows
    ]
    return made


def groups_of(view: View) -> dict[str, int]:
    estimate = view.failover.groups
    assert estimate is not None
    return {
        name: getattr(estimate, name)
        for name in ("safe", "stop_first", "unknown", "unmovable", "losing", "lost_records")
    }


def test_every_group_of_a_view_is_counted() -> None:
    view = losing().view()
    assert groups_of(view) == {
        "safe": 1, "stop_first": 1, "unknown": 0, "unmovable": 1, "losing": 1, "lost_records": 12,
    }  # fmt: skip
    assert sum(list(groups_of(view).values())[:-1]) == len(view.summaries)


def test_it_reads_the_same_in_commands_and_on_the_overview() -> None:
    made = losing()
    view = made.view()
    lines = list(failover_lines(view, made.now + 4))
    assert lines == [
        "If you failed over now: 4 groups: 1 safe to move, 1 to stop first, "
        "1 that cannot be moved, 1 that would lose 12 records",
        "Would lose records by a move: fulfilment (12)",
        "Cannot be moved: archive",
        "To stop first: billing",
        "Not copied (RPO): 1,200 records, the oldest 3.0 s old",
        "Commits of the groups: read 4 s ago",
    ]
    assert any("if you failed over now: 4 groups" in line for line in view_lines(view, made.now))
    assert text(group_cells(view, UNICODE)) == (
        "✗ 1 would lose 12  ✗ 1 cannot move  ▲ 1 to stop first  ● 1 safe to move"
    )
    assert text(loss_cells(view, made.now, UNICODE)) == (
        "1,200 records not copied, oldest 3.0 s  commits <10 s old"
    )
    assert status_object(Reading(view), with_groups=True)["failover"]["groups"]["losing"] == 1


def test_what_is_unknown_is_never_shown_as_zero() -> None:
    made = usual()
    made.unread = {PartName.SOURCE, PartName.GROUPS}
    view = made.view()
    assert text(group_cells(view, UNICODE)) == "…"
    assert text(loss_cells(view, made.now, UNICODE)).startswith("…")
    lines = list(failover_lines(view, made.now))
    assert lines == ["Not copied (RPO): —; unknown for 7 partitions"]


def test_old_figures_look_old() -> None:
    made = usual()
    made.view()
    made.errors = {PartName.SOURCE: "no answer", PartName.GROUPS: "no answer"}
    view = made.view()
    assert "≈ 2 safe to move" in text(group_cells(view, UNICODE))
    assert "≈1,200 records" in text(loss_cells(view, made.now, UNICODE))


def test_a_group_without_a_translation_is_not_called_safe() -> None:
    made = usual()
    made.rows = [row for row in made.rows if row.basis is Basis.UNMAPPED]
    made.source_groups = {"archive": made.source_groups["archive"]}
    assert groups_of(made.view())["safe"] == 0


def test_records_that_the_source_has_deleted_too_are_lost_without_a_failover() -> None:
    made = losing()
    (row,) = {(r.topic, r.partition): r for r in made.rows if r.group == "fulfilment"}.values()
    at = SourcePartition(row.topic, row.partition)
    assert row.source_offset is not None
    made.starts[at] = row.source_offset + 5
    assert groups_of(made.view())["lost_records"] == 7
    (problem,) = (p for p in find_problems(made.view(), made.now) if p.subject == "fulfilment")
    assert "the source still has at least 7 of them" in problem.message
    made.starts[at] = row.source_offset + 40
    assert groups_of(made.view())["losing"] == 0


def test_a_group_of_which_a_move_skips_records_is_never_safe() -> None:
    made = losing()
    assert groups_of(made.view())["safe"] == 1  # reports
    row = next(row for row in made.rows if row.group == "fulfilment")
    assert row.source_offset is not None
    made.starts[SourcePartition(row.topic, row.partition)] = row.source_offset + 40
    view = made.view()
    assert groups_of(view)["safe"] == 1
    estimate = view.failover.groups
    assert estimate is not None and (estimate.lost_already, estimate.gone_records) == (1, 12)
    assert "▲ 1 lost 12 already: fulfilment  " in text(group_cells(view, UNICODE, 1))
    assert any("both clusters have deleted them: fulfilment (12)" in line for line in view_lines(
        view, made.now
    ))  # fmt: skip
    (problem,) = (p for p in find_problems(view, made.now) if p.subject == "fulfilment")
    assert "gone on both clusters" in problem.message and "too" in problem.message
    # Without the source's log it is not known.
    made.errors = {PartName.SOURCE: "no answer"}
    made.forget(PartName.SOURCE)
    view = made.view()
    assert groups_of(view)["losing"] == 1
    (problem,) = (p for p in find_problems(view, made.now) if p.subject == "fulfilment")
    assert "whether the source still has them is not known" in problem.message


def test_as_many_groups_are_named_as_have_room() -> None:
    made = usual()
    at = SourcePartition("payments", 0)
    for number in range(30):
        made.group(f"worker-{number:02}", at, members=1)
    view = made.view()
    assert text(group_cells(view, UNICODE)).count("worker") == 0
    for width in (70, 110, 160):
        lines = OverviewFigures(view, made.now, UNICODE).pair_lines(None, width=width)
        shown = [plain(line) for line in lines]
        assert all(len(line) <= width for line in shown[:2])
        both = " ".join(" ".join(shown[:2]).split())
        assert "31 stop first: billing" in both and " more" in both
        assert "worker-00" in both or width == 70
    whole = plain(OverviewFigures(view, made.now, UNICODE).pair_lines(None)[0])
    assert whole.count("worker") == 30 and "more" not in whole
    sentences = "\n".join(failover_lines(view, made.now))
    assert "To stop first: billing, worker-00" in sentences and "and 11 more" in sentences
    named = status_object(Reading(view), with_groups=True)["failover"]["groups"]["named"]
    assert sum(group["outcome"] == "stop-first" for group in json.loads(json.dumps(named))) == 31
