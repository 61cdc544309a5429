"""Parity beside ``k2ktui sync``: reports what differs in a poll, and keeps ``apply`` in step."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.parity.journal import SYNCED
from k2ktui.engine.parity.model import (
    MOST_SETS,
    Difference,
    ParityAction,
    ParityItem,
    is_contested,
    is_held,
    select_for_sync,
)
from k2ktui.engine.parity.moved import concerns_moved
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.errors import K2kError
from k2ktui.parity.reader import Parity, ParityReader
from k2ktui.parity.wanted import WantedAclsKeeper
from k2ktui.parity.writer import ParityWriter
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.text import counted, safe_message, safe_text

log = logging.getLogger(__name__)

# A comparison takes at most this share of the time: thousands of topics are compared less often.
_SHARE = 0.1
_NAMED = 10


class ParityWatcher(BackgroundRunner):
    """Compares both clusters once in each poll interval of ``k2ktui sync``.

    Args:
        config: the pipeline.
        note: called with sentences for the operator.
    """

    failing = "parity is not compared"
    recovered = "parity is compared again"

    def __init__(self, config: PipelineConfig, note: Callable[[str], None]) -> None:
        self._poll_s = config.groups.poll_interval_s
        super().__init__("parity", self._poll_s, note, immediately=True)
        self._config, self._note = config, note
        self._modes = {kind: config.parity.section_of(kind).mode for kind in ParityKind}
        self._reader: ParityReader | None = None
        self._reported: set[tuple[Difference, bool]] = set()
        self._noted: set[str] = set()
        self._pause = ""
        self._acls = WantedAclsKeeper()
        # By item and wanted value, when it was set; and which of them are left alone now.
        self._set_at: dict[tuple[ParityItem, str | None], deque[float]] = {}
        self._left_alone: set[tuple[ParityItem, str | None]] = set()

    def work(self) -> None:
        """Compare once, and apply what is to be kept in step."""
        began = monotonic()
        if self._reader is None:
            self._reader = ParityReader(self._config)
        parity = self._reader.read()
        self._report_pause(parity)
        if not parity.pause:
            self._report_notes([*parity.notes, *self._keep_acls(self._reader, parity)])
            self._report_differences(parity, self._apply(self._reader, parity))
        self.interval_s = max(self._poll_s, (monotonic() - began) * (1 / _SHARE - 1))

    def close(self) -> None:
        """Disconnect."""
        if self._reader is not None:
            self._reader.close()

    def _keep_acls(self, reader: ParityReader, parity: Parity) -> list[str]:
        """Keep the wanted ACLs on the target; return why they could not be."""
        if parity.wanted_acls is None:
            return []
        try:
            self._acls.keep(reader.store, parity.clusters[0], parity.wanted_acls)
        except K2kError as error:
            return [f"the record of wanted ACLs is not written: {error.message}"]
        return []

    def _apply(self, reader: ParityReader, parity: Parity) -> set[Difference]:
        """Apply what is to be kept in step; return the differences that are gone."""
        chosen = select_for_sync(parity.differences, self._modes, parity.memory)
        rows = self._leave_contested(chosen)
        # A drill may have begun while both clusters were compared, or moved topics.
        if not rows or reader.find_pause() or self.stop_requested:
            return set()
        moved = reader.find_moved()
        rows = [row for row in rows if not concerns_moved(row.item, moved)]
        if not rows:
            return set()
        writer = ParityWriter(self._config, reader.target, reader.store)
        done = writer.write([row.write for row in rows], SYNCED)
        by_item = {row.item: row for row in rows}
        gone = set[Difference]()
        for result in done.rows:
            row = by_item[result.write.item]
            if result.result is WriteOutcome.REFUSED:
                reader.refuse_from_now(row.item, row.wanted, result.why)
            else:
                times = self._set_at.setdefault((row.item, row.wanted), deque(maxlen=MOST_SETS))
                times.append(monotonic())
            if result.result is WriteOutcome.APPLIED:
                gone.add(row)
                continue
            self.say(f"parity: NOT SET {describe(row)}: {safe_message(result.why)}")
        if gone:
            self._name("set", gone)
            self.say(f"parity: to undo: k2ktui parity undo {done.id}")
        return gone

    def _leave_contested(self, rows: Sequence[Difference]) -> list[Difference]:
        """Return the differences without those that something else sets back all the time."""
        now = monotonic()
        contested = {
            (row.item, row.wanted)
            for row in rows
            if is_contested(self._set_at.get((row.item, row.wanted), ()), now)
        }
        new = contested - self._left_alone
        self._name(
            f"left alone: it was set {MOST_SETS} times within an hour, and something sets it back, "
            "perhaps the sync of the opposite pipeline:",
            [row for row in rows if (row.item, row.wanted) in new],
        )
        self._left_alone = contested
        return [row for row in rows if (row.item, row.wanted) not in contested]

    def _report_pause(self, parity: Parity) -> None:
        if parity.pause != self._pause:
            self.say(f"parity is paused: {parity.pause}" if parity.pause else "parity goes on")
        self._pause = parity.pause

    def _report_notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            if note not in self._noted:
                self.say(f"parity: {note}")
        self._noted |= set(notes)

    def _report_differences(self, parity: Parity, gone: set[Difference]) -> None:
        left = {(row, is_held(row, parity.memory)) for row in parity.differences if row not in gone}
        new = left - self._reported
        self._name("differs:", [row for row, _ in new])
        if self._reported and not left:
            self.say("parity: nothing differs any more")
        self._reported = left

    def _name(self, word: str, rows: Iterable[Difference]) -> None:
        shown = sorted(rows, key=lambda row: row.item)
        for row in shown[:_NAMED]:
            self.say(f"parity: {word} {describe(row)}")
        if len(shown) > _NAMED:
            self.say(
                f"parity: and {counted(len(shown) - _NAMED, 'more value')} (k2ktui parity plan "
                "shows all)"
            )


def describe(row: Difference) -> str:
    """Return a difference as one line, safe to print."""
    target = "none" if row.target is None else safe_text(row.target, 100)
    source = "none" if row.source is None else safe_text(row.source, 100)
    text = f"{row.item.kind} {row.item}: {target} on the target, {source} on the source"
    if row.action is ParityAction.SET and row.wanted == row.source:
        return text
    return f"{text} ({safe_message(row.why)})"


def watch_parity(
    config: PipelineConfig, note: Callable[[str], None], *, is_pipeline: bool
) -> ParityWatcher | None:
    """Return the watcher of a pipeline; None if nothing is compared.

    Args:
        config: the pipeline.
        note: as for :class:`ParityWatcher`.
        is_pipeline: whether k2ktui copies: what MirrorMaker 2 copies it keeps in step itself.
    """
    if not is_pipeline or not config.replicates:
        return None
    if all(config.parity.section_of(kind).mode == "off" for kind in ParityKind):
        return None
    return ParityWatcher(config, note)
