"""The demo's producers and consumers, which a tour stops on one cluster and starts on the other."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.demo.groups import LIVE, DemoGroups, Side
from k2ktui.demo.read_records import ReadRecords
from k2ktui.demo.traffic import Traffic

# No group reads on the target before the switchover. All of them catch up, so that what they have
# read can be compared at the end.
ON_SOURCE = tuple(replace(group, rate=0.0) for group in LIVE if group.side == "source")


class Applications:
    """Producers and consumers on one of the clusters.

    Args:
        source: bootstrap address of the source cluster.
        target: bootstrap address of the target cluster.
        rate: multiplies the traffic.

    Attributes:
        records: what each group has read.
    """

    def __init__(self, source: str, target: str, rate: float) -> None:
        self._addresses: dict[Side, str] = {"source": source, "target": target}
        self._rate = rate
        self._traffic: Traffic | None = None
        self._groups: DemoGroups | None = None
        self.records = ReadRecords()

    def start(self, side: Side = "source") -> None:
        """Start all of them on a cluster; those that run are stopped."""
        self.stop()
        groups = tuple(replace(group, side=side) for group in ON_SOURCE)
        self._traffic = Traffic(self._addresses[side], factor=self._rate)
        self._groups = DemoGroups(
            self._addresses["source"], self._addresses["target"], groups, self.records.add
        )
        for part in (self._traffic, self._groups):
            part.start()

    def stop_producers(self) -> None:
        """Stop the producers."""
        if self._traffic is not None:
            self._traffic.stop()

    def stop_consumers(self) -> None:
        """Let the consumers commit and leave their groups."""
        if self._groups is not None:
            self._groups.stop()

    def stop(self) -> None:
        """Stop those that run."""
        self.stop_producers()
        self.stop_consumers()
