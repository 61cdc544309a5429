"""What a drill asks of the other members of its site drill; one of its own has no peers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.site_names import ALONE_TURN, NameTurn


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

    def find_turn(self, phase: DrillPhase) -> NameTurn:
        """Return what this member does about the clients' name now, in a phase that moves it."""
        ...

    def describe_sharing(self) -> str:
        """Return who moves the clients' name, and when; "" if no other member shares it."""
        ...

    def explain_no_opening(self) -> str:
        """Return why the target must not be opened, as the name would not move; "" if it may."""
        ...

    def advise_stay(self) -> str:
        """Return what to do about a name that stays because of members that share it."""
        ...

    def explain_kept_cut(self) -> str:
        """Return why clients must stay cut off from the source; "" if no other member needs it."""
        ...

    def list_moving(self) -> Sequence[PipelineConfig]:
        """Return the other pipelines that move, as far as this directory has them."""
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

    def find_turn(self, phase: DrillPhase) -> NameTurn:
        """Return that it acts."""
        return ALONE_TURN

    def describe_sharing(self) -> str:
        """Return "": no other member shares it."""
        return ""

    def explain_no_opening(self) -> str:
        """Return "": no other member holds it."""
        return ""

    def advise_stay(self) -> str:
        """Return "": the name stays because of no other member."""
        return ""

    def explain_kept_cut(self) -> str:
        """Return "": no other member needs it."""
        return ""

    def list_moving(self) -> Sequence[PipelineConfig]:
        """Return none."""
        return ()


ALONE: Peers = _Alone()
