"""The operator of a drill or a site drill at a screen: its threads show progress and ask here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from k2ktui.drill.operator import Question
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.site import SiteDrill
from k2ktui.errors import Declined
from k2ktui.text import safe_text

_LOOK_S = 0.2
AnyDrill = TypeVar("AnyDrill", bound=Drill | SiteDrill)


class StoppedHere(Declined):
    """The operator has stopped the drill's threads here."""


@dataclass(eq=False)
class OpenQuestion:
    """A question that a thread of a drill waits for.

    Attributes:
        question: what is asked.
    """

    question: Question
    _answered: threading.Event = field(default_factory=threading.Event)
    _agreed: bool = False

    def answer(self, agreed: bool) -> None:
        """Give the answer; only the first one counts."""
        if not self._answered.is_set():
            self._agreed = agreed
            self._answered.set()

    @property
    def is_open(self) -> bool:
        """Whether it has no answer yet."""
        return not self._answered.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for an answer; return whether there is one."""
        return self._answered.wait(seconds)

    @property
    def agreed(self) -> bool:
        """The answer; False without one."""
        return self._agreed


class ScreenOperator(Generic[AnyDrill]):
    """Passes progress and questions on to a screen; used by the threads of a drill.

    Args:
        show: called with the drill at every change, on a thread of the drill.
        ask: called with a question, on a thread of the drill; the screen answers it later.
        can_stop: whether :meth:`stop` ends the threads; an abort is not left half-way.
    """

    def __init__(
        self,
        show: Callable[[AnyDrill], None],
        ask: Callable[[OpenQuestion], None],
        *,
        can_stop: bool = True,
    ) -> None:
        self._show: Callable[[AnyDrill], None] = show
        self._ask, self._can_stop = ask, can_stop
        self._stopping = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether the drill was stopped here."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let the drill, or every member, stop at its next step; it stays where it is."""
        if self._can_stop:
            self._stopping.set()

    def show(self, drill: AnyDrill) -> None:
        """Show the drill.

        Raises:
            StoppedHere: the operator has stopped it here.
        """
        self._show(drill)
        if not drill.is_over:
            self._stop_if_told(drill)

    def ask(self, question: Question) -> bool:
        """Wait for the operator's answer.

        Raises:
            StoppedHere: the operator has stopped it here.
        """
        asked = OpenQuestion(question)
        self._ask(asked)
        while not asked.wait(_LOOK_S):
            self._stop_if_told(question.drill)
        return asked.agreed

    def _stop_if_told(self, drill: Drill | SiteDrill | None) -> None:
        if not self._stopping.is_set():
            return
        if drill is None:
            raise StoppedHere("the site drill was not begun", unchanged="Nothing was changed.")
        one, where = ("drill", "-f FILE") if isinstance(drill, Drill) else ("site drill", "-d DIR")
        name = safe_text(drill.id)
        raise StoppedHere(
            f"{one} {name} was stopped here",
            unchanged="It stays where it is.",
            hint=f"Press R, or run k2ktui drill resume {name} {where}.",
        )
