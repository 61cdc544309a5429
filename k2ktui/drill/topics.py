"""Which topics a new drill moves, read from both clusters, and what is confirmed before it begins.

They are decided once: the drill's record has their names, and whoever resumes it moves these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import DrillOptions
from k2ktui.engine.drill.topics import (
    UNCHANGED,
    TopicChoice,
    choose_topics,
    describe_begin,
    find_shared_groups,
)
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.name_pattern import NamePattern
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.replication.topics.naming import target_names
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.text import counted, list_names, safe_text

_NAMED = 3


@dataclass(frozen=True, slots=True)
class DrillTopics:
    """The topics of a new drill; all of the pipeline without a choice.

    Attributes:
        choice: what ``--topics`` has chosen; None for the whole pipeline.
        lines: what the operator has to know about the choice; safe to print.
    """

    choice: TopicChoice | None = None
    lines: tuple[str, ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen topics; empty for the whole pipeline."""
        return () if self.choice is None else self.choice.topics


def require_drillable(flow: Flow) -> None:
    """Refuse a drill of what another program copies with equal offsets.

    Raises:
        Refused: whether that program has stopped cannot be proven, nor its topics be opened.
    """
    if flow.has_equal_offsets:
        raise Refused(
            "no drill is possible where another program copies (copier: equalOffsets): k2ktui "
            "can neither stop it nor open its topics",
            unchanged="Nothing was done.",
            hint="Stop that program or promote its topics, then move the groups: k2ktui plan, "
            "apply and verify.",
        )


def read_topics(flow: Flow, kind: DrillKind, options: DrillOptions) -> DrillTopics:
    """Choose the topics of a new drill, and find out which groups read others, too.

    Args:
        flow: the whole flow.
        kind, options: of the drill.

    Raises:
        ConfigError, Refused: as for ``choose_topics``; or the drill cannot be one over some topics,
            or is over all while some were moved before.
        ConnectionFailed, TimedOut: a cluster that it needs does not answer.
        NothingCopied: nothing was replicated yet.
    """
    if flow.pipeline is None:
        if options.topics:
            raise ConfigError(
                "--topics is for pipelines of k2ktui: what else copies cannot leave topics out",
                unchanged=UNCHANGED,
                hint="Leave out --topics.",
            )
        return DrillTopics()
    target = target_cluster(flow.config)
    moved = read_moved(flow.config, target)
    if not options.topics:
        if kind is not DrillKind.REHEARSE:
            _refuse_whole(moved)
        return DrillTopics()
    if kind is not DrillKind.REHEARSE and not flow.config.features.exactly_once:
        raise ConfigError(
            "features.exactlyOnce is disabled: runs cannot be kept from copying some topics",
            unchanged=UNCHANGED,
            hint="Set features.exactlyOnce: enabled, and start the pipeline again.",
        )
    pattern = NamePattern("--topics", options.topics, compile_pattern(options.topics))
    choice = choose_topics(pattern, read_routes(flow, kind, target), moved)
    return DrillTopics(choice, tuple(_describe(flow, kind, choice)))


def _refuse_whole(moved: MovedTopics) -> None:
    """Refuse to move the whole pipeline while some of its topics were moved before."""
    if moved:
        shown = [f"{safe_text(move.topic)} (drill {safe_text(move.drill)})" for move in moved.all]
        raise Refused(
            f"{counted(len(shown), 'topic')} of the pipeline moved already: "
            f"{list_names(shown, _NAMED)}",
            unchanged=UNCHANGED,
            hint="Move the others with --topics REGEX; or let these be copied again first: "
            "k2ktui drill release --topics REGEX -f FILE.",
        )


def name_targets(config: PipelineConfig, topics: Collection[str]) -> tuple[str, ...]:
    """Return the target topics of source topics, which a failback names; without refused ones."""
    names: list[str] = []
    for topic in topics:
        with suppress(K2kError):
            names += target_names(config, topic)
    return tuple(names)


def read_routes(flow: Flow, kind: DrillKind, target: Cluster) -> Mapping[str, tuple[str, ...]]:
    """Return the target topics of each source topic of a pipeline; errors as for ``read_topics``.

    In a disaster, the source's topics are those that were copied.
    """
    config, source = flow.config, source_cluster(flow.config)
    positions = flow.read_copier(source, target).positions
    copied = {at.topic: tuple(p.target_topics) for at, p in positions.items() if p.target_topics}
    routes = {name: names for name, names in copied.items() if config.topics.matches(name, copied)}
    listed = [] if kind is DrillKind.DISASTER else source.topic_names()
    for name in listed:
        if name not in routes and config.topics.matches(name, copied):
            try:
                routes[name] = target_names(config, name)
            except Refused:
                continue  # never copied
    return routes


def _describe(flow: Flow, kind: DrillKind, choice: TopicChoice) -> list[str]:
    snapshot = take_snapshot(flow, for_plans=False)
    read = {name: {topic for topic, _ in v.offsets} for name, v in snapshot.source.items()}
    readers = [name for name, topics in read.items() if topics.intersection(choice.topics)]
    running = [
        name for name in readers if name in snapshot.target and not snapshot.target[name].empty
    ]
    shared = find_shared_groups(read, choice.topics)
    return describe_begin(choice, readers, shared, running, moves=kind is not DrillKind.REHEARSE)
