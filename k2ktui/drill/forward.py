"""The forward pipeline of a failback: the one that was failed over and that copies on afterwards.

A failback is run with the file of the reverse pipeline, which copies from the cluster where the
groups are now to the old source. The forward pipeline's file is beside it: ``orders-reverse.yaml``
belongs to ``orders.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.files import forward_path, reverse_path, split_files
from k2ktui.drill.store import DrillStore
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.pair_state import fences_pipeline, find_opened
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConfigError, Refused
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.sync.flow import Flow, only_topics
from k2ktui.text import list_names, safe_text

_NAMED = 3
_UNCHANGED = "Nothing was changed."


class ForwardPipeline:
    """The forward pipeline, with its clusters and its drills.

    Args:
        config: its configuration.
        files: its files on this host.
        topics: its source topics that a failback over some topics returns; empty for all.
    """

    def __init__(
        self, config: PipelineConfig, files: Sequence[str], topics: Collection[str] = ()
    ) -> None:
        self.whole, self.files = config, tuple(files)
        self.topics = tuple(sorted(topics))
        self.config = config.only(topics) if topics else config

    @property
    def name(self) -> str:
        """Its name, safe to print."""
        return safe_text(self.config.name)

    @property
    def file(self) -> str:
        """Its file for commands, safe to print."""
        return safe_text(",".join(self.files))

    @cached_property
    def flow(self) -> Flow:
        """The pipeline as a flow."""
        return only_topics(Flow(self.whole), self.topics)

    @cached_property
    def source(self) -> Cluster:
        """The old source."""
        return source_cluster(self.config)

    @cached_property
    def target(self) -> Cluster:
        """The cluster where the groups are now."""
        return target_cluster(self.config)

    def read_moves(self) -> MovedTopics:
        """Return what drills have moved of it; errors as for ``read_moved``."""
        return read_moved(self.config, self.target)

    def only(self, targets: Collection[str]) -> ForwardPipeline:
        """Return it with the topics that it copies into these.

        Raises:
            Refused: it copies none.
            ConnectionFailed, TimedOut: the target does not answer.
        """
        positions = self.read_positions().items()
        names = {at.topic for at, p in positions if set(p.target_topics).intersection(targets)}
        names |= {move.topic for move in self.read_moves().all if move.target in targets}
        if not names:  # without topics, it would be the whole pipeline
            raise Refused(
                f"{self.name} copies nothing into {list_names(sorted(targets), _NAMED)}",
                unchanged=_UNCHANGED,
                hint="Name the file of the pipeline that was failed over: --forward FILE.",
            )
        return ForwardPipeline(self.whole, self.files, names)

    def require_moved(self, targets: Collection[str]) -> None:
        """Require that drills have moved what it copies into these topics.

        Raises:
            Refused: one was not moved, or is not copied by it.
            ConnectionFailed, TimedOut: the target does not answer.
        """
        missing = sorted(set(targets) - {move.target for move in self.read_moves().all})
        if missing:
            raise Refused(
                f"no drill over some topics of {self.name} has moved {list_names(missing, _NAMED)}",
                unchanged=_UNCHANGED,
                hint=f"Choose topics that have moved: k2ktui status -f {self.file} names them.",
            )

    def read_positions(self) -> Mapping[SourcePartition, Position]:
        """Return its positions; errors as for ``MappingSource.read_copier``."""
        return self.flow.read_copier(self.source, self.target).positions

    def read_drills(self) -> list[Drill]:
        """Return its drills, the newest first; errors as for ``DrillStore.read_all``."""
        store = DrillStore(self.config, self.target)
        try:
            return store.read_all()
        finally:
            store.close()

    def read_fencing(self) -> list[Drill]:
        """Return the drills that keep it from starting."""
        return [drill for drill in self.read_drills() if fences_pipeline(drill)]


def load_forward(files: Sequence[str], named: str = "") -> ForwardPipeline:
    """Return the forward pipeline of a reverse pipeline's files.

    Args:
        files: the reverse pipeline's files.
        named: the forward pipeline's file; empty for the one beside them.

    Raises:
        ConfigError: the file is missing or not valid, or its pipeline copies in one direction.
    """
    name = named or _name_forward(files)
    if not all(Path(part).exists() for part in split_files([name])):
        raise ConfigError(
            f"{safe_text(name)}, the file of the pipeline that was failed over, does not exist",
            unchanged=_UNCHANGED,
            hint="Name it with --forward FORWARD-FILE.",
        )
    config = load_checked((name,)).config
    if not config.features.bidirectional_replication:
        raise ConfigError(
            f"{safe_text(name)}: features.bidirectionalReplication is disabled, so this pipeline "
            "would copy back what the reverse pipeline has copied",
            unchanged=_UNCHANGED,
            hint="Set features.bidirectionalReplication: enabled in this file.",
        )
    return ForwardPipeline(config, [name])


def _name_forward(files: Sequence[str]) -> str:
    path = forward_path(files)
    if path is not None:
        return str(path)
    name, back = safe_text(split_files(files)[0]), reverse_path(files)
    write = ""
    if not back.exists():
        write = f"Run k2ktui config reverse -f {name} > {safe_text(back)}, start that pipeline, "
        write += "then run "
    raise ConfigError(
        f"a failback is run with the file of the reverse pipeline, and {name} is not named as one",
        unchanged=_UNCHANGED,
        hint=f"{write or 'Run '}k2ktui drill failback -f {safe_text(back)}. If {name} is the "
        "reverse pipeline's file, add --forward with that of the pipeline that was failed over.",
    )


def find_failover(forward: ForwardPipeline, own: Collection[Drill], ids: tuple[str, str]) -> Drill:
    """Return the drill that moved the groups to where they are now.

    Args:
        forward: the forward pipeline.
        own: drills of the reverse pipeline.
        ids: cluster ids of the reverse pipeline's source and target.

    Raises:
        Refused: the two files are not of opposite pipelines, no drill has moved the groups, it has
            not ended, or they are back already.
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    _require_opposite(forward, ids)
    latest = find_opened(forward.read_drills())
    back = find_opened(own)
    if latest is None:
        some = bool(forward.read_moves())
        raise Refused(
            f"no drill of {forward.name} has moved its groups to the other cluster",
            unchanged=_UNCHANGED,
            hint="Topics that were moved by themselves go back with --topics REGEX."
            if some
            else "There is nothing to fail back. To move groups, use k2ktui drill planned.",
        )
    if back is not None and _opened_ms(back) > _opened_ms(latest):
        raise Refused(
            f"drill {safe_text(back.id)} has already moved the groups back",
            unchanged=_UNCHANGED,
            hint=f"Read its report: k2ktui drill report {safe_text(back.id)} -f FILE",
        )
    if not latest.is_over:
        raise Refused(
            f"drill {safe_text(latest.id)}, which moved the groups, has not ended",
            unchanged=_UNCHANGED,
            hint=f"Complete it: k2ktui drill resume {safe_text(latest.id)} -f {forward.file}",
        )
    return latest


