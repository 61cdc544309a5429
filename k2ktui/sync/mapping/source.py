"""The source of a flow's positions and mappings; :class:`k2ktui.sync.flow.Flow` opens it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Protocol

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError

# Seconds for reading positions or mappings.
READ_S = 30.0
# What is not compared by then is told, and compared by the next reading.
COMPARE_S = 20.0

Commits = Mapping[SourcePartition, Collection[int]]
NO_TARGET_COMMITS: Mapping[TargetPartition, int] = MappingProxyType({})


class NothingCopied(K2kError):
    """Nothing of the flow has been replicated yet, as far as the target knows its name."""


class CopiesMissing(K2kError):
    """None of the topics that another program copies is on the target by the names of its file."""


class NoPipelineFound(K2kError):
    """No pipeline is known to copy from the source cluster to the target cluster."""


@dataclass(frozen=True, slots=True)
class CopierState:
    """What the program that copies says about itself.

    Attributes:
        positions: the replicated positions.
        clusters: the clusters that they belong to; unknown if it is not said.
        find_moved: returns the topics that drills moved to the target; raises UnreadableRecords if
            they are not known, which positions do not need.
        fenced_by: id of the drill that keeps it from starting, if it is a pipeline whose run record
            names one.
        deleted: source logs that were deleted before all of their records were copied.
        two_way: source partitions of pipelines that leave out what came from the target.
        registered: the producer ids that a pipeline has registered; None if it may have written
            with others, too, or is no pipeline.
        heartbeat_at: its last heartbeat in epoch seconds; None if there is none, or if heartbeats
            were not read.
        notes: messages for the operator, read with the heartbeat.
    """

    positions: Mapping[SourcePartition, Position] = field(default_factory=dict)
    clusters: ClusterPair = UNKNOWN_PAIR
    find_moved: Callable[[], MovedTopics] = lambda: NO_MOVED_TOPICS
    fenced_by: str = ""
    deleted: Mapping[SourcePartition, DeletedLog] = field(default_factory=dict)
    two_way: Collection[SourcePartition] = frozenset()
    registered: Collection[int] | None = None
    heartbeat_at: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of all source partitions, as far as their mappings were asked for.

    Attributes:
        copier: what the program that copies said before the mappings were read.
        replicas: the copies; nothing is known of the logs on either cluster.
        notes: messages for the operator about the mappings.
        conflicts: per source partition that several pipelines map, their names.
        behind: whether mappings below the positions could not be read yet.
        unmapped: why no copied record is mapped; "" if one is.
    """

    copier: CopierState
    replicas: Mapping[SourcePartition, Replica]
    notes: tuple[str, ...] = ()
    conflicts: Mapping[SourcePartition, tuple[str, ...]] = field(default_factory=dict)
    behind: bool = False
    unmapped: str = ""


class MappingSource(Protocol):
    """The recorded positions and mappings of a flow; used by one thread at a time.

    Attributes:
        not_kept: what an operator is told where ``keep`` fails; the reason follows it.
    """

    not_kept: ClassVar[str]

    def read_copier(self, *, heartbeats: bool = False) -> CopierState:
        """Read the replicated positions, and what else the program that copies says.

        Args:
            heartbeats: whether another program's heartbeats are read, too.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer.
            NothingCopied: nothing has been replicated yet.
        """
        ...

    def read(
        self,
        copier: CopierState,
        commits: Commits,
        lowest_commits: Mapping[TargetPartition, int] = NO_TARGET_COMMITS,
        *,
        compare: bool = False,
        timeout: float = READ_S,
    ) -> Copies:
        """Read new mappings, and load what these offsets depend on.

        Args:
            copier: as read before, so that a mapping below a position is there.
            commits: committed offsets on the source, to be translated.
            lowest_commits: the lowest committed offset on each target partition, to be compared.
            compare: whether records are compared on both clusters for offsets whose mapping is
                missing in the topic; only while the source answers.
            timeout: seconds; what could not be read by then is read by the next reading.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            Refused: the principal may not read the mapping topic.
        """
        ...

    def expires_at(self, commits: Commits) -> float | None:
        """Return when the first mapping that groups need expires, unless it is written again.

        Epoch seconds; None if none is needed or expires, or if it is not known. After ``read``.

        Args:
            commits: offsets that groups have committed on the source.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        ...

    def keep(self) -> None:
        """Preserve on the target what would be lost otherwise of what was read last.

        Raises:
            K2kError: the write failed.
        """
        ...

    def close(self) -> None:
        """Disconnect from the clusters."""
        ...
