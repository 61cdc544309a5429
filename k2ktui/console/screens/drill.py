"""Screen 8: the failover drills of the pipeline; starts a new one, opens any of them."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.drill_base import DrillBaseScreen
from k2ktui.console.screens.drill_checklist import acts_now
from k2ktui.console.screens.drill_phases import DrillScreen
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.drill_dialog import DrillDialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.drill import PHASES, Drill, DrillStatus
from k2ktui.engine.drill_checks import DrillKind
from k2ktui.engine.drill_report import report_json, summarize
from k2ktui.engine.drill_steps import describe_next, needs_confirmation
from k2ktui.present import formatting
from k2ktui.present.drills import drill_columns, judge_drill
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_text
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import Severity


class DrillsScreen(DrillBaseScreen):
    """The drills, newest first."""

    ENTRY: ClassVar[str] = "drill"
    HELP: ClassVar[str | None] = """
        Drill. A drill leads you through a failover: each phase says what it will do, proves that
        it has done it, and is written to the journal. A rehearsal touches no application, and is
        safe to run every day. A planned switchover moves the groups while both clusters are up. A
        disaster drill moves them without the source. A failback, with the file of the reverse
        pipeline, moves them back to the old source.

        Drills are kept on the target, so every host shows the same ones. N starts a drill, after
        you have typed the pipeline's name. Enter opens the drill under the cursor: its phases, what
        it waits for, and how to resume or abort it.

        e exports the reports of the listed drills as JSON, and the list as CSV.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("N", "start_drill", "New drill", id="drill.start"),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"start_drill"})
    DETAILS = (DrillScreen,)

    def make_grid(self) -> Grid[Drill]:
        """Create the table of drills."""
        return Grid(
            drill_columns(glyphs_of(self)),
            key=lambda drill: drill.id,
            search=lambda drill: f"{drill.id} {drill.kind} {drill.status} {drill.started_by}",
            problem=lambda drill: judge_drill(drill).severity >= Severity.WARN,
            id="drills",
        )

    def show_view(self, view: View) -> None:
        """Show the view's drills."""
        grid: Grid[Any] = self.query_one(Grid)
        read = view.part(PartName.STATE).taken_at is not None
        none = "No drill yet. N starts one; a rehearsal touches no application."
        if self.session.feed.replay:
            none = "A recording has no drills."
        grid.empty = none if read else formatting.NOT_YET
        grid.show(view.drills)

    def summary(self) -> Line:
        """Return which drill is open, or how long ago the last rehearsal was."""
        found: list[Drill] = list(self.query_one(Grid).rows)
        view = self.console.view
        if view is None or self.query_one(Grid).total == 0:
            return (Cell("drills are kept on the target", Tone.MUTED),)
        for drill in found:
            if not drill.is_over:
                acts = acts_now(drill, view, self.session.feed.now())
                who = (
                    f"{safe_text(drill.owner, 60)} acts on it" if acts else "no operator acts on it"
                )
                text = f"a {drill.kind.noun} is {drill.status}: {who}"
                return (Cell(text, Tone.WARN),)
        rehearsed = [
            drill.ended_ms / 1000
            for drill in view.drills
            if drill.kind is DrillKind.REHEARSE
            and drill.status is DrillStatus.DONE
            and drill.ended_ms is not None
        ]
        if not rehearsed:
            return (Cell("never rehearsed", Tone.WARN),)
        ago = formatting.age(max(0.0, self.session.feed.now() - rehearsed[0]))
        return (Cell(f"last rehearsed {ago} ago"),)

    def detail(self) -> list[Line]:
        """Return the result of the drill under the cursor, and its next step."""
        drill: Drill | None = self.query_one(Grid).current
        if drill is None:
            return []
        texts = summarize(drill) if drill.is_over else [describe_next(drill)]
        return [(Cell(part),) for text in texts for part in self.wrap(text)]

    def document(self) -> str | None:
        """Return the reports of the listed drills."""
        return json.dumps({"drills": [report_json(each) for each in self.query_one(Grid).rows]})

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(DrillScreen(event.row))

    @work(group=ASK)
    async def action_start_drill(self) -> None:
        """Choose a drill, confirm it, and run it."""
        choice = await self.ask(DrillDialog())
        if choice is None:
            return
        kind, options = choice
        phases = PHASES[kind]
        asked = [str(each) for each in phases if needs_confirmation(each, options.fence)]
        lines: list[str | Line] = [
            f"{len(phases)} phases: {', '.join(phases)}.",
            f"You confirm each of these when it is next: {', '.join(asked)}."
            if asked
            else "It asks for nothing else: no application is touched.",
            "",
            cli_equivalent.drill(self.session.files, kind, options),
        ]
        where = f"of the groups that match {options.groups}" if options.groups else "of all groups"
        name = self.session.pair.pipeline
        title = f"Start a {kind.noun} {safe_text(where, 60)}"
        if await self.ask(Confirm(title, lines, name, "Start")):
            self.app.push_screen(DrillScreen(None, (kind, options)))
