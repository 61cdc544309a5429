"""The Spark session that runs laps, one job per lap.

Spark never retries or speculates a task: a slot's epoch is valid for one task attempt only.
Secrets travel inside the task's closure, which Spark keeps in memory; data passed to
``parallelize`` would be written to a temporary file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from k2ktui import diagnostics
from k2ktui.config.model import SparkSettings
from k2ktui.engine.transforms.model import Transform
from k2ktui.errors import ConnectionFailed, ExitCode, K2kError, Refused
from k2ktui.replication import _pyspark
from k2ktui.replication.copying.slot_task import REPEATED, SlotResult, SlotTask
from k2ktui.replication.copying.worker import (
    BothOptions,
    open_connections,
    refused_result,
    run_pickled,
)
from k2ktui.replication.spark.archive import make_missing_archive
from k2ktui.replication.spark.executors import (
    await_executors,
    java_reason,
    runs_task,
    ship_code,
    spark_reason,
    transform_reason,
    worker_reason,
)
from k2ktui.replication.spark.java import SparkJava
from k2ktui.replication.spark.lap_logins import LapLogins
from k2ktui.replication.spark.settings import is_local, require_safe
from k2ktui.replication.transforms.job import TransformJobs
from k2ktui.runtime.host import has_user_name
from k2ktui.runtime.java import exported_options
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.replication.transforms.schemas import TransformSchemas

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_JOB_GROUP, _MAX_JOBS = "k2ktui-lap", 1024  # more than LARGEST_SHARED_SLOTS
_WARM_UP_GROUP = "k2ktui-warm-up"
_WARM_S, _LOCAL_WARM_S = 0.3, 0.0
_STARTS = 3
# Time limit of Py4J calls, which have no timeout.
_ANSWER_S = 10.0
# Time limit of the first workers' attempts, for a lap that has lost its own.
_WORKERS_S = 60.0


class LapLost(Exception):
    """Spark lost a task, for example with its executor; the text says how."""


def collect_all(
    context: Any, count: int, task: Callable[[Iterator[int]], Iterator[_T]]
) -> list[_T]:
    """Run so many tasks of one result each, and return the results.

    If Java ends while it sends them, PySpark takes the end of its socket for the end of the results
    (``Serializer.load_stream``): fewer come, and no error.

    Raises:
        EOFError: not all results came.
        Exception: as PySpark's ``collect``.
    """
    results: list[_T] = context.parallelize(range(count), count).mapPartitions(task).collect()
    if len(results) != count:
        raise EOFError(f"Spark ended when it had sent {len(results)} of {count} results")
    return results


class SparkEnded(K2kError):
    """Spark has ended and could not be restarted: no further lap can run."""


class NoWorkers(SparkEnded):
    """Spark's Python workers on this machine do not start: no lap can run."""

    exit_code = ExitCode.REFUSED


def _lap(
    tasks: Sequence[SlotTask], options: BothOptions
) -> Callable[[Iterator[int]], Iterator[SlotResult]]:
    """Return what the tasks of a job run: each a lap of one slot."""
    # Bytes in place of objects: Spark's own pickling calls Python for each of thousands.
    pickled = [pickle.dumps(task) for task in tasks]

    def task(indexes: Iterator[int]) -> Iterator[SlotResult]:
        from pyspark import TaskContext

        attempt = TaskContext.get()
        if attempt is not None and attempt.attemptNumber() > 0:
            raise RuntimeError(REPEATED)
        for index in indexes:
            yield run_pickled(pickled[index], options)

    return task


