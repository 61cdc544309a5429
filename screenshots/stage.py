"""The console on what is kept of the demo: opened at any of its moments, and looked at.

Everything on the screen is made by the console itself from what is kept. Only the clusters, which
are gone, are stood in for: what they answered is kept, too.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import mock

import invented
import kept
import svg
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import WorkerCancelled, WorkerFailed

from k2ktui.config.model import PipelineConfig
from k2ktui.console import header
from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens import jobs, positions_plan, translate_plan
from k2ktui.console.screens.job_runs import KnownRuns, Reading
from k2ktui.console.session import Options, Session
from k2ktui.console.themes import shipped_directory
from k2ktui.console.widgets import start_dialog
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.pair_state import find_pair_state
from k2ktui.engine.moves.apply import WriteResult
from k2ktui.engine.moves.plan import Plan
from k2ktui.engine.moves.planning import PlanOptions
from k2ktui.jobs import joblog, local_jobs
from k2ktui.jobs.job_directory import JobDirectory
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.sync import operations
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.apply import Applied
from k2ktui.watch.feed import Listener
from k2ktui.watch.model import View
from k2ktui.watch.player import Player
from tests.support.console.idle import idle_by_its_event_loop
from tests.support.console.stylesheets import parsed_once

_IDS = re.compile(r"terminal-\d+-")
_LOOK_S, _PATIENCE_S = 0.05, 60.0
# Groups of workers that wait for the answer of a dialog: they end when somebody gives it.
_ASKING = ("ask", "question")


class _Live:
    """A recording as if it was read now, because what acts is off in a recording.

    Attributes:
        drills: what a recording does not have.
        clock: the time; None for that of the view.
        given: the view that was shown last.
    """

    replay = paused = False

    def __init__(self, player: Player) -> None:
        self._player = player
        self.drills: tuple[Drill, ...] = ()
        self.clock: float | None = None
        self.given: View | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def start(self, listener: Listener) -> None:
        """Show the first view, with the drills."""

        def show(view: View) -> None:
            whole = replace(view, drills=self.drills)
            if self.drills:
                whole = replace(whole, pair_state=find_pair_state(self.drills))
            listener(whole)
            self.given = whole

        self._player.start(show)

    def has_given(self, taken_at: float) -> bool:
        """Whether the view of a time was shown last, with the drills of now."""
        given = self.given
        return given is not None and (given.taken_at, given.drills) == (taken_at, self.drills)

    def now(self) -> float:
        """Return the time."""
        return self._player.now() if self.clock is None else self.clock


class Stage:
    """An open console.

    Attributes:
        app: the console.
        seen: the screens that were looked at.
    """

    def __init__(
        self,
        app: ConsoleApp,
        pilot: Pilot[Any],
        player: Player | None = None,
        feed: _Live | None = None,
    ) -> None:
        self.app, self._pilot, self._player, self._feed = app, pilot, player, feed
        self.seen: set[type[Screen[Any]]] = set()

    async def until(self, ready: Callable[[], object]) -> None:
        """Wait for a condition."""
        end = monotonic() + _PATIENCE_S
        while not ready():
            if monotonic() > end:
                raise TimeoutError(f"{self.app.screen}: not ready")
            await self._pilot.pause(_LOOK_S)

    async def see(self, at: float, drills: Sequence[Drill] = (), *, exactly: bool = False) -> None:
        """Show the last view before a time, and these drills; ``exactly``: as of that time."""
        player, feed = self._player, self._feed
        assert player is not None
        assert feed is not None
        feed.drills, feed.clock = tuple(drills), at if exactly else None
        feed.given = None
        number = number_at(player.times, at)
        player.seek_number(number)
        # Not any view: the player may still be about to show the one of before.
        await self.until(lambda: feed.has_given(player.times[number]))
        # Posted before this message, so handled before it.
        await self._pilot.pause()

    async def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            await self._pilot.press(key)
            await self._pilot.pause()

    async def look(self) -> svg.Screen:
        """Return the screen once everything that was begun is done and drawn.

        Nothing here waits for a time: a picture may not depend on how fast the machine is.
        """
        await self._settle()
        self.seen.add(type(self.app.screen))
        return svg.read(self._picture())

    async def _settle(self) -> None:
        workers = self.app.workers
        while True:
            await self._pilot.pause()
            running = [w for w in workers if w.group not in _ASKING and not w.is_finished]
            if not running:
                return
            with suppress(WorkerCancelled, WorkerFailed):  # the console says what failed
                await workers.wait_for_complete(running)

    def _picture(self) -> str:
        text = self.app.export_screenshot(title="k2ktui", simplify=True)
        return _IDS.sub("terminal-", text)


@asynccontextmanager
async def opened_session(session: Session, size: tuple[int, int]) -> AsyncIterator[Stage]:
    """Open the console on a session that is no recording: the pipelines of a directory."""
    app = ConsoleApp(session)
    with (
        mock.patch.object(header, "who", lambda: kept.SOMEBODY),
        mock.patch.object(Input, "cursor_blink", False),
        idle_by_its_event_loop(app),
        parsed_once(),
    ):
        async with app.run_test(size=size) as pilot:
            yield Stage(app, pilot)


def number_at(times: Sequence[float], at: float) -> int:
    """Return the number of the last view before a time."""
    return sum(taken <= at for taken in times) - 1


@asynccontextmanager
async def opened(
    recording: Path,
    at: float = math.inf,
    *,
    theme: str = "k2k-dark",
    size: tuple[int, int] = (120, 35),
    ascii_only: bool = False,
) -> AsyncIterator[Stage]:
    """Open the console on the last view of a recording before a time."""
    player = Player(recording, paused=True)
    player.number = number_at(player.times, at)
    player.refresh()
    feed = _Live(player)
    config = PipelineConfig.model_construct(name=player.pair.pipeline)
    options = Options(
        theme=theme, ascii=ascii_only, themes=(shipped_directory(),), keys=Path("there-is-none")
    )
    session = Session(feed, player.pair, Flow(config), ("pipeline.yaml",), options)
    app = ConsoleApp(session)
    try:
        with _answers(config), idle_by_its_event_loop(app), parsed_once():
            async with app.run_test(size=size) as pilot:
                stage = Stage(app, pilot, player, feed)
                # Shown by the start alone: `see` would take it for its own.
                await stage.until(lambda: feed.given is not None)
                await stage.see(at)
                yield stage
                app.workers.cancel_all()  # one may wait for the answer of a dialog
    finally:
        player.close()


@contextmanager
def _answers(config: PipelineConfig) -> Iterator[None]:
    """Let what is kept stand for what the clusters and this host would answer."""
    found = kept.moments()
    job = Job(JobDirectory(Path("jobs") / found.job.pipeline), found.job, JobState.RUNNING)

    def create_plan(_: object, options: PlanOptions, *__: object) -> Plan:
        return kept.plan(whole=options.group(kept.OTHER_GROUP))

    def apply_plan(*given: Any) -> Applied:
        report: Callable[[WriteResult], None] = given[-1]
        for row in found.applied.rows:
            report(row)
        return found.applied

    def read_jobs(runs: KnownRuns) -> Reading:
        for at, usage in found.usage:
            runs.keep(Reading([job], at, {found.job.identity: usage}))
        return Reading([job], found.usage[-1][0], None)

    with (
        # A caret that blinks is in one drawing and not in the next.
        mock.patch.object(Input, "cursor_blink", False),
        # Those of this machine are not of the pipeline that was recorded.
        mock.patch.object(local_jobs, "list_jobs", lambda: ()),
        mock.patch.object(header, "who", lambda: kept.SOMEBODY),
        mock.patch.object(socket, "gethostname", lambda: kept.HOST),
        mock.patch.object(translate_plan, "keep_plan", lambda _: None),
        mock.patch.object(operations, "create_plan", create_plan),
        mock.patch.object(operations, "apply_plan", apply_plan),
        mock.patch.object(
            operations,
            "verify_content",
            lambda *_, **__: operations.VerificationReport(found.verified, (), ()),
        ),
        mock.patch.object(operations, "read_entry", lambda *_: found.entry),
        mock.patch.object(KnownRuns, "read", read_jobs),
        mock.patch.object(jobs, "read_config", lambda _: config),
        mock.patch.object(positions_plan, "PositionPlanner", mock.MagicMock()),
        mock.patch.object(start_dialog, "start_checks", lambda *_, **__: iter(invented.CHECKS)),
        mock.patch.object(
            joblog, "read_tail", lambda *_: [joblog.parse_entry(x.encode()) for x in found.log]
        ),
    ):
        yield
