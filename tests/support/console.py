"""The console on a made pipeline, driven by keys, without a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widget import Widget
from textual.worker import WorkerCancelled

from k2ktui.console.app import ConsoleApp
from k2ktui.console.session import Options, Session
from k2ktui.console.themes import shipped_directory
from tests.support.idle import idle_by_its_event_loop
from tests.support.views import Made, StubFeed, usual

_LOOK_S = 0.05
_SESSION = ("flow", "files", "notes", "leave_choices", "recorder")
Flow = Callable[["Sitting"], Awaitable[None]]


async def press(pilot: Pilot[Any], *keys: str) -> bool:
    """Press keys; returns whether the console goes on.

    Pilot waits half a minute for the widgets of a console that the keys have ended.
    """
    pressing = asyncio.ensure_future(pilot.press(*keys))
    while pilot.app.is_running and not pressing.done():
        await asyncio.wait([pressing], timeout=_LOOK_S)
    if pressing.done():
        await pressing
    else:
        pressing.cancel()
    return pilot.app.is_running


class Sitting:
    """A console that is open.

    Attributes:
        app: the console.
        feed: what it shows; ``feed.made`` can be changed, then ``show()``.
        pilot: Textual's.
    """

    def __init__(self, app: ConsoleApp, feed: StubFeed, pilot: Pilot[Any]) -> None:
        self.app, self.feed, self.pilot = app, feed, pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until they have had their effect."""
        if await press(self.pilot, *keys):
            await self.settle()

    async def settle(self) -> None:
        """Wait until nothing is to be done: messages, workers, repaints."""
        while True:
            with contextlib.suppress(WorkerCancelled):  # another one takes its place
                await self.app.workers.wait_for_complete()
                break
        await self.pilot.pause()

    async def show(self) -> None:
        """Let the feed tell what is known now."""
        self.feed.tell()
        await self.settle()

    @property
    def text(self) -> str:
        """What is on the screen, line by line, without styles."""
        screen = self.app.screen
        lines = [strip.text.rstrip() for strip in screen._compositor.render_strips()]
        return "\n".join(lines)

    def line(self, part: str) -> str:
        """The first line on the screen that contains ``part``."""
        found = [line for line in self.text.splitlines() if part in line]
        assert found, f"{part!r} is not on the screen:\n{self.text}"
        return found[0]

    def widget(self, selector: str) -> Widget:
        """A widget of the screen."""
        return self.app.screen.query_one(selector)

    def svg(self) -> str:
        """The screen as an SVG that is the same on every machine."""
        text = self.app.export_screenshot(title="k2ktui", simplify=True)
        text = re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL)
        return re.sub(r"terminal-\d+-", "terminal-", text)


def sit(
    steps: Flow,
    made: Made | None = None,
    *,
    size: tuple[int, int] = (80, 24),
    feed: StubFeed | None = None,
    keys: Path | None = None,
    themes: tuple[Path, ...] | None = None,
    **options: Any,
) -> None:
    """Open the console and let ``steps`` use it.

    Args:
        steps: what the operator does, and what a test expects.
        made: the pipeline; the usual one by default.
        size: of the terminal.
        feed: in place of one that shows ``made``.
        keys: the user's keys; none by default, whatever is in the real configuration directory.
        themes: directories of themes; the shipped one by default.
        options: of the session and of the console.
    """
    feed = feed or StubFeed(made or usual())
    own = {name: options.pop(name) for name in _SESSION if name in options}
    chosen = Options(
        keys=keys or Path("there-is-no-such-file"),
        themes=themes or (shipped_directory(),),
        **options,
    )
    session = Session(feed, feed.made.pair, options=chosen, **own)

    async def run() -> None:
        app = ConsoleApp(session)
        with idle_by_its_event_loop(app):
            async with app.run_test(size=size, notifications=True) as pilot:
                sitting = Sitting(app, feed, pilot)
                await sitting.settle()
                await steps(sitting)
        if app.fault is not None:
            raise app.fault

    asyncio.run(run())
