"""Whether a process of this host has ended."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from k2ktui.runtime.host import birth_of, pid_space, process_has_ended
from tests.support.clusters.kafka import eventually
from tests.support.clusters.other_hosts import other_host

FOREVER = "import signal; signal.pause()"


def test_a_process_that_was_killed_has_ended() -> None:
    """Also before its parent has waited for it."""
    child = subprocess.Popen([sys.executable, "-c", FOREVER])
    try:
        born = birth_of(child.pid)
        assert not process_has_ended(child.pid, pid_space(), born)
        child.kill()
        eventually(lambda: process_has_ended(child.pid, pid_space(), born), "it is a zombie")
    finally:
        child.wait()
    assert process_has_ended(child.pid, pid_space(), born)


def test_a_process_whose_id_another_one_has_now_has_ended() -> None:
    """As in a container that is started again: its namespace may have the same id, too."""
    space, born = pid_space(), birth_of(os.getpid())
    assert not process_has_ended(os.getpid(), space, born)
    assert process_has_ended(os.getpid(), space, f"{born}0")
    assert not process_has_ended(os.getpid(), "another", f"{born}0")
    assert not process_has_ended(os.getpid(), space, ""), "an earlier release does not say"


@pytest.mark.parametrize("clock_s", [-1800, 0, 1800])
def test_a_process_of_a_test_may_be_of_another_host_with_another_clock(clock_s: int) -> None:
    """Tests of several runs rest on this."""
    say = (
        "import os, time; from k2ktui.runtime.host import *; "
        "print(time.time(), process_has_ended(int(os.environ['GONE']), os.environ['OURS'], ''))"
    )
    for host, has_ended in ("elsewhere", "False"), (socket.gethostname(), "True"):
        env = {**os.environ, **other_host(host, clock_s), "GONE": f"{1 << 62}", "OURS": pid_space()}
        before = time.time()
        words = subprocess.check_output([sys.executable, "-c", say], text=True, env=env).split()
        assert before <= float(words[0]) - clock_s <= time.time()
        assert words[1] == has_ended


def test_births_are_not_compared_where_proc_shows_another_namespace() -> None:
    """A process may have a PID namespace of its own, and see /proc of another one."""
    say = (
        "import os; from k2ktui.runtime.host import *; "
        "print(process_has_ended(os.getpid(), pid_space(), 'boot/1'))"
    )
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("this system makes no PID namespaces")
    for more, has_ended in (["--mount-proc"], "True"), ([], "False"):
        output = subprocess.check_output([*unshare, *more, sys.executable, "-c", say], text=True)
        assert output.strip() == has_ended, more


def test_a_hidden_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc does not show it, or its birth."""
    monkeypatch.setattr("k2ktui.runtime.host.birth_of", lambda pid: "")
    assert not process_has_ended(os.getpid(), pid_space(), "boot/1")


def test_processes_of_others_are_alive_as_far_as_one_can_see() -> None:
    assert not process_has_ended(os.getpid(), pid_space(), "")
    assert not process_has_ended(1, pid_space(), "")
    for space in ("", "another"):
        assert not process_has_ended(1 << 62, space, "")
    assert process_has_ended(1 << 62, pid_space(), "")


def test_a_run_may_open_many_files() -> None:
    program = (
        "import resource; from k2ktui.runtime.host import allow_many_descriptors\n"
        "which = resource.RLIMIT_NOFILE; hard = resource.getrlimit(which)[1]\n"
        "resource.setrlimit(which, (64, hard)); allow_many_descriptors()\n"
        "assert resource.getrlimit(which)[0] >= min(hard, 65536)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
