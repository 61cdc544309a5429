"""The demo's producers and consumers, which a switchover stops on the source and starts again."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.demo.groups import LIVE, DemoGroups
from k2ktui.demo.traffic import Traffic

# No group reads on the target before the switchover.
ON_SOURCE = tuple(group for group in LIVE if group.side == "source")
_ON_TARGET = tuple(replace(group, side="target") for group in ON_SOURCE)


class Applications:
    """Producers and consumers on the source, later on the target.

    Args:
        source: bootstrap address of the source cluster.
        target: bootstrap address of the target cluster.
        rate: multiplies the traffic.
    """

    def __init__(self, source: str, target: str, rate: float) -> None:
        self._target = (Traffic(target, factor=rate), DemoGroups(source, target, _ON_TARGET))
        self._source = (Traffic(source, factor=rate), DemoGroups(source, target, ON_SOURCE))

    def start(self) -> None:
        """Start all of them on the source."""
        for part in self._source:
            part.start()

    def stop_producers(self) -> None:
        """Stop the producers on the source."""
        self._source[0].stop()

    def stop_consumers(self) -> None:
        """Let the consumers on the source commit and leave their groups."""
        self._source[1].stop()

    def start_on_target(self) -> None:
        """Start all of them on the target."""
        for part in self._target:
            part.start()

    def stop(self) -> None:
        """Stop those that run."""
        for part in (*self._source, *self._target):
            part.stop()
