"""Screen 4: choose consumer groups and plan their offsets on the target."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from k2ktui.console.screens.base import ConsoleScreen, ListScreen
from k2ktui.console.screens.groups_table import summary_grid
from k2ktui.console.screens.translate_plan import PlanScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.selectable_grid import SelectableGrid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.engine.moves.plan import Rewind
from k2ktui.engine.moves.ratings import GroupSummary
from k2ktui.present.formatting import NOT_YET, Cell, Line
from k2ktui.present.groups import stale_group_columns, summary_columns
from k2ktui.text import counted
from k2ktui.watch.model import PartName, View


async def plan_groups(screen: ConsoleScreen, groups: list[str]) -> None:
    """Switch to the screen and plan these groups, unless a write is in progress there."""
    app = screen.app
    if await screen.console.jump_to_top("translate") and isinstance(app.screen, TranslateScreen):
        app.screen.plan(groups)


class TranslateScreen(ListScreen):
    """The groups to choose from."""

    ENTRY: ClassVar[str] = "translate"
    HELP: ClassVar[str | None] = """
        Translate. Select consumer groups and plan their committed offsets on the target; planning
        changes nothing. Space marks a group; a marks all groups that pass the filter, or unmarks
        them. Enter plans the marked groups, or the one under the cursor if none is marked.

        The plan shows its rows with the uncertain ones first. It is applied exactly as shown after
        you have typed the pipeline's name, and refused if anything has moved. It can then be
        verified by content, and undone.

        Rewind decides about groups whose commit on the target is beyond the translation: never
        moves them back, follow does.

        If the source does not answer, the plan uses its last commits, which are kept on the target;
        their age is shown.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "rewind", "Rewind", id="translate.rewind"),
    ]
    DETAILS = (PlanScreen,)
    PANEL: ClassVar[str] = "Groups"

    def __init__(self) -> None:
        super().__init__()
        self._rewind = Rewind.NEVER

    def choice(self) -> SelectableGrid[GroupSummary]:
        """The table of groups."""
        return self.query_one(SelectableGrid)

    def make_grid(self) -> SelectableGrid[GroupSummary]:
        """Create the table of groups."""
        columns = summary_columns(glyphs_of(self))
        return summary_grid(SelectableGrid[GroupSummary], columns, opens="Plan", id="choice")

    def show_view(self, view: View) -> None:
        """Show the view's groups."""
        grid = self.choice()
        read = view.part(PartName.GROUPS).taken_at is not None
        grid.empty = "No group yet. Enter plans offsets of those here." if read else NOT_YET
        grid.mark_stale(stale_group_columns(view))
        grid.show(view.summaries)

    def summary(self) -> Line:
        """Return how many groups are marked."""
        grid = self.choice()
        chosen = grid.marked_text or "none marked: enter plans this one"
        # In this order: the end may be cut.
        return (
            Cell(f"{chosen}  "),
            Cell(f"rewind: {self._rewind}  "),
            Cell(counted(grid.total, "group")),
        )

    def action_rewind(self) -> None:
        """Toggle whether rewinds are followed."""
        self._rewind = Rewind.FOLLOW if self._rewind is Rewind.NEVER else Rewind.NEVER
        self.show_summary()

    @on(Grid.Opened)
    def _opened(self) -> None:
        self.plan([group.group for group in self.choice().chosen])

    def plan(self, groups: list[str]) -> None:
        """Open a plan of these groups."""
        every = {group.group for group in self.console.view.summaries} if self.console.view else ()
        if self.session.flow is None:
            self.inform("Plan: this is a recording", "warning")
        elif groups:
            chosen = None if set(groups) == every else frozenset(groups)
            self.app.push_screen(PlanScreen(chosen, self._rewind))
