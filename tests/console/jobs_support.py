"""The console on made views and real records of jobs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from k2ktui.console.app import ConsoleApp
from k2ktui.console.session import Options, Session
from k2ktui.engine.journal import Runner, RunnerState
from k2ktui.sync.flow import PipelineFlow
from k2ktui.watch.facts import Facts, StateFacts
from k2ktui.watch.model import PartName, PipelinePair
from tests.console.acting import drive, notices, text_of, until
from tests.jobs.support import config_of
from tests.support.console import press
from tests.support.views import Made, StubFeed


@dataclass
class Runs(Made):
    """A made pipeline with these heartbeats."""

    runners: tuple[Runner, ...] = ()

    def _facts(self) -> Mapping[PartName, Facts]:
        return {**super()._facts(), PartName.STATE: StateFacts(self.now, self.runners)}


def session_of(
    file: Path, *runners: Runner, environment: str = "", replay: bool = False, **options: Any
) -> Session:
    """Return a session on a pipeline whose runs these are."""
    config = config_of(file)
    pair = PipelinePair(config.name, environment)
    feed = StubFeed(Runs(pair, time.time(), runners=runners), replay=replay)
    kept = None if replay else PipelineFlow(config)
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
        return text_of(self.app)

    @property
    def notices(self) -> str:
        """The notices that are shown."""
        return notices(self.app)

    async def press(self, *keys: str) -> None:
        """Press keys."""
        if await press(self.pilot, *keys):
            await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type a name."""
        keys = {"-": "minus", "_": "underscore"}
        await self.press(*(keys.get(char, char) for char in text))

    async def until(self, ready: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        await until(self.app, self.pilot, ready, what)

    async def sees(self, *texts: str) -> None:
        """Wait until texts are on the screen or in a notice."""
        for text in texts:
            await self.until(lambda it=text: it in self.screen + self.notices, text)


def at_console(
    session: Session, steps: Callable[[Operator], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> None:
    """Open a console on screen 5, do something, and leave it."""

    async def begin(app: ConsoleApp, pilot: Pilot[Any]) -> None:
        operator = Operator(app, pilot)
        await operator.press("5")
        await steps(operator)

    drive(session, begin, size)
