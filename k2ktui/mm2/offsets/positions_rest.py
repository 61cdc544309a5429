"""Moves a connector's positions through Connect: stop, wait, patch, read back, resume.

The previous offsets are saved to a file before anything is written, and restored if a step fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path

from k2ktui.engine.moves.positions import PositionPlan, SourceLog
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, K2kError, PartlyApplied, Refused
from k2ktui.mm2.flows.connect import NOTHING, PAUSED, STOPPED, Connect
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.settings import connector_flow
from k2ktui.mm2.offsets.positions import (
    SOURCE_CONNECTOR,
    Connector,
    connect_offset,
    connect_offsets,
    read_positions,
    reset_of,
    source_alias,
)
from k2ktui.mm2.offsets.positions_backup import AppliedChange, back_up, not_put_back
from k2ktui.mm2.offsets.source_logs import connector_source, read_bounds
from k2ktui.text import safe_text

log = logging.getLogger(__name__)


class RestPositions:
    """Positions of one connector, through Connect's REST API.

    Args:
        connect: the Connect cluster that runs it.
        name: the connector's name; "" for the only MirrorSourceConnector.
        flow: its flow, from a file; None to take it from Connect.

    Raises:
        ConfigError: ``name`` is empty and there is no connector or more than one.
        ConnectionFailed, TimedOut, K2kError: the request to Connect failed.
    """

    def __init__(
        self, connect: Connect, name: str = "", flow: FlowProperties | None = None
    ) -> None:
        self._connect, self._given = connect, flow
        self._name = name or _only_connector(connect)

    def read(self) -> Connector:
        """Read the connector's state and positions.

        Raises:
            Refused: it is not a MirrorSourceConnector, or Connect is too old to show offsets.
            ConfigError, ConnectionFailed, TimedOut, K2kError: a request to Connect failed.
        """
        self._connect.require("show")
        config = self._connect.config(self._name)
        cluster = source_alias(config, self._name)
        state = self._connect.state(self._name).state
        positions = self._read_stored(cluster)
        return Connector(self._name, cluster, state, reset_of(config), positions)

    @cached_property
    def flow(self) -> FlowProperties:
        """The connector's flow, without the offsets topic, which Connect's API does not show."""
        if self._given is not None:
            return self._given
        return connector_flow(self._connect.config(self._name), "")

    def positions(self) -> dict[SourcePartition, int]:
        """Return the next offset to copy per partition; raises the same errors as :meth:`read`."""
        return dict(self.read().positions)

    def require_stopped(self, unchanged: str) -> None:
        """Check that the connector is stopped; wait for tasks that are ending.

        Raises:
            Refused: it is not stopped.
            TimedOut: its tasks did not end within the configured ``timeout``.
        """
        state = self._connect.state(self._name)
        if state.state == STOPPED:
            self._connect.await_stopped(self._name, unchanged)
        else:
            raise Refused(
                f"connector {safe_text(self._name)} is {safe_text(state.state)} with "
                f"{len(state.tasks)} tasks",
                unchanged=unchanged,
                hint="Stop it with PUT /connectors/NAME/stop; pausing is not enough.",
            )

    def bounds(self, sources: Collection[SourcePartition]) -> dict[SourcePartition, SourceLog]:
        """Return the bounds of the connector's source partitions.

        Raises:
            K2kError: the source cluster cannot be queried.
        """
        if self._given is not None:
            return read_bounds(self._given.cluster("source"), sources)
        return read_bounds(connector_source(self._connect.config(self._name)), sources)

    def apply(self, change: PositionPlan, on_step: Callable[[str], None]) -> AppliedChange:
        """Apply a confirmed change of the connector's positions.

        Args:
            change: the change.
            on_step: called with a message for each step.

        Raises:
            Refused: the effect of the change is different by now, or Connect rejects it; nothing
                was changed.
            PartlyApplied: a step failed and could not be undone.
            K2kError: a step failed; the previous state was restored.
        """
        connect, name = self._connect, self._name
        connect.require("alter")
        was = connect.state(name).state
        if was != STOPPED:
            on_step(f"stopping {safe_text(name)}")
            connect.stop(name)
        try:
            connect.await_stopped(name)
            kept = self._store(change, on_step)
        except BaseException as error:
            self._resume_after(error, was)
            raise
        if was != STOPPED:
            on_step(f"resuming {safe_text(name)}")
        try:
            self._resume(was)
            state = connect.state(name)
        except K2kError as error:
            raise PartlyApplied(
                f"the offsets of connector {safe_text(name)} were changed, but it could not be "
                f"resumed: {error.message}",
                unchanged=f"It was {safe_text(was)} before; the previous positions are in {kept}.",
                hint="Resume it with PUT /connectors/NAME/resume.",
            ) from error
        return AppliedChange(kept, state.state, state.trace)

    def _resume(self, was: str) -> None:
        """Put the connector back into the state that it had."""
        if was == STOPPED:
            return
        if was == PAUSED:
            self._connect.pause(self._name)
        else:
            self._connect.resume(self._name)
        self._connect.await_running(self._name)

    def _resume_after(self, why: BaseException, was: str) -> None:
        try:
            self._resume(was)
        except K2kError as error:
            reason = why.message if isinstance(why, K2kError) else "it was interrupted"
            raise PartlyApplied(
                f"{reason}; the connector could not be resumed: {error.message}",
                unchanged=getattr(why, "unchanged", ""),
                hint="Resume it with PUT /connectors/NAME/resume.",
            ) from why

    def _read_stored(self, alias: str) -> dict[SourcePartition, int]:
        positions = read_positions(self._connect.offsets(self._name))
        return {source: offset for (named, source), offset in positions.items() if named == alias}

    def _store(self, change: PositionPlan, on_step: Callable[[str], None]) -> Path:
        """Store the new offsets of the stopped connector; return the backup file."""
        alias = source_alias(self._connect.config(self._name), self._name)
        now = self._read_stored(alias)
        kept = back_up(change, self._name, alias, now, on_step)
        try:
            on_step(self._connect.alter_offsets(self._name, connect_offsets(change)))
            self._read_back(change)
        except BaseException as error:
            log.warning("%s: not moved, restoring the positions before", self._name)
            log.debug("the cause", exc_info=error)
            self._put_back(change, now, kept, error)
            raise
        return kept

    def _read_back(self, change: PositionPlan) -> None:
        stored = self._read_stored(change.alias)
        wrong = [m for m in change.changes if stored.get(m.source) != m.then]
        if wrong:
            shown = ", ".join(
                f"{safe_text(m.source)} is at {stored.get(m.source)}, not {m.then}"
                for m in wrong[:5]
            )
            raise K2kError(
                f"Connect has not stored {len(wrong)} of {len(change.changes)} offsets: {shown}",
                unchanged="The previous positions were restored.",
            )

    def _put_back(
        self,
        change: PositionPlan,
        before: Mapping[SourcePartition, int],
        kept: Path,
        why: BaseException,
    ) -> None:
        """Restore the previous offsets of the partitions that have changed."""
        try:
            stored = self._read_stored(change.alias)
            differing = [
                m.source for m in change.changes if stored.get(m.source) != before.get(m.source)
            ]
            if differing:
                old = [connect_offset(change.alias, s, before.get(s)) for s in differing]
                self._connect.alter_offsets(self._name, old)
        except K2kError as error:
            raise not_put_back(why, error, kept) from why


def _only_connector(connect: Connect) -> str:
    connectors = connect.connectors()
    names = [name for name, kind in connectors.items() if kind == SOURCE_CONNECTOR]
    if len(names) != 1:
        named = ", ".join(safe_text(name) for name in names) or "none"
        raise ConfigError(
            f"Kafka Connect at {connect.address} has {len(names)} MirrorSourceConnectors: {named}",
            unchanged=NOTHING,
            hint="Name one with --connector.",
        )
    return names[0]
