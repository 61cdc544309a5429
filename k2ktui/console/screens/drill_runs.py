"""A drill or a site drill that may run here: it is run, what it asks is put, and keys change it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic

from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message

from k2ktui.console import cli_equivalent
from k2ktui.console.drill_actions import RULES, Situation, explain_refusal
from k2ktui.console.drill_operator import AnyDrill, OpenQuestion, ScreenOperator, StoppedHere
from k2ktui.console.screens.drill_facts import name_to_type
from k2ktui.console.screens.drill_frame import DrillFrame
from k2ktui.console.widgets.choice_dialog import ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.drill_dialog import TAIL_CHOICES
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.drill.checks.catalog import checks_that_stop
from k2ktui.drill.operator import Question
from k2ktui.drill.report import Report, render_text
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus, ResumeOptions
from k2ktui.engine.drill.site import SiteDrill, can_all_go_back
from k2ktui.engine.drill.steps import (
    can_go_back,
    has_begun_tail,
    has_fenced,
    waits_for_tail_choice,
)
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.errors import K2kError
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message, safe_text

DrillJob = Callable[[ScreenOperator[AnyDrill]], AnyDrill]
DRILL_CHANGES = frozenset(
    {"resume", "abort", "take_over", "disaster", "accept", "fence_again", "tail"}
)


def drill_keys(*more: BindingType) -> list[BindingType]:
    """Return the keys of a drill, with more of them after that of an abort."""
    return [
        Binding("R", "resume", "Resume", id="drill.resume"),
        Binding("X", "abort", "Abort", id="drill.abort"),
        *more,
        Binding("H", "hold", "Hold", id="drill.hold"),
        Binding("O", "take_over", "Take over", id="drill.take-over"),
        Binding("D", "disaster", "Disaster", id="drill.disaster"),
        Binding("v", "report", "Report", id="drill.report"),
        Binding("c", "checks", "Checks", id="drill.checks"),
        Binding("A", "accept", "Accept", id="drill.accept"),
        Binding("F", "fence_again", "Fence again", id="drill.fence"),
        Binding("T", "tail", "Tail", id="drill.tail"),
    ]


@dataclass(frozen=True, slots=True)
class DrillRun(Generic[AnyDrill]):
    """An operation on a drill: start, resume or abort.

    Attributes:
        doing: what is done, for example "drill".
        job: does it on a thread, and returns the drill as it then is.
        command: the command that does the same.
        can_stop: whether it may be stopped before its end.
    """

    doing: str
    job: DrillJob[AnyDrill]
    command: str
    can_stop: bool = True


class DrillRunsScreen(DrillFrame[AnyDrill]):
    """A drill or a site drill, which may run here.

    Args:
        drill: the drill; None before it has begun.

    Attributes:
        NOUN: what it is called.
        TEXTS: what each key does, for the person who confirms it.
        DOING: what is done, by verb.
        ABORTS: what X does, as the end of a sentence.
        ELSEWHERE: how to look at something else while it runs here.
        CHECKED: what checks stop.
        OPENED: what is opened.
        operator: passes on what the drill that runs here asks; None if it does not run here.
        asked: what it asked last.
    """

    NOUN: ClassVar[str]
    TEXTS: ClassVar[Mapping[str, str]]
    DOING: ClassVar[Mapping[str, str]]
    ABORTS: ClassVar[str]
    ELSEWHERE: ClassVar[str]
    CHECKED: ClassVar[str]
    OPENED: ClassVar[str]

    class Changed(Message):
        """The drill that runs here has changed."""

        def can_replace(self, message: Message) -> bool:
            """Return whether this replaces a queued message: yes, the newest is enough."""
            return isinstance(message, DrillRunsScreen.Changed)

    class Asked(Message):
        """The drill that runs here waits for an answer."""

        def __init__(self, asked: OpenQuestion) -> None:
            super().__init__()
            self.asked = asked

    def __init__(self, drill: AnyDrill | None) -> None:
        super().__init__(drill)
        self.operator: ScreenOperator[AnyDrill] | None = None
        self.asked: OpenQuestion | None = None
        self._newest: AnyDrill | None = None
        self._shows_question = False
        # Starts when the threads of the one that runs have ended.
        self._following: DrillRun[AnyDrill] | None = None

    # For subclasses

    @abstractmethod
    def left_alone(self, drill: AnyDrill) -> AnyDrill:
        """Return a drill on which this process acts no more, although its record names it."""

    @abstractmethod
    def outcome(self, drill: AnyDrill) -> tuple[str, bool]:
        """Return what came of a drill that is over, and whether it is as it should be."""

    @abstractmethod
    def question_dialog(self, question: Question) -> Confirm:
        """Return the dialog that asks a question."""

    def waits_for(self, question: Question) -> str:
        """Return what has to be confirmed, where the dialog cannot be shown."""
        return question.step or "a question"

    @abstractmethod
    def title_of(self, label: str) -> str:
        """Return the title of the dialog before the drill is continued."""

    @property
    def abort_title(self) -> str:
        """The title of the dialog before an abort."""
        return self.title_of("Abort")

    @abstractmethod
    def list_restored(self, drill: AnyDrill) -> list[str | Line]:
        """Return what an abort restores."""

    @abstractmethod
    def next_text(self, drill: AnyDrill) -> str:
        """Return what happens next, for the person who continues it."""

    @abstractmethod
    def make_report(self, drill: AnyDrill) -> Report:
        """Return the report."""

    @abstractmethod
    def resume_job(self, drill: AnyDrill, how: ResumeOptions) -> DrillJob[AnyDrill]:
        """Return what continues a drill."""

    @abstractmethod
    def abort_job(self, drill: AnyDrill, *, take_over: bool) -> DrillJob[AnyDrill]:
        """Return what aborts a drill, also one on which another process acts if that is told."""

    @property
    @abstractmethod
    def other_acts(self) -> bool:
        """Whether another process acts on the drill."""

    @property
    @abstractmethod
    def name_and_environments(self) -> tuple[str, ...]:
        """What is typed to confirm, and the environments of what is changed."""

    @property
    @abstractmethod
    def drills(self) -> Sequence[Drill]:
        """The drills of its pipelines."""

    @property
    def moving(self) -> Sequence[Drill]:
        """The drills of its pipelines that were not left out."""
        return self.drills

    @property
    @abstractmethod
    def other(self) -> str:
        """Who acts on it elsewhere, as the beginning of a sentence."""

    def can_go_back(self) -> bool:
        """Return whether an abort restores everything: no target is open."""
        return all(map(can_go_back, self.drills))

    def can_abort(self) -> bool:
        """Return whether an abort restores something."""
        return self.can_go_back()

    def why_not_left_out(self) -> str:
        """Return why what is under the cursor cannot be left out."""
        return ""

    def check_subject(self, drill: Drill) -> str:
        """Return the beginning of a line about a check of a drill."""
        return ""

    # Running

    def on_unmount(self) -> None:
        """Let the drill stop where it is: the console ends, or this screen is closed."""
        if self.operator is not None:
            self.operator.stop()

    def on_screen_resume(self) -> None:
        """Show the last view, and ask what was asked while another screen was shown."""
        super().on_screen_resume()
        self._ask_if_shown()

    def run_drill(self, run: DrillRun[AnyDrill]) -> None:
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

        def done(drill: AnyDrill) -> None:
            self._over()
            self.show_drill(drill)
            if drill.is_over:
                self._following = None
                text, calm = self.outcome(drill)
                self.inform(text, "information" if calm else "warning")
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
            result=lambda drill: self.outcome(drill)[0] if drill.is_over else "it has stopped",
        )

    def _run_following(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            self.run_drill(following)

    def _over(self) -> None:
        self.operator = None
        self._take_newest()
        if self.drill is not None:
            self.show_drill(self.left_alone(self.drill))
        if self.asked is not None:
            self.asked.answer(False)
            self.asked = None
        self.session.feed.refresh()

    def _progressed_to(self, drill: AnyDrill) -> None:
        self._newest = drill
        self.post_message(self.Changed())

    def _asked_on_thread(self, asked: OpenQuestion) -> None:
        self.post_message(self.Asked(asked))

    @on(Changed)
    def _changed(self) -> None:
        self._take_newest()

    def _take_newest(self) -> None:
        drill, self._newest = self._newest, None
        if drill is not None:
            self.show_drill(drill)

    # Questions

    @on(Asked)
    def _was_asked(self, event: Asked) -> None:
        self.asked = event.asked
        self._take_newest()
        question = event.asked.question
        what = f"waits for you to confirm {self.waits_for(question)}"
        name = "" if question.drill is None else question.drill.id
        text = f"{f'{self.NOUN} {safe_text(name)}'.strip()}: {what}"
        self.console.call_for_answer(name, question.step or question.text, text)
        if not self.is_current:
            self.inform(f"The {self.NOUN} {what}: press 8.", "warning")
        self._ask_if_shown()

    def _ask_if_shown(self) -> None:
        asked = self.asked
        if asked is None or not asked.is_open or self._shows_question or not self.is_current:
            return
        self._shows_question = True
        self._put(asked)

    @work(group="question")
    async def _put(self, asked: OpenQuestion) -> None:
        agreed = await self.app.push_screen_wait(self.question_dialog(asked.question))
        self._shows_question = False
        asked.answer(bool(agreed))
        self.show_state()

    def way_back_lines(self, question: Question) -> list[str | Line]:
        """Return whether there is a way back from a step."""
        drill = question.drill
        if question.step == DrillPhase.OPEN_TARGET:
            return [(Cell("This is the point of no return.", Tone.BAD),)]
        if drill is None or drill.status is DrillStatus.ABORTING or not _goes_back(drill):
            return []
        return [f"You can still go back afterwards: X {self.ABORTS}."]

    def stop_line(self, drill: Drill | SiteDrill) -> str:
        """Return what Esc does to a drill that asks, and how it goes on."""
        aborts = drill.status is DrillStatus.ABORTING
        key = "X completes the abort" if aborts else "R resumes it"
        return f"Esc stops the {self.NOUN} here; {key}."

    # Actions

    def action_report(self) -> None:
        """Show the report."""
        if self.drill is not None:
            title = f"Report of {self.NOUN} {safe_text(self.drill.id, 60)}"
            self.app.push_screen(TextDialog(title, list(render_text(self.make_report(self.drill)))))

    @work(group=ASK)
    async def action_resume(self) -> None:
        """Confirm, and continue."""
        await self._resume("resume", "Resume", ResumeOptions())

    @work(group=ASK)
    async def action_take_over(self) -> None:
        """Confirm, and take it over from the operator who acts."""
        await self._resume("take_over", "Take over", ResumeOptions(take_over=True))

    @work(group=ASK)
    async def action_disaster(self) -> None:
        """Confirm, and continue without the source."""
        how = ResumeOptions(as_disaster=True)
        await self._resume("disaster", "Continue without the source", how)

    @work(group=ASK)
    async def action_accept(self) -> None:
        """Confirm, and continue in spite of the checks that have stopped it."""
        checks = [(drill, check) for drill in self.moving for check in checks_that_stop(drill)]
        lines = [
            f"{self.check_subject(drill)}{check.id} {check.title}: {check.evidence}"
            for drill, check in checks
        ]
        ids = tuple(sorted({check.id for _, check in checks}))
        await self._resume("accept", "Accept", ResumeOptions(accept=ids), *lines)

    @work(group=ASK)
    async def action_fence_again(self) -> None:
        """Confirm, and begin again with fencing the producers."""
        await self._resume("fence_again", "Fence again", ResumeOptions(from_fence=True))

    @work(group=ASK)
    async def action_tail(self) -> None:
        """Choose what happens to the records that were never copied, confirm, and continue."""
        title = "Records of the old source that were never copied"
        chosen = await self.ask(ChoiceDialog(title, "choice", TAIL_CHOICES))
        if chosen is not None:
            how = ResumeOptions(chosen={"tail": TailChoice(chosen)})
            await self._resume("tail", "Continue", how)

    async def _resume(self, action: str, label: str, how: ResumeOptions, *lines: str) -> None:
        """Confirm, and continue a drill."""
        text = self.TEXTS[action].format(other=self.other)
        await self.ask_to_resume(label, label, how, text, *lines)

    async def ask_to_resume(self, label: str, button: str, how: ResumeOptions, *texts: str) -> None:
        """Confirm what is said in these texts, and continue a drill."""
        drill = self.drill
        if drill is None:
            return
        command = self.command("resume", *cli_equivalent.resume_words(how))
        lines: list[str | Line] = [*texts, self.next_text(drill), "", command]
        # Nothing brings back a tail, either.
        is_final = how.is_final or any(map(has_begun_tail, self.drills))
        undoable = self.can_go_back() and not is_final
        if await self._agree(self.title_of(label), lines, button, undoable=undoable):
            doing = self.DOING["resume"].format(id=drill.id)
            self.run_drill(DrillRun(doing, self.resume_job(drill, how), command))

    @work(group=ASK)
    async def action_abort(self) -> None:
        """Confirm, and restore what was changed."""
        drill = self.drill
        if drill is None:
            return
        command = self.command("abort")
        lines = self.list_restored(drill)
        lines += ["", command]
        if await self._agree(self.abort_title, lines, "Abort"):
            doing = self.DOING["abort"].format(id=drill.id)
            job = self.abort_job(drill, take_over=self.other_acts)
            self.run_drill(DrillRun(doing, job, command, can_stop=False))

    async def _agree(
        self, title: str, lines: list[str | Line], label: str, *, undoable: bool = False
    ) -> bool:
        name, *environments = self.name_and_environments
        drill = self.drill
        asked = name if drill is None else name_to_type(drill.kind, name, *environments)
        typed = asked if undoable else name
        dialog = Confirm(safe_message(title, 80), lines, typed, label, undoable=undoable)
        agreed = await self.ask(dialog)
        return bool(agreed)

    def action_hold(self) -> None:
        """Stop it here; it stays where it is."""
        if self.operator is not None:
            self.operator.stop()
            self.show_state()

    # What is possible now

    def barred(self) -> str:
        """Return why nothing can be changed at all."""
        return self.session.access.reason

    @property
    def situation(self) -> Situation:
        """What decides which keys work."""
        drill, operator = self.drill, self.operator
        return Situation(
            noun=self.NOUN,
            checked=self.CHECKED,
            opened=self.OPENED,
            status=None if drill is None else drill.status,
            is_switchover=drill is not None and drill.kind.is_switchover,
            other_acts=self.other_acts,
            other=self.other,
            runs_here=operator is not None,
            stopping=operator is not None and operator.stopping,
            can_abort=self.can_abort,
            can_go_back=self.can_go_back,
            is_fenced=lambda: any(map(has_fenced, self.moving)),
            is_stopped_by_checks=lambda: any(map(checks_that_stop, self.moving)),
            waits_for_tail=lambda: any(map(waits_for_tail_choice, self.drills)),
            why_not_left_out=self.why_not_left_out,
        )

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action not in RULES:
            return super().refusal(action)
        barred = self.barred() if action in self.CHANGES else ""
        return barred or explain_refusal(action, self.situation)

    def reason_to_stay(self) -> str:
        """Keep the screen open while the drill runs here."""
        if self.operator is None:
            return ""
        return f"the {self.NOUN} runs here: H holds it; {self.ELSEWHERE}"

    def session_work(self) -> list[str]:
        """Return what leaving does to the drill that runs here."""
        if self.operator is None or self.drill is None:
            return []
        how = f"{self.drill.next_verb.capitalize()} it: {self.command(self.drill.next_verb)}"
        return [f"The {self.NOUN} {self.drill.id} stops where it is. {how}"]


def _goes_back(drill: Drill | SiteDrill) -> bool:
    return can_all_go_back(drill) if isinstance(drill, SiteDrill) else can_go_back(drill)
