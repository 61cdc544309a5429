"""Reads what differs between the two clusters of a pipeline, and whether parity may change it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.parity.acls import WantedAcl
from k2ktui.engine.parity.model import (
    Difference,
    ParityAction,
    ParityItem,
    ParityMemory,
)
from k2ktui.engine.parity.moved import drop_moved_acls, leave_moved_alone
from k2ktui.engine.parity.pause import find_pause
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.parity_record import ParityRecord
from k2ktui.errors import ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.parity.part import ParityContext, Part
from k2ktui.parity.parts import PARTS
from k2ktui.replication.ownership.commit_state import CommitState, CommitStatesReader
from k2ktui.replication.ownership.pipeline import moved_topics
from k2ktui.replication.preflight.rights import selected_topics
from k2ktui.replication.topics.naming import target_names
from k2ktui.sync.drill.pair import OppositeDrills, choose_opposite
from k2ktui.sync.store import StateStore
from k2ktui.text import counted, list_names, safe_text

log = logging.getLogger(__name__)

_READ_S = 20.0
# Number of topics that a note names.
_NAMED = 10
# A right may be granted later. To ask at each poll would fill the brokers' logs.
ASK_AGAIN_S = 600.0


@dataclass(frozen=True, slots=True)
class Parity:
    """What differs between the clusters, at one moment.

    Attributes:
        differences: all of them; empty while it is paused.
        notes: what could not be compared, and why.
        pause: why nothing is compared now; "" if it is.
        memory: what parity has done on the target.
        clusters: ids of source and target.
        wanted_acls: the ACLs that the target should have; None if they were not compared.
        moved: topics that drills moved to the target, or are about to, by their names on both
            clusters: their settings and ACLs are left alone.
    """

    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    pause: str = ""
    memory: ParityMemory = field(default_factory=ParityMemory)
    clusters: tuple[str, str] = ("", "")
    wanted_acls: tuple[WantedAcl, ...] | None = None
    moved: frozenset[str] = frozenset()


class ParityReader:
    """Reads both clusters; keeps its connections, and what the target refused.

    Args:
        config: the pipeline.

    Attributes:
        target: its target cluster.
        store: its state store.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._source, self.target = source_cluster(config), target_cluster(config)
        self.store = StateStore(config, self.target)
        self._opposite = OppositeDrills(config, self._source)
        self._states = CommitStatesReader(self.target, config.coordination.commit.group)
        self._state: CommitState | None = None
        self._named = ""
        # By item and wanted value, why the target refuses it, "" if it does not, and when it was
        # asked.
        self._answers: dict[tuple[ParityItem, str | None], tuple[str, float]] = {}

    def close(self) -> None:
        """Disconnect."""
        self._opposite.close()
        self._states.close()
        self.store.close()

    def read(self, kinds: Iterable[ParityKind] = tuple(ParityKind)) -> Parity:
        """Compare both clusters; a kind whose mode is ``off`` is left out.

        Raises:
            Refused: another cluster answers, or the state topic may not be read.
            ConnectionFailed, TimedOut: a cluster does not answer.
        """
        clusters = self._source.cluster_id(), self.target.cluster_id()
        recorded = self._read_recorded(clusters)
        own, opposite, unread = self._read_drills(clusters, recorded)
        memory = read_memory(self.store.read().parity)
        pause = find_pause(own, opposite, self._named, unread)
        if pause:
            return Parity((), (), pause, memory, clusters)
        topics, notes = self._read_topics()
        moved, note = self._find_moved(own, opposite)
        notes += note
        context = ParityContext(
            self._config, self._source, self.target, topics, own, opposite, memory
        )
        differences: list[Difference] = []
        wanted_acls: tuple[WantedAcl, ...] | None = None
        for part in PARTS:
            if part.kind not in kinds or self._config.parity.section_of(part.kind).mode == "off":
                continue
            try:
                findings = part.compare(context)
            except (ConnectionFailed, TimedOut):
                raise
            except K2kError as error:
                log.debug("parity of %s: the cause", part.kind, exc_info=error)
                hint = f" {error.hint}" if error.hint else ""
                notes.append(f"{part.kind.section} are not compared: {error.message}.{hint}")
                continue
            notes += findings.notes
            if findings.wanted_acls is not None:
                wanted_acls = findings.wanted_acls
            left = leave_moved_alone(findings.differences, moved)
            differences += self._check(part, left)
        if wanted_acls is not None:
            wanted_acls = tuple(drop_moved_acls(wanted_acls, moved))
        return Parity(tuple(differences), tuple(notes), "", memory, clusters, wanted_acls, moved)

    def find_pause(self) -> str:
        """Return why parity pauses now; "" if it does not. Errors as for :meth:`read`."""
        clusters = self._source.cluster_id(), self.target.cluster_id()
        own, opposite, unread = self._read_drills(clusters, self._read_recorded(clusters))
        return find_pause(own, opposite, self._named, unread)

    def find_moved(self) -> frozenset[str]:
        """Return the moved topics now, by their names on both clusters; errors as for `read`."""
        clusters = self._source.cluster_id(), self.target.cluster_id()
        own, opposite, _ = self._read_drills(clusters, self._read_recorded(clusters))
        return self._find_moved(own, opposite)[0]

    def refuse_from_now(self, item: ParityItem, wanted: str | None, why: str) -> None:
        """Note that the target has refused a write that it had accepted when it was asked.

        The value is only reported from now on: to ask again would not tell when to write again.
        """
        self._answers[item, wanted] = (why, inf)

    def _read_recorded(self, clusters: tuple[str, str]) -> ClusterPair:
        """Return the clusters that the pipeline copies between, by its run record."""
        state = self._read_state()
        recorded = UNKNOWN_PAIR if state is None else state.run.pair
        for side, before, id_ in recorded.find_changed(ClusterPair(*clusters)):
            raise Refused(
                f"another cluster, {safe_text(id_)}, answers in place of the {side} "
                f"({safe_text(before)})",
                unchanged="Nothing was compared or changed.",
                hint="If it was restored, accept it: k2ktui start --accept-cluster.",
            )
        return recorded

    def _read_state(self) -> CommitState | None:
        """Read what is new in the commit topic; None if the pipeline has never run."""
        coordination = self._config.coordination.commit
        topic = self.target.find(coordination.topic)
        states = self._states.read(topic, _READ_S) if topic is not None else {}
        self._state = states.get(coordination.group)
        return self._state

    def _find_moved(
        self, own: Sequence[Drill], opposite: Sequence[Drill]
    ) -> tuple[frozenset[str], list[str]]:
        """Return the moved topics by their names on both clusters, and notes that say so.

        Those of open drills over some topics are included: a drill moves them, or moves them back.
        """
        states = [] if self._state is None else [self._state]
        moves = moved_topics(self._config, states).all
        names, notes = set[str](), list[str]()
        for move in moves:
            names |= {move.topic, move.target}
        if moves:
            shown = list_names([f"{move.topic} (drill {move.drill})" for move in moves], _NAMED)
            notes.append(f"left alone: {counted(len(moves), 'topic')} moved to the target: {shown}")
        for drill in (*own, *opposite):
            if drill.is_over or not drill.topics:
                continue
            names |= {*drill.topics, *self._targets(drill.topics)}
            shown = list_names(drill.topics, _NAMED)
            notes.append(
                f"left alone: topics of drill {safe_text(drill.id)}, which is open: {shown}"
            )
        return frozenset(names), notes

    def _targets(self, topics: Iterable[str]) -> set[str]:
        """Return where source topics go, as far as the file says it."""
        names = set[str]()
        for topic in topics:
            with suppress(Refused):
                names.update(target_names(self._config, topic))
        return names

    def _read_drills(
        self, clusters: tuple[str, str], recorded: ClusterPair
    ) -> tuple[tuple[Drill, ...], tuple[Drill, ...], str]:
        own = tuple(self.store.read().drills.values())
        self._named = self._state.run.fenced_by if self._state is not None and not own else ""
        drills, unread = self._opposite.read()
        is_ours = self._config.topics.matches
        pair = recorded if recorded.is_known else UNKNOWN_PAIR
        return own, choose_opposite(drills, self._config.name, clusters, pair, is_ours), unread

    def _read_topics(self) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Return the target topics by source topic, of those on both clusters, and notes."""
        on_source, on_target = self._source.topic_names(), self.target.topic_names()
        topics: dict[str, tuple[str, ...]] = {}
        for topic in sorted(selected_topics(self._config, on_source) & on_source):
            try:
                targets = target_names(self._config, topic)
            except Refused:
                continue  # it is never copied, and the run says so
            copied = tuple(name for name in targets if name in on_target)
            if copied:
                topics[topic] = copied
        return topics, []

    def _check(self, part: Part, rows: Sequence[Difference]) -> list[Difference]:
        """Return the differences; what the target would refuse is only reported."""
        asked = [
            row for row in rows if row.action is not ParityAction.REPORT and self._must_ask(row)
        ]
        if asked:
            writes = [row.write for row in asked]
            refused = part.write(self.target, writes, only_ask=True)
            for row in asked:
                answer = refused.get(row.item, "")
                self._answers[row.item, row.wanted] = (answer, monotonic())
        return [self._judge(row) for row in rows]

    def _must_ask(self, row: Difference) -> bool:
        _, asked_at = self._answers.get((row.item, row.wanted), ("", -inf))
        return monotonic() - asked_at > ASK_AGAIN_S

    def _judge(self, row: Difference) -> Difference:
        why, _ = self._answers.get((row.item, row.wanted), ("", 0.0))
        if row.action is ParityAction.REPORT or not why:
            return row
        return replace(row, action=ParityAction.REPORT, why=f"the target refuses it: {why}")


def read_memory(records: Iterable[ParityRecord]) -> ParityMemory:
    """Return what parity has done, by its records."""
    created: dict[ParityItem, str] = {}
    held: dict[ParityItem, str | None] = {}
    for record in records:
        if record.kind not in list(ParityKind):
            continue
        kind = ParityKind(record.kind)
        for key, value in record.created.items():
            created[ParityItem(kind, record.name, key)] = value
        for key, wanted in record.held.items():
            held[ParityItem(kind, record.name, key)] = wanted
    return ParityMemory(created, held)


def memory_records(
    memory: ParityMemory, names: Iterable[tuple[ParityKind, str]]
) -> list[ParityRecord]:
    """Return the records of what parity has done with these topics, entities and resources."""
    return [
        ParityRecord(
            str(kind),
            name,
            {i.key: v for i, v in memory.created.items() if (i.kind, i.name) == (kind, name)},
            {i.key: v for i, v in memory.held.items() if (i.kind, i.name) == (kind, name)},
        )
        for kind, name in sorted(set(names))
    ]