class SparkRuntime:
    """A Spark session and its jobs.

    If Spark has ended (its Java process was killed, a cluster dropped the application), the next
    job restarts it. Tasks of an old session that still run are harmless: by then the driver has
    bumped their epochs.

    Args:
        settings: the pipeline's ``spark`` section.
        name: application name.
        source: connection options of the source cluster, for the tasks.
        target: connection options of the target cluster, for the tasks.
        transforms: it will transform records.
        schemas: the schemas that transforms need; None for none.
        java: the Java process of the first session, if it was started before.
    """

    def __init__(
        self,
        settings: SparkSettings,
        name: str,
        source: Mapping[str, Any],
        target: Mapping[str, Any],
        *,
        transforms: bool = False,
        schemas: TransformSchemas | None = None,
        java: SparkJava | None = None,
    ) -> None:
        self._settings = settings
        self._name = name
        self._logins = LapLogins(source, target)
        self._jobs: ThreadPoolExecutor | None = None
        self._groups: dict[Future[list[SlotResult]], str] = {}
        self._numbers = count(1)
        self._context: Any = None
        self._java: SparkJava | None = None
        self._ahead = java
        self._with_transforms = transforms
        self._schemas = schemas
        self._transforms: TransformJobs | None = None
        self._changing = threading.Lock()
        self._over = False
        self._end_reported: Any = None  # the context whose end a failed lap has reported
        self._warming: Future[None] | None = None  # of the context's first workers

    def start(self) -> None:
        """Start or join Spark.

        Raises:
            Refused: Spark did not start; the message includes Spark's reason.
            ConnectionFailed: Spark's master did not accept the application.
        """
        java, self._ahead = self._ahead, None
        if java is None:
            java = SparkJava(self._settings, self._name, transforms=self._with_transforms)
        self._java = java
        try:
            self._begin(java)
            require_safe(self._context.getConf().getAll())
            if not is_local(self._settings.master):
                ship_code(self._context, java.directory)
                await_executors(self._context, self._settings.master, self._pool().submit)
        except Exception as error:
            reason = java.why_rejected()
            if reason:
                raise self._was_rejected(reason) from error
            if isinstance(error, K2kError):
                raise
            raise self._did_not_start(java, error) from error
        make_missing_archive(self._settings, transforms=self._with_transforms)

    def _begin(self, java: SparkJava) -> None:
        from pyspark import SparkContext  # slow import; only commands with jobs need it

        # py4j also logs to the root logger, which without a handler writes to the terminal.
        diagnostics.set_up()
        gateway = java.connect()
        if not has_user_name():
            _pyspark.name_user(gateway, str(os.getuid()))
        self._context = SparkContext(gateway=gateway)
        log.info("Spark %s started: %s", self._context.version, self._settings.master)
        _pyspark.silence_lost_java(self._context)
        self._transforms = TransformJobs(self._context, self._logins.options, self._schemas)
        java.forget_properties()

    def _did_not_start(self, java: SparkJava, error: Exception) -> Refused:
        # Without a gateway, only Java's log has the reason.
        words = java_reason(java.said()) if java.gateway is None else ""
        return Refused(
            f"Spark did not start with master {safe_text(self._settings.master)}: "
            + safe_message(words or spark_reason(error), 600),
            unchanged="Nothing was written.",
            hint="Check spark.master and spark.config; k2ktui check shows the Java it uses."
            + "".join(f" {name} is set: its options count." for name in exported_options()),
        )

    def _was_rejected(self, reason: str) -> K2kError:
        """Return the error for a master that accepts connections, and not the application."""
        return ConnectionFailed(
            f"Spark's master {safe_text(self._settings.master)} did not accept the application: "
            + safe_message(reason, 600),
            unchanged="Nothing was written.",
            hint="Check that a Spark master of the driver's version listens there, and that "
            "spark.authenticate, its secret and spark.network.crypto are the same on both sides. "
            "See docs/spark-cluster.md.",
        )

    def run_once(self, tasks: int, timeout: float, transform: Transform | None = None) -> None:
        """Start a session, run one job in Python workers, and wait until Java has ended.

        Args:
            tasks: number of tasks of the job, which do nothing.
            timeout: seconds for Java to end.
            transform: a transform to run in the job as well.

        Raises:
            Exception: Spark did not start, the job failed, or Java did not end in time.
        """
        self.start()
        gateway, context = self._gateway, self._context
        try:
            self._describe(_WARM_UP_GROUP, "warm-up")
            context.parallelize(range(tasks), tasks).mapPartitions(lambda rows: rows).collect()
            if transform is not None:
                self.transforms.warm_up(transform, tasks)
        finally:
            self.stop()
        _pyspark.await_java_end(gateway, timeout)

    @property
    def _gateway(self) -> Any:
        return None if self._java is None else self._java.gateway

    @property
    def transforms(self) -> TransformJobs:
        """The jobs of transforms in this session, which must have been started."""
        assert self._transforms is not None
        return self._transforms

    def check_transforms(self, transforms: Iterable[tuple[str, Transform]]) -> None:
        """Check the plans of transforms, each with its name in the file; raises ConfigError."""
        self.transforms.check(transforms)

    def warm_up(self, tasks: int) -> Future[None]:
        """Start the workers and connections of so many slots while the driver is preparing.

        On this machine, the future fails with NoWorkers if none starts. Then laps fail with it.
        """
        options = self._logins.options()
        # Occupy a worker, so that the next task gets another one. On this machine, all tasks begin
        # at once anyway, and the first laps wait for the end.
        occupied_s = _LOCAL_WARM_S if is_local(self._settings.master) else _WARM_S

        def task(_: Iterator[int]) -> Iterator[int]:
            open_connections(options)
            time.sleep(occupied_s)
            yield 0

        def job() -> None:
            for left in reversed(range(_STARTS)):
                try:
                    self._describe(_WARM_UP_GROUP, "warm-up")
                    self._context.parallelize(range(tasks), tasks).mapPartitions(task).collect()
                    return
                except Exception as error:
                    # On a cluster, executors have been tried.
                    if not is_local(self._settings.master) or self._ended_message(self._context):
                        raise
                    log.warning("no worker has started (%d more attempts)", left)
                    if not left:
                        # To print the cause calls Java, which may never answer.
                        raise self._no_workers(error) from None

        self._warming = self._pool().submit(job)
        return self._warming

    def _no_workers(self, error: Exception) -> NoWorkers:
        python = self._settings.config.get("spark.pyspark.python")
        return NoWorkers(
            f"Spark's Python workers do not start ({_STARTS} attempts): {worker_reason(error)}",
            unchanged="Nothing was copied.",
            hint=f"Set spark.pyspark.python, which is {safe_text(python)}, to the Python that "
            "k2ktui is installed with, or leave it out."
            if python
            else "See docs/troubleshooting.md#variables-of-the-shell.",
        )

    def _why_no_workers(self) -> NoWorkers | None:
        """Return the error if the session has no worker; waits for the attempts that go on."""
        try:
            error = None if self._warming is None else self._warming.exception(_WORKERS_S)
        except (TimeoutError, CancelledError):
            return None
        return error if isinstance(error, NoWorkers) else None

    def warm_up_transforms(self, tasks: int, transforms: Iterable[Transform]) -> Future[None]:
        """Let Java load and compile what transforms need, and start their workers."""
        different = tuple(dict.fromkeys(transforms))

        def job() -> None:
            self._describe(_WARM_UP_GROUP, "warm-up of transforms")
            for transform in different:
                self.transforms.warm_up(transform, tasks)

        return self._pool().submit(job)

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at once."""
        return int(self._context.defaultParallelism)

    def call(self, function: Callable[[], _T]) -> Future[_T]:
        """Call a function in a task of its own; it is pickled with all that it refers to.

        The future fails with K2kError if Spark lost the task, or the function raised any error.
        """

        def task(_: Iterator[int]) -> Iterator[_T]:
            yield function()

        def job() -> _T:
            (result,) = collect_all(self._context, 1, task)
            return result

        return self._submit(job)

    def call_transformed(self, job: Callable[[TransformJobs], _T]) -> Future[_T]:
        """Call a function with the session's transforms, of which it runs a job.

        The future fails with K2kError if Spark lost the task, or the job raised any error.
        """
        return self._submit(lambda: job(self.transforms), transform_reason)

    def _submit(
        self, job: Callable[[], _T], reason: Callable[[BaseException], str] = spark_reason
    ) -> Future[_T]:
        def run() -> _T:
            group = f"{_JOB_GROUP}-{next(self._numbers)}"
            try:
                self._context.setJobGroup(group, self._name, interruptOnCancel=True)
                return job()
            except K2kError:
                raise
            except Exception as error:
                # To print the cause calls Java, which may never answer.
                raise K2kError(f"a Spark task failed: {reason(error)}") from None

        return self._pool().submit(run)

    def submit(self, tasks: Sequence[SlotTask]) -> Future[list[SlotResult]]:
        """Run a job with one Spark task per slot task.

        The future fails with LapLost if Spark lost a task or ended, and with SparkEnded if Spark
        had already ended and could not be restarted.
        """
        number = next(self._numbers)
        group = f"{_JOB_GROUP}-{number}"
        lap = self._pool().submit(self._run, tuple(tasks), group, number)
        self._groups[lap] = group
        lap.add_done_callback(lambda done: self._groups.pop(done, None))
        return lap

    def is_waiting(self, lap: Future[list[SlotResult]]) -> bool:
        """Return whether a lap has no running task yet, because no core is free."""
        group = self._groups.get(lap)
        context = self._context
        if group is None or context is None:
            return group is not None  # Spark is restarting
        return self._ask(lambda: not runs_task(context, group), otherwise=False)

    def give_up(self, lap: Future[list[SlotResult]]) -> None:
        """Cancel the job of a lap whose task may hang; the caller must discard its future.

        Spark eventually kills the Python worker of a canceled task, even a suspended one. A Java
        process that does not answer is killed, and the next lap restarts Spark.
        """
        group, context = self._groups.get(lap), self._context
        if group is not None and context is not None:
            self._ask(lambda: context.cancelJobGroup(group), otherwise=None)

    def _ask(self, call: Callable[[], _T], *, otherwise: _T) -> _T:
        """Call Java; return ``otherwise`` if that fails, and kill Java if it does not answer."""
        asked = self._pool().submit(call)
        try:
            return asked.result(_ANSWER_S)
        except TimeoutError:
            gateway = self._gateway
            if gateway is not None:
                _pyspark.kill_java(gateway)
        except Exception:  # noqa: S110 - Java has ended; the lap's future reports it
            pass
        return otherwise

    def _pool(self) -> ThreadPoolExecutor:
        if self._jobs is None:
            self._jobs = ThreadPoolExecutor(_MAX_JOBS, thread_name_prefix="lap")
        return self._jobs

    def _describe(self, group: str, text: str, context: Any = None) -> None:
        """Set the group and the description of this thread's jobs: what Spark's UI shows."""
        description = f"{safe_text(self._name)}: {text}"
        (context or self._context).setJobGroup(group, description, interruptOnCancel=True)

    def _run(self, tasks: tuple[SlotTask, ...], group: str, number: int) -> list[SlotResult]:
        if (refusal := self._logins.refusal()) is not None:
            return [refused_result(task, refusal) for task in tasks]
        results = self._run_tasks(tasks, group, number)
        self._logins.note(results)
        return results

    def _run_tasks(self, tasks: tuple[SlotTask, ...], group: str, number: int) -> list[SlotResult]:
        context = self._living()
        options = self._logins.options()
        transforms = self._transforms
        try:
            self._describe(group, _describe_lap(tasks, number), context)
            if tasks[0].transform is not None:
                assert transforms is not None
                return [transforms.run(task) for task in tasks]
            return collect_all(context, len(tasks), _lap(tasks, options))
        except Exception as error:
            ended = self._ended_message(context)
            log.info("job %s lost%s", group, ": Spark has ended" if ended else "")
            if ended:
                self._end_reported = context
            reason = spark_reason if tasks[0].transform is None else transform_reason
            # To print the cause calls Java, which may never answer.
            raise self._why_no_workers() or LapLost(ended or reason(error)) from None

    def _living(self) -> Any:
        """Return the session's context; if Spark has ended, start a new session first.

        If Spark ended between two laps, no lap failed because of it: this one does, as its report.
        """
        with self._changing:
            if self._over:
                raise LapLost("the run has ended")
            context = self._context
            ended = self._ended_message(context)
            if ended:
                self._start_again()
                if self._end_reported is not context:
                    raise LapLost(ended)
            return self._context

    def _start_again(self) -> None:
        """Start a new session; retry, as the cause of the last end may still persist."""
        for left in reversed(range(_STARTS)):
            log.warning("Spark has ended, starting it again (%d more attempts)", left)
            self._warming = None
            self._discard()
            try:
                self.start()
                return
            except K2kError as error:
                if not left:
                    raise _spark_ended_error(error.message) from error

    def _ended_message(self, context: Any) -> str:
        """Return a message if Spark has ended, "" if it has not."""
        if not _pyspark.has_ended(context):
            return ""
        return f"Spark ({safe_text(self._settings.master)}) stopped and is being restarted"

    def stop(self) -> None:
        """End the session and its processes."""
        self._over = True
        with self._changing:
            self._discard()
        if self._jobs is not None:
            self._jobs.shutdown(wait=False, cancel_futures=True)

    def _discard(self) -> None:
        """End the session so that another can start."""
        if self._context is not None:
            # For good, not for these calls: filters are of the process, and other threads run.
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"pyspark\.")
            # If Java has ended, the first call fails; the second cleans up the Python side.
            for _ in range(2):
                with contextlib.suppress(Exception):
                    self._context.stop()
            self._context = None
        for java in (self._java, self._ahead):
            if java is not None:
                java.close()
        self._java = self._ahead = None
        _pyspark.forget_java()

    def forget_files(self) -> None:
        """Remove the session's private directory."""
        for java in (self._java, self._ahead):
            if java is not None:
                java.forget_files()


def _describe_lap(tasks: Sequence[SlotTask], number: int) -> str:
    """Return slot, lap and size of a job, in the console's words."""
    slots = ", ".join(str(task.slot) for task in tasks)
    partitions = counted(sum(len(task.assignments) for task in tasks), "partition")
    return f"slot {slots}, lap {number}, {partitions}"


def _spark_ended_error(reason: str) -> SparkEnded:
    return SparkEnded(
        f"Spark stopped and could not be restarted: {reason}",
        unchanged="Committed records are complete; open transactions are aborted at the next "
        "start.",
        hint="Start the pipeline again; it continues from the positions on the target.",
    )
