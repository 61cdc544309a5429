"""Whether a process of this host has ended."""

from __future__ import annotations

import os
import subprocess
import sys

from k2ktui.runtime.host import pid_space, process_has_ended
from tests.support.kafka import eventually

FOREVER = "import signal; signal.pause()"


def test_a_process_that_was_killed_has_ended() -> None:
    """Also before its parent has waited for it."""
    child = subprocess.Popen([sys.executable, "-c", FOREVER])
    try:
        assert not process_has_ended(child.pid, pid_space())
        child.kill()
        eventually(lambda: process_has_ended(child.pid, pid_space()), "it is a zombie")
    finally:
        child.wait()
    assert process_has_ended(child.pid, pid_space())


def test_processes_of_others_are_alive_as_far_as_one_can_see() -> None:
    assert not process_has_ended(os.getpid(), pid_space())
    assert not process_has_ended(1, pid_space())
    for space in ("", "another"):
        assert not process_has_ended(1 << 62, space)
    assert process_has_ended(1 << 62, pid_space())
