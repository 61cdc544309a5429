"""Executors of a Spark cluster: shipping code to them and checking that they can run tasks.

Not needed for local masters, whose tasks run next to the driver.
"""

from __future__ import annotations

import platform
import re
import socket
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from hashlib import sha256
from pathlib import Path
from typing import Any

from k2ktui.errors import K2kError
from k2ktui.native.binding import CHECKSUM, LIBRARY, SHIPPED_LIBRARY
from k2ktui.replication.copying.slot_task import REPEATED
from k2ktui.text import safe_message, safe_text

# Clusters that start executors on request may have to find a machine for them first.
_FIRST_TASK_S = 120.0
# Executors register one by one; after this long without a new one, all are assumed registered.
_SETTLED_S = 1.5
_SETTLING_S = 15.0
_POLL_S = 0.1
_LONGEST_REASON = 400
_GUIDE = "See docs/spark-cluster.md for the requirements of executors."
# The last line of a Python traceback, and Spark's own first line.
_RAISED = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception)): (.*)$", re.MULTILINE)
# The same in what a worker wrote before it served, which Spark's report indents and frames.
_WORKER_RAISED = re.compile(r"^ +(\w+(?:Error|Exception)): (.*)$", re.MULTILINE)
_TASK_FAILED = re.compile(r"\(TID \d+\) \([^)]*\): (?:[\w.$]+\.)?(\w+: .*)")
# A Spark error with its condition, such as [CAST_INVALID_INPUT], or one of Arrow's.
_QUOTING = re.compile(r"([^\[]*\[[A-Z][A-Z0-9_.]*\]|(?:pyarrow\.lib\.)?Arrow\w+)")
# Java's report of an exception that ended it: the exceptions, outermost first, and their stacks.
_CAUSE = re.compile(r"(?:Exception in thread \S+|Caused by:) (?:[\w.$]+\.)?(\w+: .*|\w+$)")
_STACK = re.compile(r"\s+(?:at |\.\.\. \d+ more)")
_LOST = re.compile(r"(ExecutorLostFailure.*|Job .*cancelled.*|.*SparkContext was shut down.*)")


def ship_code(context: Any, directory: Path) -> None:
    """Send this package's code to the executors; its dependencies must be installed there.

    Args:
        context: the Spark context.
        directory: where to write the archive; executors fetch it from the driver on demand.
    """
    archive, library = write_code(directory)
    if library is not None:
        context.addFile(str(library))  # Spark puts it beside the archive
    context.addPyFile(str(archive))


def write_code(directory: Path) -> tuple[Path, Path | None]:
    """Write an archive of this package's code, and the library of its core if there is one.

    A library cannot be loaded from an archive. The archive has its checksum.
    """
    root = Path(__file__).parents[2]
    library = root / "native" / LIBRARY
    content = library.read_bytes() if library.is_file() else None
    shipped = directory / "k2ktui.zip"
    with zipfile.ZipFile(shipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("k2ktui") / path.relative_to(root))
        if content is not None:
            archive.writestr(f"k2ktui/native/{CHECKSUM}", sha256(content).hexdigest())
    if content is None:
        return shipped, None
    beside = directory / SHIPPED_LIBRARY
    beside.write_bytes(content)
    return shipped, beside


def await_executors(
    context: Any, master: str, submit: Callable[[Callable[[], Any]], Future[Any]]
) -> None:
    """Wait until executors have registered, and check that they can run k2ktui's tasks.

    Args:
        context: the Spark context.
        master: Spark master URL, for messages.
        submit: runs a call in another thread.

    Raises:
        K2kError: no executor accepted a task in time, or the executor could not run it.
    """

    def try_out() -> list[str]:
        context.setJobDescription("trial of an executor")
        return list(context.parallelize([0], 1).mapPartitions(_try_out).collect())

    trial = submit(try_out)
    try:
        (missing,) = trial.result(_FIRST_TASK_S)
    except TimeoutError as error:
        context.cancelAllJobs()
        raise K2kError(
            f"{safe_text(master)} provided no executor within {_FIRST_TASK_S:g} s",
            unchanged="Nothing was written.",
            hint="Check that it has workers with free cores and memory (spark.cores.max, "
            "spark.executor.memory), and that they can connect to this machine "
            "(spark.driver.host, spark.driver.port).",
        ) from error
    except Exception as error:
        # To print the cause calls Java, which may never answer.
        raise _unfit(spark_reason(error)) from None
    if missing:
        raise _unfit(missing)
    _settle(context)


