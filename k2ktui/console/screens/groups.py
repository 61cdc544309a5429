"""Screen 3: consumer groups on both clusters, where each belongs, and how far off it is."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from k2ktui.console import marks
from k2ktui.console.aging import old_group_columns
from k2ktui.console.marks import Cell, Glyphs, Line, Tone
from k2ktui.console.screens.audit import AuditScreen
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.widgets.arrange import Column
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.toned import glyphs_of
from k2ktui.engine.audit import Again
from k2ktui.engine.groups import GroupRow
from k2ktui.engine.translate import Basis
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import GroupSide, GroupSummary, PartName, View
from k2ktui.watch.severity import Severity, of_group_row, of_summary

_TRANSLATE = Binding("T", "translate", "Translate", id="groups.translate")
_AUDIT = Binding("m", "audit", "Audit", id="groups.audit")


class GroupsScreen(ListScreen):
    """All groups, or all of their partitions."""

    ENTRY: ClassVar[str] = "groups"
    DETAILS = (AuditScreen,)
    HELP: ClassVar[str | None] = """
        Groups. A row is a consumer group with its state and members on both clusters; v shows every
        group-partition instead, with both committed offsets and the translated one.

        Divergence is the committed offset on the target minus the translated one, in source
        records: skips are records that the group would never read if it went on at the target now,
        re-reads are those that it would read again. Not moved: it has no offset there yet.

        The basis says why a translation can be trusted. exact: by a mapping; end: caught up with
        the copy; ahead: past the copy; bounded: some are re-read, none skipped; unmapped: no
        mapping is known.

        Problems are first while no column is chosen. Enter opens a group; T plans where it goes on
        on the target, which changes nothing yet.

        Where MirrorMaker 2 copies, alone or beside the pipeline (--compare): by k2ktui is what a
        group would read again where the translation puts it, by MM2 where its newest checkpoint
        does. A + stands for more partitions, without a checkpoint or where nobody knows; — if that
        is all of them. m shows every group-partition: checkpoint, commit, and what is right.
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
        """Make the table."""
        return summary_grid(glyphs_of(self))

    def show_view(self, view: View) -> None:
        """Show its groups."""
        grid = self.query_one(Grid)
        if self._compares != view.compares:
            self._compares = view.compares
            self.refresh_bindings()
            if not self._by_partition:
                grid.show_columns(summary_columns(glyphs_of(self), compared=view.compares))
        read = view.part(PartName.GROUPS).taken_at is not None
        grid.empty = "No group has committed on what is replicated." if read else marks.NOT_YET
        grid.mark_old(old_group_columns(view))
        grid.show(view.groups if self._by_partition else view.summaries)

    def summary(self) -> Line:
        """Return the sums."""
        view = self.console.view
        if view is None or view.totals.groups is None:
            return (Cell(marks.NOT_YET),)
        totals, groups = view.totals, view.totals.groups
        old = marks.STALE if view.groups_stale else ""
        bases = "  ".join(f"{count:,} {basis}" for basis, count in totals.bases.items())
        text = f"{old}{counted(groups, 'group')}  {bases}  {old}"
        tone = Tone.BAD if totals.skips else Tone.WARN if totals.rereads else Tone.MUTED
        off = f"{totals.diverging:,} diverge, {totals.skips:,} skipped, {totals.rereads:,} re-read"
        compared = _compared(view, self.session.feed.now())
        return (Cell(text), Cell(off if totals.diverging else "none diverges", tone), *compared)

    async def action_view_rows(self) -> None:
        """Show groups, or every group-partition."""
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
        """Open the audit."""
        self.app.push_screen(AuditScreen())

    async def action_translate(self) -> None:
        """Plan the group under the cursor."""
        row = self.query_one(Grid).current
        if row is not None:
            await _translate(self, row.group)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(GroupScreen(event.row.group))


