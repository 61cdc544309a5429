"""A reading of a cluster that several threads share."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

from k2ktui.errors import K2kError

T = TypeVar("T")


class SharedReading(Generic[T]):
    """Share one reading between threads; each gets one that began late enough.

    Threads that ask while another one reads wait for it, and share the next reading. Errors are
    shared as well, so that threads do not wait for an unresponsive cluster one after the other.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._began = float("-inf")
        self._result: T | K2kError | None = None

    def get(self, read: Callable[[], T], since: float) -> T:
        """Return a reading that began at ``since``, in monotonic seconds, or later.

        Args:
            read: called if there is none.
            since: the earliest begin.

        Raises:
            K2kError: what ``read`` raised.
        """
        with self._lock:
            if self._began < since or self._result is None:
                began = monotonic()
                try:
                    self._result = read()
                except K2kError as error:
                    self._result = error
                self._began = began
            if isinstance(self._result, K2kError):
                raise self._result
            return self._result
