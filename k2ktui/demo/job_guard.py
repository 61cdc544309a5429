"""Ends the demo's jobs when the demo ends, however it ends; a program of its own.

These are all whose pipeline file is beside the demo's: also the reverse pipeline's, which a user
starts to go back after a failover.

It runs under a supervisor (``runtime/child_process.py``), which signals it when the demo ends, even
if the demo was killed. The job must not outlive its clusters, whichever console last started it.
"""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOP_S = 7.0


def main(config: Path) -> None:
    """Wait for a signal, then end the jobs of the pipelines of a directory, and forget them.

    Args:
        config: a pipeline file in that directory.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    # Import before the signal: afterwards time is short, and the files may be gone.
    from k2ktui.engine.access import access
    from k2ktui.jobs.local_jobs import Job, list_jobs
    from k2ktui.jobs.manager import StopMode, forget_job, stop_job

    allowed, directory = access(), config.parent

    def end(job: Job) -> None:
        if job.alive and stop_job(job, allowed, timeout=_STOP_S).alive:
            stop_job(job, allowed, StopMode.KILL, 2.0)
        forget_job(job)

    signal.sigwait(_ENDING)
    own = [job for job in list_jobs() if directory in map(_parent, job.record.files)]
    if own:
        with ThreadPoolExecutor(len(own)) as pool:
            list(pool.map(end, own))


def _parent(file: str) -> Path:
    return Path(file).parent


if __name__ == "__main__":
    main(Path(sys.argv[1]))
