"""How long a cluster asks a client to send nothing, because of a quota, and how to wait for it.

Brokers answer a request above a quota, and read the connection no further for the time that the
answer names (KIP-219). librdkafka sends on, so that its next requests seem to be unanswered.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from k2ktui.progress import long_step

SHORT_THROTTLE_S = 1.0
"""Longest time for which a quota on requests throttles (``quota.window.size.seconds``); one on
creating topics may do so for minutes."""
_SLICE_S = 0.2

Pause = Callable[[str, float], bool]
"""Waits so many seconds for what a text says; returns whether to give up."""


class Throttle:
    """When the brokers of a cluster read the connections of a client again."""

    def __init__(self) -> None:
        self._until = 0.0

    def note(self, event: Any) -> None:
        """Take a ``ThrottleEvent`` of confluent-kafka, whose time is in seconds."""
        self._until = max(self._until, monotonic() + float(event.throttle_time))

    @property
    def left_s(self) -> float:
        """Seconds until they do."""
        return max(0.0, self._until - monotonic())


def pause_with_progress(text: str, seconds: float) -> bool:
    """Wait, and show it to whoever listens to long steps; see :data:`Pause`."""
    began = monotonic()
    with long_step(text, max(1, round(seconds))) as done:
        while (waited := monotonic() - began) < seconds:
            done(int(waited))
            sleep(min(_SLICE_S, seconds - waited))
    return False
