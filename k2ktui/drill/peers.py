"""What a drill asks of the other members of its site drill; one of its own has no peers."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from k2ktui.engine.drill.checks import DrillPhase


class Peers(Protocol):
    """The other members of a site drill, as a phase sees them."""

    def enter(self, phase: DrillPhase) -> None:
        """Wait until the other members let this one begin a phase.

        Raises:
            K2kError: the site drill was stopped; this drill can be resumed.
        """
        ...

    def idle(self) -> AbstractContextManager[None]:
        """Let another member work while this one waits."""
        ...

    def fencing(self) -> AbstractContextManager[None]:
        """Keep other members from changing the fence of the source meanwhile."""
        ...

    def record_denied(self, topics: Collection[str]) -> None:
        """Write into the records of all members to which topics this one is about to deny Write."""
        ...

    def explain_kept_fence(self) -> str:
        """Return why the fence of the source must stay; "" if no other member needs it."""
        ...


class _Alone:
    """A drill of its own."""

    def enter(self, phase: DrillPhase) -> None:
        """Return at once."""

    def idle(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def fencing(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def record_denied(self, topics: Collection[str]) -> None:
        """Do nothing."""

    def explain_kept_fence(self) -> str:
        """Return "": no other member needs it."""
        return ""


ALONE: Peers = _Alone()
