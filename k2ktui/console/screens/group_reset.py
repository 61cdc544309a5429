"""Reset a group that exists on the target only, or copy another group's offsets to one there."""

from __future__ import annotations

from typing import ClassVar

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.translate_plan import PlanScreen, Shown, make_shown
from k2ktui.console.widgets.text_prompt import TextPrompt
from k2ktui.engine.moves.plan import Plan, Rewind
from k2ktui.sync.moves.choices import VALUES, parse_value
from k2ktui.sync.moves.reset import ResetRequest, plan_group_reset
from k2ktui.text import safe_text

COPY = "from "
_UNCHANGED = "Nothing was planned."
_GROUP = "Group on the target that is set, or made:"
_NOT_HERE = frozenset({"set_row", "rewind", "verify"})


class ResetScreen(PlanScreen):
    """The plan that resets a group.

    Args:
        request: what was asked for.
    """

    ENTRY: ClassVar[str] = "groups"
    HELP: ClassVar[str | None] = """
        A plan that resets a group of the target, with one row for each partition: its committed
        offset now and the one that is proposed. No mapping says what such a group has read:
        re-read and skipped are counted in offsets of the target.

        A applies the plan exactly as shown after you have typed the pipeline's name; a group with
        members is not written. Every write is read back, and recorded in the journal. U undoes what
        was applied, n plans again, and y copies the equivalent command.
    """

    def __init__(self, request: ResetRequest) -> None:
        super().__init__(frozenset({request.group}), Rewind.FOLLOW)
        self._request = request
        self.crumb = f"reset {request.group}"

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action in _NOT_HERE:
            return "this plan sets a group by hand, and translates nothing"
        return super().refusal(action)

    def action_plan_again(self) -> None:
        """Plan the reset."""
        config, files, request = self.config, self.session.files, self._request

        def job() -> Shown:
            plan, notes = plan_group_reset(config, request, files)
            return make_shown(plan, notes, None)

        self.act("planning", job, self.show_plan, command=self._reset)

    @property
    def _reset(self) -> str:
        value, request = self._request.value, self._request
        how = ("--copy-from", request.copy_from) if value is None else ("--to", value.text)
        return cli_equivalent.groups_reset(self.session.files, request.group, *how)

    def _command(self, plan: Plan) -> str:
        return self._reset


async def reset_group(screen: ConsoleScreen, near: str) -> None:
    """Ask which group to reset and to what, and open its plan; call it in a worker of ``ask``.

    Args:
        screen: the screen that asks.
        near: the group under the cursor, whose offsets are offered to be copied; may be empty.
    """
    group = await screen.ask(TextPrompt(_GROUP, canceled=_UNCHANGED))
    if group is None:
        return
    question = f"Set {safe_text(group, 60)} to {VALUES}; or to another group's offsets: from GROUP"
    offered = f"{COPY}{near}" if near else ""
    typed = await screen.ask(TextPrompt(question, value=offered, canceled=_UNCHANGED))
    if typed is None:
        return
    try:
        request = request_of(group.strip(), typed.strip())
    except ValueError as error:
        screen.inform(f"{safe_text(typed, 60)}: {error}", "error")
        return
    screen.app.push_screen(ResetScreen(request))


def request_of(group: str, typed: str) -> ResetRequest:
    """Parse what was typed: a value, or ``from`` and a group's name.

    Raises:
        ValueError: it is neither; the text says what was expected.
    """
    if typed.startswith(COPY):
        return ResetRequest(group, None, typed.removeprefix(COPY).strip(), lambda _: True)
    return ResetRequest(group, parse_value(typed), "", lambda _: True)
