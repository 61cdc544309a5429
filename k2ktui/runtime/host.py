"""Identify the running operating system, and the processes that share their ids with this one."""

from __future__ import annotations

import contextlib
import hashlib
import os
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

    Containers and virtual machines may have the same host name; they differ in this id.
    """
    inode = 0  # one namespace per system, where there are no others
    with contextlib.suppress(OSError):
        inode = os.stat(_NAMESPACE).st_ino
    return hashlib.sha256(f"{boot_id()}/{inode}".encode()).hexdigest()[:_LENGTH]
