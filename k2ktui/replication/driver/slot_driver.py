"""The driver of one slot of a pipeline that runs share (docs/internals/ownership.md).

It works like the driver of a pipeline with one slot. It owns that slot and copies its partitions,
in laps of its own in the Spark session that all slots of the run share.
"""

from __future__ import annotations

from collections.abc import Callable

from k2ktui.engine.ownership.slot_owners import shared_slot_of
from k2ktui.engine.records.state import SourcePartition
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.reports.status import DriverStatus
from k2ktui.replication.topics.discovery import IsWanted, TopicDiscovery

_ONE_SLOT = 1


class SlotDriver:
    """Takes one slot over and copies it until it is stopped or fenced.

    Args:
        parts: the run's. With ``until_caught_up``, the driver ends when every partition of the slot
            has reached the end that it has when the slot is taken over, or has stopped.
        ownership: takes the slot over; closed when the driver has ended.
        make_discovery: returns the discovery of the slot's partitions.
        status: what this driver writes.
    """

    def __init__(
        self,
        parts: RunParts,
        ownership: Ownership,
        make_discovery: Callable[[IsWanted], TopicDiscovery],
        status: DriverStatus,
    ) -> None:
        self._ownership, self._status = ownership, status
        self._is_stopping = False
        self._driver = Driver(parts, ownership, make_discovery(self._is_own), status)

    @property
    def has_started(self) -> bool:
        """Whether it has taken the slot over."""
        return self._status.term > 0

    def run(self) -> None:
        """Take the slot over and copy until it ends; nothing can write for it afterwards.

        Raises:
            Superseded: another run has taken the slot over.
            LayoutChanged: the slots were divided again.
            K2kError: the slot could not be taken over, or its driver had to end.
        """
        reached = False
        try:
            self._driver.run(_ONE_SLOT)
            reached = not self._is_stopping
        except BaseException:
            self._driver.give_up_laps()
            self._ownership.close()
            raise
        finally:
            self._status.end(reached=reached)

    def stop(self) -> None:
        """Request a stop and return at once."""
        self._is_stopping = True
        self._driver.stop()

    def abandon(self) -> None:
        """Report the end of the driver now, although it has not ended, and nothing later."""
        self._status.end()

    def _is_own(self, source: SourcePartition) -> bool:
        """Return whether a partition belongs to the slot, in the layout that was taken over."""
        layout = self._ownership.pipeline_run.layout
        assert layout is not None, "the slot has not been taken over"
        return shared_slot_of(source, layout.slots) == self._ownership.topic.shared_slot
