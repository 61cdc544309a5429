"""Executors import the package from an archive, and load the library that lies beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.native.binding import LIBRARY
from k2ktui.replication.spark import executors
from tests.support.records.native_library import SOURCE

_SHOW = "from k2ktui.log import core; print(core.__file__); print(core.why_not()); core.core()"


def imported_from(archive: Path | str, directory: Path | None = None) -> list[str]:
    """Return where a process has imported the package from, and why it has no core.

    It runs in ``directory``.
    """
    # Without the directories of the checkout and of the virtual environment's .pth files.
    paths = [str(archive), *(path for path in sys.path if path.endswith("site-packages"))]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {paths!r}; {_SHOW}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
        env={},
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(not SOURCE.with_name(LIBRARY).is_file(), reason="there is no library to send")
def test_the_library_is_sent_with_the_code(tmp_path: Path) -> None:
    archive, library = executors.write_code(tmp_path)
    assert library is not None
    assert imported_from(archive) == [str(archive / "k2ktui/log/core.py"), ""]
    # A Spark cluster gives executors the name of a file in their working directory.
    name = archive.name
    assert imported_from(name, tmp_path) == [f"{name}/k2ktui/log/core.py", ""]
    with library.open("ab") as file:
        file.write(b"\0")
    assert "is not the library that was sent" in imported_from(archive)[1]
    library.unlink()
    assert "was not sent with the code" in imported_from(archive)[1]
