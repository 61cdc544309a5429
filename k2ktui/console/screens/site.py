"""One site drill: its members and their phases, the worst first; runs, resumes, aborts it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.drill_checks import DrillChecksScreen
from k2ktui.console.screens.drill_facts import is_taken_back
from k2ktui.console.screens.drill_runs import (
    DRILL_CHANGES,
    DrillJob,
    DrillRun,
    DrillRunsScreen,
    drill_keys,
)
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
from k2ktui.console.site_views import gather_sites
from k2ktui.console.visuals.panel import Tile
from k2ktui.console.visuals.shapes import bar
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.drill.report import Report
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.hook_steps import describe_step_back, steps_back
from k2ktui.engine.drill.hooks import find_phase
from k2ktui.engine.drill.model import PHASES, Drill, DrillOptions, DrillStatus, ResumeOptions
from k2ktui.engine.drill.site import MemberState, MemberStatus, SiteDrill, can_all_go_back
from k2ktui.engine.severity import Severity
from k2ktui.fleet.feed import FleetFeed
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.drills import NO_TASKS, describe_task
from k2ktui.present.formatting import Cell, Line, Tone, tone_of
from k2ktui.present.site_drills import judge_member, judge_site
from k2ktui.site import operations
from k2ktui.site.operations import SiteActor, SiteChoice
from k2ktui.site.report import (
    make_site_report,
    site_has_findings,
    site_json,
    site_markdown,
    summarize_site,
)
from k2ktui.text import counted, list_names, safe_message, safe_text
from k2ktui.watch.model import View

_TICK_S = 1.0
_NAMED = 6
_LABELS = {
    QuestionKind.PHASE: "Confirm",
    QuestionKind.UNKNOWN_FILES: "Leave out",
    QuestionKind.LEAVE_OUT: "Leave out",
    QuestionKind.CHANGED_FILES: "Continue",
    QuestionKind.TAKE_OVER: "Take over",
    QuestionKind.UNPROVEN: "Continue",
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


class SiteScreen(DrillRunsScreen[SiteDrill]):
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
    BINDINGS: ClassVar[list[BindingType]] = drill_keys(
        Binding("L", "leave_out", "Leave out", id="drill.leave-out")
    )
    CHANGES: ClassVar[frozenset[str]] = DRILL_CHANGES | {"leave_out"}
    NOUN: ClassVar[str] = "site drill"
    TITLES: ClassVar[tuple[str, str, str]] = ("Site drill", "Pipelines", "Pipeline")
    TEXTS: ClassVar[Mapping[str, str]] = {
        "resume": "Every pipeline continues from what is found on its clusters.",
        "take_over": "Who acts on it changes nothing from then on. It continues here.",
        "disaster": "Every pipeline continues as a disaster drill: it uses the last known commits, "
        "and records that were not copied are lost. It refuses while the source answers.",
        "accept": "All continue in spite of these findings; the journals have who accepted them:",
        "fence_again": "All begin again with fencing the producers; later phases are repeated.",
        "tail": "Each pipeline shows what it does with the records before it does it.",
    }
    DOING: ClassVar[Mapping[str, str]] = {
        "resume": "site drill {id}",
        "abort": "aborting site drill {id}",
    }
    ABORTS: ClassVar[str] = "aborts all"
    ELSEWHERE: ClassVar[str] = "0 shows the pipelines"
    CHECKED: ClassVar[str] = "a pipeline"
    OPENED: ClassVar[str] = "a target"
    NARROW_LINES: ClassVar[int] = 4
    DETAILS = (MemberScreen,)

    def __init__(self, site: SiteDrill | None, start: SiteStart | None = None) -> None:
        super().__init__(site)
        self._start = start

    @property
    def crumb(self) -> str:
        """The site and the drill's id."""
        if self.drill is None:
            return "new site drill"
        return f"{self.drill.name} {self.drill.id}"

    @property
    def _feed(self) -> FleetFeed:
        feed = self.session.feed
        assert isinstance(feed, FleetFeed)
        return feed

    # Frame

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
        if self.drill is not None:
            return len(self.drill.phases)
        return len(PHASES[self._kind or DrillKind.PLANNED])

    @property
    def _kind(self) -> DrillKind | None:
        if self.drill is not None:
            return self.drill.kind
        return self._start.kind if self._start is not None else None

    @property
    def row_count(self) -> int:
        """The number of members."""
        return len(self.drill.members) if self.drill is not None else 0

    def on_mount(self) -> None:
        """Show the site drill, or start it."""
        self.set_interval(_TICK_S, self._tick)
        if self.drill is not None:
            self.show_drill(self.drill)
        elif self._start is not None:
            start, files, unlock = self._start, self._feed.files, self.session.unlocked
            self.run_drill(
                DrillRun(
                    f"{start.kind.noun} of {start.name}",
                    lambda operator: operations.start_site(
                        SiteActor(files, operator, unlock), start.kind, start.options, start.choice
                    ),
                    start.command,
                )
            )

    def on_resize(self) -> None:
        """Choose the columns for the new size; Textual calls the base's handler, too."""
        if self.is_composed:
            self.query_one(Grid).show_columns(self._columns())

    def _tick(self) -> None:
        if self.drill is not None and not self.drill.is_over and self.is_current:
            self.show_texts()

    def show_view(self, view: View) -> None:
        """Show the site drill as others wrote it; one that runs here is newer than the rows."""
        site = self.drill
        if site is None or self.operator is not None:
            return
        seen = {drill.id: drill.beat_ms for drill in site.drills}
        for newest in gather_sites(self._feed.rows):
            if newest.id != site.id:
                continue
            newer = [d for d in newest.drills if d.beat_ms > seen.get(d.id, -1)]
            older = [d for d in newest.drills if d.beat_ms < seen.get(d.id, -1)]
            if newer and not older:
                self.show_drill(newest)

    def show_drill(self, drill: SiteDrill) -> None:
        """Show a site drill."""
        changes_form = self.drill is None or self.drill.phases != drill.phases
        self.drill = drill
        if not self.is_composed:
            return
        grid: Grid[MemberState] = self.query_one(Grid)
        if changes_form:
            grid.show_columns(self._columns())
        grid.show(list(drill.members))
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

    def _show_tiles(self) -> None:
        site, glyphs = self.drill, glyphs_of(self)
        (rto, rpo, way, members), (width, lines) = self.lay_out_tiles()
        if site is None:
            return
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
        phases = (member.drill.phases if member.drill else site.phases for member in site.moving)
        whole = max(1, sum(map(len, phases)))
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
        text, _, tone = describe_way_back(site)
        return (Cell(text, tone),)

    def summary(self) -> Line:
        """Return when it was begun, and by whom."""
        if self.drill is None or not self.drill.drills:
            return ()
        first = min(self.drill.drills, key=lambda drill: drill.started_ms)
        begun = formatting.moment(first.started_ms / 1000)
        return (Cell(f"begun {begun} by {safe_text(first.started_by, 60)}"),)

    def _now(self) -> tuple[str, str, list[Line], Severity | None]:
        """Return the title, the state, the lines and the severity of what happens now."""
        site = self.drill
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
        text, effect, tone = describe_way_back(site)
        parts += [self._who(site), (f"{text}: {effect}" if effect else text, tone)]
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
            if self.asked is not None and self.asked.is_open:
                return "It waits for you to confirm."
            tasks = dict.fromkeys(
                describe_task(m.drill)
                for m in site.moving
                if m.drill is not None and m.acting and m.status is not MemberStatus.HELD
            )
            real = [task for task in tasks if task not in NO_TASKS]
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
        site = self.drill
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

    # What runs here

    def left_alone(self, drill: SiteDrill) -> SiteDrill:
        """Return a site drill on whose members this process acts no more."""
        members = (replace(member, acting=False) for member in drill.members)
        return replace(drill, members=tuple(members))

    def outcome(self, drill: SiteDrill) -> tuple[str, bool]:
        """Return what came of a site drill that is over, and whether it is as it should be."""
        calm = drill.status is DrillStatus.DONE and not site_has_findings(drill)
        return summarize_site(drill)[0], calm

    def resume_job(self, drill: SiteDrill, how: ResumeOptions) -> DrillJob[SiteDrill]:
        """Return what continues a site drill."""
        files, unlock = self._feed.files, self.session.unlocked
        return lambda operator: operations.resume_site(
            SiteActor(files, operator, unlock), drill.id, how
        )

    def abort_job(self, drill: SiteDrill, *, take_over: bool) -> DrillJob[SiteDrill]:
        """Return what aborts a site drill."""
        files, unlock = self._feed.files, self.session.unlocked
        return lambda operator: operations.abort_site(
            SiteActor(files, operator, unlock), drill.id, take_over=take_over
        )

    # What is asked

    def title_of(self, label: str) -> str:
        """Return the title of the dialog before the site drill is changed."""
        return f"{label}: site drill of {safe_text(self.drill.name if self.drill else '', 40)}"

    def next_text(self, drill: SiteDrill) -> str:
        """Return what the members do."""
        return describe_site(drill)

    def list_restored(self, drill: SiteDrill) -> list[str | Line]:
        """Return what an abort restores."""
        lines: list[str | Line] = [
            f"- {safe_text(member.pipeline, 60)}: {_restored(member.drill)}"
            for member in drill.moving
            if member.drill is not None
        ]
        lines.insert(0, "Restores what each pipeline's drill changed, the last change first:")
        if self.other_acts:
            lines.append("Somebody acts on it: this takes the site drill over.")
        return lines

    def question_dialog(self, question: Question) -> Confirm:
        """Return the dialog that asks a question, with the list of what it is about."""
        site, names = question.drill, counted(len(question.pipelines), "pipeline")
        goes_back = isinstance(site, SiteDrill) and can_all_go_back(site)
        title = label = _LABELS[question.kind]
        lines: list[str | Line] = [question.text]
        if (phase := find_phase(question.step)) is not None and isinstance(site, SiteDrill):
            number = site.phases.index(phase) + 1
            title = f"{number} {question.step}, of {names}"
            lines += self.way_back_lines(question)
        elif question.kind is QuestionKind.LEAVE_OUT:
            title = f"Leave out {names}"
        lines += [f"- {line}" for line in question.lines]
        canceled = "No drill was begun."
        if site is not None:
            lines.append(self.stop_line(site))
            canceled = f"{label}: nothing was changed. The site drill stops here."
        return Confirm(
            safe_message(title, 80),
            lines,
            question.answer,
            label,
            canceled=canceled,
            undoable=goes_back and is_taken_back(question.step),
        )

    # Actions

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
        label, button = f"Leave out {name}", "Leave out"  # a name may be too long for a button
        how = ResumeOptions(left_out=(member.pipeline,))
        await self.ask_to_resume(label, button, how, text)

    @property
    def _current(self) -> MemberState | None:
        if not self.is_composed:
            return None
        current: MemberState | None = self.query_one(Grid).current
        return current

    @property
    def _directory(self) -> str:
        files = self._feed.files
        return str(files[0].path.parent) if files else "DIR"

    @property
    def name_and_environments(self) -> tuple[str, ...]:
        """The site's name, and the environments of the pipelines that move."""
        site = self.drill
        if site is None:
            return ("",)
        moving = {member.pipeline for member in site.moving}
        return site.name, *self._feed.environments(moving)

    def make_report(self, drill: SiteDrill) -> Report:
        """Return the report, with those of the members."""
        return make_site_report(drill)

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
        members = self.drill.members if self.drill is not None else ()
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
        return None if self.drill is None else json.dumps(site_json(self.drill))

    def markdown(self) -> str | None:
        """Return the report as Markdown."""
        return None if self.drill is None else site_markdown(self.drill)

    def command(self, verb: str, *more: str) -> str:
        """Return the command that does something with the site drill."""
        site_id = self.drill.id if self.drill is not None else ""
        return cli_equivalent.site_on(self._directory, verb, site_id, *more)

    # What is possible now

    @property
    def drills(self) -> Sequence[Drill]:
        """The drills of the members that could be read."""
        return self.drill.drills if self.drill is not None else ()

    @property
    def moving(self) -> Sequence[Drill]:
        """The drills of the members that were not left out."""
        members = self.drill.moving if self.drill is not None else ()
        return [member.drill for member in members if member.drill is not None]

    @property
    def other(self) -> str:
        """Who acts on it elsewhere; members may have several."""
        return "another operator"

    def check_subject(self, drill: Drill) -> str:
        """Return the name of the pipeline whose check it is."""
        member = self.find_member(drill.id)
        return f"{safe_text(drill.pipeline if member is None else member.pipeline)}: "

    def can_abort(self) -> bool:
        """Return whether an abort restores something: also what was left out is aborted."""
        members = self.drill.members if self.drill is not None else ()
        return self.can_go_back() or any(member.left_out for member in members)

    def why_not_left_out(self) -> str:
        """Return why the pipeline under the cursor cannot be left out."""
        member = self._current
        if member is None or member.left_out:
            return "the pipeline under the cursor is left out already"
        if member.drill is not None and member.drill.figures.opened_ms is not None:
            return "its target is open"
        if self.drill is not None and len(self.drill.moving) == 1:
            return "it is the last one; X aborts it"
        return ""


def _restored(drill: Drill) -> str:
    left: Sequence[str] = [describe_step_back(step) for step in steps_back(drill)]
    return "; ".join(left) if left else "it has changed nothing"
