"""What a failover now would do, in words, and the same on every surface."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.cli.status import status_object
from k2ktui.engine.state import SourcePartition
from k2ktui.engine.translate import Basis
from k2ktui.present.failover import failover_lines, group_cells, loss_cells
from k2ktui.present.formatting import UNICODE, Cell
from k2ktui.present.view_lines import view_lines
from k2ktui.watch.model import PartName, View
from k2ktui.watch.once import Reading
from tests.support.views import Made, usual


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
    found = view.failover.groups
    assert found is not None
    return {
        name: getattr(found, name)
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
    lines = list(failover_lines(view.failover, made.now + 4))
    assert lines == [
        "If you failed over now: 4 groups: 1 safe to move, 1 to stop first, "
        "1 that cannot be moved, 1 that would lose 12 records",
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
    lines = list(failover_lines(view.failover, made.now))
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
    made.starts[at] = row.source_offset + 40
    assert groups_of(made.view())["losing"] == 0
