"""A process is known by its id and its birth: an id that is used again is somebody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from k2ktui.jobs.process import ProcessIdentity, same_boot, this_process
from k2ktui.runtime.host import birth_of


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def test_this_process_is_alive_and_of_this_boot() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert me.alive
    assert same_boot(me.birth)
    assert not same_boot("another/1")


def test_a_signal_ends_a_process_which_is_dead_before_it_is_collected() -> None:
    with sleeper() as child:
        it = ProcessIdentity(child.pid, birth_of(child.pid))
        assert it.alive
        assert it.signal(signal.SIGTERM)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not it.alive, "it is a zombie"
    assert birth_of(child.pid) == ""
    assert not it.signal(signal.SIGTERM)


def test_a_process_with_a_used_id_is_not_hit() -> None:
    with sleeper() as child:
        born = birth_of(child.pid)
        for other in (f"{born}0", f"another-boot/{born.partition('/')[2]}", ""):
            stranger = ProcessIdentity(child.pid, other)
            assert not stranger.alive
            assert not stranger.signal(signal.SIGKILL)
        assert child.poll() is None
        child.kill()


def test_no_process_has_no_birth() -> None:
    assert birth_of(2**22 + 1) == ""
    assert not ProcessIdentity(0, "").alive
