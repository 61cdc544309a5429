"""Backup file and journal entry of a change of positions."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import JournalRow, new_id
from k2ktui.errors import K2kError, PartlyApplied, Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.mm2.offsets.positions import StoredChange
from k2ktui.private_files import private_directory
from k2ktui.runtime.paths import state_path, write_atomically
from k2ktui.sync.moves.journal_writer import JournalWriter
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

WHAT = "mm2 offsets"


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


def write_backup(connector: str, text: str) -> Path:
    """Write the previous offsets to a file in the user's state directory and return its path.

    Raises:
        Refused: the file cannot be written, so nothing may be changed.
    """
    now = int(time.time() * 1000)
    try:
        path = state_path("mm2") / f"offsets-{new_id(now, secrets.token_hex(2))}.json"
        private_directory(path.parent.parent)
        private_directory(path.parent)
        write_atomically(path, f"{text}\n".encode(), mode=0o600)
    except OSError as error:
        raise Refused(
            f"the positions stored by {safe_text(connector)} could not be backed up to a "
            f"file: {safe_text(path)}: {error.strerror}",
            unchanged="No offset was changed.",
            hint="Set XDG_STATE_HOME to a folder that this user can write.",
        ) from error
    return path


def write_journal(config: PipelineConfig, change: StoredChange) -> str:
    """Write a change to its flow's journal on the target; return why that failed, or ""."""
    rows = [
        JournalRow(m.source.topic, m.source.partition, m.before, "", m.after, "", str(m.effect))
        for m in change.changes
    ]
    store = StateStore(config, target_cluster(config))
    try:
        JournalWriter(store.put, config.name).record(WHAT, [(change.connector, r) for r in rows])
    except K2kError as error:
        return f"the change was not recorded in the journal: {error.message}"
    finally:
        store.close()
    return ""


def not_put_back(why: BaseException, error: K2kError, kept: Path) -> PartlyApplied:
    """Return the error for a failed change (``why``) that could not be undone (``error``)."""
    reason = why.message if isinstance(why, K2kError) else "it was interrupted"
    return PartlyApplied(
        f"{reason}; the stored positions could not be restored: {error.message}",
        unchanged=f"The previous positions are in {safe_text(kept)}.",
        hint=f"Restore them with: k2ktui mm2 offsets set --from {safe_text(kept)}",
    )
