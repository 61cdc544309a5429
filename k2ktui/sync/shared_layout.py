"""Finds the layout of a pipeline that runs share, and divides the pipeline if it has none.

Only the leader does so (docs/internals/ownership.md). It writes the start positions of all
partitions before the layout is ready: a run that takes a slot over later copies partitions without
a position from their beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from time import monotonic

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import Runner
from k2ktui.engine.ownership.layout_choice import LayoutChoice
from k2ktui.engine.records.editions import UNKNOWN_EDITION, Edition
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.driver.heartbeat import Heartbeat, heartbeats_refused
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded
from k2ktui.replication.ownership.commit_state import (
    CommitState,
    find_newest,
    read_commit_state,
    read_written_runs,
    with_all_partitions,
)
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import describe_malformed
from k2ktui.replication.reports.events import Event, Note
from k2ktui.replication.topics.discovery import TopicDiscovery
from k2ktui.sync.drill.guard import refuse_if_fenced
from k2ktui.sync.liveness import find_ended
from k2ktui.sync.standby import beat_interval_s, describe_runners
from k2ktui.sync.store import StateStore
from k2ktui.text import counted

_READ_S = 10.0
_FRESH_S = 10.0


class LayoutFinder:
    """Finds the layout while this run leads; not thread-safe.

    Args:
        config: the pipeline.
        target: its target cluster.
        ownership: takes the whole pipeline over; closed by the caller.
        make_discovery: returns a new discovery of all partitions.
        heartbeat: this run's heartbeat.
        slots: number of slots of a layout that this run makes.
        report: called with notes for the operator.
    """

    def __init__(
        self,
        config: PipelineConfig,
        target: Cluster,
        ownership: Ownership,
        make_discovery: Callable[[], TopicDiscovery],
        heartbeat: Heartbeat,
        slots: int,
        report: Callable[[Event], None],
    ) -> None:
        self._config, self._target, self._ownership = config, target, ownership
        self._make_discovery, self._heartbeat = make_discovery, heartbeat
        self._slots, self._report = slots, report
        self._choice = LayoutChoice(
            heartbeat.runner,
            config.slots,
            config.coordination.assignment.grace_window_s,
            beat_interval_s(config),
        )
        self._store = StateStore(config, target, _READ_S)
        self._ahead = ""
        self._leadership = 0
        self._topic = ownership.topic

    def find(
        self,
        members: Collection[str],
        outdated: str = "",
        leadership: int = 0,
        edition: Edition = UNKNOWN_EDITION,
        *,
        waits: bool = True,
    ) -> SharedLayout | None:
        """Return the layout; None while another run copies alone or divides the pipeline.

        Call it again about every second.

        Args:
            members: the runs that share the pipeline, or did.
            outdated: id of a layout that one of them found to be outdated; "" for none.
            leadership: how many times this run has begun to lead.
            edition: the edition by which the runs copy; unknown if it does not count.
            waits: wait for other runs; otherwise fence them all, and divide the pipeline again. The
                file of this run counts before those of all other runs then.

        Raises:
            Refused: a drill has fenced the pipeline, a record or topic cannot be used, or this run
                cannot write heartbeats.
            ConnectionFailed, TimedOut: a cluster did not answer.
        """
        self._require_heartbeats()
        state = self._store.read()
        refuse_if_fenced(self._config, state.drills.values())
        if not waits:
            return self._divide(puts_first=True)
        if leadership != self._leadership:
            self._leadership = leadership
            self._choice.begin_to_lead()
        ended = find_ended(state.runners)
        self._choice.observe(state.runners, members, monotonic(), ended)
        self._report_ahead(self._choice.ahead)
        if not self._choice.needs_runs:
            return None
        self._topic = with_all_partitions(self._target, self._topic)
        newest = find_newest(read_written_runs(self._target, self._topic, _READ_S))
        committed = read_commit_state(self._target, self._topic, _READ_S).run.layout
        choice = self._choice.choose(newest, committed, outdated, edition)
        if choice == "use":
            return committed
        if choice == "wait":
            return None
        return self._divide(committed, edition.number)

    def close(self) -> None:
        """Disconnect."""
        self._store.close()

    def _require_heartbeats(self) -> None:
        if self._heartbeat.has_ended:
            raise heartbeats_refused(
                self._config,
                self._heartbeat,
                "runs that share a pipeline need heartbeats",
                "The pipeline was not divided.",
            )

    def _divide(
        self, before: SharedLayout | None = None, edition: int = 0, *, puts_first: bool = False
    ) -> SharedLayout | None:
        """Take the whole pipeline over, and let runs share it; None if another run does.

        A file that does not say how many slots there are keeps the number of the layout before.
        """
        slots = self._slots
        if before is not None and self._config.slots is None:
            slots = before.slots
        self._report(Note(f"shared: divides the pipeline into {counted(slots, 'slot')}"))
        try:
            state = self._ownership.divide(slots, edition, puts_first=puts_first)
            if state.malformed:
                self._report(Note(describe_malformed(self._config, state)))
            self._write_start_positions(state)
            return self._ownership.publish_layout()
        except (Superseded, OwnershipLost) as error:
            self._report(Note(f"shared: {error.message}"))
            return None
        finally:
            self._choice.begin(self._ownership.run.layout)

    def _write_start_positions(self, state: CommitState) -> None:
        new = self._make_discovery().start_positions(
            state.positions, state.moved, self._ownership.lost_term
        )
        term = self._ownership.run.term
        if new:
            self._ownership.write_positions(
                {source: replace(p, term=term, since=term) for source, p in new.items()}
            )

    def _report_ahead(self, ahead: Sequence[Runner]) -> None:
        names = describe_runners(ahead)
        if names and names != self._ahead:
            self._report(Note(f"shared: waiting for {names}, which runs this pipeline exclusively"))
        self._ahead = names


class LayoutSearch:
    """Lets ``LayoutFinder`` work on a thread: dividing takes seconds, and a run is never silent.

    Args:
        find: ``LayoutFinder.find``.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        find: Callable[[Collection[str], str, int, Edition], SharedLayout | None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._find, self._clock = find, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="layout")
        self._search: Future[tuple[SharedLayout | None, float]] | None = None
        self._leadership = 0

    def ask(
        self,
        members: Collection[str],
        outdated: str = "",
        leadership: int = 0,
        edition: Edition = UNKNOWN_EDITION,
    ) -> SharedLayout | None:
        """Return what was found since the last call; None if it is not known yet.

        Args:
            members, outdated, leadership, edition: as for ``LayoutFinder.find``.

        Raises:
            Exception: what ``find`` raised.
        """
        search, self._search = self._search, None
        if search is not None and not search.done():
            self._search = search
            return None
        before, self._leadership = self._leadership, leadership
        layout, at = search.result() if search is not None else (None, 0.0)
        if layout is not None and leadership == before and self._clock() - at < _FRESH_S:
            return layout
        # Nothing was found, or another run has led since.
        self._search = self._thread.submit(
            self._run, frozenset(members), outdated, leadership, edition
        )
        return None

    def close(self) -> None:
        """Wait until the thread has ended."""
        self._thread.shutdown()

    def _run(
        self, members: Collection[str], outdated: str, leadership: int, edition: Edition
    ) -> tuple[SharedLayout | None, float]:
        return self._find(members, outdated, leadership, edition), self._clock()
