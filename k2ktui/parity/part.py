"""What the reader and the writer of parity ask of each kind of values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.parity.model import ParityFindings, ParityItem, ParityMemory, ParityWrite
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


class Write(Protocol):
    """Makes writes of one kind, or only asks the target about them."""

    def __call__(
        self, target: Cluster, writes: Sequence[ParityWrite], *, only_ask: bool
    ) -> Mapping[ParityItem, str]: ...


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of values.

    Attributes:
        kind: the kind.
        compare: reads both clusters and returns the differences; raises K2kError if a cluster does
            not answer or does not allow it.
        read: the values that are set on the target itself, by item; None for none.
        write: makes writes on the target, or only asks it, without changing it, whether it would
            accept them; returns those that it refuses, with the reason.
    """

    kind: ParityKind
    compare: Callable[[ParityContext], ParityFindings]
    read: Callable[[Cluster, Collection[ParityItem]], Mapping[ParityItem, str | None]]
    write: Write
