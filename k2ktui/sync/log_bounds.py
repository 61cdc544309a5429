"""Topics, logs and their bounds: of all partitions that are asked for, or of those that answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.mapping.replica import TargetLog, TargetPartition
from k2ktui.engine.moves.positions import SourceLog
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.topic_description import is_missing
from k2ktui.text import list_names, safe_text

_NAMED = 3
_UNCHANGED = "Nothing was changed."


def existing_topics(
    cluster: Cluster, names: Collection[str], unknown: str
) -> dict[str, TopicDescription]:
    """Return the descriptions of those topics that exist.

    Args:
        cluster: where.
        names: of the topics.
        unknown: what is not known while one of them cannot be read, as a sentence begins.

    Raises:
        ConnectionFailed, TimedOut: whether one of them exists is not known.
    """
    descriptions = {}
    for name, topic in cluster.describe(sorted(names)).items():
        if isinstance(topic, TopicDescription):
            descriptions[name] = topic
        elif not is_missing(topic):
            raise TimedOut(
                f"topic {safe_text(name)} on the {cluster.label} cluster cannot be read: "
                f"{safe_text(topic.str())}",
                unchanged=_UNCHANGED,
                hint=f"{unknown} is not known: correct this first.",
            )
    return descriptions


def available_bounds(
    cluster: Cluster,
    partitions: Collection[TargetPartition],
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[TargetPartition, TargetLog]:
    """Return the bounds of partitions; partitions that cannot be read are left out.

    Args:
        cluster: where.
        partitions: topic and number of each.
        isolation: whether the end is the last stable offset, or the high watermark.
    """
    where = sorted(partitions)
    starts = cluster.offsets(where, OffsetSpec.earliest())
    ends = cluster.offsets(where, OffsetSpec.latest(), isolation)
    return {at: TargetLog(starts[at], ends[at]) for at in where if at in starts and at in ends}


def require_bounds(
    cluster: Cluster, partitions: Collection[tuple[str, int]], *bounds: Collection[tuple[str, int]]
) -> None:
    """Refuse to decide anything while a bound of a partition that exists is not known.

    Args:
        cluster: where.
        partitions: topic and number of each.
        bounds: those of which a bound is known; one collection for each bound.

    Raises:
        TimedOut: a partition is missing in one of them, as while it has no leader.
    """
    missing = {at for at in partitions if any(at not in known for known in bounds)}
    if missing:
        names = list_names([SourcePartition(*at) for at in sorted(missing)], _NAMED)
        raise TimedOut(
            f"{names} on the {cluster.label} cluster cannot be read: the partition may have no "
            "leader yet",
            unchanged=_UNCHANGED,
            hint="Repeat the command when all partitions have a leader.",
        )


def read_source_logs(
    source: Cluster,
    topics: Mapping[str, object],
    partitions: Iterable[SourcePartition],
    *,
    required: bool = False,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[SourcePartition, SourceLog]:
    """Return the logs of those partitions that exist.

    Args:
        source: where.
        topics: descriptions of topics, as ``Cluster.describe`` returns them.
        partitions: the partitions; those of other topics do not exist.
        required: whether one whose bounds cannot be read is refused; otherwise it is left out.
        isolation: as for :func:`available_bounds`.

    Raises:
        ConnectionFailed: the source did not answer.
        TimedOut: as well, or as for :func:`require_bounds`.
    """
    known = {name: topic for name, topic in topics.items() if isinstance(topic, TopicDescription)}
    where = [
        (at.topic, at.partition)
        for at in partitions
        if at.topic in known and at.partition < known[at.topic].partitions
    ]
    bounds = available_bounds(source, where, isolation)
    if required:
        require_bounds(source, where, bounds)
    return {
        SourcePartition(*at): SourceLog(bound.start, bound.end, known[at[0]].topic_id)
        for at, bound in bounds.items()
    }
