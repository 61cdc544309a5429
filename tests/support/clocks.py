"""Processes whose wall clocks differ from this one's."""

from __future__ import annotations

import os
from pathlib import Path

_DIRECTORY = Path(__file__).parent / "shifted_clock"


def shift_clock(seconds: int) -> dict[str, str]:
    """Return the environment variables of a Python process whose clock is wrong by ``seconds``.

    Brokers refuse timestamps that are more than an hour later than their own.
    """
    paths = (str(_DIRECTORY), os.environ.get("PYTHONPATH", ""))
    return {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "K2KTUI_TEST_CLOCK_S": str(seconds),
    }
