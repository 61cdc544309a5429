"""Screen 3: consumer groups on both clusters, their right positions, and how far off they are."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from k2ktui.console.aging import stale_group_columns
from k2ktui.console.screens.audit import AuditScreen
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.groups_table import row_grid, summary_grid
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.screens.translate import plan_groups
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.groups import side_text, summary_columns
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import Severity, judge_group

_TRANSLATE = Binding("T", "translate", "Translate", id="groups.translate")
_AUDIT = Binding("m", "audit", "Audit", id="groups.audit")


class GroupsScreen(ListScreen):
    """All groups, or all group-partitions."""

    ENTRY: ClassVar[str] = "groups"
    HELP: ClassVar[str | None] = """
        Groups. Each row is a consumer group with its state and members on both clusters. v shows
        one row for each group and partition, with both committed offsets and the translated one.

        Divergence is the committed offset on the target minus the translated one, in source
        records. Now: records that the group would skip or re-read if it continued on the target
        from its current commit. Moved: the same after a move, as in the plan. + means more, in
        partitions where the number is unknown.

        Deleted: the target has deleted unread records, so a move skips them too. Not moved: the
        group has no committed offset on the target; partly moved: it has some there. Checking: bad
        in one poll; the next polls confirm it or not. Moving: the group is in use on both clusters
        while they are read.

        The basis is the reason to trust a translation. exact: by a mapping; end: caught up with the
        copy; ahead: beyond the copy; bounded: some records are re-read, none is skipped; unmapped:
        no mapping is known.

        Problems come first until a sort column is chosen. Enter opens a group. T plans its offsets
        on the target, which changes nothing yet.

        If MirrorMaker 2 copies, alone or beside the pipeline (--compare): by k2ktui is what a group
        would re-read from the translated offset, by MM2 from its newest checkpoint. + means that
        some partitions have no checkpoint or an unknown number, — that all of them do. m shows the
        checkpoint, the commit and the right offset of each group and partition.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _TRANSLATE,
        Binding("v", "view_rows", "By partition", id="groups.rows"),
        _AUDIT,
    ]

    def __init__(self) -> None:
        super().__init__()
        self._by_partition = False
        self._compares = False

    def make_grid(self) -> Grid[Any]:
        """Create the table of groups."""
        return summary_grid(glyphs_of(self))

    def show_view(self, view: View) -> None:
        """Show the view's groups."""
        grid = self.query_one(Grid)
        if self._compares != view.compares:
            self._compares = view.compares
            self.refresh_bindings()
            if not self._by_partition:
                grid.show_columns(summary_columns(glyphs_of(self), compared=view.compares))
        read = view.part(PartName.GROUPS).taken_at is not None
        grid.empty = "No group has committed on what is replicated." if read else formatting.NOT_YET
        grid.mark_stale(stale_group_columns(view))
        grid.show(view.groups if self._by_partition else view.summaries)

    def summary(self) -> Line:
        """Return the totals."""
        view = self.console.view
        if view is None or view.totals.groups is None:
            return (Cell(formatting.NOT_YET),)
        totals, groups = view.totals, view.totals.groups
        old = formatting.STALE if view.groups_stale else ""
        bases = ", ".join(f"{count:,} {basis}" for basis, count in totals.bases.items())
        positions = f"  {old}{counted(sum(totals.bases.values()), 'position')}: {bases}"
        text = f"{old}{counted(groups, 'group')}: {old}"
        verdicts = sorted(map(judge_group, view.summaries), key=lambda each: -each.severity)
        # The words of the table, so that each number can be found in its rows.
        words = Counter(verdict.word for verdict in verdicts)
        states = ", ".join(f"{count:,} {word}" for word, count in words.items())
        tone = Tone.MUTED
        if verdicts and verdicts[0].severity >= Severity.WARN:
            tone = formatting.tone_of(verdicts[0].severity)
        amounts = _amounts("now", totals.skips, totals.rereads)
        amounts += _amounts("moved", totals.moved_skips, totals.moved_rereads)
        compared = _compared(view, self.session.feed.now())
        return (
            Cell(text),
            Cell(states, tone),
            Cell(amounts, tone),
            *compared,
            Cell(positions if totals.bases else ""),
        )

    async def action_view_rows(self) -> None:
        """Toggle between groups and group-partitions."""
        self._by_partition = not self._by_partition
        old = self.query_one(Grid)
        glyphs = glyphs_of(self)
        compared = self._compares
        new: Grid[Any] = (
            row_grid(glyphs) if self._by_partition else summary_grid(glyphs, compared=compared)
        )
        await self.mount(new, before=old)
        await old.remove()
        new.focus()
        self.refresh_view()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the audit only where MirrorMaker 2 copies."""
        if action == "audit" and not self._compares:
            return False
        return super().check_action(action, parameters)

    def action_audit(self) -> None:
        """Open the audit of all groups."""
        self.app.push_screen(AuditScreen())

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "translate" and self.is_mounted and self.query_one(Grid).current is None:
            return "there is no group"
        return _planning_refusal(self, action) or super().refusal(action)

    async def action_translate(self) -> None:
        """Plan the translation of the group under the cursor."""
        row = self.query_one(Grid).current
        if row is not None:
            await _translate(self, row.group)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(GroupScreen(event.row.group))


class GroupScreen(ListScreen):
    """The partitions of one group.

    Args:
        group: its name.
    """

    ENTRY: ClassVar[str] = "groups"
    HELP: ClassVar[str | None] = GroupsScreen.HELP
    BINDINGS: ClassVar[list[BindingType]] = [_TRANSLATE, _AUDIT]

    def __init__(self, group: str) -> None:
        super().__init__()
        self._group = group

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the audit only where MirrorMaker 2 copies."""
        if action == "audit" and (self.console.view is None or not self.console.view.compares):
            return False
        return super().check_action(action, parameters)

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
        self.app.push_screen(PartitionScreen((event.row.topic, event.row.partition)))

    def make_grid(self) -> Grid[Any]:
        """Create the table of group-partitions."""
        return row_grid(glyphs_of(self), with_group=False)

    def show_view(self, view: View) -> None:
        """Show the group's partitions."""
        grid = self.query_one(Grid)
        grid.empty = "The group has no committed offset of what is replicated."
        grid.mark_stale(stale_group_columns(view))
        grid.show([row for row in view.groups if row.group == self._group])

    def summary(self) -> Line:
        """Return the group and its state on both clusters."""
        name = Cell(safe_text(self._group, 60), Tone.HEADING)
        view = self.console.view
        found = view.summaries if view else ()
        group = next((each for each in found if each.group == self._group), None)
        if group is None:
            return (name, Cell("  no longer exists", Tone.WARN))
        glyphs = glyphs_of(self)
        mark = glyphs.mark(judge_group(group))
        mark = glyphs.aged(mark) if view and view.groups_stale else mark
        sides = f"  source {side_text(group.source)}  target {side_text(group.target)}  "
        error = group.source.error or group.target.error
        return (name, Cell(sides), mark, Cell(f"  {error}", Tone.WARN))


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
    return (Cell(f"  MM2 {old}", Tone.MUTED),)


def _planning_refusal(screen: ListScreen, action: str) -> str:
    is_recording = action == "translate" and screen.session.flow is None
    return "this is a recording" if is_recording else ""


async def _translate(screen: ListScreen, group: str) -> None:
    await plan_groups(screen, [group])


GroupsScreen.DETAILS = (AuditScreen, GroupScreen)
