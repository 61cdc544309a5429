"""The command line of a user who types at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path


def k2ktui_typing(
    text: str, *arguments: str | Path, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command, type a line when it asks, and expect its exit code."""
    master, terminal = pty.openpty()
    try:
        os.write(master, f"{text}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "k2ktui", *map(str, arguments)],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(master)
    said = f"{done.args}\n{done.stdout}\n{done.stderr}"
    assert code == done.returncode, f"exit code {done.returncode}, not {code}: {said}"
    return done
