"""Lets a Python process run as if on another host, with another wall clock.

Python imports this at its start if the directory is in ``PYTHONPATH``. Monotonic clocks, Java and
the brokers keep theirs.
"""

import os
import socket
import time

_SHIFT_S = int(os.environ.get("K2KTUI_TEST_CLOCK_S", "0"))
_HOST = os.environ.get("K2KTUI_TEST_HOST") or socket.gethostname()
_now, _now_ns = time.time, time.time_ns


def _shifted() -> float:
    return _now() + _SHIFT_S


def _shifted_ns() -> int:
    return _now_ns() + _SHIFT_S * 1_000_000_000


def _name() -> str:
    return _HOST


time.time, time.time_ns, socket.gethostname = _shifted, _shifted_ns, _name
