"""What a drill has measured and observed, for its checks and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from k2ktui.engine.records.state import SourcePartition


@dataclass(frozen=True, slots=True)
class GroupReads:
    """The first records that a group read from one target partition after its move.

    Attributes:
        group: the group, not its shadow.
        source: the source partition.
        source_offset: the group's committed offset there.
        target: topic and partition that were read.
        digests: content digests of the records read, in order (``log.record.content_digest``).
        offsets: their offsets on the target.
    """

    group: str
    source: SourcePartition
    source_offset: int
    target: tuple[str, int]
    digests: tuple[str, ...]
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DrillMeasures:
    """Measured times and losses of a drill; None is unknown, never zero.

    Attributes:
        rto_s: seconds from the declared start to the first record that a group read on the target.
        phases: seconds of each finished phase.
        rpo_records, rpo_bytes, rpo_s: what was committed on the source and is not on the target.
        tool_s: seconds that the tool took so far: a lower bound of the RTO.
        rpo_at_least: a lower bound of ``rpo_records``.
    """

    rto_s: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    rpo_records: int | None = None
    rpo_bytes: int | None = None
    rpo_s: float | None = None
    tool_s: float | None = None
    rpo_at_least: int | None = None
