"""Limits how long look-ups in a registry may hold up a micro-batch of a transform."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from k2ktui.errors import ConnectionFailed

#: Seconds after which what waits for a registry stops, so that the reason is shown. A client with
#: default settings gives up after two minutes, when a lap has been abandoned.
PATIENCE_S = 20.0

_T = TypeVar("_T")
# A request that was given up keeps its thread until the client gives up, too: there is one.
_pool = ThreadPoolExecutor(1, thread_name_prefix="registry")


def no_answer(seconds: float) -> ConnectionFailed:
    """Return the error of a registry that has not answered for some seconds."""
    return ConnectionFailed(
        f"a schema registry has not answered for {seconds:g} s", hint="Check both registries."
    )


class LookupLimit:
    """The time that all look-ups of a micro-batch may take together.

    Args:
        seconds: the time.

    ``left`` is what is left of it, in seconds.
    """

    def __init__(self, seconds: float = PATIENCE_S) -> None:
        self._seconds = seconds
        self.left = seconds

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Count the time of a block; it may wait ``left`` seconds.

        Raises:
            ConnectionFailed: it has waited so long, which it says by a TimeoutError.
        """
        began = monotonic()
        try:
            yield
        except TimeoutError as error:
            raise no_answer(self._seconds) from error
        finally:
            self.left = max(0.0, self.left - (monotonic() - began))

    def ask(self, request: Callable[[], _T]) -> _T:
        """Return what a request to a registry returns; another thread sends it.

        Raises:
            ConnectionFailed: the time is over; what the request finds later is lost, unless it
                keeps it itself.
        """
        with self.spend():
            answer = _pool.submit(request)
            try:
                return answer.result(self.left)
            finally:
                answer.cancel()
