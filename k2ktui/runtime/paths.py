"""Cache and state directories of k2ktui, atomic file writes, and file locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from k2ktui.errors import Refused, TimedOut
from k2ktui.private_files import DIRECTORY_MODE, FILE_MODE, private_directory, user_path
from k2ktui.text import safe_text

# A first download of 160 MB takes this long at 180 kB/s.
_LOCK_WAIT_S = 900.0
_LOCK_POLL_S = 0.1


def cache_dir(*parts: str) -> Path:
    """Return a private directory in the user's cache, which the user may delete at any time.

    Where the user's cache cannot be written, it is one in the system's temporary directory.

    Raises:
        OSError: neither can be written.
    """
    base = user_path("cache")
    try:
        made = _make_directories(base, parts)
    except OSError:
        return _make_directories(_temporary_cache(), parts)
    if not os.access(made, os.W_OK | os.X_OK):
        made = _make_directories(_temporary_cache(), parts)
    return made


def _temporary_cache() -> Path:
    path = Path(tempfile.gettempdir(), f"k2ktui-cache-{os.geteuid()}")
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    # Everyone may make this name first, and would own what we load from there.
    made = path.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    return private_directory(path)


def state_path(*parts: str) -> Path:
    """Return a path in the user's state directory; nothing is made, and it may not exist."""
    return user_path("state").joinpath(*parts)


def state_dir(*parts: str) -> Path:
    """Return a private directory in the user's state directory, which holds the demo's data.

    Raises:
        Refused: it cannot be made; the message names the variable for another place.
    """
    try:
        return _make_directories(user_path("state"), parts)
    except OSError as error:
        raise unwritable_state(state_path(*parts), error) from error


def unwritable_state(path: Path, error: OSError) -> Refused:
    """Return the error for a path of the state directory that cannot be written."""
    return Refused(
        _why_unwritable(path, error),
        unchanged="Nothing was started or changed.",
        hint="Set XDG_STATE_HOME to a folder that this user can write.",
    )


def no_state_note() -> str:
    """Return a note if there is no state directory, and none can be made; "" otherwise.

    What reads it finds nothing then: no jobs, no kept plans.
    """
    path = user_path("state")
    # Not Path.exists, which raises where a folder above may not be searched.
    if os.path.exists(path):
        return ""
    above = next(folder for folder in path.parents if os.path.exists(folder))
    if os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK):
        return ""
    return (
        f"{_why_unwritable(path, None)}: this user has no jobs and no kept plans here; set "
        "XDG_STATE_HOME to a folder that can be written"
    )


def _why_unwritable(path: Path, error: OSError | None) -> str:
    if path.is_relative_to(os.devnull):
        return f"HOME is not set, and user id {os.getuid()} has no home directory"
    reason = f": {(error.strerror or str(error)).lower()}" if error is not None else ""
    return f"{safe_text(path)} cannot be {'written' if error else 'made'}{reason}"


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
def locked(path: Path, wait_s: float = _LOCK_WAIT_S) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` against other processes and threads.

    Args:
        path: the lock's file, which is created if it does not exist.
        wait_s: seconds to wait for another holder.

    Raises:
        TimedOut: another process or thread has held the lock all that time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Each call opens its own file description, so flock also excludes threads of this process.
    with path.open("ab") as file:
        _take_lock(file, path, wait_s)
        try:
            yield
        finally:
            # Closing is not enough: a process that another thread forked meanwhile has a copy of
            # the descriptor, and would hold the lock until it ends.
            fcntl.flock(file, fcntl.LOCK_UN)


def _take_lock(file: IO[bytes], path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise TimedOut(
                    f"Another k2ktui process has held the lock {safe_text(str(path))} for "
                    f"{wait_s:g} s.",
                    unchanged="Nothing in its directory was changed by this process.",
                    hint="It may be downloading over a slow network. Wait for it or end it, then "
                    "run the command again.",
                ) from error
        time.sleep(_LOCK_POLL_S)
