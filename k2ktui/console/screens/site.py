"""One site drill: its members and their phases, the worst first; runs, resumes, aborts it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.drill_operator import StoppedHere
from k2ktui.console.screens.drill_checks import DrillChecksScreen
from k2ktui.console.screens.drill_facts import is_taken_back, name_to_type
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.screens.site_facts import (
    advise,
    count_members,
    describe_hold,
    describe_member,
    describe_site,
    describe_way_back,
    list_member_findings,
    member_grid_columns,
    member_lines,
    member_order,
    phase_strip,
    place_of,
    rpo_of_site,
    rto_of_site,
)
from k2ktui.console.screens.site_member import MemberScreen
from k2ktui.console.site_operator import SiteAsk, SiteScreenOperator
from k2ktui.console.site_views import gather_sites
from k2ktui.console.visuals.panel import Panel, Tile, is_framed, is_wide, side_width
from k2ktui.console.visuals.shapes import bar
from k2ktui.console.widgets.choice_dialog import ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.drill_dialog import TAIL_CHOICES
from k2ktui.console.widgets.foot_line import FootLine
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, wrap
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.drill.checks.catalog import checks_that_stop
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import describe_step_back, steps_back
from k2ktui.engine.drill.hooks import find_phase
from k2ktui.engine.drill.model import PHASES, Drill, DrillOptions, DrillStatus
from k2ktui.engine.drill.site import MemberState, MemberStatus, SiteDrill, can_all_go_back
from k2ktui.engine.drill.steps import has_begun_tail, has_fenced, waits_for_tail_choice
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.severity import Severity
from k2ktui.errors import K2kError
from k2ktui.fleet.feed import FleetFeed
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.drills import describe_task
from k2ktui.present.formatting import Cell, Line, Tone, tone_of
from k2ktui.present.site_drills import judge_member, judge_site
from k2ktui.site import operations
from k2ktui.site.operations import SiteChoice
from k2ktui.site.operator import SiteQuestionKind
from k2ktui.site.report import (
    site_has_findings,
    site_json,
    site_markdown,
    summarize_site,
)
from k2ktui.text import counted, list_names, safe_message, safe_text
from k2ktui.watch.model import View

_TICK_S = 1.0
# The least lines of what happens now on a narrow terminal.
_NARROW_LINES = 4
_NAMED = 6
_LABELS = {
    SiteQuestionKind.PHASE: "Confirm",
    SiteQuestionKind.UNKNOWN_FILES: "Leave out",
    SiteQuestionKind.LEAVE_OUT: "Leave out",
    SiteQuestionKind.CHANGED_FILES: "Continue",
    SiteQuestionKind.TAKE_OVER: "Take over",
    SiteQuestionKind.UNPROVEN: "Continue",
}


@dataclass(frozen=True, slots=True)
class SiteStart:
    """A site drill to begin.

    Attributes:
        kind, options, choice: what the operator chose.
        command: the command that does the same.
        name: the site's name.
        members: how many pipelines move.
    """

    kind: DrillKind
    options: DrillOptions
    choice: SiteChoice
    command: str
    name: str
    members: int


@dataclass(frozen=True, slots=True)
class SiteRunHere:
    """An operation on a site drill: start, resume or abort.

    Attributes:
        doing: what is done, for example "site drill".
        job: does it on a thread, and returns the site drill as it then is.
        command: the command that does the same.
        can_stop: whether it may be stopped before its end.
    """

    doing: str
    job: Callable[[SiteScreenOperator], SiteDrill]
    command: str
    can_stop: bool = True


class SiteScreen(OperationScreen):
    """A site drill, a detail of screen 8 of a directory.

    Args:
        site: the site drill; None to start one.
        start: what to start.
    """

    ENTRY: ClassVar[str] = "site_drills"
    PANEL: ClassVar[str] = "Pipelines"
    HELP: ClassVar[str | None] = """
        One site drill: a row for each pipeline, the worst first, with its phases as signs: ● done,
        ○ runs, ▲ findings, ✗ failed, · not reached. The line between them is the barrier: no
        pipeline opens its target before every other one is verified, or left out. Held is a
        pipeline that failed; the others go on as far as the barrier. Above are the time since the
        start, the RPO and the RTO of the site, what happens now, and whether you can still go back.

        Enter opens a pipeline: its phases, and why it is held. A confirmation is asked once for
        all, with the list; type the site's name. R resumes what does not run. L leaves out the
        pipeline under the cursor: its drill is aborted, and the others go on. X aborts all, until
        the first target is open. H holds it: it stops here, without a change, and can be resumed on
        any host with the directory.

        O takes it over from the operator who acts. D continues without the source. A accepts the
        findings of the checks that stopped pipelines. F begins again with fencing the producers. T
        chooses what a failback does with records that were never copied, for all pipelines. c shows
        the checks of the pipeline under the cursor. v shows the report; e exports it as JSON and
        Markdown.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "resume", "Resume", id="drill.resume"),
        Binding("X", "abort", "Abort", id="drill.abort"),
        Binding("L", "leave_out", "Leave out", id="drill.leave-out"),
        Binding("H", "hold", "Hold", id="drill.hold"),
        Binding("O", "take_over", "Take over", id="drill.take-over"),
        Binding("D", "disaster", "Disaster", id="drill.disaster"),
        Binding("v", "report", "Report", id="drill.report"),
        Binding("c", "checks", "Checks", id="drill.checks"),
        Binding("A", "accept", "Accept", id="drill.accept"),
        Binding("F", "fence_again", "Fence again", id="drill.fence"),
        Binding("T", "tail", "Tail", id="drill.tail"),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset(
        {
            "resume",
            "abort",
            "leave_out",
            "take_over",
            "disaster",
            "accept",
            "fence_again",
            "tail",
        }
    )
    DETAILS = (MemberScreen,)

    class Changed(Message):
        """The site drill that runs here has changed."""

        def can_replace(self, message: Message) -> bool:
            """Return whether this replaces a queued message: yes, the newest is enough."""
            return isinstance(message, SiteScreen.Changed)

    class Asked(Message):
        """The site drill that runs here waits for an answer."""

        def __init__(self, ask: SiteAsk) -> None:
            super().__init__()
            self.ask = ask

    def __init__(self, site: SiteDrill | None, start: SiteStart | None = None) -> None:
        super().__init__()
        self.site, self._start = site, start
        self.operator: SiteScreenOperator | None = None
        self.ask_now: SiteAsk | None = None
        self._newest: SiteDrill | None = None
        self._shows_question = False
        # Starts when the threads of the one that runs have ended.
        self._following: SiteRunHere | None = None

    @property
    def crumb(self) -> str:
        """The site and the drill's id."""
        if self.site is None:
            return "new site drill"
        return f"{self.site.name} {self.site.id}"

    @property
    def _feed(self) -> FleetFeed:
        feed = self.session.feed
        assert isinstance(feed, FleetFeed)
        return feed

    # Frame

    def body(self) -> Iterable[Widget]:
        """Yield the tiles, what happens now, the members, and the one under the cursor."""
        with Container(id="tiles"):
            yield Tile("RTO", id="rto")
            yield Tile("RPO", id="rpo")
            yield Tile("Site drill", id="way")
            yield Tile("Pipelines", id="checks")
        with Container(id="drill-list"):
            with Vertical(id="drill-side"):
                yield Tile("Now", id="now")
                yield Tile("Pipeline", id="phase")
            with Vertical(id="drill-phases"):
                yield Panel(self.PANEL, self.make_grid(), id="table")
        yield FootLine()

    def make_grid(self) -> Grid[MemberState]:
        """Create the table of members."""
        return Grid(
            self._columns(),
            key=lambda member: member.member.drill,
            search=lambda member: f"{member.pipeline} {member.status} {describe_member(member)}",
            problem=lambda member: judge_member(member).severity >= Severity.WARN,
            order=member_order,
            empty=formatting.NOT_YET,
            id="members",
        )

    def _columns(self) -> tuple[Column[MemberState], ...]:
        """Return the columns, with a sign for each phase."""
        return member_grid_columns(glyphs_of(self), self._phases)

    @property
    def _phases(self) -> int:
        kind = self._kind
        return len(PHASES[kind]) if kind is not None else len(PHASES[DrillKind.PLANNED])

    @property
    def _kind(self) -> DrillKind | None:
        if self.site is not None:
            return self.site.kind
        return self._start.kind if self._start is not None else None

    @property
    def is_composed(self) -> bool:
        """Whether all widgets are there; a change of size may come before, or while it closes."""
        tiles = len(self.query(Tile))  # none yet, while only the table is there
        return bool(self.query(Grid)) and 0 < tiles == len(self.query("Tile TextLines"))

    @property
    def _side(self) -> int:
        """The cells of the panels beside the members; 0 where they are above them."""
        return side_width(self) if is_wide(self) else 0

    @property
    def _now_ms(self) -> int:
        return int(self.session.feed.now() * 1000)

    def on_mount(self) -> None:
        """Show the site drill, or start it."""
        self.set_interval(_TICK_S, self._tick)
        if self.site is not None:
            self.show_site(self.site)
        elif self._start is not None:
            start, files, unlock = self._start, self._feed.files, self.session.unlocked
            self.run_site(
                SiteRunHere(
                    f"{start.kind.noun} of {start.name}",
                    lambda operator: operations.start_site(
                        files, start.kind, start.options, start.choice, operator, unlock=unlock
                    ),
                    start.command,
                )
            )

    def on_unmount(self) -> None:
        """Let it stop where it is: the console ends, or this screen is closed."""
        if self.operator is not None:
            self.operator.stop()

    def on_screen_resume(self) -> None:
        """Show the last view, and ask what was asked while another screen was shown."""
        super().on_screen_resume()
        self._ask_if_shown()

    def on_resize(self) -> None:
        """Choose the columns for the new size; Textual calls the base's handler, too."""
        if self.is_composed:
            self.query_one(Grid).show_columns(self._columns())

    def _tick(self) -> None:
        if self.site is not None and not self.site.is_over and self.is_current:
            self.show_texts()

    def show_view(self, view: View) -> None:
        """Show the site drill as others wrote it; one that runs here is newer than the rows."""
        site = self.site
        if site is None or self.operator is not None:
            return
        seen = {drill.id: drill.beat_ms for drill in site.drills}
        for newest in gather_sites(self._feed.rows):
            if newest.id != site.id:
                continue
            newer = [d for d in newest.drills if d.beat_ms > seen.get(d.id, -1)]
            older = [d for d in newest.drills if d.beat_ms < seen.get(d.id, -1)]
            if newer and not older:
                self.show_site(newest)

    def show_site(self, site: SiteDrill) -> None:
        """Show a site drill."""
        changes_form = self.site is None or self.site.kind is not site.kind
        self.site = site
        if not self.is_composed:
            return
        grid: Grid[MemberState] = self.query_one(Grid)
        if changes_form:
            grid.show_columns(self._columns())
        grid.show(list(site.members))
        self.show_state()

    # Texts

    def show_texts(self) -> None:
        """Show the tiles, what happens now, and the member under the cursor."""
        if not self.is_composed:
            return
        self.show_summary()
        self._show_tiles()
        wide = bool(self._side)
        now = self.query_one("#now", Tile)
        title, state, lines, severity = self._now()
        now.label(title, "" if wide else state)
        if wide and state:
            head = [(Cell(part, Tone.HEADING),) for part in self.wrap(state)]
            lines = [*head, (), *lines]
        now.show(lines if wide else lines[: self._narrow_lines], severity)
        current: MemberState | None = self.query_one(Grid).current
        panel = self.query_one("#phase", Tile)
        panel.display = wide and current is not None
        now.styles.height = "1fr" if wide and not panel.display else "auto"
        if panel.display and current is not None:
            panel.label(safe_text(current.pipeline, 60))
            panel.show(self._about(current), judge_member(current).severity)

    @property
    def _narrow_lines(self) -> int:
        """The lines of what happens now on a narrow terminal: what the members do not need."""
        members = len(self.site.members) if self.site is not None else 0
        return max(_NARROW_LINES, self.size.height - members - 11)

    def _show_tiles(self) -> None:
        site, glyphs = self.site, glyphs_of(self)
        boxed = is_framed(self)
        lines = 4 if boxed else 2
        columns = 4 if self._side else 3
        tiles = self.query_one("#tiles")
        tiles.styles.grid_size_columns = columns
        tiles.styles.height = lines + (2 if boxed else 1)
        self.query_one("#checks").display = columns == 4
        rto, rpo, way, members = (
            self.query_one(f"#{name}", Tile) for name in ("rto", "rpo", "way", "checks")
        )
        if site is None:
            for tile in (rto, rpo, way, members):
                tile.show([(Cell(formatting.NOT_YET),)])
            return
        width = self.size.width // columns - (4 if boxed else 2)
        figure, what = rto_of_site(site, self._now_ms)
        rto.label("RTO of the site" if site.is_over else "RTO so far")
        rto.show([(Cell(figure, Tone.HEADING),), (Cell(what, Tone.MUTED),)])
        rpo.label("RPO of the site" if site.is_over else "RPO so far")
        rpo.show(
            [
                (Cell(rpo_of_site(site), Tone.HEADING),),
                (Cell("records, added up", Tone.MUTED),),
            ]
        )
        judged = judge_site(site)
        whole = len(PHASES[site.kind]) * max(1, len(site.moving))
        share = sum(place_of(member) for member in site.moving) / whole
        way.show(
            [
                (glyphs.mark(judged), Cell(f" {site.kind}", Tone.HEADING)),
                bar(share, width, glyphs, Tone.OK if site.is_over else Tone.INFO),
                *([self._way(site)] if lines > 2 else []),
            ],
            judged.severity,
        )
        counts: list[Line] = [
            (glyphs.mark(label), Cell(f" {count:,}", Tone.HEADING))
            for label, count in count_members(site)
        ]
        members.label("Pipelines", f"{len(site.members):,}")
        members.show(counts[:lines], judged.severity)

    def _way(self, site: SiteDrill) -> Line:
        if site.is_over:
            begun = formatting.moment(site.started_ms / 1000)
            return (Cell(f"begun {begun.removesuffix(' UTC')[5:-3]} UTC", Tone.MUTED),)
        text, tone = describe_way_back(site)
        return (Cell(text.partition(":")[0], tone),)

    def summary(self) -> Line:
        """Return when it was begun, and by whom."""
        if self.site is None or not self.site.drills:
            return ()
        first = min(self.site.drills, key=lambda drill: drill.started_ms)
        begun = formatting.moment(first.started_ms / 1000)
        return (Cell(f"begun {begun} by {safe_text(first.started_by, 60)}"),)

    def wrap(self, text: str) -> list[str]:
        """Return a text wrapped to the panel beside the members, or to the screen's width."""
        width = self._side - 5 if self._side else self.size.width - 3
        return wrap(text, max(20, width))

    def _now(self) -> tuple[str, str, list[Line], Severity | None]:
        """Return the title, the state, the lines and the severity of what happens now."""
        site = self.site
        if site is None:
            start = self._start
            text = "" if start is None else f"beginning {counted(start.members, 'drill')}"
            if self.operator is None:
                text = "no drill was begun; q goes back"
            return "Now", text, self.progress_lines(), None
        if site.is_over:
            lines = [line for text in summarize_site(site) for line in self._lines(text)]
            return "Result", "", lines, judge_site(site).severity
        parts: list[tuple[str, Tone]] = []
        lines = [] if self.busy else self.progress_lines()
        if hold := describe_hold(site):
            parts.append((hold, Tone.BAD))
        if task := self._to_do(site):
            parts.append((task, Tone.WARN))
        parts += [self._who(site), describe_way_back(site)]
        for text, tone in parts:
            lines += self._lines(text, tone)
        if not self._side:
            lines += self._short(self._current)
        severity = judge_site(site).severity
        return "Now", describe_site(site), lines, severity if severity >= Severity.WARN else None

    def _short(self, member: MemberState | None) -> list[Line]:
        """Return what is known of the member under the cursor where it has no panel."""
        if member is None:
            return []
        label = f"{safe_text(member.pipeline, 30)}: "
        first, *rest = self.wrap(label + " ".join(describe_member(member).split()))
        severity = judge_member(member).severity
        tone = tone_of(severity) if severity >= Severity.WARN else Tone.PLAIN
        lines: list[Line] = [(Cell(label, Tone.HEADING), Cell(first.removeprefix(label), tone))]
        return [*lines, *((Cell(part, tone),) for part in rest)]

    def _lines(self, text: str, tone: Tone = Tone.PLAIN) -> list[Line]:
        return [(Cell(part, tone),) for part in self.wrap(text)]

    def _to_do(self, site: SiteDrill) -> str:
        """Return what the operator has to do, in one or two sentences."""
        held = [m for m in site.moving if m.status is MemberStatus.HELD]
        if self.operator is not None:
            if self.operator.stopping:
                return ""
            if self.ask_now is not None and self.ask_now.is_open:
                return "It waits for you to confirm."
            tasks = dict.fromkeys(
                describe_task(m.drill)
                for m in site.moving
                if m.drill is not None and m.acting and m.status is not MemberStatus.HELD
            )
            real = [task for task in tasks if not task.startswith("Nothing")]
            return " ".join(real or list(tasks)[:1])
        if held and not self.other_acts:
            return "Enter says why a pipeline is held. " + advise(held[0])
        return ""

    def _who(self, site: SiteDrill) -> tuple[str, Tone]:
        if self.operator is not None:
            if site.status is DrillStatus.ABORTING:
                return "It is being aborted here.", Tone.INFO
            if self.operator.stopping:
                return "It stops here as soon as the last requests are answered.", Tone.WARN
            return "It runs here: H holds it.", Tone.INFO
        if self.other_acts:
            acting = [m.drill for m in site.members if m.acting and m.drill is not None]
            owners = list_names(sorted({drill.owner for drill in acting}), _NAMED)
            return f"{owners} acts on it. You watch; O takes it over.", Tone.WARN
        if site.status is DrillStatus.ABORTING:
            return "No operator acts on it.", Tone.WARN
        return "No operator acts on it: R resumes it.", Tone.WARN

    @property
    def other_acts(self) -> bool:
        """Whether another process acts on a member."""
        site = self.site
        if site is None or self.operator is not None or site.is_over:
            return False
        return any(member.acting for member in site.members)

    def _about(self, member: MemberState) -> list[Line]:
        """Return what is known of the member under the cursor."""
        glyphs = glyphs_of(self)
        judged = judge_member(member)
        strip = phase_strip(member, glyphs)
        lines: list[Line] = [(glyphs.mark(judged),), *([strip] if strip else []), ()]
        tone = tone_of(judged.severity) if judged.severity >= Severity.WARN else Tone.PLAIN
        lines += self._lines(describe_member(member), tone)
        for text in list_member_findings(member):
            finding, *fix = text.splitlines()
            lines += [*self._lines(finding, tone)]
            lines += [line for part in fix for line in self._lines(part)]
        if text := advise(member):
            lines += [(), *self._lines(text, Tone.WARN)]
        drill = member.drill
        if drill is not None:
            lines += [
                (),
                *self._lines(f"drill {drill.id} on its target", Tone.MUTED),
            ]
        return lines

    # Running

    def run_site(self, run: SiteRunHere) -> None:
        """Run it on a thread until it ends, fails or is stopped; one that runs is stopped first."""
        if self.operator is not None:
            self.operator.stop()
            self._following = run
            self.show_state()
            return
        self.operator = operator = SiteScreenOperator(
            self._progressed_to, self._asked_on_thread, can_stop=run.can_stop
        )

        def done(site: SiteDrill) -> None:
            self._over()
            self.show_site(site)
            if site.is_over:
                self._following = None
                calm = site.status is DrillStatus.DONE and not site_has_findings(site)
                self.inform(summarize_site(site)[0], "information" if calm else "warning")
            self._run_following()

        def failed(error: K2kError) -> None:
            self._over()
            if isinstance(error, StoppedHere):
                self.error = None
                if self._following is None:
                    self.inform(str(error), "information")
            self._run_following()

        self.act(
            run.doing,
            lambda: run.job(operator),
            done,
            failed=failed,
            command=run.command,
            result=lambda site: summarize_site(site)[0] if site.is_over else "it has stopped",
        )

    def _run_following(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            self.run_site(following)

    def _over(self) -> None:
        self.operator = None
        self._take_newest()
        if self.site is not None:
            # This process acts no more, although the last records name it.
            members = (replace(member, acting=False) for member in self.site.members)
            self.show_site(replace(self.site, members=tuple(members)))
        if self.ask_now is not None:
            self.ask_now.answer(False)
            self.ask_now = None
        self.session.feed.refresh()

    def _progressed_to(self, site: SiteDrill) -> None:
        self._newest = site
        self.post_message(self.Changed())

    def _asked_on_thread(self, ask: SiteAsk) -> None:
        self.post_message(self.Asked(ask))

    @on(Changed)
    def _changed(self) -> None:
        self._take_newest()

    def _take_newest(self) -> None:
        site, self._newest = self._newest, None
        if site is not None:
            self.show_site(site)

    # Questions

    @on(Asked)
    def _asked(self, event: Asked) -> None:
        self.ask_now = event.ask
        self._take_newest()
        if not self.is_current:
            what = event.ask.question.step or "a question"
            self.inform(f"The site drill waits for you to confirm {what}: press 8.", "warning")
        self._ask_if_shown()

    def _ask_if_shown(self) -> None:
        ask = self.ask_now
        if ask is None or not ask.is_open or self._shows_question or not self.is_current:
            return
        self._shows_question = True
        self._put(ask)

    @work(group="question")
    async def _put(self, ask: SiteAsk) -> None:
        question = ask.question
        goes_back = ask.site is not None and can_all_go_back(ask.site)
        first, *remarks = question.text.splitlines() or [""]
        label = _LABELS[question.kind]
        lines: list[str | Line] = [first]
        title = label
        if (phase := find_phase(question.step)) is not None:
            number = PHASES[self._kind or DrillKind.PLANNED].index(phase) + 1
            title = f"{number} {question.step}, of {counted(len(question.pipelines), 'pipeline')}"
            if question.step == DrillPhase.OPEN_TARGET:
                lines.append((Cell("This is the point of no return.", Tone.BAD),))
            elif goes_back:
                lines.append("You can still go back afterwards: X aborts all.")
        elif question.kind is SiteQuestionKind.LEAVE_OUT:
            title = f"Leave out {counted(len(question.pipelines), 'pipeline')}"
        lines += [f"- {line}" for line in question.lines]
        if ask.site is not None:
            lines.append("Esc stops the site drill here; R resumes it.")
        lines += remarks
        canceled = (
            f"{label}: nothing was changed. The site drill stops here."
            if ask.site is not None
            else "No drill was begun."
        )
        dialog = Confirm(
            safe_message(title, 80),
            lines,
            question.answer,
            label,
            canceled=canceled,
            undoable=goes_back and is_taken_back(question.step),
        )
        agreed = await self.app.push_screen_wait(dialog)
        self._shows_question = False
        ask.answer(bool(agreed))
        self.show_state()

    # Actions

    @work(group=ASK)
    async def action_resume(self) -> None:
        """Confirm, and continue."""
        await self._resume("Resume", "Every pipeline continues from what is found on its clusters.")

    @work(group=ASK)
    async def action_take_over(self) -> None:
        """Confirm, and take it over from the operator who acts."""
        text = "Who acts on it changes nothing from then on. It continues here."
        await self._resume("Take over", text, take_over=True)

    @work(group=ASK)
    async def action_disaster(self) -> None:
        """Confirm, and continue without the source."""
        text = (
            "Every pipeline continues as a disaster drill: it uses the last known commits, and "
            "records that were not copied are lost. It refuses while the source answers."
        )
        await self._resume("Continue without the source", text, as_disaster=True)

    @work(group=ASK)
    async def action_accept(self) -> None:
        """Confirm, and continue in spite of the checks that have stopped pipelines."""
        checks = self._stopping_checks()
        lines = [f"{name}: {check}" for name, check in checks]
        ids = tuple(sorted({check.partition(" ")[0] for _, check in checks}))
        text = "All continue in spite of these findings; the journals have who accepted them:"
        await self._resume("Accept", text, *lines, accept=ids)

    def _stopping_checks(self) -> list[tuple[str, str]]:
        members = self.site.moving if self.site is not None else []
        return [
            (safe_text(member.pipeline), f"{check.id} {check.title}: {check.evidence}")
            for member in members
            if member.drill is not None
            for check in checks_that_stop(member.drill)
        ]

    @work(group=ASK)
    async def action_fence_again(self) -> None:
        """Confirm, and begin again with fencing the producers."""
        text = "All begin again with fencing the producers; later phases are repeated."
        await self._resume("Fence again", text, from_fence=True)

    @work(group=ASK)
    async def action_tail(self) -> None:
        """Choose what happens to the records that were never copied, confirm, and continue."""
        title = "Records of the old source that were never copied"
        chosen = await self.ask(ChoiceDialog(title, "choice", TAIL_CHOICES))
        if chosen is None:
            return
        text = "Each pipeline shows what it does with the records before it does it."
        await self._resume("Continue", text, chosen={"tail": TailChoice(chosen)})

    @work(group=ASK)
    async def action_leave_out(self) -> None:
        """Confirm, and continue without the pipeline under the cursor."""
        member = self._current
        if member is None:
            return
        name = safe_text(member.pipeline, 60)
        text = (
            f"{name} is left out: its drill is aborted as far as its clusters answer, and the "
            "others go on without it. This is not taken back."
        )
        await self._resume(f"Leave out {name}", text, left_out=(member.pipeline,))

    @property
    def _current(self) -> MemberState | None:
        if not self.is_composed:
            return None
        current: MemberState | None = self.query_one(Grid).current
        return current

    async def _resume(
        self,
        label: str,
        *texts: str,
        take_over: bool = False,
        as_disaster: bool = False,
        from_fence: bool = False,
        accept: tuple[str, ...] = (),
        left_out: tuple[str, ...] = (),
        chosen: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        site = self.site
        if site is None:
            return
        more = [
            *(["--take-over"] if take_over else []),
            *(["--as", "disaster"] if as_disaster else []),
            *(["--from-fence"] if from_fence else []),
            *(["--accept", ",".join(accept)] if accept else []),
            *(word for name in left_out for word in ("--leave-out", name)),
            *(["--tail", str(chosen["tail"])] if chosen else []),
        ]
        command = cli_equivalent.site_on(self._directory, "resume", site.id, *more)
        lines: list[str | Line] = [*texts, describe_site(site), "", command]
        button = "Leave out" if left_out else label  # a name may be too long for one
        # Nothing brings back who acted on it, the phases that need the source, a left out one, or
        # a tail.
        is_final = take_over or as_disaster or left_out or any(map(has_begun_tail, site.drills))
        undoable = can_all_go_back(site) and not is_final
        if not await self._agree(label, site, lines, button, undoable=undoable):
            return
        files, unlock = self._feed.files, self.session.unlocked

        def run(operator: SiteScreenOperator) -> SiteDrill:
            return operations.resume_site(
                files,
                site.id,
                operator,
                unlock=unlock,
                take_over=take_over,
                as_disaster=as_disaster,
                from_fence=from_fence,
                accept=accept,
                chosen=chosen,
                left_out=left_out,
            )

        self.run_site(SiteRunHere(f"site drill {site.id}", run, command))

    @work(group=ASK)
    async def action_abort(self) -> None:
        """Confirm, and restore what all members changed."""
        site = self.site
        if site is None:
            return
        lines: list[str | Line] = [
            f"- {safe_text(member.pipeline, 60)}: {_restored(member.drill)}"
            for member in site.moving
            if member.drill is not None
        ]
        lines.insert(0, "Restores what each pipeline's drill changed, the last change first:")
        if self.other_acts:
            lines.append("Somebody acts on it: this takes the site drill over.")
        command = cli_equivalent.site_on(self._directory, "abort", site.id)
        lines += ["", command]
        if not await self._agree("Abort", site, lines, "Abort"):
            return
        files, unlock, taken = self._feed.files, self.session.unlocked, self.other_acts

        def run(operator: SiteScreenOperator) -> SiteDrill:
            return operations.abort_site(files, site.id, operator, unlock=unlock, take_over=taken)

        self.run_site(SiteRunHere(f"aborting site drill {site.id}", run, command, can_stop=False))

    @property
    def _directory(self) -> str:
        files = self._feed.files
        return str(files[0].path.parent) if files else "DIR"

    async def _agree(
        self,
        what: str,
        site: SiteDrill,
        lines: list[str | Line],
        label: str,
        *,
        undoable: bool = False,
    ) -> bool:
        title = safe_message(f"{what}: site drill of {safe_text(site.name, 40)}", 80)
        moving = {member.pipeline for member in site.moving}
        asked = name_to_type(site.kind, site.name, *self._feed.environments(moving))
        typed = asked if undoable else site.name
        agreed = await self.ask(Confirm(title, lines, typed, label, undoable=undoable))
        return bool(agreed)

    def action_hold(self) -> None:
        """Stop it here; it stays where it is."""
        if self.operator is not None:
            self.operator.stop()
            self.show_state()

    def action_report(self) -> None:
        """Show the report."""
        site = self.site
        if site is not None:
            texts = [*summarize_site(site)]
            for member in site.members:
                texts.append("\n".join([safe_text(member.pipeline), *member_lines(member)]))
            self.app.push_screen(TextDialog(f"Site drill {safe_text(site.id, 60)}", texts))

    def action_checks(self) -> None:
        """Show the checks of the pipeline under the cursor."""
        member = self._current
        if member is not None:
            self.app.push_screen(DrillChecksScreen(lambda: self._drill_of(member)))

    def _drill_of(self, member: MemberState) -> Drill | None:
        newest = self.find_member(member.member.drill)
        return newest.drill if newest is not None else member.drill

    def find_member(self, drill_id: str) -> MemberState | None:
        """Return a member as it is now."""
        members = self.site.members if self.site is not None else ()
        return next((member for member in members if member.member.drill == drill_id), None)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        member: MemberState = event.row
        if member.drill is None:
            title = f"{safe_text(member.pipeline, 60)}: {member.status}"
            self.app.push_screen(TextDialog(title, list(member_lines(member))))
            return
        flow = next((f.flow for f in self._feed.files if str(f.path) == member.file), None)
        self.app.push_screen(MemberScreen(member, self, flow))

    def document(self) -> str | None:
        """Return the report as JSON."""
        return None if self.site is None else json.dumps(site_json(self.site))

    def markdown(self) -> str | None:
        """Return the report as Markdown."""
        return None if self.site is None else site_markdown(self.site)

    def text_to_copy(self) -> str:
        """Return the command that continues it, or prints its report."""
        if self.site is None:
            return ""
        verb = "report" if self.site.is_over else self.site.next_verb
        return cli_equivalent.site_on(self._directory, verb, self.site.id)

    # What is possible now

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "hold":
            return self._no_hold()
        if action in ("report", "checks"):
            return "the site drill has not begun" if self.site is None else ""
        if action not in self.CHANGES:
            return ""
        return self.session.access.reason or self._no_change(action)

    def _no_hold(self) -> str:
        if self.operator is None:
            return "it does not run here"
        if self.site is not None and self.site.status is DrillStatus.ABORTING:
            return "an abort is not left half-way"
        return "it stops already" if self.operator.stopping else ""

    def _no_change(self, action: str) -> str:
        site = self.site
        if site is None:
            return "the site drill has not begun"
        if site.is_over:
            return f"the site drill is {site.status}"
        if action == "abort":
            if self.operator is not None and site.status is DrillStatus.ABORTING:
                return "it is being aborted"
            back = can_all_go_back(site) or any(member.left_out for member in site.members)
            return "" if back else "a target is open; the report says what is left"
        if action == "leave_out":
            return self._no_leaving_out()
        if self.operator is not None:
            if action == "disaster" and site.kind.is_switchover and not self.operator.stopping:
                return ""
            return "it runs here; H holds it"
        if action == "take_over":
            return "" if self.other_acts else "no other operator acts on it"
        if self.other_acts:
            return "another operator acts on it; O takes it over"
        if site.status is DrillStatus.ABORTING:
            return "it is being aborted; X completes that"
        return self._no_resume_with(action, site)

    def _no_fence(self, site: SiteDrill) -> str:
        """Return why no producers are fenced again; members that never came to it have not been."""
        drills = [member.drill for member in site.moving if member.drill is not None]
        if not any(has_fenced(drill) for drill in drills):
            return "the producers have not been fenced"
        return "" if can_all_go_back(site) else "a target is open"

    def _no_leaving_out(self) -> str:
        member = self._current
        if self.other_acts:
            return "another operator acts on it; O takes it over"
        if self.site is not None and self.site.status is DrillStatus.ABORTING:
            return "it is being aborted; X completes that"
        if member is None or member.left_out:
            return "the pipeline under the cursor is left out already"
        if member.drill is not None and member.drill.figures.opened_ms is not None:
            return "its target is open"
        if self.site is not None and len(self.site.moving) == 1:
            return "it is the last one; X aborts it"
        return ""

    def _no_resume_with(self, action: str, site: SiteDrill) -> str:
        if action == "disaster":
            return "" if site.kind.is_switchover else "only a planned drill can"
        if action == "accept":
            return "" if self._stopping_checks() else "no failed check has stopped a pipeline"
        if action == "fence_again":
            return self._no_fence(site)
        if action == "tail":
            waits = any(map(waits_for_tail_choice, site.drills))
            return "" if waits else "no records wait for a choice"
        return ""

    def reason_to_stay(self) -> str:
        """Keep the screen open while the site drill runs here."""
        if self.operator is None:
            return ""
        return "the site drill runs here: H holds it; 0 shows the pipelines"

    def session_work(self) -> list[str]:
        """Return what leaving does to the site drill that runs here."""
        if self.operator is None or self.site is None:
            return []
        verb = self.site.next_verb
        command = cli_equivalent.site_on(self._directory, verb, self.site.id)
        how = f"{verb.capitalize()} it: {command}"
        return [f"The site drill {self.site.id} stops where it is. {how}"]


def _restored(drill: Drill) -> str:
    left: Sequence[str] = [describe_step_back(step) for step in steps_back(drill)]
    return "; ".join(left) if left else "it has changed nothing"
