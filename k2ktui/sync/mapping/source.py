"""The source of a flow's positions and mappings; :class:`k2ktui.sync.flow.Flow` opens it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import MappingGaps, Replica, TargetPartition
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.gaps import find_returned_end
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError

if TYPE_CHECKING:
    from k2ktui.sync.mapping.sort import MappingReport

Commits = Mapping[SourcePartition, Collection[int]]


class NothingCopied(K2kError):
    """Nothing of the flow has been replicated yet, as far as the target knows its name."""


class CopiesMissing(K2kError):
    """None of the topics that another program copies is on the target by the names of its file."""


class NoPipelineFound(K2kError):
    """No pipeline is known to copy from the source cluster to the target cluster."""


@dataclass(frozen=True, slots=True)
class CopierState:
    """What another program that copies says about itself.

    Attributes:
        heartbeat_at: its last heartbeat in epoch seconds; None if there is none.
        notes: messages for the operator.
        fenced_by: id of the drill that keeps it from starting, if it is a pipeline whose run record
            names one.
        deleted: source logs that were deleted before all of their records were copied.
    """

    heartbeat_at: float | None = None
    notes: tuple[str, ...] = ()
    fenced_by: str = ""
    deleted: Mapping[SourcePartition, DeletedLog] = field(default_factory=dict)


class MappingSource(Protocol):
    """The recorded mappings of a flow; used by one thread at a time.

    Attributes:
        not_kept: what an operator is told where ``keep`` fails; the reason follows it.
    """

    not_kept: ClassVar[str]

    def positions(self) -> Mapping[SourcePartition, Position]:
        """Read the replicated positions.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer.
            NothingCopied: nothing has been replicated yet.
        """
        ...

    def clusters(self) -> ClusterPair:
        """Return the clusters that the positions read last belong to; unknown if it is not said."""
        ...

    def moved_topics(self) -> MovedTopics:
        """Return the topics that drills moved to the target, as read with the last positions.

        Raises:
            UnreadableRecords: it is not known.
        """
        ...

    def refresh(
        self,
        timeout: float,
        positions: Mapping[SourcePartition, Position],
        commits: Commits,
        lowest_commits: Mapping[TargetPartition, int],
    ) -> MappingReport:
        """Read new mappings, and load what these offsets depend on.

        Args:
            timeout: seconds.
            positions: replicated positions.
            commits: committed offsets on the source, to be translated.
            lowest_commits: the lowest committed offset on each target partition, to be compared.
        """
        ...

    def target_ranges(self, source: SourcePartition) -> Mapping[TargetPartition, MappingRanges]:
        """Return the mapping ranges of a source partition."""
        ...

    def find_gaps(self, source: SourcePartition) -> MappingGaps:
        """Return the gaps of the mapping ranges."""
        ...

    def count_mapped(self, source: SourcePartition) -> int:
        """Return the number of records that the ranges map, including unloaded ranges."""
        ...

    def held_from(self, source: SourcePartition) -> int:
        """Return the source offset from which all ranges are loaded."""
        ...

    def anchors(self, source: SourcePartition) -> OffsetAnchors | None:
        """Return the offset anchors where whole ranges are unavailable; None where they exist."""
        ...

    def compare(self, commits: Commits, timeout: float) -> None:
        """Compare records on both clusters, for offsets whose mapping is missing in the topic.

        After ``refresh``, and only while the source answers.

        Args:
            commits: committed offsets on the source, to be translated.
            timeout: seconds; what was not compared by then is unknown.
        """
        ...

    def compared(self, source: SourcePartition) -> OffsetAnchors | None:
        """Return the anchors that ``compare`` knows or has proven; None if it was not needed."""
        ...

    def untranslatable(self, source: SourcePartition) -> str:
        """Return why offsets of a source partition are not translated; "" if they are."""
        ...

    def notes(self) -> Sequence[str]:
        """Return messages for the operator about the mappings."""
        ...

    def explain_none(self) -> str:
        """Return why no copied record is mapped, "" if one is; after ``refresh``."""
        ...

    def read_copier(self) -> CopierState:
        """Read what the program that copies says about itself.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        ...

    def expires_at(self, commits: Commits) -> float | None:
        """Return when the first mapping that groups need expires, unless it is written again.

        Epoch seconds; None if none is needed or expires, or if it is not known. After ``refresh``.

        Args:
            commits: offsets that groups have committed on the source.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        ...

    def keep(self) -> None:
        """Preserve on the target what would be lost otherwise.

        Raises:
            K2kError: the write failed.
        """
        ...

    def close(self) -> None:
        """Disconnect from the clusters."""
        ...


def make_replica(
    mappings: MappingSource,
    source: SourcePartition,
    position: Position,
    unusable_reason: str,
    source_start: int | None = None,
    source_end: int | None = None,
) -> Replica:
    """Return the state of a source partition's copy, as far as its mappings are loaded.

    Args:
        mappings: the mappings.
        source: the source partition.
        position: its replicated position.
        unusable_reason: why committed offsets do not belong to the copied log; "" if they do.
        source_start: its log start offset, None if it was not read.
        source_end: its high watermark, read after the groups' commits; None if it was not read.
    """
    gaps = mappings.find_gaps(source)
    return Replica(
        position=position,
        target_ranges=mappings.target_ranges(source),
        complete_from=gaps.complete_from,
        source_start=source_start,
        holes=gaps.holes,
        anchors=mappings.anchors(source),
        compared=mappings.compared(source),
        behind=gaps.behind,
        mapped=mappings.count_mapped(source),
        held_from=mappings.held_from(source),
        unusable_reason=unusable_reason,
        left_out_end=max(gaps.left_out_end, find_returned_end(position.gaps)),
        source_end=source_end,
    )
