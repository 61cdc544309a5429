"""The Spark session that runs laps, and one job a lap.

A task is never retried by Spark and never speculated: a slot's token is good for one task only.
Secrets travel inside the task's closure, which Spark keeps in memory; data given to
``parallelize`` would be written to a temporary file.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import k2ktui
from k2ktui.config.model import Spark
from k2ktui.errors import K2kError
from k2ktui.replication.tokens import SlotResult, Token
from k2ktui.replication.worker import run_slot
from k2ktui.runtime.java import spark_java_home

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_JOB_GROUP = "k2ktui-lap"
_MAX_JOBS = 512

# What the protocol stands on; a pipeline file may not change these.
_FIXED = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
}
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.python.worker.reuse": "true",
    "spark.eventLog.enabled": "false",
}


def local_cores(master: str) -> int | None:
    """Return how many tasks a local master runs at once, None for a cluster's master."""
    found = _LOCAL.fullmatch(master.strip())
    if found is None:
        return None
    wanted = found[1]
    if wanted == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(wanted or 1)


class SparkRuntime:
    """A Spark session and the jobs on it.

    Args:
        settings: the pipeline's ``spark`` section.
        name: application name.
        source: wire options of the source, for the tasks.
        target: wire options of the target.
    """

    def __init__(
        self, settings: Spark, name: str, source: Mapping[str, Any], target: Mapping[str, Any]
    ) -> None:
        self._settings = settings
        self._name = name
        self._options = (dict(source), dict(target))
        self._jobs: ThreadPoolExecutor | None = None
        self._session: Any = None
        self._shipped: Path | None = None

    def start(self) -> None:
        """Start or join Spark.

        Raises:
            K2kError: Spark did not start; the message has Spark's reason.
        """
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ["JAVA_HOME"] = str(spark_java_home())
        from pyspark.sql import SparkSession  # slow to import; commands without jobs do without

        builder = SparkSession.builder.master(self._settings.master).appName(self._name)
        for key, value in {**_DEFAULTS, **self._settings.config, **_FIXED}.items():
            builder = builder.config(key, value)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        try:
            self._session = builder.getOrCreate()
        except Exception as error:
            raise K2kError(
                f"Spark did not start with master {self._settings.master}: "
                f"{str(error).splitlines()[0]}",
                unchanged="Nothing was written.",
                mend="Check spark.master and spark.config; k2ktui check shows the Java it uses.",
            ) from None
        context = self._session.sparkContext
        context.setLogLevel("OFF")
        if local_cores(self._settings.master) is None:
            self._ship(context)

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        return int(self._session.sparkContext.defaultParallelism)

    def submit(self, tokens: Sequence[Token]) -> Future[list[SlotResult]]:
        """Run a job: a task a token. The future fails if Spark lost a task."""
        if self._jobs is None:
            self._jobs = ThreadPoolExecutor(_MAX_JOBS, thread_name_prefix="lap")
        return self._jobs.submit(self._run, tuple(tokens))

    def _run(self, tokens: tuple[Token, ...]) -> list[SlotResult]:
        context = self._session.sparkContext
        context.setJobGroup(_JOB_GROUP, self._name, interruptOnCancel=True)
        source, target = self._options

        def task(indexes: Iterator[int]) -> Iterator[SlotResult]:
            from pyspark import TaskContext

            attempt = TaskContext.get()
            if attempt is not None and attempt.attemptNumber() > 0:
                raise RuntimeError("a slot's token is good for one attempt only")
            for index in indexes:
                yield run_slot(tokens[index], source, target)

        count = len(tokens)
        found: list[SlotResult] = (
            context.parallelize(range(count), count).mapPartitions(task).collect()
        )
        return found

    def cancel(self) -> None:
        """Stop the running lap's tasks; its future fails."""
        if self._session is not None:
            self._session.sparkContext.cancelJobGroup(_JOB_GROUP)

    def stop(self) -> None:
        """End the session and its processes."""
        if self._session is not None:
            self._session.stop()
            self._session = None
        if self._jobs is not None:
            self._jobs.shutdown(wait=False, cancel_futures=True)
        if self._shipped is not None:
            self._shipped.unlink(missing_ok=True)

    def _ship(self, context: Any) -> None:
        """Send this package's code to the executors; its dependencies must be installed there."""
        root = Path(k2ktui.__file__).parent
        handle, name = tempfile.mkstemp(prefix="k2ktui-", suffix=".zip")
        os.close(handle)
        self._shipped = Path(name)
        with zipfile.ZipFile(self._shipped, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(root.rglob("*.py")):
                archive.write(path, Path("k2ktui") / path.relative_to(root))
        context.addPyFile(str(self._shipped))
