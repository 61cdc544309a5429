"""See from outside when records become visible on the target, for everyone in the same way."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from bench.clusters import admin, end_offsets, led_partitions


@dataclass(frozen=True, slots=True)
class Sight:
    """The last stable offset of each partition, as first seen at ``at`` (monotonic)."""

    at: float
    ends: tuple[int, ...]

    @property
    def total(self) -> int:
        """Sum over the partitions; it also counts transaction markers."""
        return sum(self.ends)


class Watcher(threading.Thread):
    """Asks for the last stable offsets of a topic every ``interval`` seconds, once it exists."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, interval: float = 0.05) -> None:
        super().__init__(daemon=True, name="watcher")
        self._admin = admin(bootstrap)
        self._topic = topic
        self._partitions = partitions
        self._interval = interval
        self._ended = threading.Event()
        self._sights: list[Sight] = []
        self._present = False

    def run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            self._look()
            due = max(due + self._interval, time.monotonic())
            self._ended.wait(due - time.monotonic())

    def stop(self) -> None:
        """End the watch; what was seen stays."""
        self._ended.set()
        self.join()

    @property
    def changes(self) -> Sequence[Sight]:
        """What was seen, without the looks at which nothing had changed."""
        return self._sights

    @property
    def last_change(self) -> Sight:
        """The newest change; an empty one when nothing was seen yet."""
        return self._sights[-1] if self._sights else Sight(0.0, ())

    def _look(self) -> None:
        self._present = self._present or (
            led_partitions(self._admin, self._topic) == self._partitions
        )
        if not self._present:
            return
        try:
            ends = end_offsets(self._admin, self._topic, self._partitions)
        except KafkaException:
            return  # just created, and not everywhere known
        at = time.monotonic()
        if any(ends) and ends != self.last_change.ends:
            self._sights.append(Sight(at, ends))
