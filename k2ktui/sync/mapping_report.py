"""What a refresh of the mapping store found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from k2ktui.engine.state import SourcePartition


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record of the mapping topic that cannot be used."""

    partition: int
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """A partition of the mapping topic: offsets; ``next`` is the one to be read next."""

    log_start: int
    stable: int
    next: int


@dataclass(frozen=True, slots=True)
class MappingReport:
    """What a refresh found.

    Attributes:
        records: records of the mapping topic that this refresh read.
        malformed: records that cannot be used, since the store was opened; 20 at most.
        malformed_count: how many there were.
        partitions: bounds of each partition of the mapping topic; none if there is no such topic.
        behind: whether mappings below replicated positions could not be read: the end was not
            reached in time, or an open transaction holds them back.
        rivals: source partitions that several pipelines map, with the names of all of them.
    """

    records: int = 0
    malformed: tuple[Malformed, ...] = ()
    malformed_count: int = 0
    partitions: Mapping[int, PartitionBounds] = field(default_factory=dict)
    behind: bool = False
    rivals: Mapping[SourcePartition, tuple[str, ...]] = field(default_factory=dict)
