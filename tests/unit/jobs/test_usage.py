"""What a job's processes use: its children count, and what is not known is not made up."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

from k2ktui.jobs.process import ProcessIdentity
from k2ktui.jobs.usage import UsageReader
from k2ktui.runtime.host import birth_of
from tests.support.clusters.kafka import TIMEOUT

# Starts a child that keeps a processor busy and 64 MiB of memory.
_PARENT = """
import subprocess, sys
code = "kept = b'x' * (64 << 20); print(flush=True)\\nwhile True: pass"
subprocess.run([sys.executable, "-c", code])
"""


def test_memory_and_processors_of_a_process_and_its_children() -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            parent.stdout.readline()
            identity = ProcessIdentity(parent.pid, birth_of(parent.pid))
            reader = UsageReader()
            first = reader.read(identity, time.monotonic())
            assert first is not None
            assert first.memory > 64 << 20
            assert first.memory_limit <= psutil.virtual_memory().total
            assert first.cores is None and first.cores_limit >= 1
            cores = 0.0
            end = time.monotonic() + TIMEOUT
            while not cores and time.monotonic() < end:
                time.sleep(0.1)
                again = reader.read(identity, time.monotonic())
                assert again is not None and again.cores is not None
                cores = again.cores
            assert cores > 0
        finally:
            for child in psutil.Process(parent.pid).children():
                child.kill()
            parent.kill()
    assert reader.read(identity, time.monotonic()) is None


def test_a_process_that_does_not_run_uses_nothing() -> None:
    assert UsageReader().read(ProcessIdentity(2**22 + 1, "x/1"), 0.0) is None
