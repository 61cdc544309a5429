"""Positions in the offsets topic; a dedicated MirrorMaker 2's are changed while it is stopped.

A dedicated MirrorMaker 2 has no REST API. At startup it reads the newest record of each key in the
topic, so the records written here have byte-identical keys (``mm2/flows/formats.py``), in the
partition that its producer would choose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from k2ktui.engine.moves.positions import PositionPlan, SourceLog
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.keyed_writer import Entry, KeyedWriter
from k2ktui.kafka.control.reader import read_committed
from k2ktui.mm2.flows.connect import NOTHING, STOPPED
from k2ktui.mm2.flows.formats import (
    SOURCE_CONNECTOR,
    ConnectorPartition,
    ForeignRecord,
    connect_offset_key,
    connect_offset_value,
    read_connect_offset,
)
from k2ktui.mm2.flows.liveness import find_signs_of_life, require_stopped
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.resources import state_unknown, topic_unknown
from k2ktui.mm2.offsets.positions import NOT_READ, Connector
from k2ktui.mm2.offsets.positions_backup import AppliedChange, back_up, not_put_back
from k2ktui.mm2.offsets.source_logs import read_bounds
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_READ_S = 60.0
_UNCHANGED = "No offset was changed."


class TopicPositions:
    """Positions of one flow in the offsets topic.

    Those of a dedicated MirrorMaker 2 can be changed. Those of a connector on Kafka Connect are
    only read: Connect alone knows whether the connector is stopped.

    Args:
        flow: the flow, from its file.

    Attributes:
        flow: the flow.
    """

    def __init__(self, flow: FlowProperties) -> None:
        self.flow = self._flow = flow
        self._connector = flow.connector.name if flow.connector else SOURCE_CONNECTOR
        self._target = Cluster(flow.cluster("target"), "target")

    def read(self) -> Connector:
        """Read the positions, and whether MirrorMaker 2 runs.

        Raises:
            Refused: the topic does not exist, or reading it is not authorized.
            ConnectionFailed, TimedOut: the target did not answer.
        """
        flow = self._flow
        if flow.connector:
            name, state = self._connector, NOT_READ
        else:
            running = find_signs_of_life(flow, self._target)
            name, state = str(flow), "RUNNING" if running else STOPPED
        return Connector(name, flow.source_alias, state, flow.reset, self.positions())

    def bounds(self, sources: Collection[SourcePartition]) -> dict[SourcePartition, SourceLog]:
        """Return the bounds of the flow's source partitions.

        Raises:
            K2kError: the source cluster cannot be queried.
        """
        return read_bounds(self._flow.cluster("source"), sources)

    def require_stopped(self, unchanged: str) -> None:
        """Check that it is stopped; see :func:`k2ktui.mm2.flows.liveness.require_stopped`.

        Raises:
            ConfigError: the connector runs on Kafka Connect.
        """
        if self._flow.connector:
            raise state_unknown(self._flow.file, self._flow.connector, unchanged)
        require_stopped(self._flow, self._target, unchanged)

    def positions(self) -> dict[SourcePartition, int]:
        """Return the next offset to copy of each partition that has a position.

        Raises:
            ConfigError: the topic is not known.
            Refused: the topic does not exist, or reading it is not authorized.
            ConnectionFailed, TimedOut: the target did not answer.
        """
        topic = self._flow.connect_offsets_topic
        if not topic and self._flow.connector:
            raise topic_unknown(self._flow.file, self._flow.connector)
        described = self._target.describe([topic])[topic]
        if not isinstance(described, TopicDescription):
            raise Refused(
                f"{safe_text(topic)} cannot be read on the target cluster: "
                f"{safe_text(described.str())}",
                unchanged=NOTHING,
                hint="Check the aliases in mm2.properties and offset.storage.topic, which make "
                "its name; MirrorMaker 2 creates it at its first start.",
            )
        positions: dict[SourcePartition, int] = {}
        for record in read_committed(self._target, topic, described.partitions, _READ_S):
            try:
                read = read_connect_offset(record.key, record.value)
            except ForeignRecord:
                continue
            if read is None or not self._is_ours(read[0]):
                continue
            at, last = read
            if last is None:
                positions.pop(at.source, None)
            else:
                positions[at.source] = last + 1
        return positions

    def _is_ours(self, at: ConnectorPartition) -> bool:
        return at.connector == self._connector and at.cluster == self._flow.source_alias

    def apply(self, change: PositionPlan, on_step: Callable[[str], None]) -> AppliedChange:
        """Apply a confirmed change while MirrorMaker 2 is stopped.

        Raises:
            Refused: it runs, or the effect of the change is different by now.
            PartlyApplied: a step failed and could not be undone.
            K2kError: a step failed; the previous offsets were restored.
        """
        if self._flow.connector is None:
            on_step("checking that it is stopped")
        self.require_stopped(_UNCHANGED)
        now = self.positions()
        kept = back_up(change, str(self._flow), self._flow.source_alias, now, on_step)
        writer = KeyedWriter(self._target, self._flow.connect_offsets_topic)
        try:
            self._write(writer, {m.source: m.then for m in change.changes})
        except BaseException as error:
            if isinstance(error, Refused) and self.positions() == now:
                raise  # nothing was written, so there is nothing to restore
            log.warning("%s: not moved, restoring the positions before", change.pipeline)
            log.debug("the cause", exc_info=error)
            before = {m.source: now.get(m.source) for m in change.changes}
            self._put_back(writer, before, kept, error)
            raise
        finally:
            writer.close()
        return AppliedChange(kept, STOPPED)

    def _write(self, writer: KeyedWriter, wanted: Mapping[SourcePartition, int | None]) -> None:
        """Write positions and read them back."""
        writer.put([self._entry(source, position) for source, position in wanted.items()])
        stored = self.positions()
        wrong = [source for source, position in wanted.items() if stored.get(source) != position]
        if wrong:
            raise K2kError(
                f"{safe_text(wrong[0])} is at {stored.get(wrong[0])} after the write, not at "
                f"{wanted[wrong[0]]}: another process writes there",
                unchanged="The previous positions were restored.",
                hint="Find and stop the MirrorMaker 2 that is still running.",
            )

    def _entry(self, source: SourcePartition, position: int | None) -> Entry:
        at = ConnectorPartition(self._connector, self._flow.source_alias, source)
        value = None if position is None else connect_offset_value(position - 1)
        return connect_offset_key(at), value

    def _put_back(
        self,
        writer: KeyedWriter,
        before: Mapping[SourcePartition, int | None],
        kept: Path,
        why: BaseException,
    ) -> None:
        try:
            self._write(writer, before)
        except K2kError as error:
            raise not_put_back(why, error, kept) from why