def _try_out(_: Iterator[int]) -> Iterator[str]:
    """Runs on an executor: yield why tasks cannot run there, or "" if they can."""
    try:
        import k2ktui.kafka.auth.security
        import k2ktui.replication.copying.slot
        import k2ktui.replication.copying.worker  # noqa: F401
    except ImportError as error:
        yield f"{error} (on {socket.gethostname()}, Python {platform.python_version()})"
    else:
        # kafka-python reads bytes inside assertions.
        yield f"PYTHONOPTIMIZE is set on {socket.gethostname()}" if sys.flags.optimize else ""


def _unfit(reason: str) -> K2kError:
    return K2kError(
        f"executors cannot run tasks: {safe_message(reason, _LONGEST_REASON)}",
        unchanged="Nothing was written.",
        hint="Install the same Python version and k2ktui's dependencies there, and set "
        f"spark.pyspark.python to that Python. {_GUIDE}",
    )


def _settle(context: Any) -> None:
    began = changed = time.monotonic()
    cores = context.defaultParallelism
    while time.monotonic() - changed < _SETTLED_S and time.monotonic() - began < _SETTLING_S:
        time.sleep(_POLL_S)
        if context.defaultParallelism != cores:
            cores, changed = context.defaultParallelism, time.monotonic()


def runs_task(context: Any, group: str) -> bool:
    """Return whether Spark is running a task of a job group."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)


def spark_reason(error: BaseException) -> str:
    """Return why a Spark job failed, in one line: the task's exception or how it was lost."""
    inner = getattr(error, "java_exception", None)
    text = str(inner.getMessage() if inner is not None else error) or type(error).__name__
    if REPEATED in text:
        return REPEATED
    lost = _LOST.search(text)
    raised = _RAISED.findall(text)
    if lost:
        return safe_message(lost[1], _LONGEST_REASON)
    if raised:
        return safe_message(": ".join(raised[-1]), _LONGEST_REASON)
    return safe_message(text.strip().splitlines()[0], _LONGEST_REASON)


def worker_reason(error: BaseException) -> str:
    """Return why a Python worker has not started, in one line: its own exception, or Java's."""
    inner = getattr(error, "java_exception", None)
    text = str(inner.getMessage() if inner is not None else error)
    raised = [match for match in _WORKER_RAISED.findall(text) if match[1]]
    if raised:
        return safe_message(": ".join(raised[-1]), _LONGEST_REASON)
    failed = _TASK_FAILED.search(text)
    return safe_message(failed[1], _LONGEST_REASON) if failed else spark_reason(error)


def java_reason(lines: Sequence[str]) -> str:
    """Return why a Java process ended, in one line of its log: the first cause, not its stack."""
    causes = [match[1] for line in lines if (match := _CAUSE.match(line))]
    said = [line.strip() for line in lines if not _STACK.match(line)]
    return safe_message((causes or said or [""])[-1], _LONGEST_REASON)


def transform_reason(error: BaseException) -> str:
    """Return why the job of a transform failed, as ``spark_reason``, without contents of records.

    Spark's message of an error in data quotes the value, and so does Arrow's.
    """
    reason = spark_reason(error)
    match = _QUOTING.match(reason)
    return f"{match[1]} (its message may quote a record and is left out)" if match else reason
