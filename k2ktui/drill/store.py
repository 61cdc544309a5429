"""Drills on a pipeline's state topic: read them, own one, write it.

Only one process can write a drill: owning it bumps the epoch of the transactional id
``<coordination.commit.group>.drill.<id>``, which fences the process that owned it before. Each
write is one transaction of the drill's record and its new journal entries.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.format import chain_event
from k2ktui.engine.drill.model import Drill, DrillEvent
from k2ktui.engine.drill.pair_state import find_displaced
from k2ktui.engine.drill.rehearsals import (
    KEPT_REHEARSALS,
    Rehearsal,
    RehearsalKey,
    find_displaced_rehearsals,
    sum_up_rehearsal,
)
from k2ktui.engine.moves.journal import (
    DRILL,
    DrillKey,
    JournalHeader,
    JournalRow,
    JournalRows,
    StateRecord,
    new_id,
)
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.fenced_writer import FencedWriter, WriterFenced
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

KEPT_DRILLS = 50
# Replaces the drill's id in the transactional id that writes the first record of every drill.
BEGIN = "begin"


def transactional_id(config: PipelineConfig, name: str) -> str:
    """Return the transactional id of a drill, or of :data:`BEGIN`."""
    return f"{config.coordination.commit.group}.drill.{name}"


class TakenOver(Refused):
    """Another process owns the drill now; this one must not act any more."""


class DrillStore:
    """Reads and writes the drills of one pipeline; not thread-safe.

    Args:
        config: the pipeline.
        target: its target cluster.
    """

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._config, self._target = config, target
        self._store = StateStore(config, target)
        self._writer: FencedWriter | None = None
        self._session = ""
        self._has_lapsed = self._has_failed = False

    def read_all(self) -> list[Drill]:
        """Return all drills, the newest first; errors as for ``StateStore.read``."""
        return sorted(self._store.read().drills.values(), key=lambda drill: drill.id, reverse=True)

    def read(self, drill_id: str) -> Drill:
        """Return one drill.

        Raises:
            ConfigError: there is none with this id.
            Refused, ConnectionFailed, TimedOut: as for ``StateStore.read``.
        """
        drill = self._store.read().drills.get(drill_id)
        if drill is None:
            raise ConfigError(
                f"no drill {safe_text(drill_id)} of pipeline {safe_text(self._config.name)} exists",
                unchanged="Nothing was changed.",
                hint="List the drills with k2ktui drill list -f FILE.",
            )
        return drill

    def read_settled(self, drill_id: str) -> Drill:
        """As :meth:`read`, with everything that any process had written when it was called.

        Raises:
            TimedOut: also, a transaction on the topic stays open.
        """
        self._store.await_stable()
        return self.read(drill_id)

    def find_record(self, drill_id: str) -> tuple[int, int] | None:
        """Return partition and offset of the record of a drill that was read last."""
        return self._store.find_drill(drill_id)

    def read_rehearsals(self) -> tuple[Rehearsal, ...]:
        """Return the newest rehearsals, the oldest first; errors as for ``StateStore.read``."""
        return self._store.read().rehearsals[-KEPT_REHEARSALS:]

    def read_digests(self, drill: Drill) -> list[str]:
        """Return the digests of a drill's events that the journal has; errors as for ``read``."""
        state = self._store.read()
        digests = []
        for entry in {event.entry for event in drill.events} & state.journal.keys():
            for part in state.entry(entry):
                digests += [row.after_metadata for row in part.rows]
        return digests

    def own(self, drill_id: str) -> None:
        """Become the only process that can write a drill.

        Raises:
            Refused: the topic is missing or may not be written, or the principal may not use the
                transactional id.
            ConnectionFailed, TimedOut: the target did not answer.
        """
        self._store.ensure()
        self._writer = self._open(drill_id)

    def begin(self, drill: Drill, refuse: Callable[[], None]) -> None:
        """Write the first record of a drill, unless it is refused.

        All processes use one transactional id for this, so only one can begin a drill at a time:
        the second either sees the first one's drill, or fences it before it is written.

        Args:
            drill: the drill.
            refuse: raises if another drill must not begin now; called after everything written
                earlier was read.

        Raises:
            Refused: as ``refuse``, or another process begins a drill at this moment.
            ConnectionFailed, TimedOut: the target did not answer.
        """
        writer = self._open(BEGIN)
        try:
            self._store.await_stable()
            refuse()
            writer.put(self._store.encode([drill]))
        except WriterFenced as error:
            raise Refused(
                "another operator begins a drill of this pipeline at the same moment",
                unchanged="No drill was begun.",
                hint="See it: k2ktui drill list -f FILE",
            ) from error
        finally:
            writer.close()

    def _open(self, name: str) -> FencedWriter:
        identity = transactional_id(self._config, name)
        writer = FencedWriter(self._target, self._config.coordination.state.topic, identity)
        try:
            writer.open()
        except BaseException:
            writer.close()
            raise
        return writer

    def write(self, drill: Drill, events: Sequence[DrillEvent] = ()) -> Drill:
        """Write a drill with new events, each also as a journal entry; return it with them.

        Raises:
            TakenOver: another process owns the drill.
            K2kError: the write failed; whether it was written is unknown.
        """
        writer = self._restored_writer(drill)
        records: list[StateRecord] = []
        for event in events:
            entry = new_id(event.at_ms, secrets.token_hex(4))
            drill = chain_event(
                drill,
                DrillEvent(event.at_ms, event.who, event.phase, event.text, entry),
            )
            records += self._journal(drill, drill.events[-1])
        gone: list[DrillKey | RehearsalKey] = []
        if events and len(drill.events) == len(events):
            gone += self._find_displaced(drill)
        if events and (rehearsal := sum_up_rehearsal(drill)):
            records.append(rehearsal)
            kept = self._store.read().rehearsals
            gone += find_displaced_rehearsals(kept, rehearsal)
        try:
            writer.put(self._store.encode([*records, drill], gone))
        except WriterFenced as error:
            raise _taken_over(drill) from error
        except K2kError:
            self._has_failed = True
            raise
        self._session = drill.session or self._session
        return drill

    def beat(self, drill: Drill) -> Drill:
        """Write a drill of which only the time has changed; return it.

        Whether a heartbeat that failed was written does not matter: the next write replaces it. So
        the writer, which is useless after a failure, is opened again for that; not after a change
        whose outcome is unknown.

        Raises:
            TakenOver, K2kError: as for :meth:`write`.
        """
        may_repeat = not self._has_failed
        try:
            return self.write(drill)
        except TakenOver:
            raise
        except K2kError:
            if may_repeat:
                self._has_lapsed, self._has_failed = True, False
            raise

    def _restored_writer(self, drill: Drill) -> FencedWriter:
        """Return the writer; after a failed heartbeat a new one, if nobody has taken over.

        Who takes over and has not written yet is fenced by the new writer, and is told so at its
        first write. Who has written is seen, at the latest by the second look: this process writes
        nothing then.
        """
        assert self._writer is not None, "the drill is not owned"
        if not self._has_lapsed:
            return self._writer
        if self.read(drill.id).session != self._session:
            raise _taken_over(drill)
        self._writer.close()
        self._writer = self._open(drill.id)
        if self.read_settled(drill.id).session != self._session:
            raise _taken_over(drill)
        self._has_lapsed = False
        return self._writer

    def _journal(self, drill: Drill, event: DrillEvent) -> list[StateRecord]:
        header = JournalHeader(
            id=event.entry,
            at_ms=event.at_ms,
            who=event.who,
            operation=f"{DRILL}{drill.kind}",
            plan=drill.id,
            pipeline=drill.pipeline,
            counts={event.phase: 1},
        )
        row = JournalRow(event.phase, 0, None, event.text, None, event.digest, event.text)
        return [header, JournalRows(event.entry, drill.id, (row,))]

    def _find_displaced(self, new: Drill) -> list[DrillKey]:
        """Return the keys of the oldest drills that a new one displaces."""
        others = [drill for drill in self.read_all() if drill.id != new.id]
        return [DrillKey(drill.id) for drill in find_displaced(others, KEPT_DRILLS - 1)]

    def close(self) -> None:
        """Disconnect."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._store.close()


def _taken_over(drill: Drill) -> TakenOver:
    return TakenOver(
        f"another operator has taken over drill {safe_text(drill.id)}",
        unchanged="This process changes nothing from now on.",
        hint=f"Watch it: k2ktui drill show {safe_text(drill.id)} -f FILE",
    )


def make_event(at_ms: int, who: str, phase: DrillPhase | str, text: str) -> DrillEvent:
    """Return an event that is not in the journal yet."""
    return DrillEvent(at_ms, who, str(phase), text)
