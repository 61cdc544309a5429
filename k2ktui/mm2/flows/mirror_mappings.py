"""Mapping source of a MirrorMaker 2 flow, based on its offset syncs.

Offset syncs give the target offsets of some records. MirrorMaker 2's topic is compacted;
``k2ktui sync`` keeps all of them on the target (:mod:`k2ktui.mm2.flows.history`). Between two of
them a translation is a bound; comparing records on both clusters makes it exact
(:mod:`k2ktui.sync.matching.log_comparison`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import ClassVar

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.topic_description import is_missing
from k2ktui.mm2.flows.history import Known, ProvenPosition, SyncHistory
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.topics import MirrorTopics, TimedOffsetSync
from k2ktui.sync.mapping.source import (
    NO_TARGET_COMMITS,
    READ_S,
    Commits,
    CopierState,
    Copies,
    CopiesMissing,
    NothingCopied,
)
from k2ktui.sync.matching.log_comparison import PositionProver
from k2ktui.text import counted, duration, safe_text

log = logging.getLogger(__name__)

_SLOT = -1
# Back-off in seconds after the source did not answer, since every attempt costs a timeout.
_DOWN_S = 30.0
_SHOWN = 5


class MirrorMappings:
    """The ``MappingSource`` of one MirrorMaker 2 flow; see ``sync/mapping/source.py``."""

    not_kept: ClassVar[str] = "offset-syncs and proven positions are not kept on the target"

    def __init__(
        self, flow: FlowProperties, config: PipelineConfig, source: Cluster, target: Cluster
    ) -> None:
        self._flow, self._topics = flow, config.topics
        self._source, self._target = source, target
        self.topics = MirrorTopics(flow, source, target)
        self.history = SyncHistory(config, target)
        self._prover = PositionProver(source, target)
        self._anchors: dict[SourcePartition, OffsetAnchors] = {}
        self._newest: dict[SourcePartition, int] = {}
        self._loaded = self._has_copies = False
        # Syncs read but not taken yet: their topic's reader does not return them again.
        self._untaken: list[TimedOffsetSync] = []
        self._down, self._again_at = "", 0.0

    def read_copier(self, *, heartbeats: bool = False) -> CopierState:
        """Read positions and new offset syncs; the arguments and errors are the protocol's."""
        self.topics.read_positions()
        self._untaken += self._new_syncs()
        self._take(self._untaken)
        self._untaken = []
        ends = {at: last + 1 for at, last in self.topics.positions.items()}
        for at, upstream in self._newest.items():
            ends[at] = max(ends.get(at, 0), upstream + 1)
        # Heartbeats are copied as well but are not application data.
        chosen = {at: end for at, end in ends.items() if self._topics.matches(at.topic)}
        if not chosen:
            raise self._nothing()
        self._require_copies(chosen)
        positions = {at: self._position(at, end) for at, end in sorted(chosen.items())}
        if not heartbeats:
            return CopierState(positions)
        self.topics.read_beats()
        self.topics.read_checkpoints()
        now, last = time.time(), self.topics.beats.last
        heard = None if last is None else last / 1000
        notes = _heartbeat(heard, now), self._checkpoints(now)
        return CopierState(positions, heartbeat_at=heard, notes=notes)

    def read(
        self,
        copier: CopierState,
        commits: Commits,
        lowest_commits: Mapping[TargetPartition, int] = NO_TARGET_COMMITS,
        *,
        compare: bool = False,
        timeout: float = READ_S,
    ) -> Copies:
        """Compare records to make translations of committed offsets exact, and keep the proofs.

        Records are compared whenever the source has answered: that is all there is to read.
        """
        wanted = {at: offsets for at, offsets in commits.items() if at in copier.positions}
        if not self._down:
            proven = self._prover.prove(self._anchors, copier.positions, wanted, timeout)
            now = int(time.time() * 1000)
            self.history.add(ProvenPosition(at, anchor, now) for at, anchor in proven)
        replicas = {
            at: Replica(position, anchors=self._anchors_of(at))
            for at, position in copier.positions.items()
        }
        return Copies(copier, replicas, tuple(self._notes()))

    def _anchors_of(self, source: SourcePartition) -> OffsetAnchors:
        return self._anchors.setdefault(source, OffsetAnchors())

    def _notes(self) -> list[str]:
        """Return notes on an unreachable source, ignored records and unproven positions."""
        down = [f"{self._down}: using the offset-syncs read earlier"] if self._down else []
        unseen = [] if self._down else self.topics.unseen_syncs()
        notes = (unseen, self.topics.unreadable(), self.history.notes(), self._prover.notes())
        return [*down, *(note for some in notes for note in some)]

    def expires_at(self, commits: Commits) -> float | None:
        """Return None: what is kept of its syncs does not expire."""
        return None

    def keep(self) -> None:
        """Write new offset syncs and proven positions to the history on the target."""
        self.history.write()

    def close(self) -> None:
        """Close all connections."""
        self.topics.close()
        self.history.close()
        self._prover.close()

    def _new_syncs(self) -> list[TimedOffsetSync]:
        """Return new syncs of the flow's own topic; empty if the source is unreachable."""
        if self._flow.offset_syncs_side == "target":
            return self.topics.new_syncs()
        if self._down and monotonic() < self._again_at:
            return []
        self._down = ""
        try:
            # The fastest way to detect that the source is unreachable.
            self._source.cluster_id()
            return self.topics.new_syncs()
        except (ConnectionFailed, TimedOut) as error:
            log.info(
                "offset syncs on the source not read, again in %g s: %s", _DOWN_S, error.message
            )
            self._down, self._again_at = error.message, monotonic() + _DOWN_S
            return []

    def _take(self, new: Sequence[TimedOffsetSync]) -> None:
        known: Sequence[Known] = new
        if not self._loaded:
            known = self.history.merge(new)
            # Until the source's topic has been read, merge again, to apply all syncs in time order.
            self._loaded = not self._down
            self._anchors, self._newest = {}, {}
            log.info("%s: %s with those kept", self._flow, counted(len(known), "offset sync"))
            if self._loaded:
                self.history.forget()
        else:
            self.history.add(new)
        for item in known:
            if isinstance(item, ProvenPosition):
                self._anchors_of(item.source).prove(item.anchor)
            else:
                sync = item.sync
                self._anchors_of(sync.source).add_record(sync.upstream, sync.downstream)
                self._newest[sync.source] = sync.upstream

    def _require_copies(self, sources: Iterable[SourcePartition]) -> None:
        """Raise a finding if none of the copies exists; asked until one does.

        Every position would be unmapped then, for a reason that no row can know: MirrorMaker 2
        gives its copies other names than the file says.
        """
        names = sorted({self._flow.target_topic(at.topic) for at in sources})
        if self._has_copies:
            return
        described = self._target.describe(names)
        missing = [name for name, answer in described.items() if is_missing(answer)]
        if len(missing) == len(names):
            raise no_copies(self._flow, names)
        self._has_copies = True

    def _position(self, at: SourcePartition, end: int) -> Position:
        topic = self._flow.target_topic(at.topic)
        return Position(end, 0, -1, "", 0, _SLOT, topic, at.partition)

    def _checkpoints(self, now: float) -> str:
        done = "commits them on the target" if self._flow.syncs_groups else "does not commit them"
        written = self.topics.checkpoints
        if not written:
            return f"MirrorMaker 2 has written no checkpoint of a group; it {done}"
        newest = max(checkpoint.at_ms for checkpoint in written.values())
        age = max(0.0, now - newest / 1000)
        count = counted(len(written), "checkpoint")
        return (
            f"MirrorMaker 2 has {count} of group-partitions, the newest "
            f"{duration(age)} old; it {done}"
        )

    def _nothing(self) -> NothingCopied:
        missing = ", ".join(safe_text(name) for name in self.topics.missing())
        why = (
            f"there is no topic {missing}"
            if missing
            else "its topics contain no topic of this flow"
        )
        return NothingCopied(
            f"MirrorMaker 2 has not copied anything on {safe_text(self._flow)}: {why}",
            hint="Check the aliases, and offset-syncs.topic.location and offset.storage.topic.",
        )


def no_copies(flow: FlowProperties, names: Sequence[str], unchanged: str = "") -> CopiesMissing:
    """Return the finding that no topic of a flow exists on the target; ``names`` are looked for."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = ", ".join(safe_text(name) for name in names[:_SHOWN])
    return CopiesMissing(
        f"MirrorMaker 2 copies {counted(len(names), 'topic')} on {safe_text(flow)}, and none is on "
        f"the target under the name that its file gives it: {shown}{more}",
        unchanged=unchanged,
        hint="Compare source.cluster.alias, replication.policy.class and "
        "replication.policy.separator with those of the running MirrorMaker 2; without Describe on "
        "a topic, it counts as missing.",
    )


def _heartbeat(last: float | None, now: float) -> str:
    if last is None:
        return "MirrorMaker 2 has written no heartbeat"
    return f"MirrorMaker 2's last heartbeat was {duration(max(0.0, now - last))} ago"
