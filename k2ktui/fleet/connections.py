"""Connections to clusters that several pipelines share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.clients import Cluster

# A cluster that did not answer is asked again by one pipeline after so many seconds; until then
# the others take its error for theirs, instead of waiting for it, too.
RETRY_S = 20.0


@dataclass(slots=True)
class SharedCluster:
    """A cluster, with what the pipelines that share it know about it.

    Attributes:
        cluster: the connection.
        users: number of pipelines that read it now.
        has_answered: whether it answered last time.
        error, failed_at: why it did not, and when (monotonic seconds).
        used_at: when it was last read (monotonic seconds).
    """

    cluster: Cluster
    users: int = 0
    has_answered: bool = False
    error: K2kError | None = None
    failed_at: float = 0.0
    used_at: float = 0.0

    @property
    def is_free(self) -> bool:
        """Whether a pipeline may read it now: one that does not answer holds up one at a time."""
        return self.has_answered or not self.users

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Read the cluster in the context, and remember whether it answers.

        Raises:
            ConnectionFailed, TimedOut: it did not answer another pipeline just now.
        """
        if self.error is not None and monotonic() < self.failed_at + RETRY_S:
            # One that was raised by several threads would have the traces of all.
            raise copy(self.error) from self.error
        try:
            yield
        except (ConnectionFailed, TimedOut) as error:
            self.has_answered, self.error, self.failed_at = False, error, monotonic()
            raise
        self.has_answered, self.error = True, None


class Connections:
    """The clusters of a fleet, each once; thread-safe.

    Args:
        most: number of clusters that stay connected while no pipeline reads them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._known: list[SharedCluster] = []

    def find(self, config: ClusterConfig, label: str) -> SharedCluster:
        """Return the cluster with these client properties; connects when it is first read."""
        with self._lock:
            for known in self._known:
                same_side = known.cluster.label == label
                if same_side and known.cluster.config.kafka == config.kafka:
                    return known
            shared = SharedCluster(Cluster(config, label))
            self._known.append(shared)
            return shared

    def release(self, *clusters: SharedCluster) -> None:
        """Note that a pipeline has read them, and disconnect those that were not read for long."""
        with self._lock:
            for shared in clusters:
                shared.users -= 1
                shared.used_at = monotonic()
            idle = [shared for shared in self._known if not shared.users]
            surplus = len(self._known) - self._most
            for shared in sorted(idle, key=lambda shared: shared.used_at)[: max(0, surplus)]:
                shared.cluster.disconnect()

    def take(self, *clusters: SharedCluster) -> bool:
        """Reserve clusters for a pipeline to read; return False if it has to wait."""
        with self._lock:
            if not all(shared.is_free for shared in clusters):
                return False
            for shared in clusters:
                shared.users += 1
            return True

    def close(self) -> None:
        """Disconnect all clusters; no thread may use them any more."""
        with self._lock:
            for shared in self._known:
                shared.cluster.disconnect()
