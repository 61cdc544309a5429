"""Files and directories that only their owner can access: plans, state, reports.

They contain names of groups and topics, offsets and paths, which must stay private on a shared
host. The permissions of existing files and directories are tightened.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Literal

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
# Nothing can exist below a device.
_NOWHERE = Path(os.devnull, "k2ktui")


def user_path(kind: Literal["cache", "config", "state"]) -> Path:
    """Return k2ktui's directory of a kind for this user; it may not exist, and is not made.

    Where neither a variable nor the password database names a home directory (containers that run
    as any user id), it is a path that cannot exist: readers find nothing, writers get an OSError.
    """
    # Deferred: most commands need none of them.
    import platformdirs

    find = {
        "cache": platformdirs.user_cache_path,
        "config": platformdirs.user_config_path,
        "state": platformdirs.user_state_path,
    }
    try:
        path = find[kind]("k2ktui", appauthor=False)
    except RuntimeError:
        return _NOWHERE
    return path if path.is_absolute() else _NOWHERE


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


def why_others_may_write(path: Path, *, is_socket: bool = False) -> str:
    """Return why somebody other than this user and root may decide what a file contains, or "".

    The file must be a regular one, or a socket if that is asked, of this user or root. Neither it
    nor its folder may be writable by others, or by a group that is not the owner's private one. On
    a read-only mount nothing is writable. Of a symbolic link, both folders count.
    """
    try:
        real = path.resolve(strict=True)
        has_type = stat.S_ISSOCK if is_socket else stat.S_ISREG
        if not has_type(real.stat().st_mode):
            return f"it is not a {'socket' if is_socket else 'regular file'}"
        for part in (real, real.parent, path.absolute().parent):
            reason = _why_writable(part)
            if reason:
                return f"{'the file' if part == real else 'its folder'} {reason}"
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    except RuntimeError:  # what Path.resolve raises before Python 3.13
        return "it is a loop of symbolic links"
    return ""


def why_others_may_replace(directory: Path) -> str:
    """Return why somebody other than this user and root may replace files of a directory, or "".

    Raises:
        OSError: it cannot be looked at.
    """
    return _why_writable(directory)


def why_others_may_read(path: Path) -> str:
    """Return why somebody other than this user and root may read a file or decide what it contains.

    The same as :func:`why_others_may_write`, and the file must have mode 0600, or less.
    """
    if reason := why_others_may_write(path):
        return reason
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    return f"the file can be read by others: it has mode {mode:03o}, not 600" * bool(mode & 0o077)


def _why_writable(path: Path) -> str:
    status = path.stat()
    if status.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, status.st_uid):
        return "can be written by a group"
    return ""


def _is_private_group(gid: int, uid: int) -> bool:
    """Return whether only its owner is in a group: it has the owner's name, and no other member."""
    try:
        owner = pwd.getpwuid(uid)
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


def _write_in_place(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fchmod(handle, FILE_MODE)
            file.truncate(0)
        file.write(content)
