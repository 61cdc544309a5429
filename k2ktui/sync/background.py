"""Periodic work on its own thread beside a running pipeline."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from k2ktui.errors import K2kError


class BackgroundRunner(ABC):
    """Runs ``turn`` at a fixed interval; a failing turn never disturbs the pipeline.

    Args:
        name: thread name.
        interval_s: seconds before each turn.
        note: called once when turns begin to fail, and once when they succeed again.
        last_turn: run one more turn on stop, and report its failure too.
    """

    BACK: str
    """Message for ``note`` when turns succeed again."""

    def __init__(
        self, name: str, interval_s: float, note: Callable[[str], None], *, last_turn: bool = False
    ) -> None:
        self._interval_s, self._note, self._last_turn = interval_s, note, last_turn
        self._over = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, wait_s: float = 0.0) -> None:
        """Stop the thread; wait up to ``wait_s`` seconds for it to end."""
        self._over.set()
        if wait_s and self._thread.is_alive():
            self._thread.join(wait_s)

    @abstractmethod
    def turn(self) -> None:
        """Do the periodic work; runs on the thread."""

    @abstractmethod
    def failure(self, why: str) -> str:
        """Return the message for ``note`` when turns begin to fail."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect; runs on the thread."""

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._interval_s)
            if over and not self._last_turn:
                break
            try:
                self.turn()
            except K2kError as error:
                self._record_failure(error.message)
            except Exception as error:  # an internal error must not stop replication
                self._record_failure(type(error).__name__)
            else:
                if self._failing:
                    self._note(self.BACK)
                self._failing = False
        self.close()

    def _record_failure(self, why: str) -> None:
        if not self._failing and (self._last_turn or not self._over.is_set()):
            self._note(self.failure(why))
        self._failing = True
