"""The demo's producers and consumers, which a tour or its user stops and starts elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from k2ktui.demo.groups import LIVE, DemoGroups, LiveGroup, Side
from k2ktui.demo.read_records import ReadRecords
from k2ktui.demo.traffic import Traffic

# No group reads on the target before the switchover. All of them catch up, so that what they have
# read can be compared at the end.
ON_SOURCE = tuple(replace(group, rate=0.0) for group in LIVE if group.side == "source")
_SIDES: tuple[Side, ...] = ("source", "target")


class Applications:
    """Producers and consumers, on one of the clusters or on both.

    Args:
        source: bootstrap address of the source cluster.
        target: bootstrap address of the target cluster.
        rate: multiplies the traffic.
        groups: the consumers, each on the cluster where it is started first.

    Attributes:
        records: what each group has read.
    """

    def __init__(
        self, source: str, target: str, rate: float, groups: Sequence[LiveGroup] = ON_SOURCE
    ) -> None:
        self._addresses: dict[Side, str] = {"source": source, "target": target}
        self._rate, self._first = rate, tuple(groups)
        self._traffic: Traffic | None = None
        self._writes_to: Side | None = None
        self._groups: dict[Side, DemoGroups] = {}
        self._running: dict[Side, tuple[str, ...]] = {}
        self.records = ReadRecords()

    def start(self) -> None:
        """Start the producers on the source, and each consumer where it is first."""
        self._start("source", self._first)

    def start_on(self, side: Side) -> None:
        """Start all of them on one cluster; those that run are stopped."""
        groups = {group.name: replace(group, side=side) for group in self._first}
        self._start(side, tuple(groups.values()))

    def _start(self, producers: Side, groups: Sequence[LiveGroup]) -> None:
        self.stop()
        self._traffic = Traffic(self._addresses[producers], factor=self._rate)
        self._traffic.start()
        self._writes_to = producers
        for side in _SIDES:
            here = tuple(group for group in groups if group.side == side)
            if here:
                self._groups[side] = self._start_groups(here)
                self._running[side] = tuple(group.name for group in here)

    def _start_groups(self, groups: Sequence[LiveGroup]) -> DemoGroups:
        addresses = self._addresses["source"], self._addresses["target"]
        started = DemoGroups(*addresses, groups, self.records.add)
        started.start()
        return started

    @property
    def producers(self) -> Side | None:
        """The cluster to which the producers write; None if they are stopped."""
        return self._writes_to

    def consumers(self, side: Side) -> tuple[str, ...]:
        """Return the groups that read on a cluster."""
        return self._running.get(side, ())

    def stop_producers(self) -> None:
        """Stop the producers."""
        if self._traffic is not None:
            self._traffic.stop()
        self._traffic = self._writes_to = None

    def stop_consumers(self, sides: Sequence[Side] = _SIDES) -> None:
        """Let the consumers on these clusters commit and leave their groups."""
        for side in sides:
            found = self._groups.pop(side, None)
            if found is not None:
                found.stop()
            self._running.pop(side, None)

    def stop(self) -> None:
        """Stop those that run."""
        self.stop_producers()
        self.stop_consumers()
