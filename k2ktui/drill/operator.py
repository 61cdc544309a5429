"""Who watches a drill or a site drill, and what is asked: progress, and one kind of question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.site import SiteDrill
from k2ktui.text import moment, safe_message, safe_text

Shown = TypeVar("Shown", contravariant=True)


class QuestionKind(StrEnum):
    """What is asked; ``unproven`` is what only a person can say, and nobody in advance."""

    PHASE = "phase"
    UNKNOWN_FILES = "unknown-files"
    LEAVE_OUT = "leave-out"
    CHANGED_FILES = "changed-files"
    TAKE_OVER = "take-over"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a drill, or of a site drill about all its members at once.

    Every text is safe to print.

    Attributes:
        kind: what is asked.
        drill: what asks, as it is now; None for a site drill that was not begun yet.
        text: what happens if it is confirmed, in one or two sentences.
        lines: what else has to be seen: remarks; of a site drill, a line or more for each pipeline.
        answer: what has to be typed: a name, a step or an id.
        action: what is done then, as the end of the sentence "Type … to".
        step: the phase or hook that waits, such as ``before-open-target``; otherwise "".
        pipelines: names of the pipelines that it is about.
        verb: the command that asks, and that is repeated with an answer: ``resume`` or ``abort``.
    """

    kind: QuestionKind
    drill: Drill | SiteDrill | None
    text: str
    lines: tuple[str, ...]
    answer: str
    action: str = "continue"
    step: str = ""
    pipelines: tuple[str, ...] = ()
    verb: str = "resume"


class Operator(Protocol[Shown]):
    """Who watches and confirms: a terminal, a screen, or answers that were given in advance.

    Both methods are called on threads of the drill; of a site drill, ``show`` also while a question
    is open, each of them once at a time. An error that they raise stops the drill, or every member
    of a site drill, at its next step.
    """

    def show(self, drill: Shown) -> None:
        """Show the drill as it is now; called at every change, at most a few times a second."""
        ...

    def ask(self, question: Question) -> bool:
        """Return whether the operator confirms.

        Raises:
            Refused: the operator cannot be asked.
        """
        ...


class UnaskedOperator:
    """An operator who is not asked: whoever uses it has asked already, and no phase runs."""

    def show(self, drill: Drill) -> None:
        """Show nothing."""

    def ask(self, question: Question) -> bool:
        """Decline."""
        return False


def step_question(drill: Drill, step: str, effect: str) -> Question:
    """Return the question whether a step of a drill is confirmed.

    Args:
        drill: the drill.
        step: what is typed: a phase, a hook before or after one, or ``topics``.
        effect: what the step does, as one sentence; remarks in lines after it.
    """
    text, *lines = map(safe_message, effect.splitlines() or [""])
    return Question(
        QuestionKind.PHASE,
        drill,
        text,
        tuple(lines),
        step,
        step=step,
        pipelines=(drill.pipeline,),
        verb=drill.next_verb,
    )


def agree_question(drill: Drill, lines: Sequence[str]) -> Question:
    """Return the question whether a person agrees who has seen these lines, safe to print."""
    text, *more = lines
    pipelines = (drill.pipeline,)
    return Question(QuestionKind.UNPROVEN, drill, text, tuple(more), drill.id, pipelines=pipelines)


def take_over_question(drill: Drill) -> Question:
    """Return the question whether a drill is taken over from the operator who acts on it."""
    since = moment(drill.beat_ms / 1000)
    return Question(
        QuestionKind.TAKE_OVER,
        drill,
        f"{safe_text(drill.owner)} acts on this drill, last seen {since}.",
        (),
        drill.owner,
        action="take it over",
        pipelines=(drill.pipeline,),
        verb=drill.next_verb,
    )
