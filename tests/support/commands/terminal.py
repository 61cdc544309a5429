"""The command line of a user who types at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

from tests.support.commands.commands import run_command

_TIMEOUT = 400.0  # on a busy machine


def k2ktui_typing(
    text: str, *arguments: str | Path, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command, type a line when it asks, and expect its exit code."""
    master, terminal = pty.openpty()
    try:
        os.write(master, f"{text}\n".encode())
        done = run_command(list(map(str, arguments)), os.environ, _TIMEOUT, terminal)
    finally:
        os.close(terminal)
        os.close(master)
    said = f"{done.args}\n{done.stdout}\n{done.stderr}"
    assert code == done.returncode, f"exit code {done.returncode}, not {code}: {said}"
    return done
