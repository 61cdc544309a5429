"""The error of a client property that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class UnusableProperty(ValueError):
    """A property cannot be used; ``key`` is its name, and the message holds no secret."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def attempt(read: Callable[[], T], problems: list[UnusableProperty]) -> T | None:
    """Return what ``read`` returns; None if a property cannot be used, which ``problems`` gets."""
    try:
        return read()
    except UnusableProperty as error:
        problems.append(error)
    return None
