"""Backup file and journal entry of a change of positions."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import new_id
from k2ktui.engine.moves.positions import PositionPlan
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError, PartlyApplied, Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.mm2.offsets.positions import (
    connect_offset,
    offsets_body,
    refuse_other,
    refuse_overtaken,
)
from k2ktui.private_files import private_directory
from k2ktui.runtime.paths import state_path, write_atomically
from k2ktui.sync.moves.journal_writer import JournalWriter, position_row
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """Result of an applied change.

    Attributes:
        before: file with the previous offsets in Connect's request format.
        state: the connector's state afterwards.
        trace: why the connector or a task has failed, "" if none has.
    """

    before: Path
    state: str
    trace: str = ""


def back_up(
    change: PositionPlan,
    name: str,
    alias: str,
    now: Mapping[SourcePartition, int],
    on_step: Callable[[str], None],
) -> Path:
    """Write the offsets before a change to a file in the user's state directory; return its path.

    Args:
        change: the confirmed change.
        name: the connector to which it is to be written, as its reader names it.
        alias: alias of that connector's source cluster.
        now: the positions that are stored now.
        on_step: called with a message for each step.

    Raises:
        Refused: the change is another connector's, its effect is different by now, or the file
            cannot be written; nothing may be changed.
    """
    refuse_other(change, name, alias)
    refuse_overtaken(change, now)
    old = [connect_offset(change.alias, m.source, now.get(m.source)) for m in change.changes]
    at_ms = int(time.time() * 1000)
    try:
        path = state_path("mm2") / f"offsets-{new_id(at_ms, secrets.token_hex(2))}.json"
        private_directory(path.parent.parent)
        private_directory(path.parent)
        write_atomically(path, f"{offsets_body(old)}\n".encode(), mode=0o600)
    except OSError as error:
        raise Refused(
            f"the positions stored by {safe_text(change.pipeline)} could not be backed up to a "
            f"file: {safe_text(path)}: {error.strerror}",
            unchanged="No offset was changed.",
            hint="Set XDG_STATE_HOME to a folder that this user can write.",
        ) from error
    log.info("%s: moving %d positions, those before are in %s", change.pipeline, len(old), path)
    on_step(f"the previous positions are in {path}")
    return path


def write_journal(config: PipelineConfig, change: PositionPlan) -> str:
    """Write a change to its flow's journal on the target; return why that failed, or ""."""
    rows = [(change.pipeline, position_row(move)) for move in change.changes]
    with closing(StateStore(config, target_cluster(config))) as store:
        _, note = JournalWriter(store.put, config.name).note_made(change.operation, rows)
    return note


def not_put_back(why: BaseException, error: K2kError, kept: Path) -> PartlyApplied:
    """Return the error for a failed change (``why``) that could not be undone (``error``)."""
    reason = why.message if isinstance(why, K2kError) else "it was interrupted"
    return PartlyApplied(
        f"{reason}; the stored positions could not be restored: {error.message}",
        unchanged=f"The previous positions are in {safe_text(kept)}.",
        hint=f"Restore them with: k2ktui mm2 offsets set --from {safe_text(kept)}",
    )
