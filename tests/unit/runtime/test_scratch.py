"""Temporary directories of killed processes are removed, and no others."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.scratch import Scratch, sweep

PREFIX = "k2ktui-test-"
_OWNER = """
import sys
from k2ktui.runtime.scratch import Scratch
print(Scratch(sys.argv[1]).path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_directory_is_for_its_user_alone(temporary: Path) -> None:
    before = os.umask(0)
    try:
        scratch = Scratch(PREFIX)
    finally:
        os.umask(before)
    assert scratch.path.parent == temporary and scratch.path.name.startswith(PREFIX)
    assert stat.S_IMODE(scratch.path.stat().st_mode) == 0o700
    (scratch.path / "file").touch()
    scratch.remove()
    assert list(temporary.iterdir()) == []


def test_a_file_that_another_process_writes_meanwhile_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java, which still starts when there is no time to end it, writes where it can be reached."""
    scratch = Scratch(PREFIX)
    late, remove = scratch.path / "gateway", os.rmdir

    def remove_late(*of: Any, **how: Any) -> None:
        with contextlib.suppress(FileNotFoundError):
            late.touch()
        remove(*of, **how)

    monkeypatch.setattr(os, "rmdir", remove_late)
    scratch.remove()
    assert list(temporary.iterdir()) == []


# A process id that is not seen is not one that has ended: the owner may be in another container.
HIDDEN = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]


def can_hide() -> bool:
    try:
        return subprocess.run([*HIDDEN, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("apart", [False, True], ids=["same-namespace", "other-pid-namespace"])
def test_only_what_has_no_owner_is_swept(apart: bool, temporary: Path) -> None:
    if apart and not can_hide():
        pytest.skip("this kernel lets no user make a process namespace")
    command = [*(HIDDEN if apart else ()), sys.executable, "-c", _OWNER, PREFIX]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        path = Path(owner.stdout.readline().decode().strip())
        assert path.is_dir()
        sweep(PREFIX)
        assert path.is_dir(), "its owner runs"
        owner.communicate()  # it ends silently, as if it were killed
    sweep(PREFIX)
    assert not path.exists()


def test_what_is_not_ours_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{PREFIX}file").touch()
    (temporary / "other").mkdir()
    sweep(PREFIX)
    assert len(list(temporary.iterdir())) == 4

    (temporary / f"{PREFIX}of-another-user").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    sweep(PREFIX)
    assert (temporary / f"{PREFIX}of-another-user").is_dir()
