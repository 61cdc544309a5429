"""Run programs without a network: in a namespace of their own, or with proxies that are closed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from k2ktui.runtime.class_archive import USE, VARIABLE

# In a new network namespace the loopback interface is down: 0x8914 is SIOCSIFFLAGS, 0x1 IFF_UP.
_LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket() as opened:
    fcntl.ioctl(opened, 0x8914, struct.pack("16sh14x", b"lo", 0x1))
os.execv(sys.argv[1], sys.argv[1:])
"""
_CLOSED = "http://127.0.0.1:9"


def offline_prefix() -> tuple[str, ...]:
    """Return what to put before a command (an absolute path); empty if namespaces are forbidden."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    prefix = (unshare, "--map-root-user", "--net", sys.executable, "-c", _LOOPBACK_UP)
    done = subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True)
    return prefix if done.returncode == 0 else ()


def offline_environment(home: Path) -> dict[str, str]:
    """Return the environment of a new user of a host without internet and without a Java."""
    programs = home / "bin"
    programs.mkdir(parents=True)
    for name in ("sh", "bash", "env", "dirname", "nice", "ps", "setsid", "uname"):
        program = shutil.which(name, path=os.defpath)
        if program is not None:
            (programs / name).symlink_to(program)
    return {
        "HOME": str(home),
        "PATH": str(programs),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PIP_NO_INDEX": "1",
        "HTTP_PROXY": _CLOSED,
        "HTTPS_PROXY": _CLOSED,
        "NO_PROXY": "127.0.0.1,localhost",
        VARIABLE: USE,
    }
