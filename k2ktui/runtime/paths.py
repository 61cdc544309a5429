"""Where k2ktui keeps what it downloads, what it makes, and what the demo stores."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs

_APP = "k2ktui"


def cache_dir(*parts: str) -> Path:
    """Return a directory of the user's cache, made if need be; it can be deleted at any time."""
    return _made(Path(platformdirs.user_cache_dir(_APP, appauthor=False)), parts)


def state_dir(*parts: str) -> Path:
    """Return a directory of the user's state, made if need be; the demo's data lives there."""
    return _made(Path(platformdirs.user_state_dir(_APP, appauthor=False)), parts)


def _made(base: Path, parts: tuple[str, ...]) -> Path:
    path = base.joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
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
