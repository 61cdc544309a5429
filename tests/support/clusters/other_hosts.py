"""Processes that run as if on other hosts: none of them sees whether one of another host lives."""

from __future__ import annotations

import os
from pathlib import Path

_DIRECTORY = Path(__file__).parent / "other_host"


def other_host(name: str, clock_s: int = 0) -> dict[str, str]:
    """Return the environment variables of a Python process of another host.

    Args:
        name: of the host.
        clock_s: seconds by which its clock is wrong. Brokers refuse timestamps that are more than
            an hour later than their own.
    """
    paths = (str(_DIRECTORY), os.environ.get("PYTHONPATH", ""))
    return {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "K2KTUI_TEST_HOST": name,
        "K2KTUI_TEST_CLOCK_S": str(clock_s),
    }
