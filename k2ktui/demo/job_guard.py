"""Ends the demo's job when the demo ends, however it ends; a program of its own.

It runs under a supervisor (``runtime/child_process.py``), which signals it when the demo ends, even
if the demo was killed. The job must not outlive its clusters, whichever console last started it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOP_S = 7.0


def main(config: Path) -> None:
    """Wait for a signal, then end the job of a pipeline file and remove its record."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    # Import and load before the signal: afterwards time is short, and the file may be gone.
    from k2ktui.config.load import load
    from k2ktui.engine.access import access
    from k2ktui.jobs.job_directory import job_directory
    from k2ktui.jobs.local_jobs import read_job
    from k2ktui.jobs.manager import StopMode, forget_job, stop_job

    place, allowed = job_directory(load([config]).config), access()
    signal.sigwait(_ENDING)
    job = read_job(place)
    if job is None:
        return
    if job.alive and stop_job(job, allowed, timeout=_STOP_S).alive:
        stop_job(job, allowed, StopMode.KILL, 2.0)
    forget_job(job)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
