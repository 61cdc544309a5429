"""Source partitions that were copied by earlier runs, and whose position the commit topic has lost.

docs/internals/ownership.md#lost-positions has the rules.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.evidence import Evidence, LostPosition
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.ownership.evidence_reader import read_evidence
from k2ktui.text import counted, list_names, safe_text

_NAMED = 5


class LostPositions:
    """Finds lost positions; reads what earlier runs left once, and only if any may be lost.

    It is thread-safe: the slots of a run share it.

    Args:
        config: the pipeline.
        target: its target cluster.
        sources: returns every id that the source cluster has had; empty if it is not known.
    """

    def __init__(
        self,
        config: PipelineConfig,
        target: Cluster,
        sources: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._config, self._target, self._sources = config, target, sources
        self._lock = Lock()
        self._evidence: Evidence | None = None

    def evidence(self) -> Evidence:
        """Return what earlier runs left; raises ConnectionFailed, TimedOut."""
        with self._lock:
            if self._evidence is None:
                self._evidence = read_evidence(self._config, self._target)
            return self._evidence

    def lost_term(self) -> int:
        """Return ``Evidence.lost_term`` for a commit topic that has no run record."""
        return self.evidence().lost_term(self._sources())

    def find(
        self, missing: Mapping[SourcePartition, Collection[Partition]], lost_term: int
    ) -> dict[SourcePartition, LostPosition]:
        """Return which partitions without a position were copied by earlier runs.

        Args:
            missing: the partitions, with the target partitions that their records go to.
            lost_term: positions of this term and earlier ones may be lost; 0 if none is.

        Raises:
            ConnectionFailed, TimedOut: the target did not answer.
        """
        if not lost_term or not missing:
            return {}
        evidence = self.evidence()
        targets = {target for of_one in missing.values() for target in of_one}
        ends = self._target.offsets(targets, OffsetSpec.latest())
        # The end is unknown while a leader moves: such a partition may hold records.
        held = {at: any(ends.get(t, 1) > 0 for t in where) for at, where in missing.items()}
        return evidence.find_lost(held, lost_term, self._sources())


def lost_fault(lost: LostPosition, commit_topic: str) -> Fault:
    """Return the fault of a partition whose position is lost."""
    source = lost.source
    topic, at = safe_text(source.topic), f"{safe_text(source.topic)}:{source.partition}"
    return Fault(
        source,
        FaultKind.POSITION_LOST,
        f"{safe_text(source)} was copied before ({_describe(lost)}), and {safe_text(commit_topic)} "
        "has lost its position; it is not copied, as a start from the beginning would copy every "
        "record again",
        "Stop the pipeline and rebuild the position: k2ktui offsets recover -f FILE. Or set it: "
        f"k2ktui offsets set -f FILE {at}:OFFSET. To copy the topic again from its start: k2ktui "
        f"offsets clear -f FILE --topic {shlex.quote(topic)}.",
    )


def positions_lost(
    config: PipelineConfig, lost: Iterable[LostPosition], unchanged: str = "Nothing was copied."
) -> Refused:
    """Return the error of a start of which every partition's position is lost."""
    message, hint = describe_lost(config, lost)
    return Refused(message, unchanged=unchanged, hint=hint)


def describe_lost(config: PipelineConfig, lost: Iterable[LostPosition]) -> tuple[str, str]:
    """Return what is missing of these partitions, and the ways on."""
    by_source = sorted(lost, key=lambda one: one.source)
    names = list_names([str(one.source) for one in by_source], _NAMED)
    newest = max(by_source, key=lambda one: (one.term, one.end or 0))
    topic = safe_text(config.coordination.commit.topic)
    return (
        f"{counted(len(by_source), 'partition')} of pipeline {safe_text(config.name)} "
        f"{'was' if len(by_source) == 1 else 'were'} copied before, and {topic} on the target has "
        f"lost the {'position' if len(by_source) == 1 else 'positions'}: {names}; what is left "
        f"says so ({_describe(newest)}), and a start from the beginning would copy every record "
        "again",
        "Rebuild the positions: k2ktui offsets recover -f FILE. Or set them: k2ktui offsets set -f "
        "FILE TOPIC:PARTITION:OFFSET. To copy everything again on purpose: k2ktui offsets clear -f "
        "FILE --topic '.*'.",
    )


def _describe(lost: LostPosition) -> str:
    term = f" of term {lost.term}" if lost.term else ""
    end = f", up to offset {lost.end}" if lost.end else ""
    return f"{lost.trace}{term}{end}"
