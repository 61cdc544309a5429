"""What the reader and the writer of parity ask of each kind of values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.parity.model import Difference, ParityFindings, ParityItem, ParityMemory
from k2ktui.engine.parity.model import ParityWrite as Write
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.kafka.clients import Cluster


@dataclass(frozen=True, slots=True)
class ParityContext:
    """What a comparison reads from.

    Attributes:
        config: the pipeline.
        source, target: its clusters.
        topics: target topics by source topic, of the topics that are on both clusters.
        drills: drills of the pipeline, which may have fenced the source.
        opposite_drills: those of the opposite pipeline, which may have fenced the target.
        memory: what parity has done on the target.
    """

    config: PipelineConfig
    source: Cluster
    target: Cluster
    topics: Mapping[str, tuple[str, ...]]
    drills: Sequence[Drill]
    opposite_drills: Sequence[Drill]
    memory: ParityMemory


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of values.

    Attributes:
        kind: the kind.
        compare: reads both clusters and returns the differences; raises K2kError if a cluster does
            not answer or does not allow it.
        check: asks the target, without changing it, which writes it would refuse, with the reason.
        read: the values that are set on the target itself, by item; None for none.
        write: makes writes on the target; returns those that were refused, with the reason.
    """

    kind: ParityKind
    compare: Callable[[ParityContext], ParityFindings]
    check: Callable[[Cluster, Sequence[Difference]], Mapping[ParityItem, str]]
    read: Callable[[Cluster, Collection[ParityItem]], Mapping[ParityItem, str | None]]
    write: Callable[[Cluster, Sequence[Write]], Mapping[ParityItem, str]]


def accept_all(target: Cluster, differences: Sequence[Difference]) -> Mapping[ParityItem, str]:
    """Check of a kind that a cluster cannot check without changing it."""
    return {}
