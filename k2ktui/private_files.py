"""Files and directories that only their owner can access: plans, state, reports.

They contain names of groups and topics, offsets and paths, which must stay private on a shared
host. The permissions of existing files and directories are tightened.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700


def private_directory(path: Path) -> Path:
    """Create a directory with its parents, and remove the permissions of group and others.

    The permissions of a directory that belongs to another user stay.

    Raises:
        OSError: the directory cannot be created.
    """
    path.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
    if stat.S_IMODE(path.stat().st_mode) & ~DIRECTORY_MODE:
        with contextlib.suppress(PermissionError):
            path.chmod(DIRECTORY_MODE)
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600, also if it exists with another mode.

    A regular file is replaced atomically, so that readers never see a part of it and a process that
    has opened the old file cannot read the new one. Pipes, devices and targets of symbolic links
    are written in place.

    Raises:
        OSError: the file cannot be written, or belongs to another user.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        _write_in_place(path, content)
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    except PermissionError:
        _write_in_place(path, content)  # the file may be writable although its directory is not
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
