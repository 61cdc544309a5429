"""Shifts the wall clock of a Python process by ``K2KTUI_TEST_CLOCK_S`` seconds.

Python imports this at its start if the directory is in ``PYTHONPATH``. Monotonic clocks, Java and
the brokers keep theirs.
"""

import os
import time

_SHIFT_S = int(os.environ.get("K2KTUI_TEST_CLOCK_S", "0"))
_now, _now_ns = time.time, time.time_ns


def _shifted() -> float:
    return _now() + _SHIFT_S


def _shifted_ns() -> int:
    return _now_ns() + _SHIFT_S * 1_000_000_000


time.time, time.time_ns = _shifted, _shifted_ns
