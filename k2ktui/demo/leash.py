"""Ends the demo's job when the demo is over, however that ended: a program of its own.

It runs below a supervisor (:mod:`k2ktui.runtime.reaper`), which tells it to end when the demo does,
also when that was killed. Whichever console started the job last, it must not outlive its clusters.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOP_S = 7.0


def main(config: Path) -> None:
    """Wait for a signal, then end the job of a pipeline file and forget it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    # Loaded before the signal comes: then there is little time, and the file may be gone.
    from k2ktui.config.load import load
    from k2ktui.engine.access import access
    from k2ktui.jobs.manager import How, forget, look, stop
    from k2ktui.jobs.place import place_of

    place, allowed = place_of(load([config]).config), access()
    signal.sigwait(_ENDING)
    job = look(place)
    if job is None:
        return
    if job.alive and stop(job, allowed, timeout=_STOP_S).alive:
        stop(job, allowed, How.KILL, 2.0)
    forget(job)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
