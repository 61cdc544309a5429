"""The operator of a site drill: shows its progress, and confirms once for all members."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from k2ktui.engine.drill.site import SiteDrill


class SiteQuestionKind(StrEnum):
    """What is asked; only ``phase`` may be answered in advance by ``--yes-to``."""

    PHASE = "phase"
    UNKNOWN_FILES = "unknown-files"
    LEAVE_OUT = "leave-out"
    CHANGED_FILES = "changed-files"
    TAKE_OVER = "take-over"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class SiteQuestion:
    """A question about all members at once; every text is safe to print.

    Attributes:
        kind: what is asked.
        text: what happens if it is confirmed, in one or two sentences.
        lines: the list that it is about, a line or more for each pipeline.
        answer: what has to be typed: the site's name, or a drill's id for ``unproven``.
        step: the phase or hook that waits, of ``phase``; otherwise "".
        pipelines: names of the pipelines that it is about.
        verb: the command that asks, and that is repeated with an answer: ``resume`` or ``abort``.
    """

    kind: SiteQuestionKind
    text: str
    lines: tuple[str, ...]
    answer: str
    step: str = ""
    pipelines: tuple[str, ...] = ()
    verb: str = "resume"


class SiteOperator(Protocol):
    """Who watches and confirms: a terminal, choices made in advance, or a screen.

    Both methods are called on threads of the site drill: ``show`` also while a question is open,
    each of them once at a time. An error that they raise stops every member at its next step, and
    is raised by the operation.
    """

    def show(self, site: SiteDrill) -> None:
        """Show the site drill as it is now; called at every change of a member."""
        ...

    def confirm(self, site: SiteDrill | None, question: SiteQuestion) -> bool:
        """Return whether the operator typed the answer of a question.

        Args:
            site: the site drill; None if it was not begun yet.
            question: the question.

        Raises:
            Refused: the operator cannot be asked.
        """
        ...
