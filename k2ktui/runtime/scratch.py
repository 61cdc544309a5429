"""Temporary directories that a later process removes if their owner was killed.

The owner locks its directory with flock. The lock is also visible in other containers that mount
the same file system, where process ids are meaningless, and the kernel releases it however the
owner ends. systemd-tmpfiles also skips locked directories, regardless of their age.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_UNFINISHED = ".new-"


class Scratch:
    """A private directory (mode 0700) in the system's temporary directory.

    Args:
        prefix: name prefix of all such directories, which ``sweep`` searches for.

    Attributes:
        path: the directory.
    """

    def __init__(self, prefix: str) -> None:
        # Rename it to a name that sweep() matches only after it is locked.
        made = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{prefix}"))
        self._handle = _open_directory(made)
        with contextlib.suppress(OSError):  # without flock support, sweep() cannot remove it
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        self.path = made.with_name(made.name.removeprefix(_UNFINISHED))
        made.rename(self.path)

    def remove(self) -> None:
        """Remove the directory with its content and release the lock.

        Under another name: a process that still runs, such as Java when there was no time to end
        it, would create a file in it meanwhile, and it would stay.
        """
        removed = self.path.with_name(f"{self.path.name}-removed")
        with contextlib.suppress(OSError):
            self.path.rename(removed)
        for path in (self.path, removed):
            shutil.rmtree(path, ignore_errors=True)
        os.close(self._handle)


def sweep(prefix: str) -> None:
    """Remove this user's directories with ``prefix`` whose owner processes have ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            handle = _open_directory(path)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def _open_directory(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
