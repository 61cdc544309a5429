"""Files and directories for their user alone: plans, state, reports.

Names of groups and topics, offsets and paths are in them, and nobody else's business on a shared
host. What exists with wider permissions gets these.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700


def private_directory(path: Path) -> Path:
    """Make a directory with all that it lies in, and take others' permissions on it away.

    One that belongs to somebody else stays as it is: whoever put it there wanted it so.

    Raises:
        OSError: it cannot be made.
    """
    path.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    if stat.S_IMODE(path.stat().st_mode) & ~DIRECTORY_MODE:
        with contextlib.suppress(PermissionError):
            path.chmod(DIRECTORY_MODE)
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600, also where one of another mode exists.

    A file is replaced, so that no reader ever sees part of it and nobody who has opened the old one
    reads the new. A pipe, a device and what a symbolic link leads to are written in place.

    Raises:
        OSError: it cannot be written, or is somebody else's.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        _write_in_place(path, content)
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    except PermissionError:
        _write_in_place(path, content)  # the file may be ours where its directory is not
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _write_in_place(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fchmod(handle, FILE_MODE)
            file.truncate(0)
        file.write(content)
