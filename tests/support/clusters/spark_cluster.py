"""A real standalone Spark cluster on loopback, from PySpark's own jars.

Authentication and encryption are on, as ``docs/spark-cluster.md`` says.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pyspark
from packaging.requirements import Requirement

from k2ktui.native.binding import LIBRARY, VARIABLE
from k2ktui.runtime import child_process
from k2ktui.runtime.java import spark_java_home
from k2ktui.runtime.ports import LOOPBACK, HeldPort
from tests.support.clusters.kafka import eventually
from tests.support.records.native_library import SOURCE

_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_MEMORY = "512m"
_ADDRESS = ("--host", LOOPBACK, "--webui-port", "0")
_REGISTERED = "Successfully registered with master"
_START_S = 180.0  # on a loaded machine


class SparkCluster:
    """A master and workers of one core each, every one a process that cannot outlive the test.

    Args:
        directory: for logs, properties and the workers' directories.
        workers: how many.
        config: more of Spark's settings, for all processes and for pipelines.
    """

    def __init__(
        self, directory: Path, workers: int = 2, config: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.secret = secrets.token_hex(16)
        self._port = HeldPort()
        self._processes: list[child_process.ChildProcess] = []
        self._count = workers
        self._config = dict(config or {})

    @property
    def master(self) -> str:
        """``spark://host:port``."""
        return f"spark://{self._port.address}"

    @property
    def settings(self) -> dict[str, str]:
        """What a pipeline's ``spark.config`` needs for this cluster."""
        return {
            **self._common(),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executor.memory": _MEMORY,
        }

    def executors(self) -> list[psutil.Process]:
        """Return the executors' Java processes."""
        return [executor for worker in self.workers() for executor in executors_of(worker)]

    def workers(self) -> list[psutil.Process]:
        """Return the workers' Java processes that have not ended."""
        return [psutil.Process(p.pid) for p in self._processes[1:] if p.poll() is None]

    def await_decommissioning(self, times: int = 1) -> None:
        """Wait until the master knows of so many workers that they are decommissioned."""
        _await_line(self._processes[0], "Decommissioning worker", times)

    def suspended(self) -> tuple[psutil.Process, psutil.Process] | None:
        """Return an executor of which a Python worker is suspended, and that worker."""
        for executor in self.executors():
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in executor.children(recursive=True):
                    if process.status() == psutil.STATUS_STOPPED:
                        return executor, process
        return None

    def start(self) -> Self:
        """Start the master, then the workers, and wait until they know each other."""
        self._port.lend()
        number = str(self._port.number)
        master = self._spawn("master", f"{_DEPLOY}.master.Master", "--port", number, *_ADDRESS)
        _await_line(master, "I have been elected leader")
        for worker in [self._spawn_worker() for _ in range(self._count)]:
            _await_line(worker, _REGISTERED)
        return self

    def add_worker(self) -> None:
        """Start another worker, and wait until the master knows it."""
        _await_line(self._spawn_worker(), _REGISTERED)

    def close(self) -> None:
        """End all of it."""
        for process in reversed(self._processes):
            process.stop(10.0)
        self._port.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _common(self) -> dict[str, str]:
        return {
            **self._config,
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.network.crypto.enabled": "true",
            "spark.io.encryption.enabled": "true",
        }

    def _spawn_worker(self) -> child_process.ChildProcess:
        name = f"worker-{len(self._processes) - 1}"
        room = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / name)]
        main = f"{_DEPLOY}.worker.Worker"
        return self._spawn(name, main, *_ADDRESS, *room, self.master)

    def _spawn(self, name: str, main: str, *arguments: str) -> child_process.ChildProcess:
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "spark-defaults.conf"
        properties.touch(mode=0o600)
        properties.write_text("".join(f"{k} {v}\n" for k, v in self._common().items()))
        known = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        env = {
            **known,
            "SPARK_HOME": str(_HOME),
            "JAVA_HOME": str(spark_java_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_LOCAL_IP": LOOPBACK,
            # Where the tests have the core in C, executors that cannot load what they got fail.
            VARIABLE: "require" if SOURCE.with_name(LIBRARY).is_file() else "",
        }
        command = [str(_HOME / "bin" / "spark-class"), main, *arguments]
        process = child_process.spawn(
            [*command, "--properties-file", str(properties)],
            log_path=self.directory / f"{name}.log",
            env=env,
            cwd=self.directory,
        )
        self._processes.append(process)
        return process


def _await_line(process: child_process.ChildProcess, words: str, times: int = 1) -> None:
    def said() -> bool:
        text = process.log_path.read_text(errors="replace")
        assert process.poll() is None, f"ended with {process.poll()}:\n{text[-2000:]}"
        return text.count(words) >= times

    eventually(said, f"{process.log_path.name}: {words}", _START_S)


def executors_of(worker: psutil.Process) -> list[psutil.Process]:
    """Return the executors' Java processes of a worker."""
    try:
        below = worker.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in below if _EXECUTOR in _command(process)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def bare_python(directory: Path, packages: Iterable[str]) -> Path:
    """Make a Python that has these distributions, with what they need, and nothing else.

    It stands for the Python of another machine, without its time for downloads.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (site,) = directory.glob("lib/python*/site-packages")
    for name in _closure(packages):
        for file in importlib.metadata.files(name) or ():
            top = file.parts[0]
            link = site / top
            if top not in ("..", "__pycache__") and not link.exists():
                link.symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / top)
    return directory / "bin" / "python"


def can_import(python: Path, module: str) -> bool:
    """Whether that Python has a module."""
    done = subprocess.run(
        [str(python), "-c", f"import {module}"], cwd="/", capture_output=True, check=False
    )
    return done.returncode == 0


def _closure(packages: Iterable[str]) -> Iterator[str]:
    """Yield the distributions, such as ``name`` or ``name[extra]``, and all that they need."""
    waiting, seen = list(packages), set[str]()
    while waiting:
        wanted = Requirement(waiting.pop())
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name in seen:
            continue
        seen.add(name)
        yield name
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
            ):
                waiting.append(f"{needed.name}[{','.join(needed.extras)}]")
