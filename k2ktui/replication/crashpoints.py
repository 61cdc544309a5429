"""Named steps at which the proofs kill the process; nothing happens unless a test asks for it."""

from __future__ import annotations

import os
import signal

_VARIABLE = "K2KTUI_CRASH_AT"


def crash_point(step: str) -> None:
    """Kill this process with SIGKILL if the environment names this step.

    ``K2KTUI_CRASH_AT`` is ``STEP:FILE``: the crash happens once, when FILE exists, and removes it.
    """
    wanted = os.environ.get(_VARIABLE)
    if not wanted:
        return
    name, _, path = wanted.partition(":")
    if name != step:
        return
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
