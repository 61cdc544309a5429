"""Screen 3: consumer groups on both clusters, their right positions, and how far off they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console.screens.audit import AuditScreen
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.group_detail import GroupDetail
from k2ktui.console.screens.group_reset import ResetScreen, reset_group
from k2ktui.console.screens.groups_table import (
    bar_width,
    group_columns,
    position_columns,
    row_grid,
    row_key,
    scale_of,
    summary_grid,
)
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.screens.records import RecordsScreen
from k2ktui.console.screens.translate import plan_groups
from k2ktui.console.visuals.panel import Panel, is_wide
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.ratings import GroupSummary, Rating, rate
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.groups import stale_group_columns
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartName, View

_TRANSLATE = Binding("T", "translate", "Translate", id="groups.translate")
_AUDIT = Binding("m", "audit", "Audit", id="groups.audit")


# What is said of a table without rows.
_NO_GROUP = "Groups appear here once they commit on replicated topics."
_NO_POSITION = "The group has no committed offset of what is replicated."
# The edge and the heading of a table, the least lines of the panel below it, and those of the
# screen's frame.
_ABOVE_ROWS, _LEAST_SIDE, _FRAME = 2, 9, 4


class _GroupTable(ListScreen):
    """A table of groups or of their partitions, with a panel about a group beside it."""

    ENTRY: ClassVar[str] = "groups"

    def __init__(self) -> None:
        super().__init__()
        # The end of the bars' scale, and what the columns were made for.
        self._scale = 1
        self._width, self._compares = 0, False

    def columns(self) -> tuple[Column[Any], ...]:
        """Return the columns of the table."""
        raise NotImplementedError

    def grid(self) -> Grid[Any]:
        """The table."""
        return self.query_one(Grid)

    def largest(self) -> int:
        """Return the end of the bars' scale."""
        return self._scale

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the group under the cursor."""
        yield Panel("Group", GroupDetail(), id="side")

    def on_resize(self) -> None:
        """Draw the bars for the new width; Textual calls the base's handler, too."""
        if self._width != bar_width(self.size.width):
            self._width = bar_width(self.size.width)
            self.grid().show_columns(self.columns())

    def show_rows(self, view: View, rows: Sequence[Any], empty: str) -> None:
        """Show rows of a view, and the group under the cursor."""
        grid, scale = self.grid(), scale_of(view)
        if self._compares != view.compares:
            self._compares = view.compares
            self.refresh_bindings()
            grid.show_columns(self.columns())
        if scale != self._scale:
            self._scale = scale
            grid.redraw()
        grid.empty = empty if _is_read(view) else formatting.NOT_YET
        grid.mark_stale(stale_group_columns(view))
        grid.show(rows)
        self.show_side()

    def show_detail(self, group: str, current: GroupRow | None = None) -> None:
        """Show a group in the panel; see :meth:`GroupDetail.show_group`."""
        view = self.console.view
        if view is None:
            return
        panel = self.query_one("#side", Panel)
        detail = panel.query_one(GroupDetail)
        group_summary = next(
            (summary for summary in view.summaries if summary.group == group), None
        )
        panel.label(group or "Group")
        panel.mark(None if group_summary is None else group_summary.rating.severity)
        if group:
            detail.show_group(view, group, self._scale, current)
        else:
            detail.show_nothing()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the audit only where MirrorMaker 2 copies."""
        if action == "audit" and not self._compares:
            return False
        return super().check_action(action, parameters)


class GroupsScreen(_GroupTable):
    """All groups, or all group-partitions."""

    HELP: ClassVar[str | None] = """
        Groups. Each row is a consumer group with its state and members on both clusters. v shows
        one row for each group and partition, with both committed offsets and the translated one.

        Divergence is the committed offset on the target minus the translated one, in source
        records. Now: records that the group would skip or re-read if it continued on the target
        from its current commit. After move: the same after a move, as in the plan. ≥ means at
        least: there are partitions where the number is unknown.

        Lag is the number of records that the group has not read yet, behind the age of the first of
        them. Catches up says whether the lag rises or falls, and in what time it is 0 at the rate
        of the last two minutes; … until it was watched for half a minute. The panel says in what
        time that would be after a move, when records are read again. A wide table charts the lag.

        The bar grows from zero to the left for records that would be skipped and to the right for
        those read again, on a scale of powers of ten. It is dotted where the number is unknown;
        — stands for one that is not available, … for one that the next poll must confirm.

        From 120 columns on, the panel beside the table shows the group under the cursor; on a
        narrow terminal Enter opens it. Each of its partitions has the committed offset on the
        source and on the target, and where both are in the log that the source retains: full where
        offsets translate exactly, light where they do not, dots where nothing is copied yet. On
        source and On target name its members: client id, instance id, host and partitions.

        Deleted: a move skips unread records, because the target has deleted them; the panel says
        whether the source still has them. Not moved: the
        group has no committed offset on the target; partly moved: it has some there. Checking: bad
        in one poll; the next polls confirm it or not. Moving: the group is in use on both clusters
        while they are read. Both active: it has members on both, so both read every record; a move
        commits nothing for it until those on the target are stopped.

        The basis is the reason to trust a translation. exact: by a mapping; end: caught up with the
        copy; ahead: beyond the copy; bounded: some records are re-read, none is skipped; unmapped:
        no mapping is known.

        Problems come first until a sort column is chosen. Enter opens a group. T plans its offsets
        on the target, which changes nothing yet. o plans to set the offsets of a group that exists
        on the target only, or to copy a group's offsets to another one there.

        If MirrorMaker 2 copies, alone or beside the pipeline (--mirrormaker): by k2ktui is what a
        group would re-read from the translated offset, by MM2 from its newest checkpoint. ≥ means
        that some partitions have no checkpoint or an unknown number, — that all of them do. m shows
        the checkpoint, the commit and the right offset of each group and partition.
    """
    PANEL: ClassVar[str] = "Groups"
    BINDINGS: ClassVar[list[BindingType]] = [
        _TRANSLATE,
        Binding("v", "view_rows", "By partition", id="groups.rows"),
        Binding("o", "reset", "Reset", show=False, id="groups.reset"),
        _AUDIT,
    ]

    def __init__(self) -> None:
        super().__init__()
        self._by_partition = False

    def columns(self) -> tuple[Column[Any], ...]:
        """Return the columns of groups, or of group-partitions."""
        glyphs = glyphs_of(self)
        if self._by_partition:
            return position_columns(glyphs, self.largest, self._width)
        feed, compared = self.session.feed, self._compares
        return group_columns(glyphs, self.largest, self._width, feed, compared=compared)

    def make_grid(self) -> Grid[Any]:
        """Create the table."""
        return (
            row_grid(self.columns())
            if self._by_partition
            else summary_grid(Grid[GroupSummary], self.columns(), id="summaries")
        )

    def show_view(self, view: View) -> None:
        """Show the view's groups."""
        self.show_rows(view, view.groups if self._by_partition else view.summaries, _NO_GROUP)
        worst = max((summary.rating.severity for summary in view.summaries), default=None)
        self.query_one("#table", Panel).mark(worst)

    def show_row(self, key: Hashable) -> bool:
        """Move the cursor to a group, or to the first of its partitions that is shown."""
        if self._by_partition:
            rows = (*self.grid().rows, *(self.console.view.groups if self.console.view else ()))
            key = next((row_key(row) for row in rows if row.group == key), key)
        return super().show_row(key)

    def show_side(self) -> None:
        """Show the group under the cursor."""
        row: GroupSummary | GroupRow | None = self.grid().current
        current = row if isinstance(row, GroupRow) else None
        self.show_detail("" if row is None else row.group, current)

    def summary(self) -> Line:
        """Return the totals."""
        view = self.console.view
        if view is None or view.totals.groups is None:
            return (Cell(formatting.NOT_YET),)
        totals, groups = view.totals, view.totals.groups
        old = formatting.STALE if view.groups_stale else ""
        bases = ", ".join(f"{count:,} {basis}" for basis, count in totals.bases.items())
        positions = f"  {old}{counted(sum(totals.bases.values()), 'position')}: {bases}"
        states = _states(
            counted(groups, "group"), [summary.rating for summary in view.summaries], old
        )
        amounts = _amounts("now", totals.skips, totals.rereads)
        amounts += _amounts("after move", totals.moved_skips, totals.moved_rereads)
        compared = _compared(view, self.session.feed.now())
        return (
            *compared,  # first: a narrow frame cuts the end
            *states,
            Cell(amounts),
            Cell(positions if totals.bases else ""),
        )

    async def action_view_rows(self) -> None:
        """Toggle between groups and group-partitions; the cursor stays on its group."""
        old = self.grid()
        row: GroupSummary | GroupRow | None = old.current
        self._by_partition = not self._by_partition
        new = self.make_grid()
        new.filter, new.problems_only = old.filter, old.problems_only
        await self.mount(new, before=old)
        await old.remove()
        new.focus()
        self.refresh_view()
        if row is not None:
            first = next((n for n, shown in enumerate(new.rows) if shown.group == row.group), 0)
            new.action_move(first)
            self.show_side()

    def action_audit(self) -> None:
        """Open the audit of all groups."""
        self.app.push_screen(AuditScreen())

    @work(group=ASK)
    async def action_reset(self) -> None:
        """Ask for a group of the target and its offsets, and plan them."""
        row = self.grid().current
        await reset_group(self, "" if row is None else row.group)

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "translate" and self.is_mounted and self.grid().current is None:
            return "there is no group"
        return _planning_refusal(self, action) or super().refusal(action)

    async def action_translate(self) -> None:
        """Plan the translation of the group under the cursor."""
        row = self.grid().current
        if row is not None:
            await _translate(self, row.group)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(GroupScreen(event.row.group))


