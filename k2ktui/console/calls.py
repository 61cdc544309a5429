"""What the console calls its user for: what waits for a person, has ended, or has become serious.

Nothing is written here: what stands is compared with what stood, and what is new is returned.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from k2ktui.console.site_views import gather_sites
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.steps import is_acting
from k2ktui.engine.severity import Severity
from k2ktui.present.drills import describe_end, describe_wait
from k2ktui.text import safe_message
from k2ktui.watch.model import View
from k2ktui.watch.severity import Problem, find_problems, state_time

if TYPE_CHECKING:
    from k2ktui.fleet.model import FleetRow

# What comes back sooner is the same state: a problem that flaps calls once.
_SAME_S = 300.0
# What was not read by then belongs to the start no more.
_START_S = 60.0


class CallKind(StrEnum):
    """What a call is for."""

    WAITING = "waiting"
    ENDED = "ended"
    PROBLEM = "problem"


# How it is made: what a user can switch off, beside what it is for.
BELL, NOTIFICATION = "bell", "notification"
SWITCHES = (BELL, NOTIFICATION, *map(str, CallKind))


@dataclass(frozen=True, slots=True)
class Call:
    """A reason to call.

    Attributes:
        kind: what for.
        key: what it is about, and in which state that is.
        text: one line, safe to print.
    """

    kind: CallKind
    key: Hashable
    text: str


def call_for(drill: str, step: str, text: str) -> Call:
    """Return the call for a step of a drill, or of a site drill, that waits for a person."""
    return Call(CallKind.WAITING, (drill, step), safe_message(text))


def list_calls(view: View) -> list[Call]:
    """Return what a pipeline's view would call for."""
    now = state_time(view, view.taken_at)
    of_drills = [call for drill in view.drills for call in _of_drill(drill, drill.id, now)]
    return [*of_drills, *_of_problems("", find_problems(view, view.taken_at))]


def list_fleet_calls(rows: Sequence[FleetRow]) -> list[Call]:
    """Return what the rows of a directory would call for; a site drill calls once for all of it.

    Other drills call in the console of their pipeline only: rows do not have them.
    """
    over = {site.id for site in gather_sites(rows) if site.is_over}
    calls = []
    for row in rows:
        now = row.taken_at or 0.0
        for drill in row.site_drills:
            name = drill.id if drill.site is None else drill.site.id
            # It ends with the last of its drills.
            if not drill.is_over or drill.site is None or name in over:
                calls += _of_drill(drill, name, now)
        calls += _of_problems(row.pair.pipeline, row.problems)
    return calls


def _of_drill(drill: Drill, name: str, now: float) -> list[Call]:
    if drill.is_over:
        return [Call(CallKind.ENDED, name, safe_message(describe_end(drill)))]
    wait = describe_wait(drill, acting=is_acting(drill, int(now * 1000)))
    return [] if wait is None else [call_for(name, *wait)]


def _of_problems(pipeline: str, problems: Iterable[Problem]) -> list[Call]:
    where = f"{pipeline}: " if pipeline else ""
    return [
        Call(
            CallKind.PROBLEM,
            (pipeline, problem.kind, problem.key),
            safe_message(f"{where}{problem.kind} {problem.subject}: {problem.message}"),
        )
        for problem in problems
        if problem.severity is Severity.BAD
    ]


class Calls:
    """What was called for in a session; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # What stands, with None, or stood, with the time since when it does not.
        self._known: dict[Hashable, float | None] = {}
        self._began: float | None = None
        self._is_begun = False

    def find_new(self, standing: Sequence[Call], now: float, *, whole: bool = True) -> list[Call]:
        """Return what is to be called for now: what stands, and did not stand before.

        Of what stands at the start, that is only what waits for a person.

        Args:
            standing: all that stands now.
            now: epoch seconds.
            whole: whether everything was read; the start lasts until then, or a minute.
        """
        with self._lock:
            self._began = now if self._began is None else self._began
            starts = not self._is_begun
            self._is_begun |= whole or now - self._began >= _START_S
            over = self._known.keys() - {(call.kind, call.key) for call in standing}
            for key in over:
                since = self._known[key]
                self._known[key] = now if since is None else since
                if since is not None and now - since >= _SAME_S:
                    del self._known[key]
            new = self._add(standing)
        return [call for call in new if call.kind is CallKind.WAITING or not starts]

    def is_new(self, call: Call) -> bool:
        """Return whether to call for something that is known before the next view is."""
        with self._lock:
            return bool(self._add([call]))

    def _add(self, standing: Iterable[Call]) -> list[Call]:
        calls = {(call.kind, call.key): call for call in standing}
        new = [call for key, call in calls.items() if key not in self._known]
        self._known.update(dict.fromkeys(calls))
        return new
