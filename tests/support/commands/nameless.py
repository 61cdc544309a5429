"""Commands as a user id that no password database has, as containers run them."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

UID = 54_321
# A user namespace of its own: files stay readable, and nobody has to be root.
COMMAND = ("unshare", "--user", f"--map-user={UID}", "--map-group=0")
K2KTUI = (*COMMAND, sys.executable, "-m", "k2ktui")


def require_nameless() -> None:
    """Skip the test where the kernel allows no user namespaces."""
    if not _is_possible():
        pytest.skip("no user namespaces can be made here")


@functools.cache
def _is_possible() -> bool:
    try:
        done = subprocess.run([*COMMAND, "id", "-u"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    return done.stdout.strip() == str(UID)


def nameless(
    *arguments: object, env: Mapping[str, str] | None = None, code: int = 0, timeout: float = 180
) -> subprocess.CompletedProcess[str]:
    """Run a k2ktui command so, without a HOME unless ``env`` has one, and expect its exit code."""
    require_nameless()
    own = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": os.getcwd(), **(env or {})}
    done = subprocess.run(
        [*K2KTUI, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=own,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr
    return done
