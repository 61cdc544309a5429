"""Read the pipelines of a directory again and again, a few at a time.

With many pipelines, each is read less often. One whose cluster does not answer delays no other: see
:mod:`k2ktui.fleet.connections`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from k2ktui.fleet.connections import Connections, SharedCluster
from k2ktui.fleet.files import PipelineFile
from k2ktui.fleet.model import FleetRow, first_row, make_row
from k2ktui.sync.flow import Flow
from k2ktui.sync.liveness import SETTLE_S
from k2ktui.watch.facts import Facts, Known, StateFacts
from k2ktui.watch.feed import Feed, Listener
from k2ktui.watch.model import PartName, PipelinePair, View
from k2ktui.watch.pipeline_reader import PipelineReader, make_assembler
from k2ktui.watch.readers import Clusters, Reader, StateReader, make_readers

# Pipelines that are connected at once. With more, each reading connects anew.
CONNECTED = 8
# Of many pipelines, one begins to be read each so many seconds: that bounds the share of a core.
_PACE_S = 0.25
_CLOSE_S = 0.5
# At the latest, a waiting thread looks again after so many seconds.
_LOOK_S = 1.0
# The source last: lag is of positions that were read before the ends.
_PARTS = (PartName.TARGET, PartName.STATE, PartName.SOURCE)
_NO_PAIR = PipelinePair("")


@dataclass(frozen=True, slots=True)
class _AskedReader:
    """The reader of a part; it fails at once if the cluster has just not answered another one."""

    shared: SharedCluster
    reader: Reader

    def read(self, known: Known) -> Facts:
        """Read the part."""
        with self.shared.asked():
            return self.reader.read(known)

    def close(self) -> None:
        """Disconnect."""
        self.reader.close()


class _Pipeline:
    """A pipeline, read for its row: heartbeats, positions, log ends and drills.

    Coverage and groups are in the summary that ``start`` and ``sync`` write: to read them anew
    takes the whole mapping of each pipeline.

    Attributes:
        clusters: the clusters that a reading needs.
        due: when it is read next (monotonic seconds).
        is_busy: whether a thread reads it now.
    """

    def __init__(self, path: Path, flow: Flow, connections: Connections) -> None:
        self._path = path
        source = connections.find(flow.config.source, "source")
        target = connections.find(flow.config.target, "target")
        self.clusters = source, target
        clusters = Clusters(source.cluster, target.cluster)
        readers = make_readers(flow, _PARTS, clusters=clusters, settle=False)
        self._state = readers[PartName.STATE]
        asked: dict[PartName, Reader] = {
            part: _AskedReader(source if part is PartName.SOURCE else target, reader)
            for part, reader in readers.items()
        }
        self._reader = PipelineReader(asked, make_assembler(flow))
        self.due, self.is_busy = 0.0, False

    @property
    def is_settled(self) -> bool:
        """Whether it is known which runs are alive; otherwise a reading some seconds later is."""
        return isinstance(self._state, StateReader) and self._state.is_settled

    def read(self) -> FleetRow:
        """Read the pipeline now; a part that cannot be read is a problem of the row."""
        for part in _PARTS:
            self._reader.try_read(part)
        state = self._reader.facts(PartName.STATE)
        summary = state.summary if isinstance(state, StateFacts) else None
        return make_row(self._path, self._reader.view(), summary)

    def disconnect(self) -> None:
        """Close the connections of its own; the next reading opens them again."""
        self._reader.close()


class FleetFeed(Feed):
    """Reads the pipelines of a directory.

    Its views say only that a row is new; the rows are in :attr:`rows`. Closing it leaves them being
    read: a console that comes back finds them.

    Args:
        files: the pipeline files.
        interval: seconds between readings of a pipeline; longer if there are many.
        pair: what a screen's header names.

    Attributes:
        files, pair: as above.
    """

    def __init__(
        self, files: Sequence[PipelineFile], interval: float, pair: PipelinePair = _NO_PAIR
    ) -> None:
        self.files, self.pair = tuple(files), pair
        connections = Connections(2 * CONNECTED)
        self._connections = connections
        self._rows = {file.path: first_row(file, time.time()) for file in files}
        self._pipelines = [
            _Pipeline(file.path, file.flow, connections) for file in files if file.flow is not None
        ]
        count = len(self._pipelines)
        super().__init__(interval, least_s=_PACE_S * count if count > CONNECTED else 0.0)
        self._stays_connected = count <= CONNECTED
        self._listener: Listener | None = None
        self._has_begun = self._is_over = False
        self._wake = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, name=f"watch-fleet-{number}", daemon=True)
            for number in range(min(CONNECTED, count))
        ]

    def environments(self, pipelines: Collection[str]) -> list[str]:
        """Return the environments of pipelines, as far as their files are valid."""
        return [
            file.flow.config.environment
            for file in self.files
            if file.flow is not None and file.name in pipelines
        ]

    @property
    def rows(self) -> list[FleetRow]:
        """The last row of each pipeline, in the order of the files."""
        return list(self._rows.values())

    @property
    def is_settled(self) -> bool:
        """Whether every pipeline was read, and it is known which of its runs are alive."""
        return all(row.taken_at is not None for row in self.rows) and all(
            pipeline.is_settled for pipeline in self._pipelines
        )

    def begin(self) -> None:
        """Start reading before there is a listener."""
        self._has_begun = True
        for thread in self._threads:
            thread.start()

    def start(self, listener: Listener) -> None:
        """Pass a view for each row that is read, and the first one at once."""
        self._listener = listener
        if not self._has_begun:
            self.begin()
        self.tell()

    def tell(self) -> None:
        """Tell the listener that a row is new."""
        if (listener := self._listener) is not None and not self._is_over:
            listener(View(self.pair, self.now(), {}))

    def refresh(self) -> None:
        """Read every pipeline now."""
        with self._wake:
            for pipeline in self._pipelines:
                pipeline.due = 0.0
            self._wake.notify_all()

    def close(self) -> None:
        """Pass no more views; rows are read until :meth:`end`."""
        self._listener = None

    def end(self) -> None:
        """Stop; a thread that still waits for a cluster ends with the process."""
        with self._wake:
            self._is_over = True
            self._wake.notify_all()
        until = monotonic() + _CLOSE_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - monotonic()))

    def _run(self) -> None:
        while (pipeline := self._take()) is not None:
            began = monotonic()
            row = pipeline.read()
            if not self._stays_connected:
                pipeline.disconnect()
            self._connections.release(*pipeline.clusters)
            pause = self.interval if pipeline.is_settled else min(SETTLE_S, self.interval)
            with self._wake:
                self._rows[row.file] = row
                pipeline.is_busy, pipeline.due = False, began + pause
                self._wake.notify_all()
            self.tell()

    def _take(self) -> _Pipeline | None:
        """Wait for a pipeline that is due and whose clusters are free; None at the end."""
        with self._wake:
            while not self._is_over:
                now = monotonic()
                idle = sorted(
                    (pipeline for pipeline in self._pipelines if not pipeline.is_busy),
                    key=lambda pipeline: pipeline.due,
                )
                for pipeline in idle if not self.paused else ():
                    if pipeline.due > now:
                        break
                    if self._connections.take(*pipeline.clusters):
                        pipeline.is_busy = True
                        return pipeline
                # One that is due waits for a reading that ends, which wakes this thread.
                next_due = next((one.due for one in idle if one.due > now), now + _LOOK_S)
                self._wake.wait(min(next_due - now, _LOOK_S))
        return None


def read_fleet(files: Sequence[PipelineFile], timeout: float) -> list[FleetRow]:
    """Read every pipeline once, until it is known which runs are alive.

    Args:
        files: the pipeline files.
        timeout: seconds after which the rows are returned as they are.
    """
    feed = FleetFeed(files, SETTLE_S)
    news = threading.Event()
    feed.start(lambda view: news.set())
    until = monotonic() + timeout
    try:
        while not feed.is_settled and (left := until - monotonic()) > 0:
            news.wait(min(left, 1.0))
            news.clear()
        return feed.rows
    finally:
        feed.end()
