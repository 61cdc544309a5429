"""What other users of the same host get from a running pipeline: docs/security.md, sentence by
sentence."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark import settings as spark_settings
from k2ktui.replication.spark.settings import spark_properties
from tests.support.clusters import spark_peer
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.commands.watch import files

T = TypeVar("T")
SECRET = "kafka-p4ssw0rd"
LOOPBACK = "127.0.0.1"

_RUN = """
import os, sys, time
from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark import session, settings as spark_settings
from k2ktui.replication.spark.session import SparkRuntime

os.umask(0)
if sys.argv[2] == "open":
    spark_settings.LOCAL_PROTECTION = {}
secrets = {"client_dns_lookup": "no such way", "sasl_plain_password": sys.stdin.read()}
settings = SparkSettings(master="local[1]", config={sys.argv[3]: "true"})
runtime = SparkRuntime(settings, "test", secrets, {})
runtime.start()
runtime.warm_up(1).result()
session._LOCAL_WARM_S = 600.0  # a task that runs as long as it is looked at
runtime.warm_up(1)
while not runtime._context.statusTracker().getActiveJobsIds():
    time.sleep(0.01)
print("ran", flush=True)
os.read(int(sys.argv[1]), 1)
runtime._context.cancelAllJobs()
runtime.stop()
"""


@contextmanager
def spark(directory: Path, protected: bool, extra: str = "k2ktui.test") -> Iterator[psutil.Process]:
    """A process whose Spark has run a task that holds the secret."""
    directory.mkdir()
    waits, ends = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _RUN, str(waits), "protected" if protected else "open", extra],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(waits,),
        env={**os.environ, "TMPDIR": str(directory)},
    ) as process:
        try:
            assert process.stdin and process.stdout
            process.stdin.write(SECRET.encode())
            process.stdin.close()
            assert process.stdout.readline() == b"ran\n"
            yield psutil.Process(process.pid)
            os.write(ends, b".")
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            os.close(waits)
            os.close(ends)


def ask(question: Callable[[int], T], ports: list[int]) -> list[T]:
    """Ask all ports at once; most do not answer at all."""
    with ThreadPoolExecutor(len(ports)) as pool:
        return list(pool.map(question, ports))


def tasks(port: int) -> bytes:
    """Return what a port gives of the first two jobs' tasks."""
    return b"".join(spark_peer.block(port, f"broadcast_{number}") for number in range(2))


@pytest.mark.slow
def test_others_cannot_read_tasks_from_the_ports(tmp_path: Path) -> None:
    with spark(tmp_path / "run", protected=True) as process:
        listening = spark_peer.listening(process)
        ports = [port for _, port in listening]
        assert len(ports) >= 4, "the driver's RPC, its block manager, py4j and the worker's daemon"
        assert set(listening.values()) == {LOOPBACK}

        for descendant in (process, *process.children(recursive=True)):
            if descendant.status() == psutil.STATUS_ZOMBIE:
                continue
            assert not any(SECRET in word for word in descendant.cmdline())
            assert stat.S_IMODE(Path(f"/proc/{descendant.pid}/environ").stat().st_mode) == 0o400
            assert "_SPARK_AUTH_SECRET" not in descendant.environ()

        assert ask(tasks, ports) == [b""] * len(ports)
        assert not any(ask(spark_peer.takes_objects, ports))
        assert not any(SECRET.encode() in said for said in ask(spark_peer.any_file, ports))
        py4j = partial(ask, spark_peer.gateway, ports)
        eventually(lambda: any(b"Authentication error" in said for said in py4j()), "py4j refuses")
        daemon = partial(ask, spark_peer.python_worker, ports)
        eventually(lambda: b"\0\0\0\3err" in daemon(), "the worker's daemon refuses")

        # With umask 0: what keeps others out is the directories' own modes.
        written = list(files(tmp_path / "run"))
        assert written
        assert [f for f in written if not is_private(f, tmp_path / "run")] == []
        assert not any(SECRET.encode() in f.read_bytes() for f in written)
    assert list((tmp_path / "run").iterdir()) == []


def is_private(file: Path, root: Path) -> bool:
    """Whether a directory between a file and ``root`` lets only its owner in."""
    above = file.parents[: file.parents.index(root)]
    return any(stat.S_IMODE(parent.stat().st_mode) == 0o700 for parent in above)


@pytest.mark.slow
def test_without_protection_they_could(tmp_path: Path) -> None:
    """So the test above asks the right questions. The web UI stays on loopback, if it is on."""
    with spark(tmp_path / "run", protected=False, extra="spark.ui.enabled") as process:
        listening = spark_peer.listening(process)
        ports = [port for _, port in listening]
        assert len(ports) >= 5 and set(listening.values()) == {LOOPBACK}
        eventually(lambda: SECRET.encode() in b"".join(ask(tasks, ports)), "a task is given")
        eventually(lambda: any(ask(spark_peer.takes_objects, ports)), "an object is read")


def test_a_file_cannot_turn_protection_off(tmp_path: Path) -> None:
    wanted = dict.fromkeys(spark_settings.LOCAL_PROTECTION, "false")
    settings = SparkSettings(
        master="local[2]", config={**wanted, "spark.network.crypto.saslFallback": "y"}
    )
    properties = spark_properties(settings, "test", tmp_path, tmp_path)
    assert {n: properties[n] for n in wanted} == dict(spark_settings.LOCAL_PROTECTION)
    assert "spark.authenticate.secret" not in properties, "Spark makes one, in memory"
