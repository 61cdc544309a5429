"""A transcript of screens: what the console shows, step by step, as text; without a cluster.

A walk uses one console. After each step, the transcript has the screen's class, what is on the
screen (lines that are as before are counted), its keys (hidden ones, too) with the reason of those
that are refused, and the notices. Below the walk are the actions of the event log, with their
commands. What the console asks a cluster for is replaced by made answers. The files are kept in
``tests/unit/golden/transcript/screens``: ``K2KTUI_TRANSCRIPT=write`` writes them again, and the
difference is reviewed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from textual.binding import ActiveBinding
from textual.widgets import Input
from textual.worker import Worker

from k2ktui.config.model import PipelineConfig
from k2ktui.console import header
from k2ktui.console.event_log import EventKind
from k2ktui.console.screens.base import ConsoleScreen, ListScreen
from k2ktui.console.screens.operation import ACT
from k2ktui.console.session import Options, Session
from k2ktui.console.themes import shipped_directory
from k2ktui.console.widgets import typed_keys
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.footer import rank_of_key, sorted_bindings
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.sync.flow import Flow
from tests.support.commands.transcript import (
    TRANSCRIPTS,
    answering,
    compare_kept,
    stopped_clock,
)
from tests.support.console.driver import ConsoleDriver, drive_session
from tests.support.console.views import Made, StubFeed

SCREENS = TRANSCRIPTS / "screens"
SIZE = (120, 40)
FLOW = Flow(PipelineConfig.model_construct(name="orders"))
WHO = "ops@bastion1"
_FEW = 3
# What the console's timers do may begin a worker, whose end they show; none does so each time.
_ROUNDS = 3
# Keys that Textual gives to screens and fields.
_OF_TEXTUAL = (
    "app.focus_",
    "app.help_quit",
    "screen.copy_text",
    "screen.minimize",
    "page_",
    "scroll_",
)
_BETWEEN_LOOKS = ("jobs._LOOK_S", "jobs_log._LOOK_S", "jobs_log._RUNS_S", "overview._LOOK_S")
_ACTIONS = (EventKind.STARTED, EventKind.DONE, EventKind.FAILED, EventKind.STOPPED)


def _shortened(lines: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    """Yield lines; of many that are as before, or like the one above, how many they are."""
    number = 0
    while number < len(lines):
        line = lines[number]
        same = _count_equal(lines[number:], before[number:])
        alike = _count_equal(lines[number:], [line] * (len(lines) - number))
        if max(same, alike) >= _FEW:
            if same >= alike:
                yield f"⋮ {same} lines as before"
            else:
                yield from (line, f"⋮ {alike - 1} lines like this one")
            number += max(same, alike)
        else:
            yield line
            number += 1


def _count_equal(lines: Sequence[str], others: Sequence[str]) -> int:
    """Return with how many equal lines both begin."""
    pairs = enumerate(zip(lines, others, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(lines), len(others)))


def _is_ours(active: ActiveBinding) -> bool:
    binding = active.binding
    own = bool(binding.description) and not isinstance(active.node, Input)
    return own and not binding.system and not binding.action.startswith(_OF_TEXTUAL)


class Walk:
    """A console that is used step by step, and what it showed.

    Attributes:
        console: its driver.
        lines: the transcript.
        is_busy: whether a thread of the console runs on, so that no step waits for its end.
    """

    is_busy = False

    def __init__(self, console: ConsoleDriver) -> None:
        self.console, self.app = console, console.app
        self.lines: list[str] = []
        self._notices: list[str] = []
        self._kind: type | None = None
        self._shown: list[str] = []

    @property
    def made(self) -> Made:
        """The made pipeline; a change of it is shown by the next step."""
        made: Made = self.console.feed.made
        return made

    def note(self, message: str, *, severity: str = "information", **_: Any) -> None:
        """Keep a notice, in place of Textual's, which covers what is below it for some seconds."""
        first, *more = str(message).splitlines() or [""]
        self._notices += [f"! {severity}: {first}", *(f"!   {line}" for line in more)]

    async def press(self, *keys: str) -> None:
        """Press keys; after each, wait until all threads have ended, but none that waits."""
        for key in keys:
            await self.console.pilot.press(key)
            await self.settle()

    async def type(self, text: str) -> None:
        """Type a text."""
        for char in text:
            await self.console.pilot.press({" ": "space", "-": "minus"}.get(char, char))
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing happens any more. A worker may wait for the answer of a dialog."""
        await self.console.pilot.pause()
        for _ in range(_ROUNDS):
            while self._awaits_workers:
                await asyncio.sleep(0.01)
                await self.console.pilot.pause()
            # What the console's timers do, each after some time, has been done.
            self.app.update_frame()
            screen = self.console.screen
            if isinstance(screen, ListScreen) and screen.query("#side"):
                screen.show_side()
            await self.console.pilot.pause()
            if not self._awaits_workers:
                break

    @property
    def _awaits_workers(self) -> bool:
        return not self.is_busy and any(map(self._is_awaited, self.app.workers))

    def _is_awaited(self, worker: Worker[Any]) -> bool:
        asks = (ASK, "question", *([ACT] if isinstance(self.console.screen, Dialog) else []))
        return not worker.is_finished and worker.group not in asks

    async def shows(self, what: str, *keys: str) -> None:
        """Press keys, and add what is shown then.

        Args:
            what: the situation, for who reads the transcript.
            keys: what is pressed.
        """
        await self.press(*keys)
        await self.settle()
        self.take(what, keys)

    async def shows_view(self, what: str) -> None:
        """Show what the made pipeline is now, and add it."""
        self.console.feed.tell()
        await self.settle()
        self.take(what, ())

    async def confirms(self, what: str, key: str, name: str, *, label: str = "") -> None:
        """Press a key, add its dialog, type a name and press the button, and add what follows."""
        await self.shows(f"{label or what}: asked", key)
        await self.answers(what, name)

    async def answers(self, what: str, name: str) -> None:
        """Type a name into the dialog, press its button, and add what follows.

        Without a name, Enter confirms.
        """
        assert isinstance(self.console.screen, Dialog), self.console.text
        await self.type(name)
        if name:
            await self.press("tab", "space")
        else:
            await self.console.enter()
            await self.settle()
        self.take(what, (f"{name} tab space" if name else "enter",))

    def take(self, what: str, keys: tuple[str, ...]) -> None:
        """Add what is shown now."""
        screen = self.console.screen
        pressed = f"   [{' '.join(keys)}]" if keys else ""
        self.lines += ["", f"=== {type(screen).__name__}: {what}{pressed}"]
        shown = self._text()
        assert "internal error" not in "".join([*shown, *self._notices]), "\n".join(shown)
        same_kind = type(screen) is self._kind
        self.lines += _shortened(shown, self._shown if same_kind else [])
        self._kind, self._shown = type(screen), shown
        if isinstance(screen, ListScreen):
            summary = "".join(cell.text for cell in screen.summary())
            self.lines += [f"summary: {summary}"] if summary else []
        if isinstance(screen, ConsoleScreen) and screen.text_to_copy().startswith("k2ktui "):
            self.lines += [f"y copies: {line}" for line in screen.text_to_copy().splitlines()]
        self.lines += self._key_lines()
        self.lines += self._notices
        self._notices = []

    def _text(self) -> list[str]:
        """Return what is on the screen; of a dialog, without what is below it."""
        screen = self.console.screen
        strips = list(self.console.strips())
        regions = [widget.region for widget in screen.children if widget.region.area]
        if isinstance(screen, Dialog) and regions:
            strips = [
                strip.crop(min(r.x for r in regions), max(r.right for r in regions))
                for strip in strips[min(r.y for r in regions) : max(r.bottom for r in regions)]
            ]
        lines = [strip.text.rstrip() for strip in strips]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _key_lines(self) -> list[str]:
        """Return the keys of the screen, without those of every table and of every screen."""
        screen = self.console.screen
        own = [active for active in sorted_bindings(screen) if _is_ours(active)]
        if not isinstance(screen, Dialog):
            own = [active for active in own if rank_of_key(active.binding) == 0]
        enabled = [self._key(active) for active in own if active.enabled]
        lines = [f"keys: {', '.join(enabled)}"] if enabled else []
        for active in own:
            if not active.enabled:
                why = (
                    screen.refusal(active.binding.action)
                    if isinstance(screen, ConsoleScreen)
                    else ""
                )
                lines.append(f"refused: {self._key(active)}{': ' if why else ''}{why}")
        return lines

    def _key(self, active: ActiveBinding) -> str:
        return f"{self.app.get_key_display(active.binding)} {active.binding.description}"

    def add_actions(self) -> None:
        """Add what the event log has of actions, the oldest first."""
        events = [event for event in reversed(self.app.events.events) if event.kind in _ACTIONS]
        if not events:
            return
        self.lines += ["", "=== actions in the event log"]
        for event in events:
            self.lines.append(f"{event.kind}: {event.text}")
            self.lines += [f"    $ {event.command}"] if event.command else []


Steps = Callable[[Walk], Awaitable[None]]


@dataclass(frozen=True)
class Scene:
    """One console of a transcript.

    Attributes:
        what: its heading.
        steps: what the operator does.
        session: makes what it shows.
        answers: by the full name of a function of k2ktui, what it returns or raises, or what is
            called in its place; by that of something else, what it ``Is``.
        size: of the terminal.
    """

    what: str
    steps: Steps
    session: Callable[[], Session]
    answers: Mapping[str, Any] = field(default_factory=dict)
    size: tuple[int, int] = SIZE

    def run(self, folder: Path) -> list[str]:
        """Use the console in a folder; return its lines."""
        lines: list[str] = []

        async def walks(console: ConsoleDriver) -> None:
            walk = Walk(console)
            with mock.patch.object(console.app, "notify", walk.note):
                await walk.settle()
                await self.steps(walk)
                await walk.settle()
                walk.add_actions()
            lines.extend(walk.lines)
            console.app.workers.cancel_all()  # one may wait for the answer of a dialog

        with pytest.MonkeyPatch.context() as patch, stopped_clock(patch):
            patch.chdir(folder)
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            # The length of the folder's name would show: it differs from run to run.
            patch.setattr(Path, "cwd", lambda: Path("/srv/jobs"))
            patch.setattr(header, "who", lambda: WHO)
            patch.setattr(socket, "gethostname", lambda: "bastion1")
            patch.setattr(typed_keys, "_IGNORED_S", 0.0)  # keys follow a refusal here
            for seconds in _BETWEEN_LOOKS:  # how often they look would depend on the machine
                patch.setattr(f"k2ktui.console.screens.{seconds}", 3600.0)
            for name, answer in self.answers.items():
                patch.setattr(name, answering(answer))
            drive_session(self.session(), walks, self.size)
        return [f"##### {self.what}", *(line.replace(str(folder), "FOLDER") for line in lines), ""]


def pipeline_session(
    made: Made, *, flow: Flow | None = FLOW, replay: bool = False, **options: Any
) -> Session:
    """Return a session on a made pipeline; a recording has no flow."""
    return Session(
        StubFeed(made, replay=replay),
        made.pair,
        flow,
        ("orders.yaml",),
        Options(keys=Path("no-keys"), themes=(shipped_directory(),), theme="k2k-dark", **options),
    )


def compare_screens(name: str, scenes: list[Scene], folder: Path) -> None:
    """Walk through consoles one after the other, and expect what is kept under a name."""
    lines = [line for scene in scenes for line in scene.run(folder)]
    compare_kept(SCREENS / f"{name}.txt", "\n".join(lines))
