"""Drives the acting screens: keys, what is on the screen, conditions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from k2ktui.console.app import ConsoleApp
from k2ktui.console.session import Options, Session
from k2ktui.sync.flow import PipelineFlow
from k2ktui.watch.model import PipelinePair
from k2ktui.watch.poller import open_poller
from tests.support.copied import Copied
from tests.support.idle import idle_by_its_event_loop

Drive = Callable[[ConsoleApp, Pilot[Any]], Awaitable[None]]


def drive(session: Session, steps: Drive, size: tuple[int, int] = (80, 24)) -> ConsoleApp:
    """Open a console, do something with it, and leave it."""
    app = ConsoleApp(session)

    async def main() -> None:
        try:
            with idle_by_its_event_loop(app):
                async with app.run_test(size=size, notifications=True) as pilot:
                    await pilot.pause()
                    await steps(app, pilot)
        finally:
            session.feed.close()

    asyncio.run(main())
    assert app.fault is None
    return app


def session_of(copied: Copied, **options: Any) -> Session:
    """Return a console's session on a pipeline with real clusters."""
    config = copied.config
    pair = PipelinePair(config.name, config.environment, config.read_only)
    return Session(
        open_poller(PipelineFlow(config), 2.0),
        pair,
        PipelineFlow(config),
        (str(copied.file),),
        Options(**options),
    )


def text_of(app: ConsoleApp) -> str:
    """Return what is on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def notices(app: ConsoleApp) -> str:
    """Return the notices that are shown."""
    return "\n".join(str(each.message) for each in app._notifications)


async def until(
    app: ConsoleApp, pilot: Pilot[Any], ready: Callable[[], object], what: str, seconds: float = 90
) -> None:
    """Wait until something holds; the screen is told if it never does."""
    end = time.monotonic() + seconds
    while not ready():
        assert app.fault is None, app.fault
        assert time.monotonic() < end, f"not {what}:\n{text_of(app)}\n{notices(app)}"
        await pilot.pause(0.05)


async def shows(app: ConsoleApp, pilot: Pilot[Any], text: str, seconds: float = 90) -> None:
    """Wait until a text is on the screen."""
    await until(app, pilot, lambda: text in text_of(app), f"on the screen: {text}", seconds)


async def confirm(app: ConsoleApp, pilot: Pilot[Any], name: str) -> None:
    """Agree in the dialog, by keyboard."""
    await until(app, pilot, lambda: app.focused and app.focused.id == "confirm-name", "asked")
    await pilot.press(*(_key(char) for char in name), "tab", "space")
    await pilot.pause()


def _key(char: str) -> str:
    return {"-": "minus", "_": "underscore"}.get(char, char)
