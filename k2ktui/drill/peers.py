"""What a drill asks of the other members of its site drill; one of its own has no peers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.site_names import ALONE_TURN, NameTurn


class Peers:
    """The other members of a site drill, as a phase sees them.

    This class is of a drill of its own, which has none; a member of a site drill answers each
    question itself.
    """

    def enter(self, phase: DrillPhase) -> None:
        """Wait until the other members let this one begin a phase.

        Raises:
            K2kError: the site drill was stopped; this drill can be resumed.
        """

    def idle(self) -> AbstractContextManager[None]:
        """Let another member work while this one waits."""
        return nullcontext()

    def fencing(self) -> AbstractContextManager[None]:
        """Keep other members from changing the fence of the source meanwhile."""
        return nullcontext()

    def record_denied(self, topics: Collection[str]) -> None:
        """Write into the records of all members to which topics this one is about to deny Write."""

    def explain_kept_fence(self) -> str:
        """Return why the fence of the source must stay; "" if no other member needs it."""
        return ""

    def find_turn(self, phase: DrillPhase) -> NameTurn:
        """Return what this member does about the clients' name now, in a phase that moves it."""
        return ALONE_TURN

    def describe_sharing(self) -> str:
        """Return who moves the clients' name, and when; "" if no other member shares it."""
        return ""

    def explain_no_opening(self) -> str:
        """Return why the target must not be opened, as the name would not move; "" if it may."""
        return ""

    def advise_stay(self) -> str:
        """Return what to do about a name that stays because of members that share it."""
        return ""

    def explain_kept_cut(self) -> str:
        """Return why clients must stay cut off from the source; "" if no other member needs it."""
        return ""

    def list_moving(self) -> Sequence[PipelineConfig]:
        """Return the other pipelines that move, as far as this directory has them."""
        return ()


ALONE = Peers()
