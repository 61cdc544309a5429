"""What happened in this session: polls, changes, failures, and actions with their commands."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from k2ktui.engine.moves.journal import RunKind
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import Problem, find_problems, judge_runner, state_time

_KEPT = 2_000


class EventKind(StrEnum):
    """What kind of event it is."""

    POLLED = "polled"
    CHANGED = "changed"
    RESOLVED = "resolved"
    FAILED = "failed"
    STARTED = "started"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        number: counts the events of the session.
        at: when, in epoch seconds.
        text: what happened to which object.
        command: the command that does the same; empty if there is none.
    """

    number: int
    at: float
    kind: EventKind
    text: str
    command: str = ""


class EventLog:
    """The last events; thread-safe, except that views are observed on one thread.

    Args:
        now: returns the time of an event that is not part of a view.
        poll_command: the command that polls once.
    """

    def __init__(self, now: Callable[[], float], poll_command: str = "") -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._numbers = count()
        self._now, self._poll_command = now, poll_command
        self._read_at: dict[PartName, float] = {}
        self._errors: dict[PartName, str] = {}
        self._problems: dict[tuple[str, object], Problem] = {}
        self._jobs: dict[str, str] = {}
        self._generation = 0

    @property
    def events(self) -> Sequence[Event]:
        """The events, the newest first."""
        return tuple(self._events)[::-1]

    def add(self, kind: EventKind, text: str, command: str = "", at: float | None = None) -> None:
        """Add an event; the lines of an error become one, in which none is escaped."""
        number, text = next(self._numbers), "  ".join(text.splitlines())
        self._events.append(Event(number, self._now() if at is None else at, kind, text, command))

    def observe(self, view: View) -> None:
        """Add what a view shows for the first time."""
        self._observe_parts(view)
        self._observe_jobs(view)
        self._observe_problems(view)

    def _observe_parts(self, view: View) -> None:
        read = {n: p.taken_at for n, p in view.parts.items() if p.taken_at is not None}
        fresh = [str(name) for name, at in read.items() if self._read_at.get(name) != at]
        self._read_at = read
        if fresh:
            self.add(EventKind.POLLED, ", ".join(fresh), self._poll_command, view.taken_at)
        for name, part in view.parts.items():
            before = self._errors.get(name, "")
            if part.error and part.error != before:
                self.add(EventKind.FAILED, f"poll of {name}: {part.error}", at=view.taken_at)
            elif before and not part.error:
                self.add(EventKind.RESOLVED, f"poll of {name}", at=view.taken_at)
            self._errors[name] = part.error

    def _observe_jobs(self, view: View) -> None:
        at = state_time(view, view.taken_at)
        for runner in view.runners:
            state = judge_runner(runner, at).word
            if self._jobs.get(runner.runner) != state:
                where = f"{runner.host}, pid {runner.pid}"
                what = "job" if runner.kind is RunKind.COPY else "sync"
                self.add(EventKind.CHANGED, f"{what} on {where}: {state}", at=view.taken_at)
            self._jobs[runner.runner] = state
        generation = max((runner.generation for runner in view.runners), default=0)
        if generation > self._generation > 0:
            text = f"slots were assigned to runs again: generation {generation:,}"
            self.add(EventKind.CHANGED, text, at=view.taken_at)
        self._generation = max(generation, self._generation)

    def _observe_problems(self, view: View) -> None:
        # Failed polls were added above; their texts are longer there.
        problems = {
            (problem.kind, problem.key): problem
            for problem in find_problems(view, view.taken_at)
            if problem.kind != "cluster"
        }
        for key, problem in problems.items():
            before = self._problems.get(key)
            # The figures in a message change with every poll.
            if before is None or before.severity is not problem.severity:
                text = f"{problem.kind} {problem.subject}: {problem.message}"
                self.add(EventKind.CHANGED, text, at=view.taken_at)
        for key, problem in self._problems.items():
            if key not in problems:
                text = f"{problem.kind} {problem.subject}: no longer a problem"
                self.add(EventKind.RESOLVED, text, at=view.taken_at)
        self._problems = problems
