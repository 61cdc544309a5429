"""What the user of a demo can do to its applications and its source, as an operator would.

A drill waits until its operator has stopped applications, or started them on the other cluster.
Those of the demo run in its process, which performs these actions (``demo/requests.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from k2ktui.demo.applications import Applications
from k2ktui.runtime.node import KafkaNode
from k2ktui.text import counted


class DemoAction(StrEnum):
    """An action, as named on the command line."""

    SHOW = "show"
    STOP_PRODUCERS = "stop-producers"
    STOP_CONSUMERS = "stop-consumers"
    STOP_TARGET_CONSUMERS = "stop-target-consumers"
    START_ON_TARGET = "start-on-target"
    START_ON_SOURCE = "start-on-source"
    KILL_SOURCE = "kill-source"
    START_SOURCE = "start-source"


# Title and effect, in the order of a drill there and back.
ACTION_TEXTS: Mapping[DemoAction, tuple[str, str]] = {
    DemoAction.SHOW: ("show what runs", "Changes nothing."),
    DemoAction.STOP_PRODUCERS: (
        "stop the producers",
        "A switchover waits for this in phase fence-producers.",
    ),
    DemoAction.STOP_CONSUMERS: (
        "stop all consumers",
        "They commit and leave their groups. A switchover waits for this in phase stop-consumers.",
    ),
    DemoAction.STOP_TARGET_CONSUMERS: (
        "stop the consumers on the target",
        "billing was moved there too early: check D20 stops a switchover because of it.",
    ),
    DemoAction.START_ON_TARGET: (
        "start producers and consumers on the target",
        "Those that still run are stopped. A failover waits for this in phase watch-clients.",
    ),
    DemoAction.START_ON_SOURCE: (
        "start producers and consumers on the source",
        "Those that still run are stopped. A failback waits for this in phase watch-clients.",
    ),
    DemoAction.KILL_SOURCE: (
        "kill the source cluster",
        "As in a disaster (kill -9): start a disaster drill, or continue a planned one with D.",
    ),
    DemoAction.START_SOURCE: (
        "start the source cluster again",
        "With its data. Its former consumers and producers do not start by themselves.",
    ),
}


class DemoActions:
    """Performs actions on a running demo.

    Args:
        applications: its producers and consumers.
        source: its source cluster.
    """

    def __init__(self, applications: Applications, source: KafkaNode) -> None:
        self._applications, self._source = applications, source
        self._does: Mapping[DemoAction, Callable[[], object]] = {
            DemoAction.SHOW: lambda: None,
            DemoAction.STOP_PRODUCERS: applications.stop_producers,
            DemoAction.STOP_CONSUMERS: applications.stop_consumers,
            DemoAction.STOP_TARGET_CONSUMERS: lambda: applications.stop_consumers(("target",)),
            DemoAction.START_ON_TARGET: lambda: applications.start_on("target"),
            DemoAction.START_ON_SOURCE: lambda: applications.start_on("source"),
            DemoAction.KILL_SOURCE: source.kill,
            DemoAction.START_SOURCE: source.start,
        }

    def perform(self, action: DemoAction) -> str:
        """Perform an action, and return what runs then, as sentences.

        Raises:
            K2kError: the source cluster did not start.
        """
        self._does[action]()
        return self.describe()

    def describe(self) -> str:
        """Return what runs now."""
        side = self._applications.producers
        writes = "The producers are stopped." if side is None else f"Producers write to the {side}."
        source, target = (self._applications.consumers(each) for each in ("source", "target"))
        reads = [
            f"{counted(len(groups), 'group')} on the {side} ({', '.join(sorted(groups))})"
            for side, groups in (("source", source), ("target", target))
            if groups
        ]
        readers = f"Consumers: {', '.join(reads)}." if reads else "The consumers are stopped."
        up = "runs" if self._source.running else "is down"
        return f"{writes} {readers} The source cluster, {self._source.bootstrap}, {up}."
