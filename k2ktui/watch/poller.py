"""A live feed: reads the parts of a pipeline periodically, each on its own thread.

A part whose cluster does not answer keeps its last values, with the error; the others continue. A
part never has two reads in flight: a pending one is left out of the next round. The expensive
comparison is read less often.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster, source_cluster
from k2ktui.log.writers import WriterWatch
from k2ktui.sync.flow import Flow
from k2ktui.watch.facts import GroupFacts, Known
from k2ktui.watch.feed import DEFAULT_INTERVAL_S, MIN_INTERVAL_S, Feed, Listener
from k2ktui.watch.history import GroupSample, Sample
from k2ktui.watch.model import PartName, RangeRow
from k2ktui.watch.pipeline_reader import PipelineReader, make_assembler
from k2ktui.watch.readers import make_readers
from k2ktui.watch.unchanged import last_ranges

_GRACE_S = 1.5
_APART_S = 0.5
_CLOSE_S = 0.5
_RANGES = 500
_LONGEST_ERROR = 500
# Minimum seconds between reads of a part; a read may take at most the share _SHARE of the time.
_PACE_S = {PartName.COMPARISON: 15.0}
_SHARE = 0.2


class _Worker:
    """Reads one part on request, on its own thread."""

    def __init__(
        self, name: PartName, reader: PipelineReader, done: Callable[[_Worker], None]
    ) -> None:
        self.asked_at: float | None = None
        self.known: Known = {}
        self._name, self._reader, self._done = name, reader, done
        self._due = threading.Event()
        self._over = False
        self._rests_until = 0.0
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, *, urgent: bool = False) -> None:
        """Request a read, unless one is pending, or ended just now and this is not ``urgent``."""
        if self.asked_at is None and (urgent or monotonic() >= self._rests_until):
            self.asked_at = monotonic()
            self.known = self._reader.known
            self._due.set()

    def end(self) -> None:
        """Make the thread end and disconnect."""
        self._over = True
        self._due.set()

    def join(self, seconds: float) -> None:
        """Wait up to ``seconds`` for the thread to end."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))

    @property
    def pending_s(self) -> float:
        """For how long the attempt has been unanswered; 0 if that is nothing unusual."""
        asked = self.asked_at
        pending = 0.0 if asked is None else monotonic() - asked
        return round(pending, 1) if pending > _GRACE_S else 0.0

    def _run(self) -> None:
        try:
            while True:
                self._due.wait()
                self._due.clear()
                if self._over:
                    return
                began = monotonic()
                self._reader.try_read(self._name, self.known)
                if pace := _PACE_S.get(self._name):
                    self._rests_until = max(began + pace, began + (monotonic() - began) / _SHARE)
                self._done(self)
        finally:
            self._reader.close(self._name)


