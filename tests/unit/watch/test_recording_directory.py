"""A directory of recordings: a new file an hour or a day; only its own old ones are removed."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from k2ktui.cli.main import cli
from k2ktui.errors import ConfigError
from k2ktui.watch import recording
from k2ktui.watch.recording import Recorder, Recording, RecordingDirectory
from tests.support.commands.in_process import invoke
from tests.support.console.views import NOON, usual

HOUR, DAY = 3_600.0, 86_400.0
MADE = usual()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, which a test changes."""
    now = [NOON]
    monkeypatch.setattr(time, "time", lambda: now[0])
    yield now
    MADE.now = NOON


def record(kept: RecordingDirectory, *times: float) -> None:
    for at in times:
        MADE.now = at
        kept.add(MADE.view())
    kept.close()


def names(path: Path) -> list[str]:
    return sorted(part.name for part in path.iterdir())


def begin(path: Path, keep_s: float) -> RecordingDirectory:
    return RecordingDirectory(path, "orders", keep_s)


@pytest.mark.parametrize(
    ("keep_s", "later"), [(2 * DAY, (1, 9 * HOUR, DAY)), (DAY, (1, HOUR / 2, HOUR + 1))]
)
@pytest.mark.usefixtures("clock")
def test_a_new_file_begins_each_day_or_hour(
    tmp_path: Path, keep_s: float, later: tuple[float, ...]
) -> None:
    path = tmp_path / "a" / "recordings"
    record(begin(path, keep_s), *(NOON + seconds for seconds in later))
    stamps = (time.gmtime(NOON + after) for after in (0, later[-1]))
    assert names(path) == [time.strftime("orders-%Y%m%dT%H%M%SZ.k2k", at) for at in stamps]
    assert [len(Recording(path / name)) for name in names(path)] == [2, 1]
    assert {stat.S_IMODE(part.stat().st_mode) for part in path.iterdir()} == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    record(begin(path, keep_s), NOON + 1)
    assert len(names(path)) == 3, "a file of the same second is not written to again"


def test_only_old_files_that_it_wrote_for_this_pipeline_are_removed(
    tmp_path: Path, clock: list[float]
) -> None:
    record(begin(tmp_path, DAY), NOON)
    (old,) = tmp_path.iterdir()
    (tmp_path / f"{old.name}-wal").write_bytes(b"")
    of_a_person = tmp_path / old.name.replace("T12", "T11")
    Recorder(of_a_person).close()
    other = RecordingDirectory(tmp_path, "other", DAY)
    record(other, NOON)
    renamed = next(tmp_path.glob("other-*")).rename(tmp_path / old.name.replace("T12", "T10"))
    text = tmp_path / old.name.replace("T12", "T09")
    text.write_text("no recording")
    link = tmp_path / old.name.replace("T12", "T08")
    link.symlink_to(old)
    mine = tmp_path / "orders-notes.k2k"
    mine.write_text("mine")
    for part in tmp_path.iterdir():
        os.utime(part, (NOON, NOON), follow_symlinks=False)
    clock[0] = NOON + DAY
    record(begin(tmp_path, DAY), NOON + DAY)
    assert old.exists(), "it is not older than a day yet"
    clock[0] += HOUR
    record(begin(tmp_path, DAY), clock[0])
    assert not old.exists() and not (tmp_path / f"{old.name}-wal").exists()
    assert all(part.is_symlink() or part.exists() for part in (of_a_person, renamed, text, link))
    assert mine.read_text() == "mine"


@pytest.mark.usefixtures("clock")
def test_a_write_that_fails_is_said_and_tried_again(tmp_path: Path) -> None:
    kept = begin(tmp_path, DAY)
    with closing(sqlite3.connect(next(tmp_path.glob("*.k2k")))) as other:
        other.execute("drop table views")
    MADE.now = NOON + 1
    kept.add(MADE.view())
    assert "no such table" in kept.error
    record(kept, NOON + 30, NOON + 90)
    assert kept.error == ""
    assert len(Recording(max(tmp_path.glob("*.k2k")))) == 1


def test_a_file_that_cannot_be_begun_leaves_nothing_and_its_reason_stays(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = begin(tmp_path, DAY)
    kept.close()
    (old,) = tmp_path.iterdir()
    monkeypatch.setattr(recording, "_TABLES", "no SQL")
    clock[0] = NOON + DAY + 2 * HOUR
    os.utime(old, (NOON, NOON))
    with pytest.raises(ConfigError, match="cannot be written to"):
        begin(tmp_path, DAY)
    assert names(tmp_path) == [], "old files go before there is room for a new one"
    for after in (HOUR, HOUR + 1):
        MADE.now = NOON + after
        kept.add(MADE.view())
        assert kept.error.startswith("nothing is recorded: ") and "syntax error" in kept.error
    assert names(tmp_path) == []


@pytest.mark.usefixtures("clock")
def test_a_directory_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    record(begin(tmp_path, DAY), NOON)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be a directory of recordings"):
        begin(tmp_path / "file", DAY)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--keep", "7d"), "--keep needs --record DIR"),
        (("--keep", "7d", "--record", "d", "--once"), "--once and --keep cannot be combined"),
        (("--keep", "7", "--record", "d"), "7 is not a duration with its unit"),
        (("--keep", "5m", "--record", "d"), "the least is 1 hour"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: tuple[str, ...], why: str) -> None:
    with pytest.raises((ConfigError, click.BadParameter), match=why):
        invoke(cli, "watch", "-f", "pipeline.yaml", *options)