class GroupScreen(ListScreen):
    """One group: its partitions.

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

    async def action_translate(self) -> None:
        """Plan the group."""
        await _translate(self, self._group)

    def make_grid(self) -> Grid[Any]:
        """Make the table."""
        return row_grid(glyphs_of(self), with_group=False)

    def show_view(self, view: View) -> None:
        """Show the group's partitions."""
        grid = self.query_one(Grid)
        grid.empty = "The group has no committed offset of what is replicated."
        grid.mark_old(old_group_columns(view))
        grid.show([row for row in view.groups if row.group == self._group])

    def summary(self) -> Line:
        """Return the group and its state on both sides."""
        name = Cell(safe_text(self._group, 60), Tone.HEADING)
        view = self.console.view
        found = view.summaries if view else ()
        group = next((each for each in found if each.group == self._group), None)
        if group is None:
            return (name, Cell("  is not there any more", Tone.WARN))
        glyphs = glyphs_of(self)
        mark = glyphs.mark(of_summary(group))
        mark = glyphs.aged(mark) if view and view.groups_stale else mark
        sides = f"  source {_side(group.source)}  target {_side(group.target)}  "
        error = group.source.error or group.target.error
        return (name, Cell(sides), mark, Cell(f"  {error}", Tone.WARN))


def _compared(view: View, now: float) -> Line:
    """How old what is compared is, and of which flow."""
    if view.audit is None:
        return ()
    stale = marks.STALE if view.audit_stale else ""
    old = f"{stale}{marks.age(now - view.audit.taken_at)} ago"
    return (Cell(f"  MM2 {old}", Tone.MUTED),)


async def _translate(screen: ListScreen, group: str) -> None:
    # Deferred: that screen shows groups with the columns of this one.
    from k2ktui.console.screens.translate import plan_groups

    await plan_groups(screen.console, [group])


def summary_grid(glyphs: Glyphs, *, compared: bool = False) -> Grid[GroupSummary]:
    """Return a table of groups."""
    return Grid(
        summary_columns(glyphs, compared=compared),
        key=lambda group: group.group,
        search=lambda group: f"{group.group} {of_summary(group).word} {group.source.state}",
        problem=lambda group: of_summary(group).severity >= Severity.WARN,
        order=lambda group: (-of_summary(group).severity, -group.skips, group.group),
        id="summaries",
    )


def row_grid(glyphs: Glyphs, *, with_group: bool = True) -> Grid[GroupRow]:
    """Return a table of group-partitions."""
    columns = _row_columns(glyphs)
    return Grid(
        columns if with_group else columns[1:],
        key=lambda row: (row.group, row.topic, row.partition, row.target_topic),
        search=lambda row: (
            f"{row.group} {row.topic}-{row.partition} {of_group_row(row).word} {row.basis}"
        ),
        problem=lambda row: of_group_row(row).severity >= Severity.WARN,
        order=lambda row: (-of_group_row(row).severity, row.group, row.topic, row.partition),
        id="rows",
    )


def _side(side: GroupSide) -> str:
    if not side.state:
        return marks.NOT_AVAILABLE
    members = "" if side.members is None else f" {side.members}"
    return f"{safe_text(side.state, 24)}{members}"


def summary_columns(glyphs: Glyphs, *, compared: bool = False) -> tuple[Column[GroupSummary], ...]:
    """Return the columns of a table of groups; ``compared`` with what MirrorMaker 2 would do."""
    return (
        Column(
            "group",
            "group",
            lambda g: Cell(safe_text(g.group, 400)),
            lambda g: g.group,
            width=14,
            widest=64,
        ),
        Column(
            "status",
            "status",
            lambda g: glyphs.mark(of_summary(g)),
            lambda g: -of_summary(g).severity,
            width=11,
        ),
        Column("source", "source", lambda g: Cell(_side(g.source)), rank=4, width=9),
        Column("target", "target", lambda g: Cell(_side(g.target)), rank=3, width=9),
        Column(
            "parts",
            "parts",
            lambda g: Cell(f"{g.partitions:,}"),
            lambda g: -g.partitions,
            right=True,
            rank=6,
        ),
        Column(
            "lag", "lag", lambda g: Cell(marks.number(g.lag)), lambda g: _desc(g.lag), True, rank=5
        ),
        Column("skips", "skips", lambda g: _count(g.skips, Tone.BAD), lambda g: -g.skips, True),
        Column(
            "rereads",
            "re-reads now" if compared else "re-reads",
            lambda g: _count(g.rereads, Tone.WARN),
            lambda g: -g.rereads,
            right=True,
            rank=2 if compared else 1,
        ),
        *(_AGAIN if compared else ()),
        Column("basis", "basis", _bases, rank=2, width=8, widest=40),
    )


