"""What phases of a drill say about rows of a plan and prove of a fence, without clusters."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2ktui.drill.logs import SourceLogEnd, SourceLogs
from k2ktui.drill.phases import source, target
from k2ktui.drill.phases.moves import find_unapplied
from k2ktui.engine.drill.model import DrillOptions, Fence, GroupResult
from k2ktui.engine.moves.plan import Action
from k2ktui.engine.producers import Producer, Written
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from tests.support.drill.made_drills import switched_over
from tests.unit.engine.test_plan import PLAN, ROW


def test_rows_beyond_those_that_are_named_are_counted() -> None:
    rows = [replace(ROW, partition=n, action=Action.ADVANCE) for n in range(23)]
    kept = replace(ROW, partition=99)
    unapplied = find_unapplied(replace(PLAN, rows=(kept, *rows)))
    assert unapplied[0] == "g t-0: 3 is committed, 7 was planned"
    assert (len(unapplied), unapplied[-1]) == (21, "and 3 more")
    assert len(find_unapplied(replace(PLAN, rows=tuple(rows[:20])))) == 20


class Logs:
    """Logs of one partition: readings of its end, each of which takes a minute."""

    def __init__(self, clock: list[float], *ends: int) -> None:
        self._clock, self._ends, self.read_count = clock, ends, 0

    def read(self) -> list[SourceLogEnd]:
        self._clock[0] += 60.0
        end = self._ends[min(self.read_count, len(self._ends) - 1)]
        self.read_count += 1
        return [SourceLogEnd(SourcePartition("t", 0), end, 0, end, end)]

    def read_writers(self, before: list[SourceLogEnd]) -> list[Written]:
        self._clock[0] += 60.0
        return [Written(("t", 0), Producer(7, 0), 1, 5)] if before else []

    def close(self) -> None:
        """Do nothing."""


def session_of(logs: Logs, **options: Any) -> Any:
    drill = replace(switched_over(), options=DrillOptions(**options))
    fake = SimpleNamespace(drill=drill, written=[])

    def wait(_: object, look: Any, **__: object) -> None:
        while not look()[0]:
            pass

    fake.wait, fake.open_logs, fake.change_drill = wait, lambda: logs, lambda _: None
    fake.write = lambda text, **_: fake.written.append(text)
    return fake


@pytest.mark.parametrize(("ends", "count"), [([5], 2), ([5, 6], 3)])
def test_a_fence_is_proven_by_two_readings_with_the_time_between(
    ends: list[int], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(source, "monotonic", lambda: clock[0])
    logs = Logs(clock, *ends)
    session = session_of(logs)
    source.run_fence_producers(session)
    assert logs.read_count == count
    assert all(text.startswith("still written to the source: ") for text in session.written)


def test_only_haproxy_needs_less_time_without_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    needed: list[float] = []
    monkeypatch.setattr(source, "cut_off", lambda _: None)
    monkeypatch.setattr(source, "_prove_frozen", lambda *args: needed.append(args[2]))
    cases: list[tuple[object, float]] = [(None, 30.0), ({}, 30.0), ({}, 60.0), ({}, 3.0)]
    for haproxy, frozen in cases:
        session = session_of(Logs([0.0]), fence=Fence.CUT_OFF, frozen_s=frozen)
        redirect = SimpleNamespace(haproxy=haproxy)
        session.config = SimpleNamespace(drill=SimpleNamespace(redirect=redirect))
        source.run_fence_producers(session)
    assert needed == [30.0, 5.0, 60.0, 3.0]


def test_a_refused_naming_of_producers_fails_no_phase() -> None:
    class Refusing:
        def read(self, _: object) -> list[Written]:
            raise Refused("not now")

    logs = cast(Any, SimpleNamespace(_writers=Refusing()))
    end = SourceLogEnd(SourcePartition("t", 0), 5, 0, 5, 5)
    assert SourceLogs.read_writers(logs, [end]) == []


def test_a_client_that_comes_begins_the_wait_for_the_others_and_one_that_goes_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, left = [0.0], iter([2, 1, 2, 1, 1, 1])

    def watch(*args: Any) -> dict[str, GroupResult]:
        clock[0] += 10.0
        args[3]["g"] = (object(),) * next(left)
        return {}

    monkeypatch.setattr(target, "monotonic", lambda: clock[0])
    monkeypatch.setattr(target, "_watch", watch)
    monkeypatch.setattr(target, "make_plan", lambda _: replace(PLAN, rows=()))
    monkeypatch.setattr(target, "find_reads", lambda *_: ())
    monkeypatch.setattr(target, "_describe_clients", lambda *_: "")
    monkeypatch.setattr(target, "TargetClusterReader", Logs)
    session = session_of(Logs(clock))
    session.applied, session.config = {}, clock
    target.run_watch_clients(session)
    assert clock[0] == 40.0, "20 s after the second client came"