def _require_opposite(forward: ForwardPipeline, ids: tuple[str, str]) -> None:
    if (forward.target.cluster_id(), forward.source.cluster_id()) != ids:
        raise Refused(
            f"{forward.file} does not copy from the target to the source of the reverse pipeline",
            unchanged=_UNCHANGED,
            hint="Name the file of the pipeline that was failed over: --forward FILE.",
        )


def find_moving_drills(forward: ForwardPipeline, ids: tuple[str, str]) -> list[Drill]:
    """Return the drills that have moved the topics of a failback over some, the newest first.

    Args:
        forward: the forward pipeline, with these topics.
        ids: cluster ids of the reverse pipeline's source and target.

    Raises:
        Refused: the two files are not of opposite pipelines, or a drill has not ended.
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    _require_opposite(forward, ids)
    moves = forward.read_moves()
    names = {move.drill for topic in forward.topics if (move := moves.get(topic)) is not None}
    drills = [drill for drill in forward.read_drills() if drill.id in names]
    for drill in drills:
        if not drill.is_over:
            raise Refused(
                f"drill {safe_text(drill.id)}, which moves some of these topics, has not ended",
                unchanged=_UNCHANGED,
                hint=f"Complete it: k2ktui drill resume {safe_text(drill.id)} -f {forward.file}",
            )
    return drills


def _opened_ms(drill: Drill) -> int:
    return drill.figures.opened_ms or 0
