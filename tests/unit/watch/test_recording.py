"""Recordings say what was seen, survive what befalls files, and are replayed in their own time."""

from __future__ import annotations

import json
import queue
import sqlite3
import stat
from contextlib import closing
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.moves.journal import RunKind, Runner
from k2ktui.engine.moves.ratings import GroupSummary
from k2ktui.engine.records.hold import Hold, Holds
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.status import HeldBack, PartitionStatus
from k2ktui.errors import ConfigError
from k2ktui.watch.codec import MalformedView, dumps, loads
from k2ktui.watch.model import PartName, PipelinePair, Totals, View
from k2ktui.watch.player import Player, parse_time
from k2ktui.watch.recording import SCHEMA, Recorder, Recording
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.views import (
    NOON,
    Made,
    beside_mirrormaker,
    compared,
    runner,
    usual,
    without_members,
)
from tests.support.drill.made_drills import switched_over


def lived(polls: int = 5) -> list[View]:
    made = usual(PipelinePair("a[/b]\x1b", "production", True))
    views = []
    for _ in range(polls):
        views.append(made.view())
        made.now += 5
        made.copy(100)
    made.errors[PartName.SOURCE] = "it is gone"
    return [without_members(view) for view in (*views, made.view())]


def recorded(path: Path, views: list[View]) -> Path:
    recorder = Recorder(path)
    for view in views:
        recorder.add(view)
    recorder.close()
    return path


def eventful() -> View:
    """A view with what few pipelines have: objectives, holds, moved topics, an audit."""
    made = beside_mirrormaker()
    made.holds = Holds([Hold("clicks", 1, "ann@bastion", int(NOON * 1000), "why")])
    made.moved = MovedTopics([MovedTopic("invoices", "invoices", "d1", int(NOON * 1000), "ann")])
    made.comparison = compared(made, {SourcePartition("clicks", 2): (3, 1)})
    made.runners = (runner(generation=7, owned=(0, 2)), runner("s", kind=RunKind.SYNC))
    made.held = {SourcePartition("clicks", 0): HeldBack(12, 90_000, 4711, 75.0)}
    return replace(without_members(made.view()), objectives=Objectives(1199, 5.0, 7.0))


def failed_over() -> View:
    made = usual()
    made.drills = (switched_over(),)
    return made.view()


# What the first release recorded.
FROM_THE_FIRST = (
    "v pair taken_at parts source target partitions groups summaries commits_at source_down "
    "runners journal totals points notes"
)


ODD_SPAN = json.loads(dumps(usual().view()))["partitions"]
ODD_SPAN["rows"][0][ODD_SPAN["columns"].index("spans")] = [[1, 2, 3]]


def test_views_survive_json() -> None:
    for view in [*lived(), Made().view(), eventful(), failed_over()]:
        assert loads(dumps(view)) == replace(without_members(view), drills=(), rehearsals=())
    assert failed_over() != without_members(failed_over()), "who is in a group is not recorded"
    text = json.loads(dumps(eventful()))
    assert text["objectives"]["missed"] == ["RPO above 1,199 records"]


def test_what_an_earlier_release_did_not_record_has_its_default() -> None:
    value = json.loads(dumps(eventful()))
    rows: list[tuple[Any, type]] = [(value["totals"], Totals)]
    rows += [(summary, GroupSummary) for summary in value["summaries"]]
    rows += [(beat, Runner) for beat in value["runners"]]
    for row, kind in rows:
        for field in with_default(kind):
            row.pop(field, None)
    for field in value.keys() - FROM_THE_FIRST.split():
        del value[field]
    for table, kind in (("partitions", PartitionStatus), ("groups", GroupRow)):
        for field in with_default(kind):
            at = value[table]["columns"].index(field)
            for row in (value[table]["columns"], *value[table]["rows"]):
                del row[at]
    view = loads(json.dumps(value))
    assert (view.objectives, view.audit, view.totals) == (Objectives(), None, Totals())
    # How a group is rated follows from its rows.
    words = {group.group: group.rating.word for group in view.summaries}
    assert (words["billing"], words["reports"]) == ("skips", "re-reads")
    assert {row.status.hold for row in view.partitions} == {""}
    assert str(view.pair_state.phase) == "unknown" and view.summaries[0].theirs is None


