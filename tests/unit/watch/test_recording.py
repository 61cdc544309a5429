"""Recordings say what was seen, survive what befalls files, and are replayed in their own time."""

from __future__ import annotations

import json
import queue
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.mapping.translate import Basis
from k2ktui.errors import ConfigError
from k2ktui.watch.codec import MalformedView, dumps, loads
from k2ktui.watch.model import PartName, PipelinePair, View
from k2ktui.watch.player import Player, parse_time
from k2ktui.watch.recording import SCHEMA, Recorder, Recording
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.views import NOON, Made, beside_mirrormaker, runner, usual


def lived(polls: int = 5) -> list[View]:
    made = usual(PipelinePair("a[/b]\x1b", "production", True))
    views = []
    for _ in range(polls):
        views.append(made.view())
        made.now += 5
        made.copy(100)
    made.errors[PartName.SOURCE] = "it is gone"
    return [*views, made.view()]


def recorded(path: Path, views: list[View]) -> Path:
    recorder = Recorder(path)
    for view in views:
        recorder.add(view)
    recorder.close()
    return path


def test_views_survive_json() -> None:
    sharing = Made(runners=(runner(generation=7, owned=(0, 2)),))
    for view in [*lived(), Made().view(), sharing.view(), beside_mirrormaker().view()]:
        assert loads(dumps(view)) == view


def test_a_recording_of_an_earlier_release_can_be_replayed() -> None:
    value = json.loads(dumps(usual().view()))
    for summary in value["summaries"]:
        del summary["ours"], summary["theirs"]
    for row in value["runners"]:
        del row["generation"], row["owned"]
    view = loads(json.dumps(value))
    assert view.audit is None and not view.compares
    assert [group.group for group in view.summaries] == [g["group"] for g in value["summaries"]]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v":2}', "null", '{"v":1,"pair":{}}'])
def test_what_is_no_view_is_refused(text: str) -> None:
    with pytest.raises(MalformedView):
        loads(text)


def test_a_view_of_another_version_reports_it() -> None:
    value = json.loads(dumps(usual().view()))
    with pytest.raises(MalformedView, match="version 2"):
        loads(json.dumps({**value, "v": 2}))


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


def test_bases_are_what_they_were() -> None:
    assert {row.basis for row in loads(dumps(usual().view())).groups} == {
        Basis.EXACT,
        Basis.UNMAPPED,
    }
