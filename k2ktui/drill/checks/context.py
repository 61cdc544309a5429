"""What drill checks work on: a flow, what the drill knows, and readings that checks share.

After the drill has changed something, make a new context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from time import monotonic, sleep, time

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.facts import DrillMeasures, GroupReads
from k2ktui.drill.forward import ForwardPipeline
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.moves.groups import GroupRow, Snapshot, make_group_rows
from k2ktui.engine.moves.plan import Plan
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.preflight.clusters import SIDES, ClusterReadings
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.store import PipelineState, StateStore
from k2ktui.sync.verify.verification import Verification
from k2ktui.watch.model import View
from k2ktui.watch.once import Reading, read_once

_PAUSE_S = 1.0
_FRESH_S = 15.0


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Bounds of the checks.

    Attributes:
        reading_s: seconds for one reading of a cluster; a check makes a few at most.
        sample_s: seconds between two readings that are compared, at most.
        frozen_s: seconds for which the source's end offsets must not move.
        lag_records, lag_s: largest lag of a partition.
        heartbeat_s: largest age of a heartbeat, and of the newest commit of a lagging partition.
        open_transaction_s: age from which an open transaction counts, while producers still run.
        clock_s: largest difference of a clock from this machine's.
        replay_s: seconds of records that the target must keep.
        free_space: share of each log directory that must be free, 0 to 1.
        records: number of newest copied records of a partition that are compared.
        partitions: number of partitions that are sampled.
        objectives: largest measured loss and duration.
    """

    reading_s: float = 60.0
    sample_s: float = 5.0
    frozen_s: float = 10.0
    lag_records: int = 1000
    lag_s: float = 60.0
    heartbeat_s: float = 30.0
    open_transaction_s: float = 60.0
    clock_s: float = 5.0
    replay_s: float = 86_400.0
    free_space: float = 0.1
    records: int = 1000
    partitions: int = 50
    objectives: Objectives = NO_OBJECTIVES


@dataclass(frozen=True, slots=True)
class DrillFacts:
    """What the drill knows; None or empty where it does not know it (yet).

    Attributes:
        kind, phase: of the drill, and where it is.
        cluster_ids: recorded ids of ``source`` and ``target``; empty strings if unknown.
        plan: the plan of the groups.
        compared: the comparison of the next record of each of its rows, in this phase.
        applied: offsets that the drill committed on the target, by group, topic and partition.
        active: groups that had members on the source when the drill began.
        fenced: producer id and epoch that the drill left for each transactional id.
        reads: the first records that groups read on the target.
        measures: measured times and losses.
        tail: source offsets ``[first, end)`` that the drill listed as not copied.
        forward: the forward pipeline of a failback.
        reverse: the reverse pipeline.
        cut_over_ends: end offsets of target partitions before the first client wrote there.
        registry: URL of the schema registry that clients of the target use.
        topics: the source topics of a drill over some topics; empty for the whole pipeline.
        redirects: whether the drill moves the clients' name, if the file has one.
        others: the other pipelines that move with it, in a site drill.
        drill: id of the drill; empty without one.
    """

    kind: DrillKind = DrillKind.REHEARSE
    phase: DrillPhase = DrillPhase.PREFLIGHT
    cluster_ids: tuple[str, str] = ("", "")
    plan: Plan | None = None
    compared: Verification | None = field(default=None, repr=False)
    applied: Mapping[tuple[str, str, int], int] | None = None
    active: frozenset[str] | None = None
    fenced: Mapping[str, tuple[int, int]] | None = None
    reads: tuple[GroupReads, ...] | None = None
    measures: DrillMeasures | None = None
    tail: Mapping[SourcePartition, tuple[int, int]] | None = None
    forward: ForwardPipeline | None = field(default=None, repr=False)
    reverse: PipelineConfig | None = field(default=None, repr=False)
    cut_over_ends: Mapping[tuple[str, int], int] | None = None
    registry: str = ""
    topics: tuple[str, ...] = ()
    redirects: bool = True
    others: tuple[PipelineConfig, ...] = field(default=(), repr=False)
    drill: str = ""


class CheckContext(ClusterReadings):
    """Shared readings of the checks of one phase; a context manager that disconnects at the end.

    Args:
        flow: what is failed over.
        facts: what the drill knows.
        limits: bounds of the checks.
        snapshot: a snapshot of this phase; used if it is younger than 15 s.
    """

    def __init__(
        self,
        flow: Flow,
        facts: DrillFacts = DrillFacts(),
        limits: CheckLimits = CheckLimits(),
        snapshot: Snapshot | None = None,
    ) -> None:
        super().__init__(flow.config, limits.reading_s)
        self.flow = flow
        self.facts, self.limits = facts, limits
        if snapshot is not None and abs(time() - snapshot.taken_at) > _FRESH_S:
            snapshot = None
        self._given_snapshot = snapshot

    def _make_cluster(self, side: Side) -> Cluster:
        cluster = super()._make_cluster(side)
        if side == "source" and not self.expects_source:
            # Another cluster under its address is no source that answers.
            cluster.expected_id = self.facts.cluster_ids[0]
        return cluster

    def down(self, side: Side) -> K2kError | None:
        """Return why a cluster does not answer; None if it does."""
        try:
            self.cluster(side)
        except (ConnectionFailed, TimedOut) as error:
            return error
        return None

    def state(self) -> PipelineState:
        """Return the pipeline's state topic, after it is known which runs are alive."""
        cluster = self.cluster("target")

        def read() -> PipelineState:
            with closing(StateStore(self.config, cluster)) as store:
                return store.read_settled()

        return self.read("the state topic", read)

    @property
    def expects_source(self) -> bool:
        """Whether the source has to answer: always, except in a disaster."""
        return self.facts.kind is not DrillKind.DISASTER

    def view(self) -> View:
        """Return a view of the flow without its groups.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer.
        """
        return self.read("the partitions of both clusters", self._read_view)

    def later_view(self, number: int, is_enough: Callable[[View], bool]) -> View:
        """Return a further view, up to ``limits.sample_s`` seconds after the one before it.

        Args:
            number: 1 for the first one after :meth:`view`, and so on.
            is_enough: whether a view shows what is waited for; it is returned at once then.
        """

        def wait() -> View:
            until = monotonic() + self.limits.sample_s
            while True:
                left = until - monotonic()
                sleep(max(0.0, min(_PAUSE_S, left)))
                view = self._read_view()
                if left <= _PAUSE_S or is_enough(view):
                    return view

        return self.read(f"the partitions of both clusters again ({number})", wait)

    def has_reached(self, phase: DrillPhase) -> bool:
        """Whether the drill is in a phase or past it."""
        order = list(DrillPhase)
        return order.index(self.facts.phase) >= order.index(phase)

    def _read_view(self) -> View:
        for side in SIDES:
            self.cluster(side)
        reading: Reading = read_once(self.flow, groups=False)
        if reading.source_error is not None:
            raise reading.source_error
        return reading.view

    def snapshot(self) -> Snapshot:
        """Return a snapshot of groups and mappings; with kept commits if the source is down.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            Refused: nothing was copied yet.
        """
        if self._given_snapshot is not None:
            return self._given_snapshot
        self.cluster("target")
        return self.read("groups and mappings", lambda: take_snapshot(self.flow))

    def rows(self) -> list[GroupRow]:
        """Return the positions of all groups, translated; errors as for :meth:`snapshot`."""
        snapshot = self.snapshot()
        return self.read("translated positions", lambda: make_group_rows(snapshot))
