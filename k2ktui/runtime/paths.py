"""Cache and state directories of k2ktui, atomic file writes, and file locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from k2ktui.private_files import FILE_MODE, private_directory

_APP = "k2ktui"


def cache_dir(*parts: str) -> Path:
    """Return a private directory in the user's cache, which the user may delete at any time."""
    return _make_directories(Path(platformdirs.user_cache_dir(_APP, appauthor=False)), parts)


def state_dir(*parts: str) -> Path:
    """Return a private directory in the user's state directory, which holds the demo's data."""
    return _make_directories(Path(platformdirs.user_state_dir(_APP, appauthor=False)), parts)


def _make_directories(base: Path, parts: tuple[str, ...]) -> Path:
    path = private_directory(base)
    for part in parts:
        path = private_directory(path / part)
    return path


def write_atomically(path: Path, content: bytes, *, mode: int = FILE_MODE) -> None:
    """Write ``content`` to ``path`` so that readers never see a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` against other processes and threads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Each call opens its own file description, so flock also excludes threads of this process.
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
