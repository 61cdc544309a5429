"""Screens with a plan: it is made, shown, confirmed, applied exactly as shown, and undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import work

from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.access import Access
from k2ktui.errors import K2kError
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message

P = TypeVar("P")  # a plan
A = TypeVar("A")  # what came of applying or undoing it


@dataclass(frozen=True, slots=True)
class Change(Generic[A]):
    """A change, as it is asked for and made.

    Attributes:
        title: what will happen, for the dialog.
        lines: what is changed, what is not, how to undo it.
        verb: the label of the button.
        command: the CLI command that does the same.
        doing: what is done, for example "applying".
        write: makes it, on a thread, if the session may.
        result: returns what came of it, in words.
        undoable: whether it can be undone.
        logged: the command for the event log, if that is another one.
    """

    title: str
    lines: Sequence[str | Line]
    verb: str
    command: str
    doing: str
    write: Callable[[Access], A]
    result: Callable[[A], str]
    undoable: bool = True
    logged: str = ""


class ChangeScreen(OperationScreen, Generic[P, A]):
    """A plan of one kind; a subclass makes it, shows it, and declares the change that it is.

    Attributes:
        OF_PLAN: actions that need a plan.
        NO_PLAN: why they are unavailable without one.
        NOT_MADE: what is shown before it is made.
        MADE_AGAIN: what is said if it was made again while its dialog was open.
        shown: the plan; None until it is made.
        applied: what came of applying it.
        back: what came of undoing that.
        used: whether it was begun to be applied, so that it is not applied again.
    """

    CHANGES: ClassVar[frozenset[str]] = frozenset({"apply", "undo"})
    NEEDS: ClassVar[frozenset[str]] = frozenset({"plan_again"})
    OF_PLAN: ClassVar[frozenset[str]] = frozenset({"apply"})
    NO_PLAN: ClassVar[str] = "there is no plan; n plans"
    NOT_MADE: ClassVar[str] = "no plan yet"
    MADE_AGAIN: ClassVar[str] = "Nothing was applied: the plan was made again meanwhile."

    def __init__(self, shown: P | None = None) -> None:
        super().__init__()
        self.shown = shown
        self.applied: A | None = None
        self.back: A | None = None
        self.used = False

    # For subclasses

    def action_plan_again(self) -> None:
        """Make the plan on a thread, and pass it to :meth:`show_plan`."""
        raise NotImplementedError

    def draw(self, shown: P) -> None:
        """Show a plan that was made."""
        raise NotImplementedError

    def describe(self, shown: P) -> Line:
        """Return the note of the panel around a plan's table."""
        raise NotImplementedError

    def effects(self, shown: P) -> list[Line]:
        """Return the lines above it: notes, and what applying the plan does, or has done."""
        raise NotImplementedError

    def unappliable(self, shown: P) -> str:
        """Return why a plan cannot be applied now; empty if it can."""
        return "it was applied; n plans again" if self.used else ""

    def change(self, shown: P) -> Change[A]:
        """Return the change that a plan is."""
        raise NotImplementedError

    def show_applied(self) -> None:
        """Show what came of it."""

    def show_failure(self, error: K2kError) -> None:
        """Show what else is known of a failure, whose text is shown already."""

    def was_begun(self, error: K2kError) -> bool:
        """Return whether something may have been written although applying it failed."""
        return False

    # The flow of all of them

    def on_mount(self) -> None:
        """Make the plan, or show the existing one."""
        if self.shown is None:
            self.action_plan_again()
        else:
            self.show_plan(self.shown)

    def show_plan(self, shown: P) -> None:
        """Show a new plan."""
        self.shown, self.applied, self.back, self.used = shown, None, None, False
        self.draw(shown)

    def summary(self) -> Line:
        """Return the note of the panel around the table."""
        if self.shown is None:
            return (Cell(formatting.NOT_YET if self.busy else self.NOT_MADE),)
        return self.describe(self.shown)

    def facts(self) -> list[Line]:
        """Return the lines above the table."""
        return [] if self.shown is None else self.effects(self.shown)

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        why = super().refusal(action)
        if why or action not in self.CHANGES | self.OF_PLAN:
            return why
        shown = self.shown
        if shown is None and action in self.OF_PLAN:
            return self.NO_PLAN
        if action == "undo":
            return "" if self.applied and not self.back else "nothing is applied here"
        return "" if shown is None or action != "apply" else self.unappliable(shown)

    @work(group=ASK)
    async def action_apply(self) -> None:
        """Confirm, and apply the plan that is shown."""
        shown = self.shown
        if shown is None:
            return
        change, name = self.change(shown), self.session.pair.pipeline
        lines = [*change.lines, "", (Cell(safe_message(change.command), Tone.MUTED),)]
        dialog = Confirm(change.title, lines, name, change.verb, undoable=change.undoable)
        agreed = await self.ask(dialog)
        # The operator confirmed the plan that was shown at that time.
        if agreed and self.shown is shown:
            self._make(change)
        elif agreed:
            self.inform(self.MADE_AGAIN, "warning")

    def _make(self, change: Change[A]) -> None:
        may = self.session.access

        def done(applied: A) -> None:
            self.applied = applied
            self.show_applied()

        def failed(error: K2kError) -> None:
            self.used = self.was_begun(error)
            self.show_failure(error)

        self.used = self.act(
            change.doing,
            lambda: change.write(may),
            done,
            failed=failed,
            writes=True,
            command=change.logged or change.command,
            result=change.result,
        )
