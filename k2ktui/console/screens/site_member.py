"""A member of a site drill: the phases of its own drill; it is changed with the whole site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual.binding import Binding, BindingType

from k2ktui.console.screens.drill_checklist import DrillChecklist
from k2ktui.console.screens.site_facts import advise
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.site import MemberState
from k2ktui.errors import K2kError
from k2ktui.present.formatting import Cell, Tone
from k2ktui.sync.flow import Flow
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import View


class Members(Protocol):
    """What is asked of the screen of the site drill."""

    def find_member(self, drill_id: str) -> MemberState | None:
        """Return a member as it is now."""


class MemberScreen(DrillChecklist):
    """The drill of one pipeline of a site drill.

    Args:
        member: the member; its drill has begun.
        site: knows the member as it is now.
        flow: its pipeline; None if the directory has no file of it.
    """

    ENTRY: ClassVar[str] = "site_drills"
    HELP: ClassVar[str | None] = """
        The drill of one pipeline of a site drill: its phases in order, with what each has found or
        waits for, and why it is held. Enter shows a phase whole, c all checks. It is resumed, left
        out and aborted with the site drill: q goes back to it.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "checks", "Checks", id="drill.checks"),
    ]

    def __init__(self, member: MemberState, site: Members, flow: Flow | None) -> None:
        super().__init__(member.drill)
        self._member, self._site, self._flow = member, site, flow

    @property
    def crumb(self) -> str:
        """The pipeline's name."""
        return self._member.pipeline

    @property
    def flow(self) -> Flow:
        """The member's pipeline."""
        if self._flow is None:
            raise K2kError("the directory has no file of this pipeline")
        return self._flow

    @property
    def files(self) -> Sequence[str]:
        """The member's file."""
        return (self._member.file,) if self._member.file and self._flow is not None else ()

    def on_mount(self) -> None:
        """Show the drill, and follow it."""
        self.set_interval(1.0, self._follow)
        self._follow()

    def _follow(self) -> None:
        newest = self._site.find_member(self._member.member.drill)
        if newest is not None:
            self._member = newest
        if self._member.drill is not None and self.is_current:
            self.show_drill(self._member.drill)

    def show_view(self, view: View) -> None:
        """Do nothing: the site drill is followed."""

    @property
    def _acts(self) -> bool:
        return self._member.acting

    def _to_do(self, drill: Drill) -> str:
        if not advise(self._member):
            return ""
        return "Correct it, then resume the site drill, or leave this pipeline out there."

    def _who(self, drill: Drill) -> Cell:
        if self._member.left_out:
            return Cell("It was left out by a typed choice.", Tone.WARN)
        if self._member.error:
            return Cell(safe_message(self._member.error), Tone.BAD)
        if self._member.acting:
            return Cell(f"{safe_text(drill.owner, 40)} acts on it.", Tone.INFO)
        return Cell("No operator acts on it.", Tone.WARN)

    def _way_back(self, drill: Drill) -> Cell:
        return Cell("It is aborted with the site drill: q goes back to it.", Tone.MUTED)
