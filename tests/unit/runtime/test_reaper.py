"""However k2ktui ends, what it started ends too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from k2ktui.errors import Refused, TimedOut
from k2ktui.runtime import child_process
from tests.support.clusters.kafka import TIMEOUT, eventually

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux process control")

# A child that escapes its process group and session, as daemons do, and then a plain wait.
_FAMILY = """
import os, pathlib, subprocess, sys, time
out = pathlib.Path(sys.argv[1])
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
(out / "pids.tmp").write_text(f"{os.getpid()} {inner.pid}")
(out / "pids.tmp").rename(out / "pids")
time.sleep(600)
"""

_PARENT = """
import os, pathlib, signal, sys, threading, time
from k2ktui.runtime import child_process
# Whatever the tests were started with: `nohup` has its children ignore this one.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
out = pathlib.Path(sys.argv[1])
def start():
    command = [sys.executable, "-c", sys.argv[2], str(out)]
    globals()["child"] = child_process.spawn(command, log_path=out / "log")
starter = threading.Thread(target=start)  # the thread that started it ends; the child must not
starter.start(); starter.join()
while not (out / "pids").exists():
    time.sleep(0.01)
{end}
"""

_WAIT = "time.sleep(600)"
_FORK_AND_WAIT = """
if os.fork() == 0:
    (out / "fork").write_text(str(os.getpid()))
    time.sleep(600)
time.sleep(600)
"""


def _start_parent(tmp_path: Path, end: str) -> subprocess.Popen[bytes]:
    script = _PARENT.replace("{end}", end)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), _FAMILY],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )


def _family(tmp_path: Path) -> list[int]:
    pids = tmp_path / "pids"
    eventually(pids.exists, "the family runs")
    return [int(text) for text in pids.read_text().split()]


def _gone(pids: list[int]) -> None:
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), f"{pids} are gone")


@contextmanager
def _cleaned_up(parent: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        parent.kill()
        parent.wait()


@LINUX_ONLY
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
)
def test_family_ends_when_parent_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    parent = _start_parent(tmp_path, _WAIT)
    with _cleaned_up(parent):
        family = _family(tmp_path)
        parent.send_signal(number)
        parent.wait(TIMEOUT)
        _gone(family)


@LINUX_ONLY
@pytest.mark.parametrize("end", ["sys.exit(0)", "raise RuntimeError", "os._exit(1)"])
def test_family_ends_when_parent_exits(tmp_path: Path, end: str) -> None:
    parent = _start_parent(tmp_path, end)
    with _cleaned_up(parent):
        parent.wait(TIMEOUT)
        family = _family(tmp_path)
        if "_exit" not in end:  # then the exit itself waited
            assert not any(psutil.pid_exists(pid) for pid in family)
        _gone(family)


@LINUX_ONLY
def test_fork_that_holds_the_pipe_does_not_keep_the_family(tmp_path: Path) -> None:
    parent = _start_parent(tmp_path, _FORK_AND_WAIT)
    with _cleaned_up(parent):
        family = _family(tmp_path)
        said = tmp_path / "fork"
        eventually(lambda: said.exists() and said.read_text(), "the fork runs")
        parent.kill()
        parent.wait(TIMEOUT)
        _gone(family)
        fork = psutil.Process(int(said.read_text()))
        fork.kill()


@LINUX_ONLY
def test_command_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FAMILY, str(tmp_path)]
    child = child_process.spawn(command, log_path=tmp_path / "log")
    family = _family(tmp_path)
    psutil.Process(child.pid).parent().kill()  # type: ignore[union-attr]
    _gone(family[:1])
    psutil.Process(family[1]).kill()


def test_exit_codes_log_and_signals(tmp_path: Path) -> None:
    said = child_process.spawn(
        [sys.executable, "-c", "import sys; print('hello'); sys.exit(3)"],
        log_path=tmp_path / "made" / "log",
    )
    assert said.wait(TIMEOUT) == 3
    assert said.log_path.read_text() == "hello\n"
    said.terminate()  # harmless when it is gone

    sleeper = child_process.spawn([sys.executable, "-c", _WAIT_FOREVER], log_path=tmp_path / "log")
    with pytest.raises(TimedOut):
        sleeper.wait(0.05)
    sleeper.suspend()
    process = psutil.Process(sleeper.pid)
    eventually(lambda: process.status() == psutil.STATUS_STOPPED, "it is suspended")
    assert sleeper.stop(TIMEOUT) == 128 + signal.SIGTERM  # also wakes it up


_WAIT_FOREVER = "import time; time.sleep(600)"
_DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); " + (
    "time.sleep(600)"
)


def test_deaf_command_is_killed_after_the_grace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    deaf = child_process.spawn([sys.executable, "-c", _DEAF], log_path=log, grace=0.3)
    eventually(log.read_text, "it runs")
    deaf.release()
    assert deaf.wait(TIMEOUT) == 128 + signal.SIGKILL


def test_grace_lets_a_command_end_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    polite = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); "
        "print(1, flush=True); time.sleep(600)"
    )
    child = child_process.spawn([sys.executable, "-c", polite], log_path=log, grace=TIMEOUT)
    eventually(log.read_text, "it runs")
    child.release()
    assert child.wait(TIMEOUT) == 7


def test_missing_program_is_an_exit_code_and_a_log_line(tmp_path: Path) -> None:
    child = child_process.spawn([str(tmp_path / "absent")], log_path=tmp_path / "log")
    assert child.wait(TIMEOUT) == 127
    assert "absent" in child.log_path.read_text()


# Signals 32 and 33 belong to glibc's threads; no program sets them.
_OF_THE_C_LIBRARY = 0b11 << 31


def test_child_inherits_no_pipe_end_and_default_signals(tmp_path: Path) -> None:
    script = (
        "import os, signal; "
        "print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4], "
        "signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL, os.getpgid(0) == os.getpid())"
    )
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    # `sh` shows what exec passed on: Python itself would ignore SIGPIPE again.
    child = child_process.spawn(
        ["sh", "-c", 'grep SigIgn /proc/self/status; ls /proc/self/fd; exec "$0" -c "$1"',
         sys.executable, script],
        log_path=tmp_path / "log",
    )  # fmt: skip
    assert child.wait(TIMEOUT) == 0
    text = child.log_path.read_text()
    ignored = int(text.partition("SigIgn:")[2].split()[0], 16)
    assert ignored & ~_OF_THE_C_LIBRARY == 0
    assert text.endswith("True\n")
    assert "[0, 1, 2, 3]" in text  # 3 is the directory that is being listed


def test_supervisor_that_cannot_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_SUPERVISOR", tmp_path / "absent.py")
    with pytest.raises(Refused):
        child_process.spawn(["true"], log_path=tmp_path / "log")


_NODE_PARENT = """
import pathlib, sys, time
from k2ktui.runtime.node import KafkaNode
out = pathlib.Path(sys.argv[1])
node = KafkaNode("killed", out / "node").start()
(out / "pid.tmp").write_text(str(node.pid))
(out / "pid.tmp").rename(out / "pid")
time.sleep(600)
"""


def test_killed_parent_leaves_no_java(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _NODE_PARENT, str(tmp_path)], start_new_session=True
    )
    with _cleaned_up(parent):
        eventually((tmp_path / "pid").exists, "the node serves")
        java = int((tmp_path / "pid").read_text())
        assert "java" in psutil.Process(java).name()
        parent.kill()
        parent.wait(TIMEOUT)
        _gone([java])
