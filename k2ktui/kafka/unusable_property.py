"""The error of a client property that cannot be used."""

from __future__ import annotations


class UnusableProperty(ValueError):
    """A property cannot be used; ``key`` is its name, and the message holds no secret."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
