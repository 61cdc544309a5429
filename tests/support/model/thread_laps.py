"""Laps on threads of the test's process, instead of Spark: the same tasks, without Java."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from k2ktui.replication.copying.slot_task import SlotResult, SlotTask
from k2ktui.replication.copying.worker import run_slot
from tests.support.clusters.kafka import unique_name


class ThreadLaps:
    """A ``LapRunner``. A lap that is given up continues, as the task of a lost executor does.

    Args:
        source: connection options of the source cluster.
        target: connection options of the target cluster.

    Attributes:
        answers: cleared by tests in which a call that gives a lap up hangs.
        hanging: the laps that were given up meanwhile.
    """

    def __init__(self, source: Mapping[str, Any], target: Mapping[str, Any]) -> None:
        self._options = source, target
        self._local = threading.local()
        self.answers = threading.Event()
        self.answers.set()
        self.hanging: list[Future[list[SlotResult]]] = []
        self._pool = ThreadPoolExecutor(32, thread_name_prefix="lap")

    def submit(self, tasks: Sequence[SlotTask]) -> Future[list[SlotResult]]:
        return self._pool.submit(self._run, tuple(tasks))

    def is_waiting(self, lap: Future[list[SlotResult]]) -> bool:
        return False

    def give_up(self, lap: Future[list[SlotResult]]) -> None:
        if not self.answers.is_set():
            self.hanging.append(lap)
        assert self.answers.wait(600)
        lap.cancel()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _run(self, tasks: tuple[SlotTask, ...]) -> list[SlotResult]:
        # Workers keep connections by their options, and each thread needs its own.
        if not hasattr(self._local, "name"):
            self._local.name = unique_name("lap")
        source, target = ({**option, "client_id": self._local.name} for option in self._options)
        return [run_slot(task, (source, target)) for task in tasks]
