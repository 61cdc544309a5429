"""The driver of console tests: a console without a terminal, on a made pipeline or on any session.

A test gives its steps as a coroutine that takes a ``ConsoleDriver``::

    async def steps(console: ConsoleDriver) -> None:
        await console.press("4", "enter")
        await console.sees("1 create")

    drive(steps, usual())
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from textual import events
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import WorkerCancelled

from k2ktui.config.load import load
from k2ktui.config.model import PipelineConfig
from k2ktui.console.app import ConsoleApp
from k2ktui.console.session import Options, Session
from k2ktui.console.themes import shipped_directory
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets import typed_keys
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.moves.journal import Runner
from k2ktui.sync.flow import Flow
from k2ktui.watch.model import PipelinePair
from k2ktui.watch.poller import open_poller
from tests.support.console.idle import idle_by_its_event_loop, settled
from tests.support.console.stylesheets import parsed_once
from tests.support.console.views import Made, StubFeed, usual
from tests.support.pipelines.copied import Copied

_LOOK_S = 0.05
# A notice is shown for five seconds. As many may pass before a test on a busy machine looks for it:
# here, not more than half a second passes between two looks.
_NOTICE_S, _STEP_S = ConsoleApp.NOTIFICATION_TIMEOUT, 0.5
# A key whose widget takes so long to handle it counts as lost: on a busy machine none does.
_LOST, _LOST_S = "k2ktui.console.widgets.typed_keys._LOST_S", 120.0
_SESSION = ("flow", "files", "notes", "leave_choices", "recorder")
_CHARS = {"space": " ", "enter": "\r", "tab": "\t", "colon": ":", "slash": "/"}
_KEYS = {"-": "minus", "_": "underscore", ":": "colon", "+": "plus", " ": "space"}


class ConsoleDriver:
    """An open console.

    Attributes:
        app: the console.
        pilot: Textual's.
        feed: what it shows; of a made pipeline ``feed.made`` can be changed, then ``show()``.
    """

    pilot: Pilot[Any]

    def __init__(self, app: ConsoleApp, *, awaits_workers: bool) -> None:
        self.app = app
        self.feed: Any = app.session.feed
        self._awaits_workers = awaits_workers
        self._given: dict[str, float] = {}
        self._looked_at = time.monotonic()
        self._keep_notices()

    def _keep_notices(self) -> None:
        """Keep the texts of notices, each with the seconds that it has left."""
        notify, clear = self.app.notify, self.app.clear_notifications

        def keep(message: str, **how: Any) -> None:
            self._given[str(message)] = _NOTICE_S
            notify(message, **how)

        def forget() -> None:
            self._given.clear()
            clear()

        vars(self.app).update(notify=keep, clear_notifications=forget)

    def _look(self) -> None:
        """Let time pass for the notices."""
        now = time.monotonic()
        passed = min(now - self._looked_at, _STEP_S)
        self._looked_at = now
        for text, left in list(self._given.items()):
            if left > passed:
                self._given[text] = left - passed
            else:
                self._given.pop(text, None)

    @property
    def screen(self) -> Screen[Any]:
        """The active screen."""
        return self.app.screen

    @property
    def text(self) -> str:
        """What is on the screen, line by line, without styles."""
        return "\n".join(strip.text.rstrip() for strip in self.strips())

    @property
    def notices(self) -> str:
        """The notices that are shown, or were given a few looks ago."""
        shown = [str(notification.message) for notification in self.app._notifications]
        return "\n".join(dict.fromkeys([*list(self._given), *shown]))

    def strips(self) -> Sequence[Strip]:
        """Return what is on the screen, line by line, with styles."""
        return self.screen._compositor.render_strips()

    def line(self, part: str) -> str:
        """Return the first line on the screen that contains ``part``."""
        lines = [line for line in self.text.splitlines() if part in line]
        assert lines, f"{part!r} is not on the screen:\n{self.text}"
        return lines[0]

    def panel(self, title: str) -> str:
        """Return the text of the panel with a title."""
        shown = [panel for panel in self.screen.query(Panel) if panel.display]
        # The title of a tile may say its verdict, too: "Failover now: safe".
        matching = [panel for panel in shown if panel.title_text.partition(": ")[0] == title]
        assert matching, f"no panel {title!r} is on the screen:\n{self.text}"
        region = matching[0].content_region
        lines = (strip.crop(region.x, region.right).text for strip in self.strips())
        return "\n".join(line.rstrip() for line in list(lines)[region.y : region.bottom])

    def widget(self, selector: str) -> Widget:
        """Return a widget of the screen."""
        return self.screen.query_one(selector)

    def svg(self) -> str:
        """Return the screen as an SVG that is the same on every machine."""
        text = self.app.export_screenshot(title="k2ktui", simplify=True)
        text = re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL)
        return re.sub(r"terminal-\d+-", "terminal-", text)

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until the console has handled them.

        Pilot waits half a minute for the widgets of a console that the keys have ended.
        """
        pressing = asyncio.ensure_future(self.pilot.press(*keys))
        while self.app.is_running and not pressing.done():
            await asyncio.wait([pressing], timeout=_LOOK_S)
        if pressing.done():
            await pressing
        else:
            pressing.cancel()
        if self.app.is_running:
            await self.settle()
        # Those that a dialog or a palette does not take yet; not those that wait for a dialog.
        while self.app.is_running and self.app.has_typed_keys and not self._prepares_dialog:
            await asyncio.sleep(_LOOK_S)
            await self.settle()

    @property
    def _prepares_dialog(self) -> bool:
        asks = any(worker.group == ASK and not worker.is_finished for worker in self.app.workers)
        return asks and not isinstance(self.screen, Dialog)

    def post(self, *keys: str) -> None:
        """Let keys arrive together, as over a slow line: at one time, however busy the machine."""
        now: float | None = None
        for key in keys:
            char = _CHARS.get(key, key if len(key) == 1 else None)
            event = events.Key(_KEYS.get(key, key), char)
            event.time = now = now or event.time
            self.app.post_message(event)

    async def press_at_once(self, *keys: str) -> None:
        """Let keys arrive together, and wait until all had their effect."""
        self.post(*keys)
        waiting = True
        while waiting and self.app.is_running:
            # Not by Pilot, which waits for widgets of the screen of now, and the keys may close it.
            await asyncio.sleep(_LOOK_S)
            if not self.app.has_typed_keys:
                await self.settle()
                waiting = self.app.has_typed_keys

    async def type(self, text: str) -> None:
        """Type a text."""
        await self.press(*(_KEYS.get(char, char) for char in text))

    async def confirm(self, name: str) -> None:
        """Wait for the confirmation dialog, type the name and, once it can be applied, apply.

        A dialog without a field for it is confirmed by Enter.
        """
        await self.until(
            lambda: self.app.focused and self.app.focused.id in ("confirm-name", "confirm-do"),
            "confirmation dialog",
        )
        asks = self.screen.query("#confirm-name")
        if asks:
            await self.type(name)
        button = self.widget("#confirm-do")
        await self.until(lambda: not button.disabled, "a change that can be confirmed")
        await (self.press("tab", "space") if asks else self.enter())

    async def enter(self) -> None:
        """Press Enter like a person who has read what is shown."""
        await asyncio.sleep(typed_keys._REPEAT_S)
        await settled(self.app)  # what is not drawn was not read
        await self.press("enter")

    async def settle(self) -> None:
        """Wait until all messages are handled and everything is drawn.

        On a made pipeline, also until all workers have ended.
        """
        while self._awaits_workers:
            with contextlib.suppress(WorkerCancelled):  # another one takes its place
                await self.app.workers.wait_for_complete()
                break
        await self.pilot.pause()
        self._look()

    async def show(self) -> None:
        """Show what the made pipeline is now."""
        self.feed.tell()
        await self.settle()

    async def until(self, ready: Callable[[], object], what: str, seconds: float = 180) -> None:
        """Wait for a condition, and until all that came with it is drawn.

        ``what`` and the screen are in the failure if it never holds.
        """
        end = time.monotonic() + seconds
        waited = False
        while not ready():
            assert self.app.fault is None, self.app.fault
            assert time.monotonic() < end, f"not {what}:\n{self.text}\n{self.notices}"
            await self.pilot.pause(_LOOK_S)
            self._look()
            waited = True
        if waited and self.app.is_running:
            await settled(self.app)

    async def sees(self, *texts: str) -> None:
        """Wait until each text is on the screen or in a notice."""
        for text in texts:
            await self.until(partial(self._shows, text), f"on the screen: {text}")

    def _shows(self, text: str) -> bool:
        return text in self.text or text in self.notices


