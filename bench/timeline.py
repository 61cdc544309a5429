"""Times of functions in several processes, without a change of the program: ``trace`` and ``main``.

``python -m bench.timeline start -f FILE`` is ``k2ktui start -f FILE`` in which every function of
``STEPS`` appends a JSON line to the file that ``BENCH_TIMELINE`` names, when it ends. Run as
``spark.python.daemon.module``, it forks workers that do the same.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

VARIABLE = "BENCH_TIMELINE"
DAEMON = "bench.timeline_daemon"
# Module to functions; those of a class as Class.method.
STEPS: dict[str, tuple[str, ...]] = {
    "k2ktui.cli.terminal.files": ("load_pipeline",),
    "k2ktui.kafka.unreachable": ("await_open",),
    "k2ktui.starting": ("run_pipeline",),
    "k2ktui.runs": ("PipelineRun._start_spark",),
    "k2ktui.whole_runs": ("own_pipeline",),
    "k2ktui.replication.preflight.gate": ("require_startable",),
    "k2ktui.replication.preflight.clusters": (
        "_reach",
        "ClusterReadings.clock_ahead",
        "ClusterReadings.commit_state",
    ),
    "k2ktui.replication.preflight.committed": ("read_committed",),
    "k2ktui.replication.preflight.rights": ("check_rights",),
    "k2ktui.replication.preflight.topics": ("check_topics",),
    "k2ktui.replication.preflight.opposite": ("check_opposite",),
    "k2ktui.kafka.control.topics": ("ensure_control_topics",),
    "k2ktui.replication.driver.heartbeat": ("Heartbeat.start",),
    "k2ktui.replication._pyspark": ("start_java", "connect_java"),
    "k2ktui.replication.spark.session": (
        "SparkRuntime._begin",
        "SparkRuntime.warm_up",
        "SparkRuntime.submit",
    ),
    "pyspark.core.context": ("SparkContext.__init__",),
    "k2ktui.replication.ownership.pipeline": ("read_pair", "make_ownership"),
    "k2ktui.replication.ownership.fence": ("Fence.open", "Fence.take"),
    "k2ktui.replication.ownership.ownership": (
        "Ownership.take_over",
        "Ownership.read",
        "Ownership._write_run",
        "Ownership.write_positions",
        "Ownership.renew",
    ),
    "k2ktui.replication.topics.discovery": ("TopicDiscovery.discover",),
    "k2ktui.shared_runs": ("SharedRun._read_run", "SharedRun._read_ends"),
    "k2ktui.replication.driver.sharing_loop": ("SharingLoop.look",),
    "k2ktui.replication.copying.worker": ("open_connections", "run_pickled"),
    "k2ktui.replication.copying.transaction_writer": (
        "TransactionWriter._join",
        "TransactionWriter.commit",
    ),
    "k2ktui.replication.copying.source_fetcher": ("SourceFetcher.take_updated",),
}
# Of a function that is called in every round, the first calls.
_MOST = 3


def note(step: str, began: float, ended: float) -> None:
    """Append a line about a step; times are epoch seconds."""
    where = threading.current_thread().name
    line = {"pid": os.getpid(), "thread": where, "step": step, "began": began, "ended": ended}
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:  # short lines: atomic
        file.write(json.dumps(line) + "\n")


def install() -> None:
    """Let the functions of ``STEPS`` note their times from now on."""
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the modules of ``STEPS``, whose functions are replaced as soon as they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in STEPS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Patching(spec.loader)
        return spec


class _Patching(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for name in STEPS[module.__name__]:
            *inside, last = name.split(".")
            owner: Any = functools.reduce(getattr, inside, module)
            if hasattr(owner, last):  # another version may not have it
                setattr(owner, last, _timed(getattr(owner, last), name))


def _timed(call: Callable[..., Any], step: str) -> Callable[..., Any]:
    seen: dict[int, int] = {}

    def is_noted() -> bool:
        pid = os.getpid()
        seen[pid] = seen.get(pid, 0) + 1
        return seen[pid] <= _MOST

    if inspect.iscoroutinefunction(call):

        @functools.wraps(call)
        async def timed_coroutine(*args: Any, **named: Any) -> Any:
            began = time.time()
            try:
                return await call(*args, **named)
            finally:
                if is_noted():
                    note(step, began, time.time())

        return timed_coroutine

    @functools.wraps(call)
    def timed(*args: Any, **named: Any) -> Any:
        began = time.time()
        result: Any = None
        try:
            result = call(*args, **named)
            return result
        finally:
            # Nothing comes of most looks for fetched batches.
            if (step != "SourceFetcher.take_updated" or result) and is_noted():
                note(step, began, time.time())

    return timed


def main() -> None:
    """Run the command line of k2ktui with times."""
    began = time.time()
    install()
    from k2ktui.cli.main import main as run

    note("import of k2ktui.cli.main", began, time.time())
    run()


if __name__ == "__main__":
    main()
