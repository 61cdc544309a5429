"""Where k2ktui keeps what it downloads, what it makes, and what the demo stores."""

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
    """Return a private directory of the user's cache; it can be deleted at any time."""
    return _made(Path(platformdirs.user_cache_dir(_APP, appauthor=False)), parts)


def state_dir(*parts: str) -> Path:
    """Return a private directory of the user's state; the demo's data lives there."""
    return _made(Path(platformdirs.user_state_dir(_APP, appauthor=False)), parts)


def _made(base: Path, parts: tuple[str, ...]) -> Path:
    path = private_directory(base)
    for part in parts:
        path = private_directory(path / part)
    return path


def write_atomically(path: Path, content: bytes, *, mode: int = FILE_MODE) -> None:
    """Write ``content`` to ``path`` so that no reader ever sees part of it."""
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
    # Each entry opens the file anew, so flock also excludes threads of this process.
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
