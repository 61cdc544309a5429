"""What drill checks work on: a flow, what the drill knows, and readings that checks share.

Each reading is made once and kept, errors included, so that an unreachable cluster costs its
time-out once. Checks run side by side: the first that needs a reading makes it, the others wait
for it. After the drill has changed something, make a new context.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic, sleep, time
from typing import Any, Self, TypeVar, cast

from k2ktui.config.clusters import ClusterConfig, Role
from k2ktui.config.model import PipelineConfig
from k2ktui.drill.facts import DrillMeasures, GroupReads
from k2ktui.drill.forward import ForwardPipeline
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.moves.groups import GroupRow, Snapshot, make_group_rows
from k2ktui.engine.moves.plan import Plan
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.faults import fault
from k2ktui.kafka.admin.probe import NotDisclosed, Probe
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.unreachable import await_open
from k2ktui.kafka.wire.cluster import CoordinatorError, NotSent, OutcomeUnknown
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.store import PipelineState, StateStore
from k2ktui.sync.verify.verification import Verification
from k2ktui.text import safe_message
from k2ktui.watch.model import View
from k2ktui.watch.once import Reading, read_once

T = TypeVar("T")
Side = str
SIDES: tuple[Side, Side] = ("source", "target")
_CONNECT_S = 10.0
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
    drill: str = ""


class CheckContext:
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
        self.flow, self.config = flow, flow.config
        self.facts, self.limits = facts, limits
        if snapshot is not None and abs(time() - snapshot.taken_at) > _FRESH_S:
            snapshot = None
        self._given_snapshot = snapshot
        self._known: dict[str, Future[object]] = {}
        self._lock = threading.Lock()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def read(self, name: str, read: Callable[[], T]) -> T:
        """Return a reading, made once, within ``limits.reading_s`` seconds.

        Raises:
            K2kError: the reading failed, now or before.
        """
        with self._lock:
            is_first = name not in self._known
            reading = self._known.setdefault(name, Future())
        if is_first:
            reading.set_result(_within(self.limits.reading_s, name, read))
        result = reading.result()
        if isinstance(result, K2kError):
            raise result
        return cast(T, result)

    def cluster(self, side: Side) -> Cluster:
        """Return a cluster that answers.

        Raises:
            ConnectionFailed, TimedOut: it does not.
        """
        return self._clusters(side)[0]

    def cluster_id(self, side: Side) -> str:
        """Return the id of a cluster; errors as for :meth:`cluster`."""
        return self._clusters(side)[1]

    def _clusters(self, side: Side) -> tuple[Cluster, str]:
        config: ClusterConfig = getattr(self.config, side)

        def connect() -> tuple[Cluster, str]:
            self._await_open(side)
            cluster = Cluster(config, side)
            if side == "source" and not self.expects_source:
                # Another cluster under its address is no source that answers.
                cluster.expected_id = self.facts.cluster_ids[0]
            return cluster, cluster.cluster_id()

        return self.read(f"the {side} cluster", connect)

    def _await_open(self, side: Side) -> None:
        """Check once for all roles whether a cluster accepts connections.

        Raises:
            ConnectionFailed: it does not.
        """
        config: ClusterConfig = getattr(self.config, side)
        self.read(
            f"a connection to the {side} cluster",
            lambda: await_open(side, config.bootstrap_servers),
        )

    def down(self, side: Side) -> K2kError | None:
        """Return why a cluster does not answer; None if it does."""
        try:
            self.cluster(side)
        except (ConnectionFailed, TimedOut) as error:
            return error
        return None

    def probe(self, side: Side, role: Role) -> Probe:
        """Return a connection with the credentials of a client role.

        Raises:
            LoginFailed: the cluster rejected the credentials.
            ConnectionFailed: it does not answer.
        """
        config: ClusterConfig = getattr(self.config, side)

        def connect() -> Probe:
            self._await_open(side)
            probe = Probe(wire(config, role), side)
            try:
                probe.open(_CONNECT_S)
            except BaseException:
                probe.close()
                raise
            self._stack.callback(probe.close)
            return probe

        return self.read(f"the {side} cluster as {role}", connect)

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


def _within(seconds: float, name: str, read: Callable[[], Any]) -> object:
    """Return the result of a reading, or the error that explains why there is none."""
    answers: SimpleQueue[object] = SimpleQueue()

    def run() -> None:
        try:
            answers.put(read())
        except K2kError as error:
            answers.put(error)
        except (NotSent, OutcomeUnknown, CoordinatorError, NotDisclosed) as error:
            answers.put(K2kError(safe_message(error)))
        except Exception as error:  # no thread may end without a result
            answers.put(fault(error))

    # A daemon: a reading that hangs must not keep the process from ending.
    threading.Thread(target=run, name="drill-check", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except Empty:
        return TimedOut(
            f"reading {name} took longer than {seconds:g} s",
            hint="Check that the cluster is up and reachable from here.",
        )
