"""The job's own side: it detaches from its parent, and records its identity and its end."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

from k2ktui.errors import Refused
from k2ktui.jobs import joblog
from k2ktui.jobs.job_directory import JobDirectory, Phase
from k2ktui.jobs.process import this_process

log = logging.getLogger(__name__)


class JobProcess:
    """The job that runs in this process.

    Args:
        directory: the job's directory; the starter has written a record there.
        lock: descriptor that holds the lock.

    Raises:
        Refused: there is no record.
    """

    def __init__(self, directory: Path, lock: int) -> None:
        self._place = JobDirectory(directory)
        self._lock = lock
        # A signal handler may record the end while the main thread is writing.
        self._writing = threading.RLock()
        record = self._place.read()
        if record is None:
            raise Refused("jobs run is an internal command", hint="Use k2ktui jobs start.")
        self.record = record

    def detach(self) -> None:
        """Fork: the job continues in the child, the calling process exits here.

        The parent exits only after the child has written its record, so a starter that waits for
        the parent finds the job.
        """
        told, tells = os.pipe()
        if os.fork():
            os.close(tells)
            # The pipe is empty if the child died before it could write.
            os._exit(0 if os.read(told, 1) else 1)
        os.close(told)
        # Child processes must not inherit the lock.
        os.set_inheritable(self._lock, False)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        joblog.BoundedLog(self._place).start()
        me = this_process()
        self._change(pid=me.pid, birth=me.birth)
        log.info("job %s runs as pid %d", self._place.id, me.pid)
        record = self.record
        joblog.write_event(
            "job", time(), start=record.start, version=record.version, pid=record.pid
        )
        os.write(tells, b".")
        os.close(tells)

    def record_standby(self) -> None:
        """Record that the run waits for others."""
        self._try_change(phase=Phase.STANDBY)

    def record_begin(self, term: int, slots: int) -> None:
        """Record that copying has begun."""
        self._try_change(phase=Phase.RUNNING, term=term, slots=slots)

    def record_end(self, code: int, error: str = "") -> None:
        """Record the end; safe to call from a signal handler."""
        now = time()
        with contextlib.suppress(Refused):
            self._change(phase=Phase.ENDED, ended_at=now, code=int(code), error=error)
        joblog.write_event("ended", now, code=int(code))

    def _try_change(self, **values: Any) -> None:
        try:
            self._change(**values)
        except Refused as error:  # a full disk must not end replication
            log.warning("job %s: %s", self._place.id, error.message)

    def _change(self, **values: Any) -> None:
        with self._writing:
            self.record = replace(self.record, **values)
            self._place.write(self.record)
