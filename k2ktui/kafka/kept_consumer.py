"""A consumer that stays connected between readings, with the newest login of its cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any

from confluent_kafka import Consumer

from k2ktui.errors import LoginFailed
from k2ktui.kafka.clients import Cluster


class KeptConsumer:
    """A consumer of one reader, which has no partitions between readings.

    Args:
        cluster: the cluster.
        settings: librdkafka's, for ``Cluster.kept_consumer``.
    """

    def __init__(self, cluster: Cluster, settings: Mapping[str, Any]) -> None:
        self._cluster, self._settings = cluster, settings
        self._lock = Lock()
        self._consumer: Consumer | None = None
        self._generation, self._made_at = 0, 0.0
        self._readings = 0

    @property
    def consumer(self) -> Consumer:
        """The consumer, made again when the login or the certificates were renewed.

        Raises:
            ConnectionFailed: it cannot be made, such as with a login that was refused just now.
        """
        generation = self._cluster.login.generation
        if generation != self._generation:
            self.close()
        if self._consumer is None:
            self._generation, self._made_at = generation, monotonic()
            self._consumer = self._cluster.kept_consumer(self._look_after, **self._settings)
        return self._consumer

    @property
    def is_open(self) -> bool:
        """Whether there is a consumer."""
        return self._consumer is not None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read in this context; it is closed where the login is refused."""
        with self._lock:
            self._readings += 1
        try:
            yield
        except LoginFailed:
            self.close()
            raise
        finally:
            self._readings -= 1

    def close(self) -> None:
        """Disconnect; the next reading connects again."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _look_after(self) -> None:
        """Close it if its login is refused, while nobody reads."""
        with self._lock:
            if self._readings or self._consumer is None:
                return
            self._consumer.poll(0)
            if self._cluster.is_refused(self._made_at):
                self.close()