def with_default(kind: type[Any]) -> list[str]:
    """The fields that need not be given."""
    return [
        field.name
        for field in fields(kind)
        if (field.default, field.default_factory) != (MISSING, MISSING)
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v":2}', "null", '{"v":1,"pair":{}}'])
def test_what_is_no_view_is_refused(text: str) -> None:
    with pytest.raises(MalformedView):
        loads(text)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"v": 2}, "version 2"),
        ({"totals": {"moon": 1}}, "unknown field moon"),
        ({"groups": {"columns": ["moon"], "rows": []}}, "unknown field moon"),
        ({"audit": None}, "NoneType where an object"),
        ({"last_comparison": None}, "NoneType where an object"),
        ({"objectives": []}, "list where an object"),
        ({"objectives": {"rpo_records": -1}}, "a number outside"),
        ({"commits_at": -0.5}, "a number outside"),
        ({"taken_at": "now"}, "str where a number"),
        ({"has_run": 1}, "int where true or false"),
        ({"notes": [1]}, "int where a string"),
        ({"notes": ["\ud800"]}, "lone surrogate"),
        ({"parts": {"moon": {}}}, "ValueError"),
        ({"totals": {"bases": {"exact": -1}}}, "a number outside"),
        ({"partitions": {"columns": ["topic"], "rows": [["t"]]}}, "no field partition"),
        ({"partitions": ODD_SPAN}, "another length"),
    ],
)
def test_a_value_of_another_kind_is_refused(changed: dict[str, Any], said: str) -> None:
    value = json.loads(dumps(usual().view()))
    with pytest.raises(MalformedView, match=said):
        loads(json.dumps({**value, **changed}))


@pytest.mark.parametrize("name", FROM_THE_FIRST.split())
def test_what_every_recording_has_is_required(name: str) -> None:
    """A damaged view must not be read as that of a pipeline without groups and problems."""
    value = json.loads(dumps(eventful()))
    del value[name]
    with pytest.raises(MalformedView):
        loads(json.dumps(value))


@pytest.mark.parametrize("name", ["why", "rate", "direction", "eta_s", "spans", "gaps", "ranges"])
def test_what_every_row_of_a_partition_has_is_required(name: str) -> None:
    """These fields have defaults, and a damaged table must not be read as one without gaps."""
    value = json.loads(dumps(eventful()))
    table = value["partitions"]
    at = table["columns"].index(name)
    for row in (table["columns"], *table["rows"]):
        del row[at]
    with pytest.raises(MalformedView, match=f"no field {name}"):
        loads(json.dumps(value))


def test_a_recording_in_which_rows_of_a_group_are_missing_is_refused() -> None:
    """Groups are rated by their rows: one without them would be in step."""
    value = json.loads(dumps(eventful()))
    table, summaries = value["groups"], value["summaries"]
    assert table["rows"]
    for left in (table["rows"][1:], table["rows"][:-1], [], [*table["rows"], table["rows"][0]]):
        with pytest.raises(MalformedView, match=r"of \d rows? of group"):
            loads(json.dumps({**value, "groups": {**table, "rows": left}}))
    with pytest.raises(MalformedView, match=f"no group {summaries[0]['group']}, which has rows"):
        loads(json.dumps({**value, "summaries": summaries[1:]}))


def test_rows_of_a_group_need_not_be_adjacent() -> None:
    view = eventful()
    by_partition = sorted(view.groups, key=lambda row: (row.partition, row.topic, row.group))
    assert [row.group for row in by_partition] != sorted(row.group for row in by_partition)
    again = loads(dumps(replace(view, groups=tuple(by_partition))))
    assert again.summaries == view.summaries


def test_what_a_later_release_adds_is_not_read() -> None:
    view = eventful()
    value = json.loads(dumps(view))
    for part in (value, value["objectives"], value["audit"]):
        part["moon"] = 1
    value["partitions"]["columns"].append("status")
    for row in value["partitions"]["rows"]:
        row.append("full")
    assert loads(json.dumps(value)) == view


def test_numbers_with_fractions_may_be_negative() -> None:
    view = eventful()
    rows = tuple(replace(row, rate=-0.5, eta_s=-2.5) for row in view.partitions)
    view = replace(view, partitions=rows, totals=replace(view.totals, held_s=-1.5))
    assert loads(dumps(view)) == view


