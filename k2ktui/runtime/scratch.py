"""Temporary directories that are removed later if their process was killed.

Each is locked by its process with flock. Every process that sees the directory sees the lock too,
also one in another container that has the same file system mounted, where process ids mean nothing;
the kernel releases it when the owner ends, however it ends. systemd-tmpfiles leaves locked
directories alone as well, however old they are.
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
    """A directory below the system's temporary directory, for this user alone (mode 0700).

    Args:
        prefix: what the names of all such directories begin with.

    Attributes:
        path: the directory.
    """

    def __init__(self, prefix: str) -> None:
        # It gets the name that a sweep looks for only when it is locked.
        made = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{prefix}"))
        self._handle = _opened(made)
        with contextlib.suppress(OSError):  # no locks on this file system: no sweep removes it
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        self.path = made.with_name(made.name.removeprefix(_UNFINISHED))
        made.rename(self.path)

    def remove(self) -> None:
        """Remove the directory and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._handle)


def sweep(prefix: str) -> None:
    """Remove this user's directories of that prefix whose processes have ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            handle = _opened(path)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
