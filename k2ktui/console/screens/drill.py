"""Screen 8: the failover drills of the pipeline; starts a new one, opens any of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.base import ConsoleScreen, ListScreen
from k2ktui.console.screens.drill_base import DrillBaseScreen
from k2ktui.console.screens.drill_checks import DrillChecksScreen
from k2ktui.console.screens.drill_facts import (
    name_to_type,
    phase_lines,
    rpo_text,
    scale_text,
    trend_lines,
)
from k2ktui.console.screens.drill_phases import DrillScreen, acts_now
from k2ktui.console.visuals.panel import Tile, is_wide, side_width
from k2ktui.console.visuals.shapes import log_bar, picture_cell, power_of_ten
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.drill_dialog import DrillDialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, plain, wrap_lines
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.drill.progress import describe_state, elapsed_ms, list_phases
from k2ktui.drill.report import report_json, summarize
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import find_role
from k2ktui.engine.drill.hooks import Hook, HookRole, describe_hook
from k2ktui.engine.drill.model import Drill, DrillStatus, Fence, phases_of
from k2ktui.engine.drill.steps import describe_next, needs_confirmation
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.columns import Column, figure_column
from k2ktui.present.drills import drill_columns, judge_drill
from k2ktui.present.formatting import NOT_YET, Cell, Line, Tone, tone_of
from k2ktui.text import counted, duration, list_names, safe_text
from k2ktui.watch.model import PartName, View

_BAR = 8
# Lines of each chart of the trend: beside the table, and in its dialog.
_TREND, _HIGH_TREND = 4, 6
_NAMED = 3


async def start_over(screen: ConsoleScreen, topics: Sequence[str]) -> None:
    """Switch to the screen, and ask for a drill over these topics."""
    app = screen.app
    if await screen.console.jump_to_top("drill") and isinstance(app.screen, DrillsScreen):
        app.screen.choose_over(topics)


def _took(drill: Drill) -> str:
    return duration(elapsed_ms(drill, 0) / 1000, tenths=True)


class DrillsScreen(DrillBaseScreen):
    """The drills, newest first."""

    ENTRY: ClassVar[str] = "drill"
    HELP: ClassVar[str | None] = """
        Drill. A drill leads you through a failover. Each phase shows its plan, verifies the result,
        and records it in the journal. A rehearsal touches no application, and is safe to run every
        day. A planned switchover moves the groups while both clusters are up. A disaster drill
        moves them without the source. A failback, with the file of the reverse pipeline, moves
        them back to the old source.

        Drills are kept on the target, so every host shows the same ones. N starts a drill, after
        you have typed the pipeline's name; a rehearsal asks only for Enter, except in production.
        Enter opens the drill under the cursor. The bar is how long it took, on a scale of powers of
        ten. t shows the trend: RPO and RTO of the last rehearsals as columns, the objectives of the
        file as lines.

        e exports the reports of the listed drills as JSON, and the list as CSV.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("N", "start_drill", "New drill", id="drill.start"),
        Binding("c", "checks", "Checks", id="drill.checks"),
        Binding("t", "trend", "Trend", id="drill.trend", show=False),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"start_drill"})
    DETAILS = (DrillScreen,)
    PANEL: ClassVar[str] = "Drills"

    def __init__(self) -> None:
        super().__init__()
        # What is drawn of drills that do not change: the longest duration, and their ages.
        self._drawn: tuple[int, tuple[str, ...]] = (0, ())
        # Whether there is a panel beside the table.
        self._wide = False

    def body(self) -> Iterable[Widget]:
        """Yield the table in its panel, with the drill under the cursor beside it."""
        return ListScreen.body(self)

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the drill under the cursor."""
        yield Tile("Drill", id="side")

    def make_grid(self) -> Grid[Drill]:
        """Create the table of drills."""
        return Grid(
            self._columns(),
            key=lambda drill: drill.id,
            search=lambda drill: f"{drill.id} {drill.kind} {drill.status} {drill.started_by}",
            problem=lambda drill: judge_drill(drill).severity >= Severity.WARN,
            id="drills",
        )

    def _columns(self) -> tuple[Column[Drill], ...]:
        """Return the columns, with age, duration as a bar, and RPO before the result."""
        glyphs = glyphs_of(self)

        def lasted(drill: Drill) -> Cell:
            if drill.ended_ms is None:
                return Cell("")
            longest, tone = self._drawn[0], tone_of(judge_drill(drill).severity)
            return picture_cell(log_bar(elapsed_ms(drill, 0), longest, _BAR, glyphs, tone))

        by_id = {column.id: column for column in drill_columns(glyphs)}
        age: Column[Drill] = figure_column(
            "age", "age", lambda d: d.started_ms, cell=lambda d: Cell(self._age(d)), width=8
        )
        took: Column[Drill] = Column(
            "took",
            "took",
            lambda d: Cell(NOT_YET if d.ended_ms is None else _took(d)),
            lambda d: None if d.ended_ms is None else elapsed_ms(d, 0),
            right=True,
            width=7,
            rank=3,
        )
        bar: Column[Drill] = Column("bar", "", lasted, width=_BAR, rank=4, picture=True)
        rpo: Column[Drill] = Column(
            "rpo", "RPO", lambda d: Cell(rpo_text(d)), lambda d: d.figures.rpo_records, right=True,
            width=7, rank=2,
        )  # fmt: skip
        return (
            by_id["kind"],
            by_id["status"],
            age,
            took,
            bar,
            rpo,
            # The panel beside the table has it, too.
            replace(by_id["result"], heading="result, or what is next", rank=5 * self._wide),
            replace(by_id["by"], rank=6),
            replace(by_id["begun"], rank=7),
            replace(by_id["id"], rank=8),
        )

    def _age(self, drill: Drill) -> str:
        return formatting.age(max(0.0, self.session.feed.now() - drill.started_ms / 1000))

    def show_view(self, view: View) -> None:
        """Show the view's drills."""
        grid: Grid[Any] = self.query_one(Grid)
        took = (elapsed_ms(d, 0) for d in view.drills if d.ended_ms is not None)
        drawn = (power_of_ten(took, least=1), tuple(map(self._age, view.drills)))
        if drawn != self._drawn:
            self._drawn = drawn
            grid.redraw()
        read = view.part(PartName.STATE).taken_at is not None
        none = "No drill yet. N starts one; a rehearsal touches no application."
        if self.session.feed.replay:
            none = "No drill is in this recording."
        grid.empty = none if read else formatting.NOT_YET
        grid.show(view.drills)
        self.show_side()

    def summary(self) -> Line:
        """Return which drill is open, or how long ago the last rehearsal was."""
        listed: list[Drill] = list(self.query_one(Grid).rows)
        view = self.console.view
        if view is None or self.query_one(Grid).total == 0:
            return (Cell("drills are kept on the target", Tone.MUTED),)
        for drill in listed:
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

    def on_resize(self) -> None:
        """Choose the columns for the new size; Textual calls the base's handler, too."""
        if self.is_composed and self._wide != is_wide(self):
            self._wide = not self._wide
            self.query_one(Grid).show_columns(self._columns())

    def show_texts(self) -> None:
        """Show the summary."""
        if self.is_composed:
            self.show_summary()

    def show_side(self) -> None:
        """Show the drill under the cursor."""
        if not self.is_composed:
            return
        panel = self.query_one("#side", Tile)
        drill: Drill | None = self.query_one(Grid).current
        if drill is None or self.console.view is None:
            panel.label("Drill")
            panel.show([])
            return
        panel.label(drill.id)
        panel.show(self._about(drill), judge_drill(drill).severity)

    def _about(self, drill: Drill) -> list[Line]:
        """Return the result of a drill or its next step, its timeline, and who began it."""
        glyphs, now = glyphs_of(self), self.session.feed.now()
        width = side_width(self) - 5
        view = self.console.view
        acts = view is not None and acts_now(drill, view, now)
        rows = list_phases(drill, acting=acts)
        texts = [describe_state(drill), describe_next(drill, acting=acts)]
        first, *more = summarize(drill) if drill.is_over else texts
        mark: Line = (glyphs.mark(judge_drill(drill)), Cell(f" {drill.kind}", Tone.HEADING))
        lines: list[Line] = [mark, *wrap_lines(first, width), ()]
        now_ms = int(now * 1000)
        lines += [
            (Cell(scale_text(rows, drill.beat_ms), Tone.MUTED),),
            *phase_lines(rows, drill.beat_ms, now_ms, width, glyphs),
            (),
        ]
        lines += [line for text in more for line in wrap_lines(text, width, Tone.MUTED)]
        begun = f"begun {formatting.moment(drill.started_ms / 1000)} by {drill.started_by}"
        lines += wrap_lines(begun, width, Tone.MUTED)
        trend = [] if view is None else self._trend(view, width, _TREND)
        return [*lines, *([(), *trend] if trend else [])]

    def _trend(self, view: View, width: int, height: int) -> list[Line]:
        return trend_lines(view.rehearsals, view.objectives, (width, height), glyphs_of(self))

    def action_trend(self) -> None:
        """Show the trend of RPO and RTO over the rehearsals, whatever the terminal's size."""
        view = self.console.view
        lines = (
            [] if view is None else self._trend(view, min(72, self.size.width - 12), _HIGH_TREND)
        )
        texts = ["\n".join(plain(line) for line in lines)]
        none = "A trend needs two rehearsals. N starts one; it touches no application."
        self.app.push_screen(TextDialog("Trend of the rehearsals", texts if lines else [none]))

    def document(self) -> str | None:
        """Return the reports of the listed drills."""
        return json.dumps({"drills": [report_json(drill) for drill in self.query_one(Grid).rows]})

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(DrillScreen(event.row))

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "checks" and self.is_mounted and self.query_one(Grid).current is None:
            return "there is no drill"
        return super().refusal(action)

    def action_checks(self) -> None:
        """Show the checks of the drill under the cursor."""
        drill: Drill | None = self.query_one(Grid).current
        if drill is not None:
            self.app.push_screen(DrillChecksScreen(lambda: self._newest(drill)))

    def _newest(self, drill: Drill) -> Drill:
        """Return a drill as it was read last."""
        view = self.console.view
        drills = view.drills if view is not None else ()
        return next((listed for listed in drills if listed.id == drill.id), drill)

    def _list_hooks(
        self, kind: DrillKind, hooks: Sequence[Hook], phases: Collection[DrillPhase]
    ) -> list[str]:
        """Return which hooks of the file a drill will run."""
        if kind is DrillKind.REHEARSE:
            return [f"It runs none of the {counted(len(hooks), 'hook')}."] if hooks else []
        shown = [hook for hook in hooks if hook.phase in phases]
        return [f"You confirm each, when it is next: {describe_hook(hook)}" for hook in shown]

    @work(group=ASK)
    async def action_start_drill(self) -> None:
        """Choose a drill, confirm it, and run it."""
        await self._choose()

    @work(group=ASK)
    async def choose_over(self, topics: Sequence[str]) -> None:
        """Choose a drill over some source topics, confirm it, and run it."""
        await self._choose(topics)

    async def _choose(self, topics: Sequence[str] = ()) -> None:
        if topics:
            named = f"{counted(len(topics), 'topic')}: {list_names(topics, _NAMED)}"
            dialog = DrillDialog(f"New drill over {named}", cli_equivalent.pattern_of(topics))
        else:
            dialog = DrillDialog()
        choice = await self.ask(dialog)
        if choice is None:
            return
        kind, options = choice
        hooks = self.flow.config.drill.list_hooks(kind, options.topics or options.groups)
        cuts_off = find_role(hooks, HookRole.CUT_OFF) is not None
        if cuts_off and kind.is_switchover:  # the file's name would move no running client else
            options = replace(options, fence=Fence.CUT_OFF)
        redirects = find_role(hooks, HookRole.REDIRECT) is not None
        phases = phases_of(kind, topics, redirects=redirects)
        asked = [str(phase) for phase in phases if needs_confirmation(phase, options.fence)]
        lines: list[str | Line] = [
            f"{len(phases)} phases: {', '.join(phases)}.",
            f"You confirm each of these when it is next: {', '.join(asked)}."
            if asked
            else "It asks for nothing else: no application is touched.",
            *self._list_hooks(kind, hooks, phases),
            "",
            cli_equivalent.drill(self.session.files, kind, options),
        ]
        where = f"of the groups that match {options.groups}" if options.groups else "of all groups"
        if topics:
            where = f"of {named}"
        pair = self.session.pair
        name = name_to_type(kind, pair.pipeline, pair.environment)
        title = f"Start a {kind.noun} {safe_text(where, 60)}"
        if await self.ask(Confirm(title, lines, name, "Start", undoable=True)):
            self.app.push_screen(DrillScreen(None, (kind, options)))