def test_a_recording_gives_back_what_was_recorded(tmp_path: Path) -> None:
    views = lived()
    path = recorded(tmp_path / "r", views)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o400)
    tmp_path.chmod(0o500)  # it can be read from a place that cannot be written to
    recording = Recording(path)
    assert [recording.view(number) for number in range(len(recording))] == views
    assert recording.times == tuple(view.taken_at for view in views)
    assert recording.number_at(NOON + 7) == 1
    assert recording.number_at(0) == 0
    recording.close()
    tmp_path.chmod(0o700)


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="already exists"):
        Recorder(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("content", [None, b"", b"text", b"SQLite format 3\0" + b"x" * 2000])
def test_what_is_no_recording_is_reported(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "r"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError):
        Recording(path)


@pytest.mark.parametrize(
    "made",
    [
        "create view views as with recursive a(at, body) as "
        "(select 1, x'' union all select at + 1, x'' from a) select at, body, at as rowid from a",
        "create table views (at real, body blob generated always as (zeroblob(at)))",
    ],
)
def test_a_recording_consists_of_tables(tmp_path: Path, made: str) -> None:
    """A view can compute without end, and a generated column take all memory."""
    path = tmp_path / "views.k2k"
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table meta (key text, value text)")
        db.execute("insert into meta values('schema', ?)", (SCHEMA,))
        db.execute(made)
        db.commit()
    with pytest.raises(ConfigError, match="views is not a table"):
        Recording(path)


def test_an_empty_recording_and_one_of_another_schema(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="empty"):
        Recording(recorded(tmp_path / "r", []))
    path = recorded(tmp_path / "s", lived())
    with sqlite3.connect(path) as db:
        db.execute("update meta set value = '9' where key = 'schema'")
    with pytest.raises(ConfigError, match="schema 9"):
        Recording(path)


def test_a_damaged_view_is_reported_by_its_number(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r", lived())
    with sqlite3.connect(path) as db:
        db.execute("update views set body = x'00' where rowid = 2")
    recording = Recording(path)
    assert recording.view(0)
    with pytest.raises(ConfigError, match="view 2"):
        recording.view(1)


def test_recording_continues_without_the_disk(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    with closing(sqlite3.connect(tmp_path / "r")) as db:
        db.execute("drop table views")
    recorder.add(usual().view())
    assert "the recording ended" in recorder.error


def test_a_replay_steps_and_seeks_and_remembers(tmp_path: Path) -> None:
    views = lived()
    player = Player(recorded(tmp_path / "r", views), paused=True)
    seen: queue.SimpleQueue[View] = queue.SimpleQueue()
    player.start(seen.put)
    try:
        assert seen.get(timeout=TIMEOUT) == views[0]
        assert player.pair == views[0].pair
        player.step(1)
        assert seen.get(timeout=TIMEOUT) == views[1]
        assert player.now() == views[1].taken_at
        player.seek(NOON + 20)
        assert seen.get(timeout=TIMEOUT) == views[4]
        assert len(player.series("clicks", 2)) == 5
        assert player.ranges("clicks", 2)
        player.step(-1)
        assert seen.get(timeout=TIMEOUT) == views[3]
        assert len(player.series("clicks", 2)) == 4
        player.step(99)
        assert seen.get(timeout=TIMEOUT) == views[-1]
    finally:
        player.close()


def test_a_replay_plays(tmp_path: Path) -> None:
    view = usual().view()
    views = [replace(view, taken_at=NOON + n / 100) for n in range(5)]
    player = Player(recorded(tmp_path / "r", views))
    seen: queue.SimpleQueue[View] = queue.SimpleQueue()
    player.start(seen.put)
    try:
        assert [seen.get(timeout=TIMEOUT).taken_at for _ in views] == [v.taken_at for v in views]
    finally:
        player.close()


def test_times_as_people_write_them() -> None:
    times = (NOON, NOON + 60)
    assert parse_time("+90", times) == NOON + 90
    assert parse_time("12:00:30", times) == NOON + 30
    assert parse_time("12:01", times) == NOON + 60
    assert parse_time("2026-11-22 00:00", times) == NOON + 43_200
    with pytest.raises(ConfigError, match="not a time"):
        parse_time("noon", times)
