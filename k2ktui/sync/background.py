"""Work done again and again beside a running pipeline, on a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from k2ktui.errors import K2kError


class BackgroundRunner(ABC):
    """Does a turn every few seconds and never disturbs the pipeline; subclasses say what a turn is.

    Args:
        name: of the thread.
        interval_s: seconds before each turn.
        note: told once when turns fail, and once when they work again.
        last_turn: do one more when it is stopped, and tell of that too.
    """

    BACK: str
    """What is told when turns work again."""

    def __init__(
        self, name: str, interval_s: float, note: Callable[[str], None], *, last_turn: bool = False
    ) -> None:
        self._interval_s, self._note, self._last_turn = interval_s, note, last_turn
        self._over = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, wait_s: float = 0.0) -> None:
        """End; wait for it up to ``wait_s`` seconds."""
        self._over.set()
        if wait_s and self._thread.is_alive():
            self._thread.join(wait_s)

    @abstractmethod
    def turn(self) -> None:
        """Do what is done every few seconds; on the thread."""

    @abstractmethod
    def failure(self, why: str) -> str:
        """Return what is told when turns begin to fail."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect; on the thread."""

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._interval_s)
            if over and not self._last_turn:
                break
            try:
                self.turn()
            except K2kError as error:
                self._failed(error.what)
            except Exception as error:  # a fault of ours, and no reason to stop replication
                self._failed(type(error).__name__)
            else:
                if self._failing:
                    self._note(self.BACK)
                self._failing = False
        self.close()

    def _failed(self, why: str) -> None:
        if not self._failing and (self._last_turn or not self._over.is_set()):
            self._note(self.failure(why))
        self._failing = True
