"""A flag that a signal handler sets while the same thread waits for it."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread

import pytest

from k2ktui.runtime.stop_flag import StopFlag

# A handler interrupts wait() at any of its steps, some thousand times.
_INTERRUPTED = """
import faulthandler, signal, sys
from k2ktui.runtime.stop_flag import StopFlag

faulthandler.dump_traceback_later(60, exit=True)
flag = StopFlag()
signal.signal(signal.SIGALRM, lambda *_: flag.set())
for step in range(3000):
    flag = StopFlag()
    signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + step % 40))
    while not flag.wait(1e-5):
        pass
print("done")
"""


def test_a_signal_handler_sets_it_at_any_moment() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr


def test_every_waiter_returns() -> None:
    flag = StopFlag()
    waiters = [Thread(target=flag.wait, args=(60.0,), daemon=True) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    flag.set()
    for waiter in waiters:
        waiter.join(30)
    assert not any(waiter.is_alive() for waiter in waiters)


@pytest.mark.parametrize("timeout", [0.0, 0.001])
def test_nothing_is_set_by_waiting(timeout: float) -> None:
    flag = StopFlag()
    assert not flag.wait(timeout)
    assert not flag.is_set()
