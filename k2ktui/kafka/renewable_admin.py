"""The admin client of a cluster, which is replaced when it may have lost all brokers.

KRaft brokers that are fenced answer that the cluster has no brokers. librdkafka (2.16) then drops
all that it knows, and adds the bootstrap servers again as soon as the last one is gone. But if one
of them is still closing, it is not added a second time, and the client never connects again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic

from confluent_kafka.admin import AdminClient

# Longer than any request takes: those of the client before the last one have ended.
_REPLACE_AFTER_S = 40.0


class RenewableAdmin:
    """Creates an admin client on first use, and another one after :meth:`replace`.

    Args:
        make: creates a client.
    """

    def __init__(self, make: Callable[[], AdminClient]) -> None:
        self._make = make
        self._lock = Lock()
        self._current: AdminClient | None = None
        self._former: AdminClient | None = None
        self._replaced_at = -_REPLACE_AFTER_S

    def get(self) -> AdminClient:
        """Return the client."""
        with self._lock:
            if self._current is None:
                self._current = self._make()
            return self._current

    @property
    def current(self) -> AdminClient | None:
        """The client, if there is one."""
        return self._current

    def replace(self) -> None:
        """Use a new client from now on, but not again within 40 seconds.

        The former one stays open until the next time, for requests that other threads wait for.
        """
        with self._lock:
            if self._current is not None and monotonic() > self._replaced_at + _REPLACE_AFTER_S:
                self._replaced_at = monotonic()
                self._former, self._current = self._current, None

    def leave(self) -> None:
        """Use a new client from now on: brokers read no more of the former one for some time."""
        with self._lock:
            self._former, self._current = self._current, None

    def close(self) -> None:
        """Close the clients, as soon as no thread waits for a request; :meth:`get` makes one."""
        with self._lock:
            self._current = self._former = None
