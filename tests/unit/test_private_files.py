"""What k2ktui writes is for its user alone, whatever the umask and whatever was there before."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from k2ktui.cli.changes import write_plan
from k2ktui.console.export import write
from k2ktui.engine.moves.plan import Plan, Rewind, dump_plan
from k2ktui.errors import ConfigError
from k2ktui.faults import fault
from k2ktui.private_files import private_directory, write_private
from k2ktui.runtime.paths import state_dir
from k2ktui.sync.moves import entry_files
from tests.support.clusters.kafka import TIMEOUT
from tests.support.console.views import usual


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def wide(path: Path) -> Path:
    """A file that anyone may read and write."""
    path.write_text("a longer content than the next one")
    path.chmod(0o666)
    return path


def test_a_file_is_private_whatever_it_was(tmp_path: Path) -> None:
    new, old = tmp_path / "new", wide(tmp_path / "old")
    with old.open() as reader:
        for path in (new, old):
            write_private(path, b"secret")
            assert (path.read_bytes(), mode(path)) == (b"secret", 0o600)
        assert "secret" not in reader.read(), "who had it open before reads what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_what_a_link_leads_to(tmp_path: Path) -> None:
    file = wide(tmp_path / "file")
    link = tmp_path / "link"
    link.symlink_to(file)
    write_private(link, b"secret")
    assert link.is_symlink() and (file.read_bytes(), mode(file)) == (b"secret", 0o600)


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_private(pipe, b"secret")
    reader.join(TIMEOUT)
    assert read == [b"secret"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        write_private(tmp_path / "no" / "file", b"x")
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError):
        write_private(tmp_path / "directory", b"x")


def test_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = tmp_path / "k2ktui"
    own.mkdir(mode=0o777)
    directory = state_dir("jobs", "host")
    assert [mode(path) for path in (own, directory.parent, directory)] == [0o700] * 3
    assert mode(private_directory(tmp_path / "other")) == 0o700


def test_every_file_of_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = tmp_path / "k2ktui"
    own.mkdir()
    wide(own / "applied.jsonl")
    fault(RuntimeError("x"))
    entry_files.remember("entry", "pipeline", ["a.yaml"])
    view = usual().view()
    exported = write(tmp_path, view, "groups", (["group"], [["a"]]))
    files = [*own.glob("crash-*.txt"), own / "applied.jsonl", *exported]
    assert [mode(path) for path in files] == [0o600] * 4
    assert mode(own) == 0o700


def test_entries_that_are_written_at_once_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    names = [f"entry-{number}" for number in range(64)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: entry_files.remember(name, "p", [f"{name}.yaml"]), names))
    files = [entry_files.files_of(name) for name in names]
    assert [Path(file).stem for (file,) in files] == names


def test_plan_files(tmp_path: Path) -> None:
    plan = Plan("p", "S", "T", 1000.0, 1600.0, "me@here", Rewind.NEVER, ())
    for path in (tmp_path / "new", wide(tmp_path / "old")):
        write_plan(str(path), dump_plan(plan))
        assert (path.read_text(), mode(path)) == (dump_plan(plan), 0o600)
    with pytest.raises(ConfigError, match="could not be written"):
        write_plan(str(tmp_path / "no" / "plan"), dump_plan(plan))


def test_the_command_line_makes_nothing_for_others(tmp_path: Path) -> None:
    """Also what others write for it: Spark's files, a broker's, a log's."""
    script = (
        "import sys, pathlib, k2ktui.cli.main as line\n"
        "line.cli = lambda **_: pathlib.Path(sys.argv[1]).touch()\n"
        "line.main()"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "file"], check=True)
    assert mode(tmp_path / "file") == 0o600
