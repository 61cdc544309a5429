"""The operator of a drill at a screen: a drill's thread shows its progress and asks here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from k2ktui.engine.drill.model import Drill
from k2ktui.errors import Declined
from k2ktui.text import safe_text

_LOOK_S = 0.2


class StoppedHere(Declined):
    """The operator has stopped the drill's thread here."""


@dataclass(eq=False)
class Question:
    """A confirmation that a drill's thread waits for.

    Attributes:
        drill: the drill as it was when it asked.
        step: the phase or hook to confirm; "" asks whether to take the drill over, or to agree.
        effect: what will happen, as one sentence.
        lines: what a person has to see who agrees to continue a drill.
    """

    drill: Drill
    step: str
    effect: str
    lines: tuple[str, ...] = ()
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


class ScreenOperator:
    """Passes progress and questions on to a screen; used by a drill's thread.

    Args:
        show: called with the drill at every change, on the drill's thread.
        ask: called with a question, on the drill's thread; the screen answers it later.
        can_stop: whether :meth:`stop` ends the drill's thread; an abort is not left half-way.
    """

    def __init__(
        self,
        show: Callable[[Drill], None],
        ask: Callable[[Question], None],
        *,
        can_stop: bool = True,
    ) -> None:
        self._show, self._ask, self._can_stop = show, ask, can_stop
        self._stopping = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether the drill's thread was stopped."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let the drill's thread stop at its next step; the drill stays where it is."""
        if self._can_stop:
            self._stopping.set()

    def show(self, drill: Drill) -> None:
        """Show the drill.

        Raises:
            Refused: the operator has stopped it here.
        """
        self._show(drill)
        if not drill.is_over:
            self._stop_if_told(drill)

    def confirm(self, drill: Drill, step: str, effect: str) -> bool:
        """Wait for the operator's answer.

        Raises:
            Refused: the operator has stopped it here.
        """
        return self._wait(Question(drill, step, effect))

    def agree(self, drill: Drill, lines: Sequence[str]) -> bool:
        """Show these lines, and wait for the operator's answer; errors as for :meth:`confirm`."""
        return self._wait(Question(drill, "", "", tuple(lines)))

    def confirm_take_over(self, drill: Drill) -> bool:
        """Ask whether to take a drill over from the operator who acts on it."""
        return self._wait(Question(drill, "", f"{drill.owner} acts on this drill."))

    def _wait(self, question: Question) -> bool:
        self._ask(question)
        while not question.wait(_LOOK_S):
            self._stop_if_told(question.drill)
        return question.agreed

    def _stop_if_told(self, drill: Drill) -> None:
        if self._stopping.is_set():
            raise StoppedHere(
                f"drill {safe_text(drill.id)} was stopped here",
                unchanged="It stays where it is.",
                hint=f"Press R, or run k2ktui drill resume {safe_text(drill.id)} -f FILE.",
            )