class GroupScreen(_GroupTable):
    """One group and its partitions.

    Args:
        group: its name.
    """

    HELP: ClassVar[str | None] = GroupsScreen.HELP
    BINDINGS: ClassVar[list[BindingType]] = [_TRANSLATE, _AUDIT]
    PANEL: ClassVar[str] = "Partitions"

    def __init__(self, group: str) -> None:
        super().__init__()
        self._group = group
        self._table_height = ""

    def action_audit(self) -> None:
        """Open the audit of the group."""
        self.app.push_screen(AuditScreen(self._group))

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        return _planning_refusal(self, action) or super().refusal(action)

    async def action_translate(self) -> None:
        """Plan the translation of the group."""
        await _translate(self, self._group)

    @property
    def crumb(self) -> str:
        """The group."""
        return self._group

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        row = event.row
        if self.session.flow is None or row.source_offset is None:
            self.app.push_screen(PartitionScreen((row.topic, row.partition)))
        else:
            self.app.push_screen(RecordsScreen(row))

    def columns(self) -> tuple[Column[Any], ...]:
        """Return the columns of the group's partitions."""
        return position_columns(glyphs_of(self), self.largest, self._width, with_group=False)

    def make_grid(self) -> Grid[Any]:
        """Create the table of group-partitions."""
        return row_grid(self.columns())

    def show_view(self, view: View) -> None:
        """Show the group's partitions."""
        self.show_rows(view, [row for row in view.groups if row.group == self._group], _NO_POSITION)
        self._share_lines()

    def on_resize(self) -> None:
        """Share the lines of the new size; Textual calls the base's handler, too."""
        self._share_lines()

    def _share_lines(self) -> None:
        """Below 120 columns the table has as many lines as it needs, up to half of them."""
        table = self.query_one("#table", Panel)
        needed = max(1, self.grid().total) + _ABOVE_ROWS
        room = self.size.height - _FRAME
        most = max(_ABOVE_ROWS + 1, min(room // 2, room - _LEAST_SIDE))
        height = "1fr" if is_wide(self) else str(min(needed, most))
        if height != self._table_height:
            self._table_height = height
            table.styles.height = height

    def show_side(self) -> None:
        """Show the group, and the partition under the cursor."""
        self.show_detail(self._group, self.grid().current)

    def summary(self) -> Line:
        """Return how many partitions the group has, by status."""
        view = self.console.view
        if view is None or not _is_read(view):
            return (Cell(formatting.NOT_YET),)
        if all(summary.group != self._group for summary in view.summaries):
            return (Cell(f"{safe_text(self._group, 60)} no longer exists", Tone.WARN),)
        ratings = [rate(row) for row in view.groups if row.group == self._group]
        old = formatting.STALE if view.groups_stale else ""
        return _states(counted(len(ratings), "partition"), ratings, old)


def _is_read(view: View) -> bool:
    return view.part(PartName.GROUPS).taken_at is not None


def _states(what: str, ratings: Iterable[Rating], old: str) -> Line:
    """Return how many there are of each status, the worst first, in the words of the table."""
    worst_first = sorted(ratings, key=lambda rating: -rating.severity)
    words = Counter(rating.word for rating in worst_first)
    states = [f"{old}{count:,} {word}" for word, count in words.items()]
    first = f"{old}{what}: {states[0]}" if states else f"{old}{what}"
    return (Cell(first), *(Cell(f", {state}") for state in states[1:]))


def _amounts(when: str, skips: int, rereads: int) -> str:
    """Return what groups would skip and read again, in words; "" if nothing."""
    sums = ((skips, "skipped"), (rereads, "re-read"))
    text = ", ".join(f"{count:,} {verb}" for count, verb in sums if count)
    return f"  {when}: {text}" if text else ""


def _compared(view: View, now: float) -> Line:
    """Return the age of the MirrorMaker 2 comparison."""
    if view.audit is None:
        return ()
    stale = formatting.STALE if view.audit_stale else ""
    old = f"{stale}{formatting.age(now - view.audit.taken_at)} ago"
    return (Cell(f"MM2 {old}  ", Tone.MUTED),)


def _planning_refusal(screen: ListScreen, action: str) -> str:
    is_recording = action in ("translate", "reset") and screen.session.flow is None
    return "this is a recording" if is_recording else ""


async def _translate(screen: ListScreen, group: str) -> None:
    await plan_groups(screen, [group])


GroupsScreen.DETAILS = (AuditScreen, GroupScreen, RecordsScreen, ResetScreen)