Steps = Callable[[ConsoleDriver], Awaitable[None]]


def drive(
    steps: Steps,
    made: Made | None = None,
    *,
    size: tuple[int, int] = (80, 24),
    feed: StubFeed | None = None,
    keys: Path | None = None,
    themes: tuple[Path, ...] | None = None,
    **options: Any,
) -> None:
    """Open the console on a made pipeline and let ``steps`` use it.

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
    drive_session(session, steps, size, awaits_workers=True)


def drive_session(
    session: Session,
    steps: Steps,
    size: tuple[int, int] = (80, 24),
    *,
    screen: str = "",
    awaits_workers: bool = False,
) -> None:
    """Open the console on a session and let ``steps`` use it.

    Args:
        session: what the console shows.
        steps: what the operator does, and what a test expects.
        size: of the terminal.
        screen: key of the screen to begin on, Overview by default.
        awaits_workers: whether each key press waits until all workers have ended. With real
            clusters they may take long: there a test waits for what it expects to see.
    """

    async def run() -> None:
        app = ConsoleApp(session)
        try:
            with idle_by_its_event_loop(app), parsed_once(), mock.patch(_LOST, _LOST_S):
                # Before it opens: a notice of that may have vanished when it has opened.
                console = ConsoleDriver(app, awaits_workers=awaits_workers)
                async with app.run_test(size=size, notifications=True) as console.pilot:
                    await console.settle()
                    if screen:
                        await console.press(screen)
                    try:
                        await steps(console)
                    except BaseException:
                        # One may wait for the answer of a dialog, and the console for it.
                        app.workers.cancel_all()
                        raise
        finally:
            session.feed.close()
        if app.fault is not None:
            raise app.fault

    asyncio.run(run())


def made_session(made: Made, *, config: bool = True, **options: Any) -> Session:
    """Return a session on a made pipeline; without ``config`` it shows a recording of it."""
    known = Flow(PipelineConfig.model_construct(name="orders")) if config else None
    return Session(StubFeed(made), made.pair, known, ("p.yaml",), Options(**options))


def file_session(
    file: Path, *runners: Runner, environment: str = "", replay: bool = False, **options: Any
) -> Session:
    """Return a session on a pipeline file, with these heartbeats and with the jobs of this host."""
    config = load([file]).config
    pair = PipelinePair(config.name, environment)
    feed = StubFeed(Made(pair, time.time(), runners=runners), replay=replay)
    flow = None if replay else Flow(config)
    return Session(feed, pair, flow, (str(file),), Options(**options))


def copied_session(copied: Copied, **options: Any) -> Session:
    """Return a session on a pipeline with real clusters."""
    config = copied.config
    flow = Flow(config)
    pair = PipelinePair(config.name, config.environment, config.read_only)
    return Session(open_poller(flow, 2.0), pair, flow, (str(copied.file),), Options(**options))
