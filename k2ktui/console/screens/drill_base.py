"""What the list of drills and a drill share: in the demo, a key acts on the demo's applications."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.widgets.choice_dialog import Choice, ChoiceDialog
from k2ktui.errors import K2kError

_SHOW = "show"


class DrillBaseScreen(OperationScreen):
    """A part of screen 8."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("C", "demo", "Demo's clients", id="drill.demo"),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key of the demo outside it."""
        if action == "demo" and not self.session.demo_steps:
            return False
        return super().check_action(action, parameters)

    def action_demo(self) -> None:
        """Ask the demo what runs, and offer to change it."""
        steps = {step.id: step for step in self.session.demo_steps}
        if _SHOW not in steps:
            return

        def choose(state: str) -> None:
            self._choose_step(state)

        if not self.background("demo", steps[_SHOW].run, choose):
            self.inform("The demo still does what you chose before.", "warning")

    @work(group="ask")
    async def _choose_step(self, state: str) -> None:
        steps = {step.id: step for step in self.session.demo_steps}
        choices = [Choice(s.id, s.title, s.effect) for s in steps.values() if s.id != _SHOW]
        dialog = ChoiceDialog("The demo's applications and source", "action", choices, state)
        chosen = await self.app.push_screen_wait(dialog)
        if chosen is None:
            return
        step, events = steps[chosen], self.console.events
        command = f"k2ktui demo --do {step.id}"
        events.add(EventKind.STARTED, step.title, command)

        def done(text: str) -> None:
            events.add(EventKind.DONE, step.title, command)
            self.inform(text, "information")

        def failed(error: K2kError) -> None:
            events.add(EventKind.FAILED, f"{step.title}: {error.message}", command)
            self.inform_error(error)

        if not self.background("demo", step.run, done, failed):
            self.inform("The demo still does what you chose before.", "warning")