class Poller(Feed):
    """Makes views of a live pipeline periodically.

    Args:
        reader: reads the parts, and makes the views.
        interval: seconds between polls.
        open_source: connects to the source, to watch its producers.
    """

    def __init__(
        self,
        reader: PipelineReader,
        interval: float = DEFAULT_INTERVAL_S,
        open_source: Callable[[], Cluster] | None = None,
    ) -> None:
        super().__init__(interval, least_s=MIN_INTERVAL_S)
        self._open_source = open_source
        self._wake = threading.Condition()
        self._over = self._asked = self._news = self._joined = self._source_due = False
        self._reader = reader
        self._begun = False
        self._listener: Listener | None = None
        self._workers = {name: _Worker(name, reader, self._note) for name in reader.parts}
        self._thread = threading.Thread(target=self._run, name="watch-poller", daemon=True)

    def begin(self) -> None:
        """Start reading before there is a listener: its first view will not wait for clusters."""
        self._begun = True
        for worker in self._workers.values():
            worker.start()
        self._thread.start()

    def start(self, listener: Listener) -> None:
        """Start polling, unless that was begun, and pass the views to a listener."""
        with self._wake:
            self._listener = listener
            self._joined = self._begun
            self._wake.notify_all()
        if not self._begun:
            self.begin()

    def refresh(self) -> None:
        """Request a poll now."""
        with self._wake:
            self._asked = True
            self._wake.notify_all()

    def watch_writers(self, look_back: int) -> WriterWatch | None:
        """Return what reads who writes to the source, over a connection of its own."""
        return self._open_source and WriterWatch(self._open_source(), look_back)

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        """Return the samples of one partition over the last minutes."""
        return self._reader.assembler.history.series(topic, partition)

    def lags(self, group: str) -> Sequence[GroupSample]:
        """Return the lag of a group over the last minutes."""
        return self._reader.assembler.group_history.series(group)

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        """Return the last mapping ranges of one partition that are held in memory."""
        facts = self._reader.facts(PartName.GROUPS)
        if not isinstance(facts, GroupFacts):
            return ()
        replica = facts.replicas.get(SourcePartition(topic, partition))
        return last_ranges(replica, _RANGES) if replica else ()

    def close(self) -> None:
        """Stop; a thread that still waits for a cluster is abandoned and ends with the process."""
        with self._wake:
            self._over = True
            self._wake.notify_all()
        for worker in self._workers.values():
            worker.end()
        until = monotonic() + _CLOSE_S
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        for worker in self._workers.values():
            worker.join(until - monotonic())

    def _note(self, worker: _Worker) -> None:
        # Both under the lock: otherwise a round could end between the two, and emit a second view.
        with self._wake:
            worker.asked_at = None
            self._news = True
            self._wake.notify_all()

    def _run(self) -> None:
        urgent = True
        while not self._over:
            began = monotonic()
            for name, worker in self._workers.items():
                if name is not PartName.SOURCE:
                    worker.ask(urgent=urgent)
            self._ask_source(began)
            until = max(began + _GRACE_S, monotonic() + _APART_S)
            self._await(until, lambda: not self._pending())
            # Positions may have arrived after the source was asked, but before this view.
            self._follow_target()
            self._emit()
            urgent = self._until_next(began)

    def _ask_source(self, began: float) -> None:
        """Read the source's ends right after the positions, so that lag is of one moment."""
        source = self._workers.get(PartName.SOURCE)
        if source is None:
            return
        target = self._workers.get(PartName.TARGET)
        if target is not None:
            self._await(began + _GRACE_S, lambda: target.asked_at is None)
            asked_at = target.asked_at
            # A target that is merely slow is awaited; one that hangs leaves the source readable.
            self._source_due = (
                self._reader.facts(PartName.TARGET) is not None
                and asked_at is not None
                and asked_at >= began
            )
        if not self._source_due:
            source.ask()

    def _follow_target(self) -> None:
        """Read the source again if positions have arrived since it was asked."""
        source, target = (self._workers.get(n) for n in (PartName.SOURCE, PartName.TARGET))
        if source is None or target is None or target.asked_at is not None:
            return
        newer = source.known.get(PartName.TARGET) is not self._reader.facts(PartName.TARGET)
        if source.asked_at is None and (self._source_due or newer):
            self._source_due = False
            source.ask()

    def _until_next(self, began: float) -> bool:
        """Wait for the next round; emit views for late answers in the meantime.

        Returns:
            Whether the round was requested explicitly.
        """
        while not self._over:
            with self._wake:
                asked, self._asked = self._asked, False
            left = began + self.interval - monotonic()
            if asked or (left <= 0 and not self.paused):
                return asked
            self._await(
                monotonic() + (0.5 if self.paused else left),
                lambda: self._asked or self._news or self._joined,
            )
            if self._over or not (self._news or self._joined):
                continue
            if self._news:
                self._follow_target()
                # Combine late answers that arrive together into one view.
                self._await(monotonic() + _APART_S, lambda: self._joined or not self._pending())
            self._emit()
        return False

    def _pending(self) -> bool:
        return any(worker.asked_at is not None for worker in self._workers.values())

    def _await(self, until: float, ready: Callable[[], bool]) -> None:
        with self._wake:
            while not self._over and not ready():
                left = until - monotonic()
                if left <= 0:
                    return
                self._wake.wait(min(left, 0.5))

    def _emit(self) -> None:
        with self._wake:
            self._news = self._joined = False
            listener = self._listener
        if listener is not None and not self._over:
            pending = {name: worker.pending_s for name, worker in self._workers.items()}
            listener(self._reader.view(pending, _LONGEST_ERROR))


def open_poller(
    flow: Flow,
    interval: float = DEFAULT_INTERVAL_S,
    compare: Flow | None = None,
) -> Poller:
    """Return a feed of a flow's clusters; connects only when it starts.

    Args:
        flow: what is watched.
        interval: seconds between polls.
        compare: a flow of MirrorMaker 2 beside it, whose checkpoints are compared.
    """
    parts = [name for name in PartName if compare or name is not PartName.COMPARISON]
    reader = PipelineReader(make_readers(flow, parts, compare), make_assembler(flow))
    return Poller(reader, interval, partial(source_cluster, flow.config))
