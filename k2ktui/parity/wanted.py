"""Keeps the ACLs that the target should have in a record there, while the source answers.

A drill reads it when the source is lost. It is written only while parity is not paused: what a
drill, or an operator in one, has taken from applications on the source is not what they need.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic, time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.parity.acls import WantedAcl
from k2ktui.engine.records.wanted_acls import WantedAclsRecord
from k2ktui.sync.store import StateStore

log = logging.getLogger(__name__)

# Unchanged, it is written again at this interval: its age says when the source was last read.
INTERVAL_S = 60.0


def creates_rights(config: PipelineConfig) -> bool:
    """Whether a drill creates what applications need when it opens the target."""
    section = config.parity.acls
    return section.mode != "off" and section.write == "afterFailover"


class WantedAclsKeeper:
    """Writes the record on changes, and at most once a minute without one; not thread-safe."""

    def __init__(self) -> None:
        self._last: WantedAclsRecord | None = None
        self._next = 0.0

    def keep(self, store: StateStore, cluster: str, wanted: Sequence[WantedAcl]) -> None:
        """Write the record if it is due.

        Args:
            store: the pipeline's state store.
            cluster: id of the source cluster.
            wanted: what the target should have.

        Raises:
            K2kError: the state topic could not be written.
        """
        record = WantedAclsRecord(
            cluster,
            int(time() * 1000),
            tuple(entry.acl for entry in wanted if not entry.after_failover),
            tuple(entry.acl for entry in wanted if entry.after_failover),
        )
        same = self._last is not None and replace(self._last, at_ms=record.at_ms) == record
        if same and monotonic() < self._next:
            return
        store.put([record])
        self._last, self._next = record, monotonic() + INTERVAL_S
        counts = len(record.acls), len(record.after_failover)
        log.debug("wanted ACLs kept: %d, and %d after a failover", *counts)
