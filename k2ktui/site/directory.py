"""What the pipeline files of a directory say about a site: clusters by their ids, and topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from k2ktui.engine.drill.site_selection import SiteFile
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.fleet.connections import Connections, SharedCluster
from k2ktui.fleet.files import PipelineFile
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.ownership.pipeline import read_recorded_pair
from k2ktui.sync.flow import ANOTHER_COPIES, Flow
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.text import safe_message
from k2ktui.watch.model import cluster_names
from k2ktui.watch.pipeline_reader import describe_pair

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Pipelines that work at the same time; the others wait for their turn."""
_READ_S = 30.0
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class SitePipeline:
    """A pipeline of the directory that can be read.

    Attributes:
        file: its path.
        flow: what it describes; contains secrets.
    """

    file: str
    flow: Flow

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return self.flow.config.name

    @property
    def files(self) -> tuple[str, ...]:
        """Its file, as drills take files."""
        return (self.file,)


def side_by_side(work: Callable[[_T], _R], over: Sequence[_T]) -> list[_R]:
    """Return the results of some work on each of several things, a few of them at a time."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="site") as pool:
        return list(pool.map(work, over))


def list_pipelines(files: Sequence[PipelineFile]) -> list[SitePipeline]:
    """Return the pipelines whose files are valid."""
    return [SitePipeline(str(file.path), file.flow) for file in files if file.flow is not None]


def read_site_files(files: Sequence[PipelineFile]) -> list[SiteFile]:
    """Return what is known of each file; a dead cluster delays only those that need it.

    The id of a source is that of the pipeline's run record on the target. Without a record it is
    that of the cluster that answers.
    """
    connections = Connections(2 * len(files))
    try:
        return side_by_side(lambda file: _read(file, connections), files)
    finally:
        connections.close()


def _read(file: PipelineFile, connections: Connections) -> SiteFile:
    path = str(file.path)
    if file.flow is None:
        why = " ".join(file.error.message.split()) if file.error is not None else ""
        return SiteFile(path, file.name, why=f"it is not valid: {why}")
    flow, config = file.flow, file.flow.config
    if flow.has_equal_offsets:
        return SiteFile(path, config.name, why=f"no drill moves it: {ANOTHER_COPIES}")
    source_at, target_at = (
        connections.find(config.source, "source"),
        connections.find(config.target, "target"),
    )
    names = cluster_names(
        describe_pair(flow), config.source.bootstrap_servers, config.target.bootstrap_servers
    )
    whys: list[str] = []

    def ask(shared: SharedCluster, look: Callable[[], str]) -> str:
        try:
            with shared.asked():
                return look()
        except K2kError as error:
            log.info("%s: %s", path, error.message)
            whys.append(safe_message(error.message))
            return ""

    def recorded() -> str:
        if flow.pipeline is None:
            return ""
        return read_recorded_pair(config, target_at.cluster, _READ_S).source

    target_id = ask(target_at, target_at.cluster.cluster_id)
    source_id = ask(target_at, recorded) if target_id else ""
    live_id = ask(source_at, source_at.cluster.cluster_id)
    answers = bool(live_id) and (not source_id or live_id == source_id)
    source_id = source_id or live_id
    topics = frozenset[str]()
    if source_id:
        topics = _read_topics(flow, source_at.cluster, target_at.cluster, answers, target_id)
    why = "" if source_id else "; ".join(dict.fromkeys(whys)) or "the source has no cluster id"
    return SiteFile(path, config.name, *names, source_id, target_id, topics, why)


def _read_topics(
    flow: Flow, source: Cluster, target: Cluster, answers: bool, target_id: str
) -> frozenset[str]:
    """Return the source topics that are copied or are to be, as far as the clusters answer."""
    topics: set[str] = set()
    try:
        if answers:
            topics |= {name for name in source.topic_names() if flow.config.topics.matches(name)}
        if target_id:
            topics |= {at.topic for at in flow.read_copier(source, target).positions}
    except NothingCopied:
        pass
    except (ConnectionFailed, TimedOut) as error:
        log.info("topics of %s: %s", flow.config.name, error.message)
    return frozenset(topics)
