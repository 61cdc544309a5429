"""What is copied from a source to a target: by a pipeline of k2ktui, or by another program.

Views, plans and verification work on a :class:`Flow`, whichever program copies the records. What
needs a pipeline (to start it, to move its positions) takes :attr:`Flow.pipeline`.
:class:`k2ktui.mm2.mirror_flow.MirrorFlow` is a flow of MirrorMaker 2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.audit import Audit
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.mapping.source import CopierState, MappingSource

EQUAL_OFFSETS = "equalOffsets"


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


class FlowKind(Enum):
    """Which program copies a flow, and how much of what it copies is seen.

    Attributes:
        PIPELINE: a pipeline of k2ktui.
        SOME_TOPICS: some topics of a pipeline, as a drill over them sees it.
        ALL_PIPELINES: what pipelines of any name copy, as the mapping application sees it.
        MIRRORMAKER: MirrorMaker 2.
        EQUAL_OFFSETS: another program, whose copies have the offsets of their records.
    """

    PIPELINE = auto()
    SOME_TOPICS = auto()
    ALL_PIPELINES = auto()
    MIRRORMAKER = auto()
    EQUAL_OFFSETS = auto()


@dataclass(frozen=True, slots=True)
class Flow:
    """What is copied, how its mappings are read, and what k2ktui may write.

    Attributes:
        config: clusters, topics, groups and limits; contains secrets. Of a flow that another
            program copies, the settings of an equivalent pipeline; of some topics, ``config.only``
            has chosen them; of all pipelines, it has no ``replication`` section.
        kind: what copies.
    """

    config: PipelineConfig = field(repr=False)
    kind: FlowKind = field(default=FlowKind.PIPELINE, kw_only=True)

    @property
    def pipeline(self) -> PipelineConfig | None:
        """The pipeline that may be started and whose positions may be moved.

        None if another pipeline or program copies: only its consumer groups may be moved.
        """
        own = self.kind in (FlowKind.PIPELINE, FlowKind.SOME_TOPICS)
        return self.config if own else None

    @property
    def has_equal_offsets(self) -> bool:
        """Whether another program copies, with equal offsets."""
        return self.kind is FlowKind.EQUAL_OFFSETS

    @property
    def is_mirror(self) -> bool:
        """Whether MirrorMaker 2 copies."""
        return self.kind is FlowKind.MIRRORMAKER

    def path_of(self, topic: str) -> str:
        """Return the name of the path that the records of a source topic take.

        Of a pipeline, as far as the file decides it.
        """
        if self.has_equal_offsets:
            return EQUAL_OFFSETS
        # Imported late, here and below, so that the first screen does not wait for it.
        from k2ktui.replication.topics.routing import choose_path

        return str(choose_path(self.config, topic=topic).path)

    def open_mappings(self, source: Cluster, target: Cluster) -> MappingSource:
        """Return the source of positions and mappings; reads nothing yet."""
        from k2ktui.sync.mapping.equal_offsets import EqualOffsets
        from k2ktui.sync.mapping.pipeline_mappings import PipelineMappings
        from k2ktui.sync.mapping.pipelines_of_pair import PipelinesOfPair

        if self.has_equal_offsets:
            return EqualOffsets(self.config, source, target)
        if self.kind is FlowKind.MIRRORMAKER:
            raise AssertionError("MirrorFlow opens the mappings of MirrorMaker 2")
        if self.kind is FlowKind.SOME_TOPICS:
            return PipelineMappings(self.config, target, some_topics=True)
        of_pair = None
        if self.kind is FlowKind.ALL_PIPELINES:
            of_pair = PipelinesOfPair(self.config, source, target)
        return PipelineMappings(self.config, target, source, of_pair=of_pair)

    def read_copier(self, source: Cluster, target: Cluster) -> CopierState:
        """Read once what the program that copies says; errors as for ``MappingSource``."""
        with closing(self.open_mappings(source, target)) as mappings:
            return mappings.read_copier()

    def observe_copier(self, target: Cluster) -> CopierObservation | None:
        """Watch for some seconds whether the other program copies; None if it leaves no traces.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
        """
        return None

    def open_auditor(self) -> GroupAuditor | None:
        """Return the auditor of the other program's checkpoints; None if k2ktui copies."""
        return None


def flow_of(config: PipelineConfig) -> Flow:
    """Return the flow of a pipeline file: a pipeline, the mapping application, or other copies."""
    kind = FlowKind.PIPELINE if config.replicates else FlowKind.ALL_PIPELINES
    if config.copier == EQUAL_OFFSETS:
        kind = FlowKind.EQUAL_OFFSETS
    return Flow(config, kind=kind)


def only_topics(flow: Flow, topics: Collection[str]) -> Flow:
    """Return a flow with only these source topics; the whole flow without any.

    Raises:
        ValueError: no pipeline of k2ktui copies here.
    """
    if not topics:
        return flow
    if flow.pipeline is None:
        raise ValueError("only the topics of a pipeline can be chosen")
    return Flow(flow.config.only(topics), kind=FlowKind.SOME_TOPICS)


ANOTHER_COPIES = (
    "Another program copies these topics (copier: equalOffsets); it is started and stopped outside "
    "k2ktui."
)
NOTHING_TO_COPY = (
    "This file has no replication section: it translates groups with the mappings of other "
    "pipelines, and copies nothing."
)


def why_nothing_to_start(flow: Flow) -> str:
    """Return why k2ktui copies nothing of a file that is no MirrorMaker 2's; "" if it does."""
    if flow.has_equal_offsets:
        return ANOTHER_COPIES
    return NOTHING_TO_COPY if flow.pipeline is None else ""