def _row_columns(glyphs: Glyphs) -> tuple[Column[GroupRow], ...]:
    return (
        Column(
            "group",
            "group",
            lambda r: Cell(safe_text(r.group, 400)),
            lambda r: r.group,
            width=12,
            widest=48,
        ),
        Column(
            "partition",
            "partition",
            lambda r: Cell(safe_text(f"{r.topic}-{r.partition}", 400)),
            lambda r: (r.topic, r.partition),
            width=12,
            widest=48,
        ),
        Column(
            "status",
            "status",
            lambda r: glyphs.mark(of_group_row(r)),
            lambda r: -of_group_row(r).severity,
            width=11,
        ),
        Column(
            "divergence",
            "diverges",
            _divergence,
            lambda r: _desc(None if r.divergence is None else abs(r.divergence)),
            right=True,
        ),
        _offset("source", "source", lambda r: r.source_offset, 3),
        _offset("target", "target now", lambda r: r.target_offset, 2),
        _offset("translated", "translated", lambda r: r.translated_offset, 1),
        Column("basis", "basis", _basis, lambda r: r.basis, rank=4, width=8),
        _offset("reread", "re-read", lambda r: r.reread, 7),
        _offset("skipped", "skipped", lambda r: r.skipped, 6),
        Column("states", "states", lambda r: Cell(_states(r), Tone.MUTED), rank=8, widest=30),
        Column("why", "note", lambda r: Cell(safe_text(r.reason, 400)), rank=9, widest=100),
    )


def _offset(name: str, heading: str, value: Any, rank: int) -> Column[GroupRow]:
    return Column(
        name,
        heading,
        lambda row: Cell(marks.number(value(row))),
        lambda row: _desc(value(row)),
        right=True,
        rank=rank,
    )


def _desc(value: int | None) -> int | None:
    return None if value is None else -value


def _count(value: int, tone: Tone) -> Cell:
    return Cell(f"{value:,}", tone if value else Tone.MUTED)


def _again(count: Again | None, partitions: int) -> Cell:
    if count is None:
        return Cell(marks.NOT_YET, Tone.MUTED)
    if partitions and count.unknown + count.without >= partitions:
        return Cell(marks.NOT_AVAILABLE, Tone.WARN)
    more = "+" if count.unknown or count.without else ""
    if count.skipped:
        return Cell(f"{count.records:,}{more}, skips {count.skipped:,}", Tone.BAD)
    return Cell(f"{count.records:,}{more}", Tone.WARN if count.records or more else Tone.MUTED)


_AGAIN: tuple[Column[GroupSummary], ...] = (
    Column(
        "ours",
        "by k2ktui",
        lambda g: _again(g.ours, g.partitions),
        lambda g: -g.ours.records,
        right=True,
        rank=1,
    ),
    Column(
        "theirs",
        "by MM2",
        lambda g: _again(g.theirs, g.partitions),
        lambda g: None if g.theirs is None else -g.theirs.records,
        right=True,
    ),
)


def _basis(row: GroupRow) -> Cell:
    if row.basis is Basis.UNMAPPED:
        return Cell(str(row.basis), Tone.BAD)
    return Cell(str(row.basis), Tone.WARN if row.basis is Basis.BOUNDED else Tone.PLAIN)


def _bases(group: GroupSummary) -> Cell:
    worst = group.bases.get(Basis.UNMAPPED), group.bases.get(Basis.BOUNDED)
    tone = Tone.BAD if worst[0] else Tone.WARN if worst[1] else Tone.PLAIN
    return Cell(", ".join(f"{count:,} {basis}" for basis, count in group.bases.items()), tone)


def _divergence(row: GroupRow) -> Cell:
    value = row.divergence
    tone = Tone.MUTED if not value else Tone.BAD if value > 0 else Tone.WARN
    return Cell(marks.signed(value), tone)


def _states(row: GroupRow) -> str:
    return f"{safe_text(row.state_source) or '—'} → {safe_text(row.state_target) or '—'}"
