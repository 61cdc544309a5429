"""The console on made views and real records of jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from k2ktui.console.app import ConsoleApp
from k2ktui.console.session import Options, Session
from k2ktui.engine.journal import Runner, RunnerState
from k2ktui.watch.feed import Listener
from k2ktui.watch.history import Sample
from k2ktui.watch.model import Pair, Part, PartName, RangeRow, View
from tests.jobs.support import config_of


@dataclass
class Still:
    """A feed of one view, as old as it is."""

    view: View
    replay: bool = False
    paused: bool = False
    interval: float = 5.0
    refreshed: int = 0

    def start(self, listener: Listener) -> None:
        listener(self.view)

    def refresh(self) -> None:
        self.refreshed += 1

    def pause(self, on: bool) -> None:
        self.paused = on

    def set_interval(self, seconds: float) -> None:
        self.interval = seconds

    def now(self) -> float:
        return self.view.taken_at

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        return ()

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        return ()

    def close(self) -> None:
        return


def session_of(
    file: Path, *runners: Runner, environment: str = "", replay: bool = False, **options: Any
) -> Session:
    """Return a session on a pipeline whose runs these are."""
    config = config_of(file)
    now = time.time()
    pair = Pair(config.name, environment)
    view = View(pair, now, {part: Part(now) for part in PartName}, runners=runners)
    feed = Still(view, replay)
    kept = None if replay else config
    return Session(feed, pair, kept, (str(file),), Options(**options))


def runner(host: str = "bastion2", **values: Any) -> Runner:
    """Return a heartbeat of a second ago."""
    now = int(time.time() * 1000)
    given = {
        "runner": f"{host}-1",
        "host": host,
        "user": "ann",
        "pid": 4711,
        "started_ms": now - 60_000,
        "at_ms": now - 1000,
        "state": RunnerState.RUNNING,
        **values,
    }
    return Runner(**given)


class Operator:
    """Sits at the console: presses keys, looks, waits until something is on the screen."""

    def __init__(self, app: ConsoleApp, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def screen(self) -> str:
        """What is on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    @property
    def notices(self) -> str:
        """The notices that are shown."""
        return "\n".join(str(each.message) for each in self.app._notifications)

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type a name."""
        keys = {"-": "minus", "_": "underscore"}
        await self.press(*(keys.get(char, char) for char in text))

    async def until(self, ready: Callable[[], object], what: str, seconds: float = 60) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while not ready():
            assert self.app.fault is None, self.app.fault
            assert time.monotonic() < end, f"not {what}:\n{self.screen}\n{self.notices}"
            await self.pilot.pause(0.05)

    async def sees(self, *texts: str, seconds: float = 60) -> None:
        """Wait until texts are on the screen or in a notice."""
        for text in texts:
            await self.until(lambda it=text: it in self.screen + self.notices, text, seconds)


def at_console(
    session: Session, steps: Callable[[Operator], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> None:
    """Open a console on screen 5, do something, and leave it."""
    app = ConsoleApp(session)

    async def main() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            operator = Operator(app, pilot)
            await operator.press("5")
            await steps(operator)

    asyncio.run(main())
    assert app.fault is None
