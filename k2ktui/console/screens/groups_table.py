"""The tables of consumer groups and of group-partitions."""

from __future__ import annotations

from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.groups import GroupRow
from k2ktui.present.formatting import Glyphs
from k2ktui.present.groups import row_columns, summary_columns
from k2ktui.watch.model import GroupSummary
from k2ktui.watch.severity import Severity, judge_group, judge_group_row


def summary_grid(glyphs: Glyphs, *, compared: bool = False) -> Grid[GroupSummary]:
    """Return a table of groups."""
    return Grid(
        summary_columns(glyphs, compared=compared),
        key=lambda group: group.group,
        search=lambda group: f"{group.group} {judge_group(group).word} {group.source.state}",
        problem=lambda group: judge_group(group).severity >= Severity.WARN,
        order=lambda group: (-judge_group(group).severity, -group.skips, group.group),
        id="summaries",
    )


def row_grid(glyphs: Glyphs, *, with_group: bool = True) -> Grid[GroupRow]:
    """Return a table of group-partitions."""
    columns = row_columns(glyphs)
    return Grid(
        columns if with_group else columns[1:],
        key=lambda row: (
            *(row.group, row.topic, row.partition),
            *(row.target_topic, row.target_partition),
        ),
        search=lambda row: (
            f"{row.group} {row.topic}-{row.partition} {judge_group_row(row).word} {row.basis}"
        ),
        problem=lambda row: judge_group_row(row).severity >= Severity.WARN,
        order=lambda row: (-judge_group_row(row).severity, row.group, row.topic, row.partition),
        id="rows",
    )
