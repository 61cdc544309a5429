"""What the list of drills and a drill share: in the demo, a key acts on the demo's applications."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.session import DemoStep
from k2ktui.console.widgets.choice_dialog import Choice, ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.typed_keys import ASK
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

    @work(group=ASK)
    async def action_demo(self) -> None:
        """Ask the demo what runs, and offer to change it; keys wait until the choices are shown."""
        steps = {step.id: step for step in self.session.demo_steps}
        if _SHOW not in steps:
            return
        asked: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        def answer(state: str | None) -> None:
            if not asked.done():  # Esc has canceled it
                asked.set_result(state)

        def broken(error: K2kError) -> None:
            self.inform_error(error)
            self.console.ignore_typing()
            answer(None)

        if not self.background("demo", steps[_SHOW].run, answer, broken):
            self.inform("The demo still does what you chose before.", "warning")
            return
        if (state := await asked) is None:
            return
        choices = [Choice(s.id, s.title, s.effect) for s in steps.values() if s.id != _SHOW]
        dialog = ChoiceDialog("The demo's applications and source", "action", choices, state)
        chosen = await self.ask(dialog)
        if chosen is None:
            return
        step = steps[chosen]
        if step.is_destructive:
            name = self.session.pair.pipeline
            lines = [step.effect, "", f"k2ktui demo --do {step.id}"]
            title = f"{step.title[0].upper()}{step.title[1:]}"
            if not await self.ask(Confirm(title, lines, name, "Kill")):
                return
        self._do_step(step)

    def _do_step(self, step: DemoStep) -> None:
        """Let the demo do something, and report what runs then."""
        events = self.console.events
        command = f"k2ktui demo --do {step.id}"
        events.add(EventKind.STARTED, step.title, command)

        def done(text: str) -> None:
            events.add(EventKind.DONE, f"{step.title}: {text}", command)
            self.inform(text, "information")

        def failed(error: K2kError) -> None:
            events.add(EventKind.FAILED, f"{step.title}: {error.message}", command)
            self.inform_error(error)

        if not self.background("demo", step.run, done, failed):
            self.inform("The demo still does what you chose before.", "warning")
