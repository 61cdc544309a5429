"""Drills in recordings: as they were at each view, each written once a change, without secrets."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.hooks import HookRecord
from k2ktui.engine.drill.model import Drill, DrillOptions
from k2ktui.engine.drill.tail import TailPartition, list_tail
from k2ktui.errors import ConfigError
from k2ktui.watch.codec import MalformedView, dumps_drill, loads_drill
from k2ktui.watch.model import View
from k2ktui.watch.recording import Recorder, Recording
from tests.support.console.views import usual, without_members
from tests.support.drill.made_drills import acted, fencing, listed, rehearsed, stopped


def night() -> list[View]:
    """A drill that begins, is beaten, fails and is gone; and a rehearsal that ends."""
    made, views = usual(), []
    for drills in (
        (),
        (acted(fencing()),),
        (acted(fencing(), seconds_ago=1),),
        (stopped(), rehearsed()),
        (rehearsed(),),
    ):
        made.drills = tuple(sorted(drills, key=lambda drill: drill.id, reverse=True))
        views.append(without_members(made.view()))
        made.now += 5
    return views


def recorded(path: Path, views: list[View]) -> Path:
    recorder = Recorder(path)
    for view in views:
        recorder.add(view)
    recorder.close()
    return path


@pytest.mark.parametrize("order", [range(5), range(4, -1, -1), (3, 0, 2, 4, 1)])
def test_each_view_has_the_drills_of_its_moment(tmp_path: Path, order: list[int]) -> None:
    views = night()
    recording = Recording(recorded(tmp_path / "r", views))
    assert [recording.view(number) for number in order] == [views[number] for number in order]
    assert views[3].rehearsals and views[3].missed_rto == recording.view(3).missed_rto


def test_a_drill_is_written_once_a_change_and_a_heartbeat_is_a_number(tmp_path: Path) -> None:
    views = night()
    with closing(sqlite3.connect(recorded(tmp_path / "r", [*views, views[-1]]))) as db:
        changes = db.execute("select key, view, length(body) from changes").fetchall()
    drill, rehearsal = fencing().id, rehearsed().id
    assert [(key, view) for key, view, _ in changes] == [
        *((f"drill/{drill}", 2), (f"beat/{drill}", 3)),
        *((f"drill/{name}", 4) for name in sorted((drill, rehearsal), reverse=True)),
        *(("rehearsals", 4), (f"drill/{drill}", 5)),
    ]
    assert changes[1][2] < 20 and changes[-1][2] is None


def test_a_recording_of_an_earlier_release_has_no_drills(tmp_path: Path) -> None:
    views = night()
    path = recorded(tmp_path / "r", views)
    with closing(sqlite3.connect(path)) as db:
        db.executescript("drop table changes")
    recording = Recording(path)
    assert [recording.view(number) for number in range(5)] == [
        replace(view, drills=(), rehearsals=()) for view in views
    ]


@pytest.mark.parametrize(
    "change",
    [
        "update changes set body = x'00' where key like 'drill/%'",
        "update changes set body = x'' where key like 'drill/%'",
        "update changes set body = 'text' where key like 'drill/%'",
        "update changes set body = 'ten' where key like 'beat/%'",
        "update changes set body = x'789c030000000001' where key = 'rehearsals'",
    ],
)
def test_what_is_damaged_is_said(tmp_path: Path, change: str) -> None:
    path = recorded(tmp_path / "r", night())
    with closing(sqlite3.connect(path)) as db:
        db.execute(change)
        db.commit()
    recording = Recording(path)
    assert recording.view(0)
    with pytest.raises(ConfigError, match="is damaged"):
        recording.view(2), recording.view(3)


def test_changes_are_a_table(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", night())
    with closing(sqlite3.connect(path)) as db:
        db.executescript("drop table changes; create view changes as select 1")
    with pytest.raises(ConfigError, match="changes is not a table"):
        Recording(path)


def with_secrets() -> Drill:
    """A drill whose hook failed after it had printed a secret, and that lists keys of records."""
    part = TailPartition("orders", 0, 50, 65, 15, keys=("swordfish-1", "swordfish-2"))
    hook = HookRecord(DrillPhase.TAIL, False, "why", "run", "", "d", output="a\nswordfish: 3")
    hook = replace(hook, undo_output="swordfish", result="exit code 1")
    failure = f"{hook.name} has failed: exit code 1: swordfish: 3"
    drill = replace(listed(), options=DrillOptions(show_keys=True), tail=(part,), hooks=(hook,))
    findings = (*list_tail([part]), failure)
    record = replace(drill.record(DrillPhase.TAIL), findings=findings)
    blockers = tuple(f"tail: {finding}" for finding in findings)
    return replace(drill.with_phase(record), blockers=blockers)


def test_what_hooks_print_and_keys_are_not_recorded() -> None:
    text = dumps_drill(with_secrets())
    assert "swordfish" in str(with_secrets()) and "swordfish" not in text
    kept = loads_drill("d1", text.encode())
    assert kept.record(DrillPhase.TAIL).findings == (
        "orders-0: 15 records, offsets 50 to 64",
        "hook before tail has failed: exit code 1",
    )
    assert loads_drill(stopped().id, dumps_drill(stopped()).encode()) == stopped()


@pytest.mark.parametrize("text", [b"", b"[]", b'{"drill": {}}', b'{"drill": 5}', b"\xff"])
def test_what_is_no_drill_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedView):
        loads_drill("d1", text)
