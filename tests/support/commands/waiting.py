"""How long a call waits, on a machine that is busy with other things too."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

# A refused connection is reported within three seconds, by every command.
PROMPT_S = 3.0
_ATTEMPTS = 4


def seconds_waited(call: Callable[[], object], enough: float) -> float:
    """Return the seconds that a call waits: for time-outs, pauses and answers.

    The time in which this thread runs, or could run if a processor were free, is not counted. Other
    threads that it waits for can be delayed as well, therefore the least of four attempts counts:
    a pause or a time-out of the program is part of each of them, a delay by the machine is not.

    Args:
        call: what is measured; called again until it waits less than ``enough`` seconds.
        enough: seconds.
    """
    least = float("inf")
    for _ in range(_ATTEMPTS):
        ran, began = _ran_or_could_run(), time.monotonic()
        call()
        least = min(least, time.monotonic() - began - (_ran_or_could_run() - ran))
        if least < enough:
            break
    return least


def _ran_or_could_run() -> float:
    """Return the seconds that this thread had or wanted a processor, as Linux counts them."""
    try:
        ran_ns, queued_ns, _ = Path("/proc/thread-self/schedstat").read_text().split()
    except OSError:  # another system
        return time.thread_time()
    return (int(ran_ns) + int(queued_ns)) / 1e9
