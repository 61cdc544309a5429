"""Identify the running operating system, and the processes that share their ids with this one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import resource
import socket
import sys
from pathlib import Path

import psutil

from k2ktui.errors import Refused

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_LENGTH = 16
_LINUX = sys.platform == "linux"
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat after the name, see proc(5)
_DEAD = ("Z", "X")
_DESCRIPTORS = 65_536
_FEWEST_DESCRIPTORS = 512


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


def has_user_name() -> bool:
    """Return whether this process's user id has an entry in the password database.

    In containers that run as any user id it has none, and Java knows neither its name nor its home.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def birth_of(pid: int) -> str:
    """Return boot id and start time of the process that has this id now; "" if none runs.

    No other process with this id has the same. A zombie does not run.
    """
    if _LINUX:
        return _birth_by_proc(pid)
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return f"{boot_id()}/{process.create_time():.2f}"
    return ""


def _birth_by_proc(pid: int) -> str:
    # Ticks since boot: unlike the time of day, they do not change when the clock is set.
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    after_name = text.rpartition(")")[2].split()
    return "" if after_name[_STATE] in _DEAD else f"{boot_id()}/{after_name[_STARTED]}"


def _is_proc_of_own_namespace() -> bool:
    """Whether births can be compared: not if /proc shows the PIDs of another namespace."""
    try:
        return not _LINUX or os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def process_has_ended(pid: int, space: str, birth: str) -> bool:
    """Whether a process that had this id in that PID namespace no longer runs.

    Another process may have the id now: a container that is started again often has the PIDs of
    the one before, and may get a namespace with the same id. False if that cannot be seen: the
    namespace is another one, or the birth is not known. A zombie does not run. A process that /proc
    hides (``hidepid``, systemd's ``ProtectProc``) runs.

    Args:
        pid: the process.
        space: ``pid_space`` of the process; "" if it is not known.
        birth: ``birth_of`` the process; "" if it is not known.
    """
    if space != pid_space():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass  # of another user
    birth_now = birth_of(pid)
    if birth_now and birth and _is_proc_of_own_namespace():
        return birth_now != birth
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return False


def has_working_directory() -> bool:
    """Return whether the working directory still exists: Java starts in no other."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def allow_many_descriptors() -> None:
    """Raise this process's limit of open files to 65,536, or the most that the system allows.

    A shell's limit is often 1,024, and each slot needs several descriptors.

    Raises:
        Refused: the system allows fewer than Java opens to start Spark.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and limit < _FEWEST_DESCRIPTORS:
        raise Refused(
            f"the limit of open files is {limit}, and Spark needs {_FEWEST_DESCRIPTORS} to start",
            unchanged="Nothing was started.",
            hint="Raise it: ulimit -n 65536, or LimitNOFILE=65536 in a systemd unit.",
        )
