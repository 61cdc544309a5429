"""A lap of a model driver: its task continues by itself when the driver loses it."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Protocol

from tests.support.model.coordinator import Fault


class LosesTasks(Protocol):
    """A driver: whether it loses its next task, and where lost tasks go."""

    loses: bool
    lost: list[Coroutine[Any, Any, None]]


class Failed(Exception):
    """A request of a lap was refused, or its outcome is unknown."""


class Lost(Exception):
    """The driver does not know whether a task has ended."""


class Lap:
    """What a driver awaits while a task runs: the steps of both are the same.

    ``lost`` takes the task over when the driver loses it; then it continues by itself.
    """

    def __init__(self, driver: LosesTasks, task: Coroutine[Any, Any, None]) -> None:
        self._driver, self._task = driver, task

    def __await__(self) -> Generator[None, Fault, None]:
        fault: Any = None
        while True:
            try:
                self._task.send(fault)
            except StopIteration:
                return
            if self._driver.loses:
                self._driver.loses = False
                self._driver.lost.append(self._task)
                raise Lost
            fault = yield
