"""Moves a connector's positions through Connect: stop, wait, patch, read back, resume.

The previous offsets are saved to a file before anything is written, and restored if a step fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, K2kError, PartlyApplied, Refused
from k2ktui.mm2.flows.connect import NOTHING, PAUSED, STOPPED, Connect
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.settings import connector_flow
from k2ktui.mm2.offsets.positions import (
    SOURCE_CONNECTOR,
    Bounds,
    Connector,
    StoredChange,
    connect_offset,
    offsets_body,
    read_positions,
    refuse_overtaken,
    reset_of,
    source_alias,
)
from k2ktui.mm2.offsets.positions_backup import AppliedChange, not_put_back, write_backup
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
        positions = _positions(self._connect, self._name, cluster)
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

    def bounds(self, sources: Collection[SourcePartition]) -> dict[SourcePartition, Bounds]:
        """Return the bounds of the connector's source partitions.

        Raises:
            K2kError: the source cluster cannot be queried.
        """
        if self._given is not None:
            return read_bounds(self._given.cluster("source"), sources)
        return read_bounds(connector_source(self._connect.config(self._name)), sources)

    def apply(self, change: StoredChange, on_step: Callable[[str], None]) -> AppliedChange:
        """Apply a confirmed change; see :func:`apply`."""
        return apply(self._connect, change, on_step)


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


def _positions(connect: Connect, name: str, cluster: str) -> dict[SourcePartition, int]:
    positions = read_positions(connect.offsets(name))
    return {source: offset for (alias, source), offset in positions.items() if alias == cluster}


def apply(
    connect: Connect, change: StoredChange, on_step: Callable[[str], None] = lambda _: None
) -> AppliedChange:
    """Apply a confirmed change.

    Args:
        connect: the Connect cluster that runs the connector.
        change: the change of its positions.
        on_step: called with a message for each step.

    Raises:
        Refused: the effect of the change is different by now, or Connect rejects it; nothing was
            changed.
        PartlyApplied: a step failed and could not be undone.
        K2kError: a step failed; the previous state was restored.
    """
    connect.require("alter")
    name = change.connector
    was = connect.state(name).state
    back_to_work = _resumption(connect, name, was)
    if was != STOPPED:
        on_step(f"stopping {safe_text(name)}")
        connect.stop(name)
    try:
        connect.await_stopped(name)
        kept = _store_offsets(connect, change, on_step)
    except BaseException as error:
        _back(back_to_work, error)
        raise
    if was != STOPPED:
        on_step(f"resuming {safe_text(name)}")
    try:
        back_to_work()
        state = connect.state(name)
    except K2kError as error:
        raise PartlyApplied(
            f"the offsets of connector {safe_text(name)} were changed, but it could not be "
            f"resumed: {error.message}",
            unchanged=f"It was {safe_text(was)} before; the previous positions are in {kept}.",
            hint="Resume it with PUT /connectors/NAME/resume.",
        ) from error
    return AppliedChange(kept, state.state, state.trace)


def _resumption(connect: Connect, name: str, was: str) -> Callable[[], None]:
    """Return a function that puts a connector back into the state ``was``."""

    def resumed() -> None:
        if was == STOPPED:
            return
        if was == PAUSED:
            connect.pause(name)
        else:
            connect.resume(name)
        connect.await_running(name)

    return resumed


def _back(back_to_work: Callable[[], None], why: BaseException) -> None:
    try:
        back_to_work()
    except K2kError as error:
        reason = why.message if isinstance(why, K2kError) else "it was interrupted"
        raise PartlyApplied(
            f"{reason}; the connector could not be resumed: {error.message}",
            unchanged=getattr(why, "unchanged", ""),
            hint="Resume it with PUT /connectors/NAME/resume.",
        ) from why


def _store_offsets(connect: Connect, change: StoredChange, on_step: Callable[[str], None]) -> Path:
    """Store the new offsets of a stopped connector; return the backup file."""
    name = change.connector
    now = _positions(connect, name, change.cluster)
    refuse_overtaken(change, now)
    old = [connect_offset(change.cluster, m.source, now.get(m.source)) for m in change.changes]
    kept = write_backup(name, offsets_body(old))
    log.info("connector %s: moving %d positions, those before are in %s", name, len(old), kept)
    on_step(f"the previous positions are in {kept}")
    try:
        said = connect.alter_offsets(name, change.offsets())
        on_step(said)
        _read_back(connect, change)
    except BaseException as error:
        log.warning("connector %s: not moved, restoring the positions before", name)
        log.debug("the cause", exc_info=error)
        _put_back(connect, change, now, kept, error)
        raise
    return kept


def _read_back(connect: Connect, change: StoredChange) -> None:
    stored = _positions(connect, change.connector, change.cluster)
    wrong = [m for m in change.changes if stored.get(m.source) != m.after]
    if wrong:
        shown = ", ".join(
            f"{safe_text(m.source)} is at {stored.get(m.source)}, not {m.after}" for m in wrong[:5]
        )
        raise K2kError(
            f"Connect has not stored {len(wrong)} of {len(change.changes)} offsets: {shown}",
            unchanged="The previous positions were restored.",
        )


def _put_back(
    connect: Connect,
    change: StoredChange,
    before: Mapping[SourcePartition, int],
    kept: Path,
    why: BaseException,
) -> None:
    """Restore the previous offsets of the partitions that have changed."""
    name = change.connector
    try:
        stored = _positions(connect, name, change.cluster)
        differing = [
            m.source for m in change.changes if stored.get(m.source) != before.get(m.source)
        ]
        if differing:
            old = [connect_offset(change.cluster, s, before.get(s)) for s in differing]
            connect.alter_offsets(name, old)
    except K2kError as error:
        raise not_put_back(why, error, kept) from why
