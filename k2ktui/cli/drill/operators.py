"""Who answers for a drill, or for those of a site, at a terminal; and how drills are printed."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import click

from k2ktui.cli.changes import ask, can_ask
from k2ktui.cli.terminal.notes import StatusLine, print_note, print_progress
from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.drill.progress import CHOOSE
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.site import MemberStatus, SiteDrill, can_all_go_back
from k2ktui.engine.drill.steps import (
    can_go_back,
    describe_way_back,
    drill_command,
    waits_for_tail_choice,
)
from k2ktui.engine.drill.topics import UNCHANGED
from k2ktui.errors import Refused
from k2ktui.text import safe_message, safe_text

ALL = "all"


class TerminalOperator:
    """The operator of a drill or a site drill, who types confirmations at a terminal.

    Phases are lines on stderr, each once.

    Args:
        line: the status line.
        yes_to: phases that are confirmed in advance, or ``all``.
        left_out: pipelines that are left out in advance.
        quiet: whether only errors are shown.
    """

    def __init__(
        self,
        line: StatusLine,
        yes_to: Collection[str],
        left_out: Collection[str] = (),
        *,
        quiet: bool = False,
    ) -> None:
        self._line, self._yes_to, self._left_out = line, yes_to, left_out
        self._quiet = quiet
        # What was printed, by the place of a phase or the name of a member.
        self._shown: dict[str, set[str]] = defaultdict(set)
        self._asks = threading.Event()
        self._drill: Drill | None = None

    def show(self, drill: Drill | SiteDrill) -> None:
        """Print each phase once it has ended; what runs is on the status line."""
        if isinstance(drill, Drill):
            self._drill = drill
        if self._quiet or self._asks.is_set():
            return
        if isinstance(drill, SiteDrill):
            self._show_site(drill)
            return
        self._print_phases(drill)
        running = [record for record in drill.phases if record.status is PhaseStatus.RUNNING]
        if running:
            number = drill.phases.index(running[0]) + 1
            self._line.show(f"{number} {running[0].phase} ● {safe_message(running[0].live)}")

    def _show_site(self, site: SiteDrill) -> None:
        """Print the phases of all members; how many members act is the last line."""
        for state in site.members:
            name = safe_text(state.pipeline)
            if state.drill:
                self._print_phases(state.drill, f"{name}: ")
            if state.error:
                self._print_once(name, f"{name}: {state.status}: {safe_message(state.error)}")
        counts = [
            f"{count} {status}"
            for status in MemberStatus
            if (count := sum(state.status is status for state in site.members))
        ]
        self._line.show(f"{safe_text(site.name)}: {', '.join(counts)}")

    def _print_phases(self, drill: Drill, prefix: str = "") -> None:
        """Print each phase that has ended; one that runs again is printed again."""
        for number, record in enumerate(drill.phases, start=1):
            place = f"{prefix}{number}"
            if record.status in (PhaseStatus.WAITING, PhaseStatus.RUNNING):
                self._shown.pop(place, None)
                continue
            asks = record.status is PhaseStatus.FAILED and waits_for_tail_choice(drill)
            status = CHOOSE if asks else record.status
            text = f"{place} {record.phase}: {status}: {safe_message(record.live)}"
            self._print_once(place, text, map(safe_message, record.findings))

    def _print_once(self, place: str, text: str, findings: Iterable[str] = ()) -> None:
        if text not in self._shown[place]:
            self._shown[place].add(text)
            self._line.show("")
            print_progress(text)
            for finding in findings:
                print_progress(f"    {finding}")

    def note_open(self) -> None:
        """Name the drill that an error leaves open, and the command that continues it."""
        drill = self._drill
        if drill is not None and not drill.is_over:
            again = drill_command(drill, drill.next_verb)
            print_note(f"drill {safe_text(drill.id)} is {drill.status}; continue it: {again}")

    def ask(self, question: Question) -> bool:
        """Ask for what has to be typed, unless it was confirmed in advance.

        What only a person of one drill decides is declined where there is none: who asks says what
        to do then.
        """
        if self._has_agreed(question):
            return True
        if not can_ask():
            if isinstance(question.drill, Drill) and question.kind is not QuestionKind.PHASE:
                return False
            raise _not_at_terminal(question)
        self._asks.set()
        try:
            self._line.show("")
            for line in _question_lines(question):
                click.echo(line, err=True)
            return ask(question.answer, question.action)
        finally:
            self._asks.clear()

    def _has_agreed(self, question: Question) -> bool:
        match question.kind:
            case QuestionKind.PHASE:
                return question.step in self._yes_to or ALL in self._yes_to
            case QuestionKind.LEAVE_OUT | QuestionKind.UNKNOWN_FILES:
                return set(question.pipelines) <= set(self._left_out)
            case _:
                return False


def _question_lines(question: Question) -> Iterator[str]:
    """Yield a question as it is printed above the prompt, with the way back."""
    drill = question.drill
    if isinstance(drill, Drill):
        yield f"{question.step}: {question.text}" if question.step else question.text
        yield from question.lines
        goes_back = can_go_back(drill) and drill.status is not DrillStatus.ABORTING
        if question.kind is QuestionKind.PHASE and goes_back and drill.session:
            yield describe_way_back(drill)
        return
    yield f"{question.text}:"
    yield from (f"    {line}" for line in question.lines)
    if drill is not None:
        yield describe_site_way_back(drill)


def _not_at_terminal(question: Question) -> Refused:
    """Return the error that nobody can answer a question, with how to answer it in advance."""
    drill, step = question.drill, question.step
    if isinstance(drill, Drill):
        effect = "\n".join([question.text, *question.lines])
        unchanged, hint = UNCHANGED, f"Add --yes-to {step}."
        if drill.session:  # it has begun
            unchanged = "The drill stays where it is."
            again = f"k2ktui drill {question.verb} {safe_text(drill.id)} -f FILE"
            hint = f"Run {again} --yes-to {step}."
        return Refused(
            f"{step} must be confirmed, and standard input is not a terminal. {effect}",
            unchanged=unchanged,
            hint=hint,
        )
    listed = "".join(f"\n    {line}" for line in question.lines)
    return Refused(
        f"a person must confirm, and standard input is not a terminal. {question.text}:{listed}",
        unchanged="No drill was begun." if drill is None else "The site drill stays where it is.",
        hint=_hint(drill, question),
    )


def _hint(site: SiteDrill | None, question: Question) -> str:
    again = f"k2ktui drill {question.verb} {safe_text(site.id)} -d DIR" if site is not None else ""
    out = " ".join(f"--leave-out {safe_text(name)}" for name in question.pipelines)
    match question.kind:
        case QuestionKind.PHASE:
            return f"Run {again} --yes-to {question.step}."
        case QuestionKind.LEAVE_OUT:
            verb = question.verb
            return f"Correct what is wrong and {verb} again, or leave them out: {again} {out}"
        case QuestionKind.UNKNOWN_FILES:
            return f"Correct these files, or add {out}."
        case QuestionKind.TAKE_OVER:
            return f"Run {again} --take-over."
        case _:
            return "Repeat the command at a terminal."


def describe_site_way_back(site: SiteDrill) -> str:
    """Return whether and how the operator can still go back."""
    if can_all_go_back(site):
        return f"You can still go back: k2ktui drill abort {safe_text(site.id)} -d DIR"
    return "You cannot go back: targets were opened, and records may exist only there."
