"""Whether another program still copies: what it says of itself, and what it writes."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka.admin import OffsetSpec

from k2ktui.drill.logs import name_partitions
from k2ktui.kafka.clients import Cluster, Partition, list_partitions
from k2ktui.sync.flow import CopierObservation, Flow
from k2ktui.sync.mapping.source import NothingCopied


def watch_copier(
    flow: Flow, source: Cluster, target: Cluster
) -> tuple[CopierObservation, int] | None:
    """Watch for some seconds whether another program copies; records of its copies are signs, too.

    Args:
        flow: what it copies.
        source: only its name is needed for most flows: it may be down.
        target: where its traces are.

    Returns:
        What was seen, and how many target partitions have copies; None if it leaves no traces.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    before = _read_copy_ends(flow, source, target)
    seen = flow.observe_copier(target)
    if seen is None:
        return None
    after = _read_copy_ends(flow, source, target)
    if grown := [at for at, end in after.items() if before.get(at) != end]:
        names = name_partitions(f"{topic}-{number}" for topic, number in sorted(grown))
        seen = replace(seen, signs=(*seen.signs, f"records were written to {names}"))
    return seen, len(after)


def _read_copy_ends(flow: Flow, source: Cluster, target: Cluster) -> dict[Partition, int]:
    """Return the end offsets of all target partitions that records were copied to."""
    try:
        positions = flow.read_copier(source, target).positions
    except NothingCopied:
        return {}
    named = {name for p in positions.values() for name in p.target_topics}
    where = list_partitions(target, sorted(named))
    return target.offsets(where, OffsetSpec.latest())
