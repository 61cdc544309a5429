"""The operator of a drill, as a phase sees one: shows progress and confirms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from k2ktui.engine.drill.model import Drill


class Operator(Protocol):
    """Who watches and confirms: a terminal, a list of phases confirmed in advance, or a screen."""

    def show(self, drill: Drill) -> None:
        """Show the drill as it is now; called at every change, at most a few times a second."""
        ...

    def confirm(self, drill: Drill, step: str, effect: str) -> bool:
        """Return whether the operator confirms a phase, or a hook before or after one.

        Args:
            drill: the drill.
            step: what waits, as it is typed: the phase, or such as ``before-open-target``.
            effect: what it will do, as one sentence.

        Raises:
            Refused: the operator cannot be asked.
        """
        ...

    def agree(self, drill: Drill, lines: Sequence[str]) -> bool:
        """Return whether a person agrees who has seen these lines, and typed the drill's id.

        It is never answered in advance: False if no person can be asked.

        Args:
            drill: the drill.
            lines: what it is about; safe to print.
        """
        ...


class UnaskedOperator:
    """An operator who is not asked: whoever uses it has asked already."""

    def show(self, drill: Drill) -> None:
        """Show nothing."""

    def confirm(self, drill: Drill, step: str, effect: str) -> bool:
        """Decline: no phase runs here."""
        return False

    def agree(self, drill: Drill, lines: Sequence[str]) -> bool:
        """Decline: no person is asked here."""
        return False
