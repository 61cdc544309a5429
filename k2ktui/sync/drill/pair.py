"""Read the drills of both directions, which say which cluster the workload uses.

Those of a pipeline are on its target. Those of the opposite pipeline, such as a failback, are on
our source. Its commit group may have any name, so its drills are found by clusters and topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.pair_state import PairState, find_pair_state
from k2ktui.engine.moves.journal import DrillKey
from k2ktui.engine.moves.journal_format import read_state_key, read_state_value
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair, find_ids
from k2ktui.engine.records.state import MalformedRecord
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription, source_cluster, target_cluster
from k2ktui.kafka.control.tail import ControlTail
from k2ktui.replication.ownership.pipeline import read_run_pair
from k2ktui.sync.drill.guard import read_named_fence
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

REVERSE = "-reverse"
_READ_S = 20.0
# Every key of a drill's record has this text: most records are others, and are not decoded.
_DRILL = b"drill"


class OppositeDrills:
    """Reads the drills on our source, whichever pipeline they belong to; keeps them.

    Args:
        config: the pipeline.
        source: its source cluster.
    """

    def __init__(self, config: PipelineConfig, source: Cluster) -> None:
        self._topic, self._source = config.opposite.state_topic, source
        self._is_expected = config.features.bidirectional_replication
        self._tail = ControlTail(source, check_starts=True)
        self._drills: dict[bytes, Drill] = {}

    def read(self) -> tuple[tuple[Drill, ...], str]:
        """Return all drills there, and why they could not be read: "" if they were.

        Those that were read before are kept.

        Raises:
            ConnectionFailed, TimedOut: the source does not answer.
        """
        topic = self._source.describe([self._topic])[self._topic]
        if not isinstance(topic, TopicDescription):
            self._drills = {}
            return (), ""  # there is none, or there may be one that this principal must not see
        try:
            if self._tail.begin(topic):
                self._drills = {}
            for record in self._tail.records(_READ_S):
                self._take(record.key or b"", record.value)
        except K2kError as error:
            # The source answers: nothing else that is read of it depends on this topic.
            why = f"the drills in {safe_text(self._topic)} on the source: {error.message}"
            return tuple(self._drills.values()), why if self._is_expected else ""
        return tuple(self._drills.values()), ""

    def _take(self, key: bytes, value: bytes | None) -> None:
        if _DRILL not in key:
            return
        try:
            _, where = read_state_key(key)
            if not isinstance(where, DrillKey):
                return
            if value is None:
                self._drills.pop(key, None)
            else:
                self._drills[key] = cast("Drill", read_state_value(where, value))
        except MalformedRecord:
            self._drills.pop(key, None)

    def close(self) -> None:
        """Disconnect."""
        self._tail.close()


def choose_opposite(
    drills: Iterable[Drill],
    pipeline: str,
    clusters: tuple[str, str],
    recorded: ClusterPair,
    is_ours: Callable[[str], bool],
) -> tuple[Drill, ...]:
    """Return the drills of the opposite pipeline.

    Several pipelines may copy between the same clusters. A drill that has opened our source has
    the topics there; before, the name of its pipeline tells, as ``config reverse`` gives it.

    Args:
        drills: the drills on our source.
        pipeline: name of our pipeline.
        clusters: ids of our source and target cluster; nothing is found while one is unknown.
        recorded: our run record's pair, with the ids that the clusters had before they were
            restored.
        is_ours: whether our pipeline copies a topic of the source.
    """
    source_ids, target_ids = (find_ids(cluster, [recorded]) for cluster in clusters)
    names = {f"{pipeline}{REVERSE}", pipeline.removesuffix(REVERSE)}
    if not (source_ids and target_ids):
        return ()
    return tuple(
        drill
        for drill in drills
        if drill.source_cluster in target_ids
        and drill.target_cluster in source_ids
        and (
            any(is_ours(bounds.topic) for bounds in drill.opened_ends)
            if drill.opened_ends
            else drill.pipeline in names
        )
    )


def read_pair_state(config: PipelineConfig) -> PairState:
    """Read the state of the pair now; a state that cannot be read is unknown, and says why."""
    source, target = source_cluster(config), target_cluster(config)
    try:
        return _read_pair_state(config, source, target)
    finally:
        source.disconnect()
        target.disconnect()


def _read_pair_state(config: PipelineConfig, source: Cluster, target: Cluster) -> PairState:
    with ThreadPoolExecutor(1) as pool:
        on_source = pool.submit(_read_opposite, config, source, target)
        store = StateStore(config, target, _READ_S)
        own: Collection[Drill] = ()
        failure = ""
        try:
            own = store.read().drills.values()
        except K2kError as error:
            failure = error.message
        finally:
            store.close()
        # Only where no drill is known: it costs a reading of the commit topic.
        named = "" if own else _read_named(config, target)
        opposite, unread = on_source.result()
    state = find_pair_state(own, opposite, named)
    if failure:
        return PairState(fenced_by=state.fenced_by, unread=failure)
    return replace(state, unread=unread)


def refuse_open_drills(config: PipelineConfig) -> None:
    """Refuse what would change under a drill of either direction that has not ended.

    Raises:
        Refused: there is such a drill, or the drills on the target may not be read.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    source, target = source_cluster(config), target_cluster(config)
    store = StateStore(config, target, _READ_S)
    try:
        drills = [*store.read().drills.values(), *_read_opposite(config, source, target)[0]]
    finally:
        store.close()
        source.disconnect()
        target.disconnect()
    for drill in drills:
        if not drill.is_over:
            name = safe_text(drill.id)
            raise Refused(
                f"drill {name} of {safe_text(drill.pipeline)} is open, and depends on the commits "
                "of the source",
                unchanged="Nothing was changed.",
                hint=f"End it first, with its pipeline's file: k2ktui drill resume {name} or "
                f"drill abort {name}.",
            )


def _read_named(config: PipelineConfig, target: Cluster) -> str:
    try:
        return read_named_fence(config, target)
    except K2kError:
        return ""  # what needs the target says that it does not answer


def _read_opposite(
    config: PipelineConfig, source: Cluster, target: Cluster
) -> tuple[tuple[Drill, ...], str]:
    reader = OppositeDrills(config, source)
    try:
        drills, unread = reader.read()
        clusters = source.cluster_id(), target.cluster_id()
        recorded = UNKNOWN_PAIR
        if any((drill.source_cluster, drill.target_cluster) != clusters[::-1] for drill in drills):
            recorded = read_run_pair(config, target, _READ_S)
        is_ours = config.topics.matches
        return choose_opposite(drills, config.name, clusters, recorded, is_ours), unread
    except K2kError:
        return (), ""  # what needs the source says that it does not answer
    finally:
        reader.close()
