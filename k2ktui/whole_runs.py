"""Composes a run that owns its whole pipeline: ``exclusive``, or a standby whose turn it is.

::

    ownership ─────┐
    discovery ─────┴─► driver of all slots ─► laps in one Spark session
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from k2ktui.config.copying import copy_digest
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded
from k2ktui.replication.ownership.commit_state import CommittedPositions
from k2ktui.replication.ownership.lost_positions import LostPositions
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership, read_pair
from k2ktui.replication.reports.events import Finished
from k2ktui.replication.topics.discovery import IsWanted, TopicDiscovery
from k2ktui.replication.topics.pair_topics import PairTopicsReader
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.sync.drill.guard import refuse_fenced


def own_pipeline(parts: RunParts) -> Ownership:
    """Return what owns the pipeline once it is taken over; asks both clusters for their ids."""
    config, target = parts.config, parts.target
    pair = read_pair(config, parts.source, target)
    parts.heartbeat.copies_between(pair)
    return make_ownership(
        config,
        target,
        parts.target_options,
        parts.control.commit_partitions,
        pair,
        guard=lambda named: refuse_fenced(config, target, named),
        digest=copy_digest(config),
    )


def find_losses(parts: RunParts, ownership: Ownership) -> LostPositions:
    """Return what finds the partitions that were copied before, if positions may be lost."""
    return LostPositions(parts.config, parts.target, lambda: ownership.pair.sources)


def discovery_maker(
    parts: RunParts, ownership: Ownership, losses: LostPositions
) -> Callable[[IsWanted | None], TopicDiscovery]:
    """Return what makes a discovery of the partitions that a function selects, or of all.

    All discoveries of a run read the topics and the commit topic together.
    """
    topics = PairTopicsReader(parts.config, parts.source, parts.target)
    committed = CommittedPositions(parts.target, ownership.topic)
    return partial(
        TopicDiscovery,
        *(parts.config, parts.source, parts.target, topics, committed),
        holds=parts.holds,
        losses=losses,
    )


class WholeRun:
    """One run that copies its pipeline alone; it can run once.

    Args:
        parts: what was made before.

    Attributes:
        leads: whether it does what one run does for the whole pipeline.
        has_joined: whether it takes part without slots; it never does.
    """

    leads, has_joined = True, False

    def __init__(self, parts: RunParts) -> None:
        self._parts, self._ownership = parts, own_pipeline(parts)

    def prepare(self) -> None:
        """Do what needs no Spark: nothing, as all else is written or read after the takeover."""

    def run(self, slots: int, stopping: StopFlag) -> Finished:
        """Take the pipeline over, and copy it until stopped, or until caught up.

        Raises:
            Superseded, OwnershipLost: another run has taken it over.
            K2kError: as ``Driver.run``.
        """
        parts, ownership = self._parts, self._ownership
        discovery = discovery_maker(parts, ownership, find_losses(parts, ownership))(None)
        driver = Driver(parts, ownership, discovery, parts.status.add_driver(), stopping)
        try:
            return driver.run(slots)
        except (Superseded, OwnershipLost):
            ownership.close(fence=False)  # the process may continue as a standby
            raise

    def close(self) -> None:
        """Disconnect; the driver does so when it ends."""
