"""What is copied from a source to a target: by a pipeline of k2ktui, or by another program.

Views, plans and verification work on a :class:`Flow`, whichever program copies the records. What
needs a pipeline (to start it, to move its positions) takes :attr:`Flow.pipeline`.
:class:`k2ktui.mm2.mirror_flow.MirrorFlow` is a flow of MirrorMaker 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.mapping.source import MappingSource

if TYPE_CHECKING:
    from k2ktui.sync.mapping.pair_mappings import PairMappings


class GroupAuditor(Protocol):
    """Compares the offsets that another program translates with the correct ones."""

    def read(self) -> None:
        """Read its new checkpoints; called before the groups are read.

        Raises:
            K2kError: a cluster or a topic cannot be read.
        """
        ...

    def audit(self, rows: Sequence[GroupRow], taken_at: float, notes: Sequence[str]) -> Audit:
        """Compare the checkpoints with translated groups and the notes on their snapshot; pure."""
        ...

    def close(self) -> None:
        """Disconnect from the clusters."""
        ...


@dataclass(frozen=True, slots=True)
class CopierObservation:
    """Whether another program copies, as its traces on the target show.

    Attributes:
        name: the program.
        signs: what shows that it copies; empty if nothing does.
        evidence: what was looked at.
        unproven: why it may copy although nothing shows it; "" if it is proven to be stopped.
        how_to_stop: what the operator does, as a sentence.
    """

    name: str
    signs: tuple[str, ...]
    evidence: str
    unproven: str
    how_to_stop: str


@dataclass(frozen=True, slots=True)
class Flow(ABC):
    """What is copied, how its mappings are read, and what k2ktui may write.

    Attributes:
        config: clusters, topics, groups and limits; contains secrets. Of a flow that another
            program copies, the settings of an equivalent pipeline.
    """

    config: PipelineConfig = field(repr=False)

    @property
    @abstractmethod
    def pipeline(self) -> PipelineConfig | None:
        """The pipeline that may be started and whose positions may be moved.

        None if another pipeline or program copies: only its consumer groups may be moved.
        """

    @abstractmethod
    def path_of(self, topic: str) -> str:
        """Return the name of the path that the records of a source topic take."""

    @abstractmethod
    def open_mappings(self, source: Cluster, target: Cluster) -> MappingSource:
        """Return the source of positions and mappings; reads nothing yet."""

    @property
    def is_mirror(self) -> bool:
        """Whether MirrorMaker 2 copies."""
        return False

    def observe_copier(self, target: Cluster) -> CopierObservation | None:
        """Watch for some seconds whether the other program copies; None if it leaves no traces.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        return None

    @abstractmethod
    def open_auditor(self) -> GroupAuditor | None:
        """Return the auditor of the other program's checkpoints; None if k2ktui copies."""


@dataclass(frozen=True, slots=True)
class PipelineFlow(Flow):
    """A pipeline of k2ktui."""

    @property
    def pipeline(self) -> PipelineConfig | None:
        """The pipeline itself."""
        return self.config

    def path_of(self, topic: str) -> str:
        """Return the copy path of a topic, as far as the file decides it."""
        # Imported late, here and below, so that the first screen does not wait for it.
        from k2ktui.replication.topics.routing import choose_path

        return str(choose_path(self.config, topic=topic).path)

    def open_mappings(self, source: Cluster, target: Cluster) -> MappingSource:
        """Return the pipeline's own topics as the source."""
        from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings

        return PipelineMappings(self.config, target, source)

    def open_auditor(self) -> None:
        """Return None: nothing else translates the groups."""


@dataclass(frozen=True, slots=True)
class SomeTopicsFlow(PipelineFlow):
    """Some topics of a pipeline, as a drill over them sees it; ``config.only`` has chosen them.

    Positions and groups' commits are those of these topics alone.
    """

    def open_mappings(self, source: Cluster, target: Cluster) -> MappingSource:
        """Return the pipeline's own topics as the source, without what is copied besides."""
        from k2ktui.sync.mapping.some_topics import SomeTopicsMappings

        return SomeTopicsMappings(self.config, target)


def only_topics(flow: Flow, topics: Collection[str]) -> Flow:
    """Return a flow with only these source topics; the whole flow without any.

    Raises:
        ValueError: no pipeline of k2ktui copies here.
    """
    if not topics:
        return flow
    if flow.pipeline is None:
        raise ValueError("only the topics of a pipeline can be chosen")
    return SomeTopicsFlow(flow.config.only(topics))


NOTHING_TO_COPY = (
    "This file has no replication section: it translates groups with the mappings of other "
    "pipelines, and copies nothing."
)


@dataclass(frozen=True, slots=True)
class MappingApplicationFlow(PipelineFlow):
    """What pipelines of any name copy between two clusters, as the mapping application sees it.

    Its file has no ``replication`` section: it translates groups, and copies nothing itself.
    """

    @property
    def pipeline(self) -> None:
        """Return None: it has no positions of its own."""
        return None

    def open_mappings(self, source: Cluster, target: Cluster) -> PairMappings:
        """Return the topics of the pipelines between the two clusters as the source."""
        from k2ktui.sync.mapping.pair_mappings import PairMappings

        return PairMappings(self.config, source, target)
