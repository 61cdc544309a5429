"""Knows when a console has nothing left to do.

Textual's own test driver takes a process that used little processor time for a fiftieth of a second
for idle. On a loaded machine a busy one looks like that too, and each key costs three of those.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

from textual.app import App
from textual.pilot import Pilot
from textual.timer import Timer

# A console that is never idle (it should be, between two seconds) still continues after this time
# of its own; on a loaded machine that is minutes, and a picture taken earlier is of half a screen.
_LONGEST_S = 10.0
_LONGEST_WAIT_S = 120.0
# Textual's own timers, for a change of size and for drawing several changes at once, are so short.
_TIMER_S = 1 / 120
# A timer of the screen that ends so soon ends at once, when nothing else is left to do: the panel
# beside a table follows a cursor that rests. A test that looks before would see the row of before.
_SOON_S = 0.5
_wait_for_screen = Pilot._wait_for_screen
# Turns of the event loop without anything to run; one alone may lie between two messages.
_QUIET_TURNS = 3


@contextlib.contextmanager
def idle_by_its_event_loop(app: App[Any]) -> Iterator[None]:
    """Within it, Textual's driver waits until the console's event loop has nothing to run."""

    async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
        await settled(app)

    async def wait_for_screen(pilot: Pilot[Any], timeout: float = _LONGEST_WAIT_S) -> bool:
        return await _wait_for_screen(pilot, timeout)  # half a minute by default

    with (
        mock.patch("textual.pilot.wait_for_idle", wait_for_idle),
        mock.patch("textual.app.wait_for_idle", wait_for_idle),
        mock.patch.object(Pilot, "_wait_for_screen", wait_for_screen),
    ):
        yield


async def settled(app: App[Any]) -> None:
    """Return once no message waits, no timer of the screen ends soon, and everything is drawn.

    A console that has ended draws nothing more, and may have left off within a batch. Threads, and
    timers of the console itself, are not waited for.
    """
    loop: Any = asyncio.get_running_loop()
    until, latest = time.thread_time() + _LONGEST_S, time.monotonic() + _LONGEST_WAIT_S
    quiet = 0
    while quiet < _QUIET_TURNS and time.thread_time() < until and time.monotonic() < latest:
        await asyncio.sleep(0)
        if app._exit and not app.is_running:
            return
        if loop._ready:
            quiet = 0
        elif app._resize_event is not None or app._batch_count:
            quiet = 0
            await asyncio.sleep(_TIMER_S)
        elif _to_draw(app):
            app.screen._on_timer_update()
            quiet = 0
        elif timers := _ending_soon(app):
            quiet = 0
            for timer in timers:
                timer.stop()
                await timer._tick(next_timer=0.0, count=1)
        else:
            quiet += 1


def _ending_soon(app: App[Any]) -> list[Timer]:
    """Return the screen's timers that run once, and have less than ``_SOON_S`` to run."""
    if not app.screen_stack:
        return []
    return [
        timer
        for timer in app.screen._timers
        if timer._repeat == 0 and timer._task is not None and not timer._task.done()
        if timer._interval < _SOON_S
    ]


def _to_draw(app: App[Any]) -> bool:
    if not app.screen_stack:
        return False
    screen = app.screen
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    )
