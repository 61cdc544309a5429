"""Both clusters of a pipeline: what checks read of them, and whether they are the right ones.

An address is not a cluster: one that was built again, or restored from a backup, has another
cluster id under the same address, and its offsets are others.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeVar, cast

from k2ktui.config.clusters import ClusterConfig, Role
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import ClusterPair, Side
from k2ktui.errors import ConnectionFailed, InternalError, K2kError, NoAnswer, TimedOut
from k2ktui.faults import fault
from k2ktui.kafka.admin.probe import READING, TRANSACTIONS, WRITING, NotDisclosed, Probe
from k2ktui.kafka.admin.topics import broker_count
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.unreachable import await_open
from k2ktui.kafka.wire.cluster import CoordinatorError, NotSent, OutcomeUnknown
from k2ktui.replication.fencing_errors import describe_changed
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.ownership.pipeline import find_commits
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.committed import COMMITS_S, CommittedTopics, read_committed
from k2ktui.text import counted, safe_message, safe_text

T = TypeVar("T")
SIDES: tuple[Side, Side] = ("source", "target")
ROLES: Mapping[Side, tuple[Role, ...]] = {
    "source": ("consumer", "admin"),
    "target": ("producer", "consumer", "admin"),
}
_CONNECT_S = 10.0
_CLOCK_TOLERANCE_S = 60.0


class ClusterReadings:
    """What checks read of both clusters; a context manager that disconnects at the end.

    Each reading is made once and kept, errors included, so that an unreachable cluster costs its
    time-out once. Checks may run side by side: the first that needs a reading makes it, the others
    wait for it.

    Args:
        config: the pipeline.
        reading_s: seconds for one reading, at most, half of them for the commit topic; None for as
            long as it takes, with the commit topic's usual time-out, on the caller's thread.
    """

    def __init__(self, config: PipelineConfig, reading_s: float | None = None) -> None:
        self.config = config
        self._reading_s = reading_s
        self._commits_s = COMMITS_S if reading_s is None else reading_s / 2
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
        """Return a reading, made once.

        Raises:
            K2kError: the reading failed, now or before.
        """
        with self._lock:
            is_first = name not in self._known
            reading = self._known.setdefault(name, Future())
        if is_first:
            seconds = self._reading_s
            try:
                answer = _ask(read) if seconds is None else _within(seconds, name, read)
                reading.set_result(answer)
            except BaseException as error:  # others wait for it
                reading.set_exception(error)
        result = reading.result()
        if isinstance(result, K2kError):
            raise result
        return cast(T, result)

    def require_open(self, side: Side) -> None:
        """Check once for all roles whether a cluster accepts connections.

        Raises:
            ConnectionFailed: it does not.
        """
        config: ClusterConfig = getattr(self.config, side)
        self.read(
            f"a connection to the {side} cluster",
            lambda: await_open(side, config.bootstrap_servers),
        )

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
        def connect() -> tuple[Cluster, str]:
            self.require_open(side)
            cluster = self._make_cluster(side)
            return cluster, cluster.cluster_id()

        return self.read(f"the {side} cluster", connect)

    def _make_cluster(self, side: Side) -> Cluster:
        return Cluster(getattr(self.config, side), side)

    def topic_names(self, side: Side) -> frozenset[str]:
        """Return the names of all topics of a cluster; errors as for :meth:`cluster`."""
        return self.read(f"the names of the {side}'s topics", self.cluster(side).topic_names)

    def probe(self, side: Side, role: Role) -> Probe:
        """Return a connection with the credentials of a client role; equal roles share one.

        A connection is for one thread at a time: a drill check that uses one is ``serial``.

        Raises:
            LoginFailed: the cluster rejected the credentials.
            ConnectionFailed: it does not answer.
        """
        config: ClusterConfig = getattr(self.config, side)
        wanted = config.properties(role)
        first = next(one for one in ROLES[side] if config.properties(one) == wanted)

        def connect() -> Probe:
            self.require_open(side)
            probe = Probe(wire(config, first), side)
            try:
                probe.open(_CONNECT_S)
            except BaseException:
                probe.close()
                raise
            self._stack.callback(probe.close)
            return probe

        return self.read(f"the {side} cluster as {first}", connect)

    def versions(self, side: Side) -> tuple[str, list[str]]:
        """Return the Kafka release of a cluster, and the requests that it is too old for.

        Errors are those of :meth:`probe`. The release is "" if it is unknown.
        """
        reads = side == "source"
        floor = READING if reads else WRITING
        if not reads and self.config.features.exactly_once:
            floor = {**WRITING, **TRANSACTIONS}
        probe = self.probe(side, "consumer" if reads else "producer")
        return probe.version, probe.too_old_for(floor)

    def clock_ahead(self, side: Side) -> float:
        """Return how many seconds a cluster's clock is ahead of this machine's.

        Raises:
            K2kError: the cluster does not disclose it, or does not answer.
        """
        probe = self.probe(side, "admin")
        return self.read(f"the clock of the {side} cluster", probe.clock_ahead)

    def commit_state(self) -> CommitState | None:
        """Return what the pipeline has committed; None only if there is no commit topic.

        It names the clusters of the last run even where the rest of :meth:`committed` is
        unreadable: nothing else may keep a check from finding that a cluster is another one.

        Raises:
            K2kError: it could not be read.
        """
        target = self.cluster("target")
        return self.read(
            "the cluster ids of the last run",
            lambda: find_commits(self.config, target, self._commits_s),
        )

    def committed(self) -> CommittedTopics:
        """Return what the commit topic says of the pipeline, or why it could not be read.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            InternalError: a fault of the program, which hides nothing else.
        """
        target = self.cluster("target")
        try:
            return self.read(
                "the commit topic", lambda: read_committed(self.config, target, self._commits_s)
            )
        except InternalError:
            raise
        except K2kError as error:
            return CommittedTopics(error=error)


def _ask(read: Callable[[], Any]) -> object:
    """Return the result of a reading, or the error that explains why there is none."""
    try:
        return read()
    except K2kError as error:
        return error
    except (NotSent, OutcomeUnknown, CoordinatorError, NotDisclosed) as error:
        return K2kError(safe_message(error))


def _within(seconds: float, name: str, read: Callable[[], Any]) -> object:
    """Return the result of a reading, or an error; a reading that takes longer is left alone."""
    answers: SimpleQueue[object] = SimpleQueue()

    def run() -> None:
        try:
            answers.put(_ask(read))
        except BaseException as error:  # no thread may end without a result
            answers.put(fault(error))

    # A daemon: a reading that hangs must not keep the process from ending.
    threading.Thread(target=run, name="check", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except Empty:
        return TimedOut(
            f"reading {name} took longer than {seconds:g} s",
            hint="Check that the cluster is up and reachable from here.",
        )


def check_clusters(readings: ClusterReadings) -> Generator[Check, None, list[Side]]:
    """Check that both clusters answer in every role; return those that do not."""
    with ThreadPoolExecutor(len(SIDES)) as pool:
        reached = list(pool.map(partial(_reach, readings), SIDES))
    for checks in reached:
        yield from checks
    return [
        side
        for side, checks in zip(SIDES, reached, strict=True)
        if checks[0].outcome is CheckOutcome.FAIL
    ]


def _reach(readings: ClusterReadings, side: Side) -> list[Check]:
    name = f"{side} cluster"
    try:
        # Connecting in every role takes twice as long to find that nothing listens.
        readings.require_open(side)
        for role in ROLES[side]:
            _log_in(readings, side, role)
        cluster, cluster_id = readings.cluster(side), readings.cluster_id(side)
        brokers = readings.read(f"the brokers of the {side} cluster", lambda: broker_count(cluster))
    except K2kError as error:
        return [Check.error(name, error, fatal=True)]
    except Exception as error:  # a fault on one side must not hide the other's result
        return [Check.error(name, fault(error), fatal=True)]
    where = safe_text(cluster.config.bootstrap_servers)
    detail = f"{counted(brokers, 'broker')} at {where}, cluster id {safe_text(cluster_id)}"
    return [Check.passes(name, detail), _version(readings, side)]


def _log_in(readings: ClusterReadings, side: Side, role: Role) -> None:
    try:
        readings.probe(side, role)
    except NoAnswer:  # to no role
        raise
    except ConnectionFailed as error:
        raise type(error)(f"{role}: {error.message}", hint=error.hint) from error


def _version(readings: ClusterReadings, side: Side) -> Check:
    name = f"{side} version"
    version, missing = readings.versions(side)
    spoken = f"supports the protocol of Kafka {version}"
    if not missing:
        return Check.passes(name, spoken)
    hint = "Upgrade its brokers to Kafka 2.5 or later"
    if not set(missing) - {request.__name__ for request in TRANSACTIONS}:
        hint += ", or set features.exactlyOnce: disabled"
    return Check.fails(name, f"{spoken}, too old for {', '.join(missing)}", f"{hint}.", fatal=True)


def check_ids(readings: ClusterReadings) -> Iterator[Check]:
    """Check that source and target are different clusters."""
    name, source_id = "cluster identity", readings.cluster_id("source")
    if source_id != readings.cluster_id("target"):
        yield Check.passes(name, "source and target are different clusters")
        return
    yield Check.fails(
        name,
        f"source and target are the same cluster ({safe_text(source_id)}): each topic "
        "would be copied onto itself without end",
        "Correct bootstrap.servers of source.kafka or target.kafka.",
        fatal=True,
    )


def check_recorded_ids(readings: ClusterReadings) -> Iterator[Check]:
    """Compare the ids of both clusters with those that the last run recorded."""
    yield _recorded_ids(readings)


def _recorded_ids(readings: ClusterReadings) -> Check:
    name = "cluster ids"
    now = ClusterPair(readings.cluster_id("source"), readings.cluster_id("target"))
    try:
        state = readings.commit_state()
    except K2kError as error:
        return Check.error(name, error)
    if state is None:
        return Check.passes(name, "the pipeline has copied nothing yet")
    if not state.positions:
        return Check.passes(name, "the pipeline has no positions")
    pair = state.run.pair
    if not pair.is_known or not now.is_known:
        side = "the last run" if now.is_known else "a cluster"
        return Check.unknown(name, f"the cluster ids of {side} are not known")
    changed = pair.find_changed(now)
    if not changed:
        return Check.passes(name, "both clusters are those of the last run")
    accept = " ".join(f"--accept-cluster {shlex.quote(safe_text(id_))}" for _, _, id_ in changed)
    return Check.fails(
        name,
        f"{describe_changed(changed)} ({counted(len(state.positions), 'partition')})",
        "If an address is wrong, correct bootstrap.servers. If the cluster was restored from a "
        f"backup, stop every run and accept it: k2ktui start -f FILE {accept}. For a "
        "new cluster beside the old one, set another coordination.commit.group; for a new start in "
        "place of the old cluster, clear the positions: k2ktui offsets clear -f FILE --topic "
        "'.*'.",
        fatal=True,
    )


def check_clocks(readings: ClusterReadings) -> Iterator[Check]:
    """Compare each cluster's clock, if it can be read, with this machine's.

    Ages, lag in seconds and retention on the target combine timestamps of both clusters.
    """
    for side in SIDES:
        name = f"{side} clock"
        try:
            ahead = readings.clock_ahead(side)
        except K2kError as error:
            yield Check.unknown(
                name, f"{error.message}; Kafka offers no other way to read it without writing"
            )
            continue
        word = "ahead of" if ahead >= 0 else "behind"
        offset = f"{abs(ahead):,.3f} s {word} this machine's"
        if abs(ahead) <= _CLOCK_TOLERANCE_S:
            yield Check.passes(name, offset)
        else:
            yield Check.fails(
                name,
                f"{offset}: lag in seconds and retention by time will be off by that much",
                "Synchronize the clocks (NTP) of this machine and of the cluster's nodes.",
            )
