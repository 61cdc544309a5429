"""How a pipeline's configuration uses the commit topic, and its transaction fencer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.editions import Edition, Editions, layout_id, merge_editions
from k2ktui.engine.run_record import Run, SharedLayout
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.client_settings import produce_settings
from k2ktui.replication.commit_state import (
    CommitState,
    CommitTopic,
    find_newest,
    read_commit_state,
)
from k2ktui.replication.fencing import TransactionFencer
from k2ktui.replication.fencing_errors import TIMEOUT
from k2ktui.replication.slot_fencing import SlotFencer
from k2ktui.text import counted, safe_text

_TRANSACTION_TIMEOUT_MS = 60_000


class UnreadableRecords(Refused):
    """Records of this pipeline in the commit topic cannot be read."""


class PipelineFencer(TransactionFencer):
    """A pipeline's fencer: takes all of it over, also from runs that share it.

    Args:
        config: the pipeline.
        target: its target cluster.
        options: connection options of the target's producer.
        settings: as for TransactionFencer.
    """

    def __init__(
        self, config: PipelineConfig, target: Cluster, options: Mapping[str, Any], **settings: Any
    ) -> None:
        super().__init__(target, options, name=config.name, **settings)
        self._config, self._options, self._settings = config, options, settings
        self._shared_slots = 0
        self._edition, self._puts_first = Edition(), False
        self._parallelism = config.coordination.assignment.fencing_max_parallelism
        self._limit = BoundedSemaphore(self._parallelism)

    def divide(self, slots: int, edition: int = 0, *, puts_first: bool = False) -> None:
        """Let the next ``take_over`` divide the pipeline into slots that runs share.

        ``publish_layout`` lets them begin.

        Args:
            slots: number of slots.
            edition: the number that the runs of this file have announced for its edition.
            puts_first: let the file of this run count before those of all other runs.
        """
        self._shared_slots, self._puts_first = slots, puts_first
        self._edition = Edition(edition, self._digest)

    def publish_layout(self) -> SharedLayout:
        """Begin a term in which runs may take the slots of the layout over; return the layout.

        Raises:
            Superseded, TimedOut: as ``begin_term``.
        """
        assert self._layout is not None
        self._layout = replace(self._layout, ready=True)
        self.begin_term(self.run.slots)
        return self._layout

    def _announce(self, found: Sequence[Run]) -> None:
        """Write the new layout, then fence every shared slot that any layout has had.

        A run that takes a slot over later finds the layout; one that did earlier is fenced here.
        """
        most = max((run.most_shared for run in found), default=0)
        self._layout = None
        # Also of records that were never committed: no number may be used for two files.
        editions = merge_editions(run.editions for run in found)
        if self._shared_slots:
            self._edition = self._choose_edition(editions)
            id_ = layout_id(uuid.uuid4().hex, self._edition)
            self._layout = SharedLayout(id_, self._shared_slots)
        elif not most:
            return
        most = max(most, self._shared_slots)
        slots = max((run.slots for run in found), default=0)
        newest = find_newest(found)
        self.run = replace(newest, slots=slots, most_shared=most, editions=editions)
        # The pair must be a committed one. What was accepted or started in a transaction that was
        # aborted does not count, and what this run copies between is compared only later.
        committed = read_commit_state(self._target, self.topic, self._sync_timeout)
        self._follow(committed)
        recorded = committed.run.pair
        self._pair_on_record = recorded if recorded.is_known else None
        self._owned = True
        try:
            self.begin_term(self.run.slots)
        finally:
            self._owned, self._pair_on_record = False, None
        seconds = self._sync_timeout
        with ThreadPoolExecutor(self._parallelism, thread_name_prefix="fencing") as pool:
            fencing = []
            for slot in range(most):
                self._run(lambda: self._epochs.confirm_ownership(seconds))
                fencing.append(pool.submit(self._fence_shared, slot))
            for each in fencing:
                each.result()

    def _choose_edition(self, editions: Editions) -> Edition:
        """Return the edition of this run's file, for a layout."""
        if not self._digest:
            return Edition()
        if self._puts_first:
            return editions.next(self._digest)
        return editions.edition_of(self._digest, self._edition.number)

    def _editions(self) -> Editions:
        if self._shared_slots and self._edition.digest:
            return self.run.editions.with_edition(self._edition)
        return super()._editions()

    def _fence_shared(self, slot: int) -> None:
        fencer = self.make_slot_fencer(slot, "")
        try:
            fencer.fence()
        finally:
            fencer.close(fence=False)

    def make_slot_fencer(self, slot: int, layout: str) -> SlotFencer:
        """Return the fencer of a shared slot; ``layout`` is the id of its layout.

        ``fencingMaxParallelism`` of the fencers that are made here bump epochs at the same time.
        """
        topic = replace(self.topic, shared_slot=slot)
        settings = {**self._settings, "topic": topic, "name": self._config.name, "digest": ""}
        return SlotFencer(self._target, self._options, layout=layout, limit=self._limit, **settings)

    def read_states(self) -> dict[str, tuple[int, int]]:
        """Return producer id and epoch of each transactional id, as this driver has left them.

        It fences shared slots again.

        Raises:
            Superseded, OwnershipLost: another driver has taken over, or may have.
            ConnectionFailed, TimedOut, Refused: as for :meth:`take_over`.
        """
        with ThreadPoolExecutor(self._parallelism, thread_name_prefix="fencing") as pool:
            shared = list(pool.map(self._read_shared, range(self.run.most_shared)))
        # Last: another driver would have bumped the epoch of the driver's id first.
        found = self._run(lambda: self._epochs.read_states(self._renew_s))
        for states in shared:
            found |= states
        return found

    def _read_shared(self, slot: int) -> dict[str, tuple[int, int]]:
        fencer = self.make_slot_fencer(slot, "")
        try:
            return fencer.fence_and_read()
        finally:
            fencer.close(fence=False)


