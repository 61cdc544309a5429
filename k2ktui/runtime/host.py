"""Identify the running operating system, and the processes that share their ids with this one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from pathlib import Path

import psutil

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_LENGTH = 16


def boot_id() -> str:
    """Return an id of the host's last boot."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return str(int(psutil.boot_time()))


def pid_space() -> str:
    """Return an id of this process's PID namespace: a pid names one process within it only.

    Containers and virtual machines may have the same host name; they differ in this id. Virtual
    machines that continue from one snapshot have the same boot id; they differ in their names.
    """
    inode = 0  # one namespace per system, where there are no others
    with contextlib.suppress(OSError):
        inode = os.stat(_NAMESPACE).st_ino
    return hashlib.sha256(f"{boot_id()}/{inode}/{socket.gethostname()}".encode()).hexdigest()[
        :_LENGTH
    ]


def process_has_ended(pid: int, space: str) -> bool:
    """Whether a process that had this id in that PID namespace no longer runs.

    False if that cannot be seen: the namespace is another one, or the id has been reused. A zombie
    does not run. A process that /proc hides (``hidepid``, systemd's ``ProtectProc``) runs.

    Args:
        pid: the process.
        space: ``pid_space`` of the process; "" if it is not known.
    """
    if space != pid_space():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return False
