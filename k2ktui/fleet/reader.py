"""Read one pipeline for its row: heartbeats, positions, log ends and drills.

Coverage and groups are in the summary that ``start`` and ``sync`` write: to read them anew takes
the whole mapping of each pipeline.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from k2ktui.errors import K2kError
from k2ktui.faults import fault
from k2ktui.fleet.connections import Connections, SharedCluster
from k2ktui.fleet.model import FleetRow, make_row
from k2ktui.sync.flow import Flow
from k2ktui.text import safe_text
from k2ktui.watch.clusters import Clusters
from k2ktui.watch.facts import Facts, StateFacts, make_part
from k2ktui.watch.model import Part, PartName
from k2ktui.watch.poller import make_assembler
from k2ktui.watch.readers import Reader, SourceReader, StateReader, TargetReader

log = logging.getLogger(__name__)


class PipelineReader:
    """Reads one pipeline repeatedly; keeps what it read, and its trends; used by one thread.

    Args:
        path: the pipeline's file.
        flow: what the file describes.
        connections: the clusters, which other pipelines share.

    Attributes:
        clusters: the clusters that a reading needs.
    """

    def __init__(self, path: Path, flow: Flow, connections: Connections) -> None:
        self._path, self._name = path, flow.config.name
        source = connections.find(flow.config.source, "source")
        target = connections.find(flow.config.target, "target")
        self.clusters = source, target
        clusters = Clusters(source.cluster, target.cluster)
        self._state = StateReader(flow.config, clusters, settle=False)
        self._readers: Mapping[PartName, tuple[SharedCluster, Reader]] = {
            PartName.TARGET: (target, TargetReader(flow, clusters)),
            PartName.STATE: (target, self._state),
            # Last: lag is of positions that were read before the ends.
            PartName.SOURCE: (source, SourceReader(flow.config, clusters)),
        }
        self._assembler = make_assembler(flow)
        self._known: dict[PartName, Facts] = {}

    @property
    def is_settled(self) -> bool:
        """Whether it is known which runs are alive; otherwise a reading some seconds later is."""
        return self._state.is_settled

    def read(self) -> FleetRow:
        """Read the pipeline now; a part that cannot be read is a problem of the row."""
        parts = {name: self._read_part(name) for name in self._readers}
        view = self._assembler.view(time.time(), self._known, parts)
        state = self._known.get(PartName.STATE)
        summary = state.summary if isinstance(state, StateFacts) else None
        return make_row(self._path, view, summary)

    def disconnect(self) -> None:
        """Close the connections of its own; the next reading opens them again."""
        for _, reader in self._readers.values():
            reader.close()

    def _read_part(self, name: PartName) -> Part:
        shared, reader = self._readers[name]
        error: K2kError | None = None
        try:
            with shared.asked():
                self._known[name] = reader.read(self._known)
        except K2kError as failure:
            log.info("%s of %s: %s", name, safe_text(self._name), failure.message)
            error = failure
        except Exception as failure:  # an internal error must not hide the other rows
            error = fault(failure)
        return make_part(self._known.get(name), error)