def commit_topic(config: PipelineConfig, partitions: int) -> CommitTopic:
    """Return how this pipeline uses the commit topic."""
    return CommitTopic(
        config.coordination.commit.topic,
        partitions,
        config.coordination.commit.group,
        config.features.optimize_offset_commit_partition,
    )


def read_pair(config: PipelineConfig, source: Cluster, target: Cluster) -> ClusterPair:
    """Return what a pipeline copies; asks both clusters for their ids, and expects these later.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    mappings = config.offset_mapping.topic if config.features.offset_mapping else ""
    pair = ClusterPair(source.cluster_id(), target.cluster_id(), mappings)
    source.expected_id, target.expected_id = pair.source, pair.target
    return pair


def read_recorded_pair(config: PipelineConfig, target: Cluster, timeout: float) -> ClusterPair:
    """Return the clusters that a pipeline's positions belong to; unknown if it has none.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    state = _read_state(config, target, timeout)
    return state.run.pair if state is not None and state.positions else UNKNOWN_PAIR


def read_run_pair(config: PipelineConfig, target: Cluster, timeout: float) -> ClusterPair:
    """Return the clusters of a pipeline's run record, with their aliases; unknown without one.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    state = _read_state(config, target, timeout)
    return state.run.pair if state is not None else UNKNOWN_PAIR


def _read_state(config: PipelineConfig, target: Cluster, timeout: float) -> CommitState | None:
    found = target.find(config.coordination.commit.topic)
    if found is None:
        return None
    return read_commit_state(target, commit_topic(config, found.partitions), timeout)


def describe_malformed(config: PipelineConfig, state: CommitState) -> str:
    """Return the note about unreadable records of the commit topic.

    Records without this pipeline's key belong to other programs, and stop no pipeline.

    Raises:
        UnreadableRecords: this pipeline's newest record of a key is one of them, and
            ``errorHandling.onControlMessageDeserializationError`` is ``fail``.
    """
    topic = safe_text(config.coordination.commit.topic)
    if state.damaged and config.error_handling.on_control_message_deserialization_error == "fail":
        raise UnreadableRecords(
            f"{counted(state.damaged, 'record')} of this pipeline in {topic} cannot be read: the "
            "positions in them are unknown",
            unchanged="Nothing was copied.",
            hint="Use the release that wrote them, or set "
            "errorHandling.onControlMessageDeserializationError: ignore to continue from the "
            "newest positions that can be read.",
        )
    return f"{counted(state.malformed, 'record')} of {topic} cannot be read and were ignored"


def transaction_timeout_ms(config: PipelineConfig) -> int:
    """Return the timeout of the pipeline's transactions in milliseconds."""
    return int(config.target.properties("producer").get(TIMEOUT) or _TRANSACTION_TIMEOUT_MS)


def make_fencer(
    config: PipelineConfig,
    target: Cluster,
    options: Mapping[str, Any],
    partitions: int,
    pair: ClusterPair | None = None,
    guard: Callable[[str], None] | None = None,
    fence: str | None = None,
    digest: str = "",
) -> PipelineFencer:
    """Return this pipeline's transaction fencer; the caller closes it.

    Args:
        config: the pipeline.
        target: its target cluster.
        options: connection options of the target's producer.
        partitions: number of partitions of the commit topic.
        pair: what the run copies, for its run record; None keeps that of the run before.
        guard, fence, digest: as for TransactionFencer.
    """
    exactly_once = config.features.exactly_once
    timeout_ms = transaction_timeout_ms(config)
    if not exactly_once:
        timeout_ms = int(produce_settings(config).delivery_timeout_s * 1000)
    return PipelineFencer(
        config,
        target,
        options,
        topic=commit_topic(config, partitions),
        transactional=exactly_once,
        timeout_ms=timeout_ms,
        sync_timeout=config.coordination.commit.sync_timeout_s,
        pair=pair,
        bidirectional=config.bidirectional_mode,
        guard=guard,
        fence=fence,
        digest=digest,
    )
