"""One drill: a checklist of its phases with live values; runs, resumes, aborts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message

from k2ktui.console import cli_equivalent
from k2ktui.console.drill_operator import Question, ScreenOperator, StoppedHere
from k2ktui.console.screens.drill_checklist import DrillChecklist
from k2ktui.console.screens.drill_facts import is_taken_back, name_to_type
from k2ktui.console.widgets.choice_dialog import ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.drill_dialog import TAIL_CHOICES
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.drill import operations
from k2ktui.drill.checks.catalog import checks_that_stop
from k2ktui.drill.report import (
    has_findings,
    list_harm,
    report_text,
    summarize,
)
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import describe_step_back, steps_back
from k2ktui.engine.drill.hooks import find_phase
from k2ktui.engine.drill.model import Drill, DrillOptions, DrillStatus
from k2ktui.engine.drill.steps import (
    can_go_back,
    describe_next,
    has_begun_tail,
)
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.errors import K2kError
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message, safe_text

_TICK_S = 1.0
Start = tuple[DrillKind, DrillOptions]


@dataclass(frozen=True, slots=True)
class DrillRun:
    """An operation on a drill: start, resume or abort.

    Attributes:
        doing: what is done, for example "drill".
        job: does it on a thread, and returns the drill as it then is.
        command: the command that does the same.
        can_stop: whether it may be stopped before its end.
    """

    doing: str
    job: Callable[[ScreenOperator], Drill]
    command: str
    can_stop: bool = True


class DrillScreen(DrillChecklist):
    """A drill, a detail of screen 8.

    Args:
        drill: the drill; None to start one.
        start: what to start.
    """

    ENTRY: ClassVar[str] = "drill"
    HELP: ClassVar[str | None] = """
        One drill: its phases in order, with what each has found or waits for. Above them are the
        time since the start, the RPO (records that are only on the source) and the RTO (time until
        a group reads its first record on the target), what the next step does, who acts, and
        whether you can still go back. Below are the findings of the phase under the cursor, with
        the evidence of each failed check; Enter shows them whole.

        A phase that must be confirmed asks for its name. R resumes the drill from what is found on
        the clusters. X aborts it: everything that it changed is restored; this is possible until
        the target is opened. H holds it: it stops here, without a change, and can be resumed on
        any host. The same happens when the console ends.

        One operator acts, others watch. O takes the drill over from the operator who acts; this is
        in the journal. D continues a planned drill or a failback without its source. A accepts the
        findings of the checks that stopped the drill, and continues. F begins again with fencing
        the producers. T chooses what happens to the records that a failback has listed. c shows all
        checks, what failed first: what each has looked at, its fix and what it stops. v shows the
        report; e exports it as JSON and Markdown.

        After fence-replicator, the pipeline does not start until k2ktui drill release allows it, or
        the drill is aborted.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "resume", "Resume", id="drill.resume"),
        Binding("X", "abort", "Abort", id="drill.abort"),
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
        {"resume", "abort", "take_over", "disaster", "accept", "fence_again", "tail"}
    )

    class Changed(Message):
        """The drill that runs here has changed."""

        def can_replace(self, message: Message) -> bool:
            """Return whether this replaces a queued message: yes, the newest is enough."""
            return isinstance(message, DrillScreen.Changed)

    class Asked(Message):
        """The drill that runs here waits for an answer."""

        def __init__(self, question: Question) -> None:
            super().__init__()
            self.question = question

    def __init__(self, drill: Drill | None, start: Start | None = None) -> None:
        super().__init__(drill)
        self._start = start
        self._newest: Drill | None = None
        self._shows_question = False
        # Starts when the drill's thread has ended.
        self._following: DrillRun | None = None

    def on_mount(self) -> None:
        """Show the drill, or start it."""
        self.set_interval(_TICK_S, self._tick)
        if self.drill is not None:
            self.show_drill(self.drill)
        elif self._start is not None:
            kind, options = self._start
            flow, files, may = self.flow, self.session.files, self.session.access
            self.run_drill(
                DrillRun(
                    kind.noun,
                    lambda operator: operations.start_drill(
                        flow, kind, options, files, may, operator
                    ),
                    cli_equivalent.drill(files, kind, options),
                )
            )

    def on_unmount(self) -> None:
        """Let the drill stop where it is: the console ends, or this screen is closed."""
        if self.operator is not None:
            self.operator.stop()

    def on_screen_resume(self) -> None:
        """Show the last view, and ask what was asked while another screen was shown."""
        super().on_screen_resume()
        self._ask_if_shown()

    def _tick(self) -> None:
        if self.drill is not None and not self.drill.is_over and self.is_current:
            self.show_phases()
            self.show_texts()

    # Running

    def run_drill(self, run: DrillRun) -> None:
        """Run a drill on a thread until it ends, fails or is stopped.

        If a drill runs here, it is stopped first.
        """
        if self.operator is not None:
            self.operator.stop()
            self._following = run
            self.show_state()
            return
        self.operator = operator = ScreenOperator(
            self._progressed_to, self._asked_on_thread, can_stop=run.can_stop
        )

        def done(drill: Drill) -> None:
            self._over()
            self.show_drill(drill)
            if drill.is_over:
                self._following = None
                rehearses = drill.kind is DrillKind.REHEARSE
                bad = has_findings(drill) if rehearses else bool(list_harm(drill))
                calm = drill.status is DrillStatus.DONE and not bad
                self.inform(summarize(drill)[0], "information" if calm else "warning")
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
            result=lambda drill: summarize(drill)[0] if drill.is_over else "it has stopped",
        )

    def _run_following(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            self.run_drill(following)

    def _over(self) -> None:
        self.operator = None
        self._take_newest()
        if self.drill is not None:
            # This process acts no more, although its last record names it.
            self.show_drill(replace(self.drill, session=""))
        if self.question is not None:
            self.question.answer(False)
            self.question = None
        self.session.feed.refresh()

    def _progressed_to(self, drill: Drill) -> None:
        self._newest = drill
        self.post_message(self.Changed())

    def _asked_on_thread(self, question: Question) -> None:
        self.post_message(self.Asked(question))

    @on(Changed)
    def _changed(self) -> None:
        self._take_newest()

    def _take_newest(self) -> None:
        drill, self._newest = self._newest, None
        if drill is not None:
            self.show_drill(drill)

    # Questions

    @on(Asked)
    def _asked(self, event: Asked) -> None:
        self.question = event.question
        self._take_newest()
        if not self.is_current:
            asked = "what it shows" if event.question.lines else "taking it over"
            what = event.question.step or asked
            self.inform(f"The drill waits for you to confirm {what}: press 8.", "warning")
        self._ask_if_shown()

    def _ask_if_shown(self) -> None:
        question = self.question
        if question is None or not question.is_open or self._shows_question or not self.is_current:
            return
        self._shows_question = True
        self._ask(question)

    @work(group="question")
    async def _ask(self, question: Question) -> None:
        drill, step = question.drill, question.step
        aborts = drill.status is DrillStatus.ABORTING
        first, *remarks = question.effect.splitlines() or [""]
        lines: list[str | Line] = [first]
        if question.lines:
            lines = list(question.lines)
            title, typed, label = f"Drill {drill.id}", drill.id, "Continue"
        elif step == TOPICS_STEP:
            lines, remarks = [first, *remarks, "Esc begins no drill."], []
            title, typed, label = f"The topics of this {drill.kind.noun}", step, "Begin"
        elif not step:
            lines.append("It changes nothing from then on. The journal has who took over.")
            title, typed, label = f"Take over drill {drill.id}", drill.pipeline, "Take over"
        else:
            phase = find_phase(step)
            number = next(
                (n for n, record in enumerate(drill.phases, 1) if record.phase is phase), 0
            )
            title, typed, label = f"{number} {step}", step, "Confirm"
            if step == DrillPhase.OPEN_TARGET:
                lines.append((Cell("This is the point of no return.", Tone.BAD),))
            elif can_go_back(drill) and not aborts:
                lines.append("You can still go back afterwards: X aborts the drill.")
            key = "X completes the abort" if aborts else "R resumes it"
            lines.append(f"Esc stops the drill here; {key}.")
        if remarks:
            # Last: they may be many, and the rest must be seen without scrolling.
            lines += [f"What was found so far ({len(remarks):,}):", *(f"- {r}" for r in remarks)]
        canceled = f"{label}: nothing was changed. The drill stops here."
        if step == TOPICS_STEP:
            canceled = "No drill was begun."
        if question.lines:
            canceled = "Not agreed; nothing was changed."
        dialog = Confirm(
            safe_message(title, 80),
            lines,
            typed,
            label,
            canceled=canceled,
            undoable=is_taken_back(step) and can_go_back(drill),
        )
        agreed = await self.app.push_screen_wait(dialog)
        self._shows_question = False
        question.answer(bool(agreed))
        self.show_state()

    # Actions

    @work(group=ASK)
    async def action_resume(self) -> None:
        """Confirm, and continue the drill."""
        await self._resume("Resume", "It continues from what is found on the clusters.")

    @work(group=ASK)
    async def action_take_over(self) -> None:
        """Confirm, and take the drill over from the operator who acts."""
        drill = self.drill
        owner = safe_text(drill.owner, 100) if drill is not None else ""
        text = f"{owner} acts on this drill, and changes nothing from then on. It continues here."
        await self._resume("Take over", text, take_over=True)

    @work(group=ASK)
    async def action_disaster(self) -> None:
        """Confirm, and continue without the source."""
        text = (
            "The drill continues as a disaster drill: it uses the last known commits, and records "
            "that were not copied are lost. It refuses while the source answers."
        )
        await self._resume("Continue without the source", text, as_disaster=True)

    @work(group=ASK)
    async def action_accept(self) -> None:
        """Confirm, and continue in spite of the checks that have stopped the drill."""
        checks = checks_that_stop(self.drill) if self.drill is not None else []
        ids = tuple(check.id for check in checks)
        lines = [f"{check.id} {check.title}: {check.evidence}" for check in checks]
        text = "The drill continues in spite of these findings; the journal has who accepted them."
        await self._resume("Accept", text, *lines, accept=ids)

    @work(group=ASK)
    async def action_fence_again(self) -> None:
        """Confirm, and begin again with fencing the producers."""
        text = "The drill begins again with fencing the producers; later phases are repeated."
        await self._resume("Fence again", text, from_fence=True)

    @work(group=ASK)
    async def action_tail(self) -> None:
        """Choose what happens to the records that were never copied, confirm, and continue."""
        title = "Records of the old source that were never copied"
        chosen = await self.ask(ChoiceDialog(title, "choice", TAIL_CHOICES))
        if chosen is None:
            return
        text = "The drill shows once more what it does with the records before it does it."
        await self._resume("Continue", text, chosen={"tail": TailChoice(chosen)})

    async def _resume(
        self,
        label: str,
        *texts: str,
        take_over: bool = False,
        as_disaster: bool = False,
        from_fence: bool = False,
        accept: tuple[str, ...] = (),
        chosen: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        drill = self.drill
        if drill is None:
            return
        more = [
            *(["--take-over"] if take_over else []),
            *(["--as", "disaster"] if as_disaster else []),
            *(["--from-fence"] if from_fence else []),
            *(["--accept", ",".join(accept)] if accept else []),
            *(["--tail", str(chosen["tail"])] if chosen else []),
        ]
        flow, files, may = self.flow, self.session.files, self.session.access
        command = cli_equivalent.drill_on(files, "resume", drill.id, *more)
        lines: list[str | Line] = [*texts, describe_next(drill), "", command]
        # Nothing brings back who acted on it, the phases that need the source, or a tail.
        is_final = take_over or as_disaster or has_begun_tail(drill)
        undoable = can_go_back(drill) and not is_final
        title = f"{label}: drill {drill.id}"
        if not await self._agree(drill, title, lines, label, undoable=undoable):
            return

        def run(operator: ScreenOperator) -> Drill:
            return operations.resume_drill(
                flow,
                drill.id,
                files,
                may,
                operator,
                take_over=(lambda _: True) if take_over else operator.confirm_take_over,
                as_disaster=as_disaster,
                from_fence=from_fence,
                accept=accept,
                chosen=chosen,
            )

        self.run_drill(DrillRun("drill", run, command))

    @work(group=ASK)
    async def action_abort(self) -> None:
        """Confirm, and restore what the drill changed."""
        drill = self.drill
        if drill is None:
            return
        lines: list[str | Line] = [f"- {describe_step_back(step)}" for step in steps_back(drill)]
        lines.insert(0, "Restores, the last change first:" if lines else "It has changed nothing.")
        if self.other_acts:
            lines.append(f"{drill.owner} acts on it: this takes the drill over.")
        lines += ["", cli_equivalent.drill_on(self.session.files, "abort", drill.id)]
        if not await self._agree(drill, f"Abort drill {drill.id}", lines, "Abort"):
            return
        flow, files, may = self.flow, self.session.files, self.session.access
        taken = self.other_acts

        def run(operator: ScreenOperator) -> Drill:
            take_over = (lambda _: True) if taken else operator.confirm_take_over
            return operations.abort_drill(flow, drill.id, files, may, operator, take_over=take_over)

        command = cli_equivalent.drill_on(files, "abort", drill.id)
        self.run_drill(DrillRun("aborting the drill", run, command, can_stop=False))

    async def _agree(
        self,
        drill: Drill,
        title: str,
        lines: list[str | Line],
        label: str,
        *,
        undoable: bool = False,
    ) -> bool:
        pair = self.session.pair
        asked = name_to_type(drill.kind, pair.pipeline, pair.environment)
        typed = asked if undoable else pair.pipeline
        dialog = Confirm(safe_message(title, 80), lines, typed, label, undoable=undoable)
        agreed = await self.ask(dialog)
        return bool(agreed)

    def action_hold(self) -> None:
        """Stop the drill here; it stays where it is."""
        if self.operator is not None:
            self.operator.stop()
            self.show_state()

    def action_report(self) -> None:
        """Show the report."""
        if self.drill is not None:
            title = f"Report of drill {safe_text(self.drill.id, 60)}"
            self.app.push_screen(TextDialog(title, list(report_text(self.drill))))
