"""A pipeline's state topic: heartbeats of its runs, kept group commits, and the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from threading import Lock
from time import sleep

from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.rehearsals import Rehearsal, list_rehearsals
from k2ktui.engine.moves.journal import (
    BEGUN,
    CommitSnapshot,
    JournalHeader,
    JournalKey,
    JournalRows,
    RunKind,
    Runner,
    StateKey,
    StateRecord,
    find_outdated,
    next_sequence,
    record_key,
)
from k2ktui.engine.moves.journal_format import read_state_value, state_key, state_value
from k2ktui.engine.moves.pipeline_summary import PipelineSummary
from k2ktui.engine.moves.written import WrittenCommits, join
from k2ktui.engine.records.cleared import NOTHING_CLEARED, Cleared, ClearedTerms
from k2ktui.engine.records.hold import NO_HOLDS, Hold, Holds
from k2ktui.engine.records.parity_record import ParityRecord
from k2ktui.engine.records.state import MalformedRecord
from k2ktui.engine.records.wanted_acls import WantedAclsRecord
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.keyed_writer import Entry, KeyedWriter
from k2ktui.kafka.control.reader import ControlRecord, await_stable, read_committed
from k2ktui.kafka.control.tail import ControlTail
from k2ktui.kafka.control.topics import ensure_state_topic
from k2ktui.kafka.topic_description import is_missing
from k2ktui.sync.liveness import HeartbeatObserver
from k2ktui.sync.state_fold import StateFold, read_own_key
from k2ktui.text import safe_message, safe_text

_READ_S = 30.0
# The transaction of a writer that was killed is aborted after 30 s.
_STABLE_S = 60.0
_LOOK_AGAIN_S = 0.5
_WRITTEN_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class PipelineState:
    """The current content of the state topic.

    Attributes:
        runners: newest heartbeat of each process, live ones first, then by term.
        commits: newest snapshot of each consumer group of each source cluster.
        journal: entries by id, the oldest first; :meth:`entry` reads their changes.
        drills: failover drills by id, the oldest first.
        malformed: number of records that could not be read.
        summary: coverage and groups as they were last written; None if they never were.
        parity: what parity has done on the target.
        wanted_acls: the ACLs that the target should have; None if they were never kept.
        holds: the topics and partitions that operators hold.
        rehearsals: rehearsals in a few numbers, the oldest first.
        comparison: the last comparison of all records; None if there was none.
        cleared: the positions that operators have removed.
        unreadable: the keys of records that could not be read; some have no key that can be read.
    """

    runners: tuple[Runner, ...] = ()
    commits: tuple[CommitSnapshot, ...] = ()
    journal: Mapping[str, JournalHeader] = field(default_factory=dict)
    drills: Mapping[str, Drill] = field(default_factory=dict)
    malformed: int = 0
    summary: PipelineSummary | None = None
    parity: tuple[ParityRecord, ...] = ()
    wanted_acls: WantedAclsRecord | None = None
    holds: Holds = NO_HOLDS
    rehearsals: tuple[Rehearsal, ...] = ()
    comparison: ComparisonRecord | None = None
    cleared: ClearedTerms = NOTHING_CLEARED
    unreadable: frozenset[StateKey] = frozenset()
    # See ``entry``. Read on demand: 200 entries of thousands of rows are too much to keep.
    rows: Callable[[str], tuple[JournalRows, ...]] = field(default=lambda _: (), repr=False)

    def find_header(self, entry_id: str, pipeline: str) -> JournalHeader:
        """Return the header of a journal entry; ``pipeline`` is named if there is none.

        Raises:
            ConfigError: there is no entry with this id.
        """
        header = self.journal.get(entry_id)
        if header is None:
            raise ConfigError(
                f"no entry {safe_text(entry_id)} exists in the journal of {safe_text(pipeline)}",
                unchanged="Nothing was changed.",
                hint="List the ids with k2ktui journal -f FILE.",
            )
        return header

    def entry(self, entry_id: str) -> tuple[JournalRows, ...]:
        """Read the changes of a journal entry, one part per consumer group; empty if unknown.

        Raises:
            Refused: a part of it is damaged, or the topic may not be read.
            ConnectionFailed, TimedOut: the target did not answer in time.
        """
        return self.rows(entry_id)

    def alive(self, now_ms: int) -> list[Runner]:
        """Return the copying runs that must be assumed to be running."""
        copying = [runner for runner in self.runners if runner.kind is RunKind.COPY]
        return [runner for runner in copying if runner.alive(now_ms)]


class StateStore:
    """Reads and writes a pipeline's records on the state topic; ignores other pipelines' records.

    Args:
        config: the pipeline.
        target: its target cluster.
        timeout: seconds to read the topic, and to have a write acknowledged.
        group: the commit group whose records are read, by default the pipeline's.
    """

    def __init__(
        self,
        config: PipelineConfig,
        target: Cluster,
        timeout: float = _READ_S,
        group: str | None = None,
    ) -> None:
        self._config = config
        self._target = target
        self._timeout = timeout
        self._topic = config.coordination.state.topic
        self._group = group or config.coordination.commit.group
        self._writer: KeyedWriter | None = None
        self._observer = HeartbeatObserver()
        # A drill's heartbeat reads beside its phases.
        self._lock = Lock()
        self._tail = ControlTail(target, check_starts=True)
        self._fold = StateFold(self._group)
        self._entries: dict[str, set[str]] = {}
        self._headers: dict[str, JournalHeader] = {}
        self._writing: dict[str, JournalHeader] = {}

    def read(self) -> PipelineState:
        """Read everything except the journal's rows; empty if the topic does not exist.

        Raises:
            Refused: the principal may not read the topic.
            ConnectionFailed, TimedOut: the target did not answer in time.
        """
        with self._lock:
            return self._read()

    def _read(self) -> PipelineState:
        self._read_new()
        records = self._fold.records()
        self._entries = {entry: set(groups) for entry, groups in self._fold.entries().items()}
        self._headers = {
            record.id: record for record in records if isinstance(record, JournalHeader)
        }
        runners = self._observer.observe(record for record in records if isinstance(record, Runner))
        unreadable = self._fold.unreadable
        return replace(
            _state(records, runners, self._fold.malformed, self._rows), unreadable=unreadable
        )

    def await_stable(self) -> None:
        """Wait until everything that was written so far is committed or aborted.

        Raises:
            TimedOut: a transaction stays open, or the target did not answer in time.
            Refused, ConnectionFailed: as for :meth:`read`.
        """
        topic = self._find_topic()
        if topic is not None:
            await_stable(self._target, self._topic, topic.partitions, _STABLE_S)

    def find_drill(self, drill_id: str) -> tuple[int, int] | None:
        """Return partition and offset of a drill's record in the last reading; None without one."""
        with self._lock:
            return self._fold.find_drill(drill_id)

    def read_settled(self, is_over: Callable[[Runner], bool] = lambda _: False) -> PipelineState:
        """Read as :meth:`read`, and wait until it is known which runs are alive.

        It waits, up to :data:`~k2ktui.sync.liveness.SETTLE_S`, only for a run that did not report
        its stop and whose heartbeat is old, or in the future, by this host's clock: the run is
        alive if the heartbeat changes. ``is_over`` identifies runs that are known to have ended.
        """
        state = self.read()
        while self._observer.unsure(is_over):
            sleep(_LOOK_AGAIN_S)
            state = self.read()
        return state

    @property
    def is_settled(self) -> bool:
        """Whether the readings so far show which runs are alive; see :meth:`read_settled`."""
        return not self._observer.unsure()

    def _rows(self, entry_id: str) -> tuple[JournalRows, ...]:
        parts = []
        for key, value in self._read_parts(entry_id).items():
            try:
                record = read_state_value(key, value)
            except MalformedRecord as error:
                raise Refused(
                    f"journal entry {safe_text(entry_id)} has a damaged record for group "
                    f"{safe_text(key.consumer_group)}: {safe_message(error)}",
                    unchanged="The entry was not used.",
                ) from error
            if isinstance(record, JournalRows):
                parts.append(record)
        return tuple(sorted(parts, key=lambda part: part.consumer_group))

    def read_written(self, groups: Collection[str]) -> dict[str, WrittenCommits]:
        """Read what was written for consumer groups; those without a record are missing.

        Raises:
            Refused, ConnectionFailed, TimedOut: as for :meth:`read`.
        """
        with self._lock:
            self._read_new()
            return self._fold.written(groups)

    def put_written(
        self,
        groups: Collection[str],
        change: Callable[[Mapping[str, WrittenCommits]], Sequence[WrittenCommits]],
    ) -> dict[str, WrittenCommits]:
        """Write records of consumer groups; write again what others overwrote meanwhile.

        Args:
            groups: the consumer groups.
            change: returns the records to write, given the newest ones; empty if everything is
                recorded.

        Returns:
            The newest records, which hold everything that was to be recorded.

        Raises:
            K2kError: not everything was acknowledged, or others write all the time.
        """
        known = self.read_written(groups)
        joined: list[WrittenCommits] = []
        for _ in range(_WRITTEN_AT_MOST):
            records = list(change(known))
            changed = {record.consumer_group for record in records}
            records += [record for record in joined if record.consumer_group not in changed]
            if not records:
                return known
            self.put(records)
            newest = self.read_written(groups)
            mine = {**known, **{record.consumer_group: record for record in records}}
            if all(newest.get(group) is mine.get(group) for group in groups):
                return newest  # no other process has written, so ``change`` would return nothing
            joined = [
                both
                for record in records
                if (both := join(newest.get(record.consumer_group), record)) is not None
            ]
            known = dict(newest)
            for record in records:
                seen = newest.get(record.consumer_group)
                if seen is None or seen.number < record.number:
                    # A transaction that hangs on the topic hides what was just written.
                    known[record.consumer_group] = record
        raise K2kError(
            "what is committed for consumer groups could not be recorded: other programs write "
            f"the same records of {safe_text(self._topic)} all the time",
            unchanged="No offset was committed.",
            hint="Stop all but one k2ktui sync of the pipeline.",
        )

    def ensure(self) -> None:
        """Create the topic if it is missing and the pipeline may create it.

        Raises:
            Refused: it is missing and may not be created, or its configuration is unsuitable.
            ConfigError, ConnectionFailed, TimedOut: as for the other control topics.
        """
        ensure_state_topic(self._config, self._target)

    def put(self, records: Sequence[StateRecord], gone: Iterable[StateKey] = ()) -> None:
        """Write records in this order, delete ``gone``, and wait for the acknowledgment.

        A new journal entry deletes the oldest ones of its kind beyond
        :data:`~k2ktui.engine.moves.journal.JOURNAL_ENTRIES`.

        Raises:
            K2kError: not everything was acknowledged; part of it may have been written.
        """
        entries = self.encode(records, gone)
        if not entries:
            return
        if self._writer is None:
            self.ensure()
            self._writer = KeyedWriter(self._target, self._topic, self._timeout)
        written = self._writer.put(entries)
        if any(isinstance(record, Drill) for record in records):
            return  # where it is on the topic matters
        with self._lock:
            if self._tail.skip(written):
                for (key, value), record in zip_longest(entries, records):
                    self._fold.take(ControlRecord(0, 0, key, value), record)

    def encode(self, records: Sequence[StateRecord], gone: Iterable[StateKey] = ()) -> list[Entry]:
        """Return what :meth:`put` writes, for a caller that writes it itself.

        Raises:
            K2kError: the topic cannot be read, which a new journal entry requires.
        """
        numbered = self._with_sequence_numbers(records)
        entries: list[Entry] = [
            (state_key(self._group, record_key(record)), state_value(record)) for record in numbered
        ]
        keys = [*gone, *self._displaced_entries(numbered)]
        return entries + [(state_key(self._group, key), None) for key in keys]

    def close(self) -> None:
        """Disconnect; several readers may share the store, and one may still read."""
        with self._lock:
            self._tail.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _with_sequence_numbers(self, records: Sequence[StateRecord]) -> list[StateRecord]:
        """Return the records, journal headers with their sequence number."""
        if any(
            isinstance(record, JournalHeader) and record.id not in self._writing
            for record in records
        ):
            # Other hosts write entries too: the topic's current content decides the order.
            self.read()
        numbered: list[StateRecord] = []
        for record in records:
            if isinstance(record, JournalHeader):
                known = self._writing.get(record.id) or self._headers.get(record.id)
                sequence = known.sequence if known else next_sequence(self._headers.values())
                record = replace(record, sequence=sequence)
                self._headers[record.id] = record
                if BEGUN in record.counts:
                    self._writing[record.id] = record
                else:
                    self._writing.pop(record.id, None)
            numbered.append(record)
        return numbered

    def _displaced_entries(self, records: Sequence[StateRecord]) -> list[JournalKey]:
        """Return the keys of the journal entries that these records displace."""
        new = [record.key for record in records if isinstance(record, JournalHeader | JournalRows)]
        if not new:
            return []
        for key in new:
            self._entries.setdefault(key.id, set()).add(key.consumer_group)
        # The header is deleted last: the rest of an interrupted removal is still a valid entry.
        headers = {entry_id: self._headers.get(entry_id) for entry_id in self._entries}
        writing = self._writing.keys() | {key.id for key in new}
        return [
            JournalKey(entry_id, group)
            for entry_id in find_outdated(headers, writing)
            for group in sorted(self._entries.pop(entry_id), reverse=True)
        ]

    def _read_new(self) -> None:
        """Read what was written since the last reading."""
        topic = self._find_topic()
        if topic is None:
            # Even the same topic is read from its beginning, should it be found again.
            self._tail.close()
            self._tail = ControlTail(self._target, check_starts=True)
            self._fold = StateFold(self._group)
            return
        if self._tail.begin(topic):
            self._fold = StateFold(self._group)
        for record in self._tail.records(self._timeout):
            self._fold.take(record)

    def _read_parts(self, entry_id: str) -> dict[JournalKey, bytes]:
        """Return the newest values of the parts of a journal entry."""
        topic = self._find_topic()
        if topic is None:
            return {}
        keys: dict[bytes, StateKey | None] = {}
        newest: dict[JournalKey, bytes] = {}
        for record in read_committed(self._target, self._topic, topic.partitions, self._timeout):
            raw = record.key or b""
            if raw not in keys:
                keys[raw], _ = read_own_key(raw, self._group)
            key = keys[raw]
            if not isinstance(key, JournalKey) or key.id != entry_id or not key.consumer_group:
                continue
            if record.value is None:
                newest.pop(key, None)
            else:
                newest[key] = record.value
        return newest

    def _find_topic(self) -> TopicDescription | None:
        """Describe the topic; None if it does not exist.

        Raises:
            Refused: the principal may not describe it.
        """
        topic = self._target.describe([self._topic])[self._topic]
        if not isinstance(topic, KafkaError):
            return topic
        if is_missing(topic):
            return None
        raise self._unread(topic)

    def _unread(self, error: KafkaError) -> Refused:
        return Refused(
            f"topic {safe_text(self._topic)} on the target cluster cannot be read: "
            f"{safe_text(error.str())}",
            hint="Grant the target principal Describe and Read on it.",
        )


def _state(
    records: Collection[StateRecord],
    runners: tuple[Runner, ...],
    malformed: int,
    rows: Callable[[str], tuple[JournalRows, ...]],
) -> PipelineState:
    commits: dict[tuple[str, str], CommitSnapshot] = {}
    journal: dict[str, JournalHeader] = {}
    drills: dict[str, Drill] = {}
    summary: PipelineSummary | None = None
    for record in records:
        if isinstance(record, CommitSnapshot):
            at = record.cluster, record.consumer_group
            if at not in commits or record.at_ms > commits[at].at_ms or record.names_cluster:
                commits[at] = record
        elif isinstance(record, JournalHeader):
            journal[record.id] = record
        elif isinstance(record, Drill):
            drills[record.id] = record
        elif isinstance(record, PipelineSummary):
            summary = record
    wanted_acls = next((record for record in records if isinstance(record, WantedAclsRecord)), None)
    rehearsals = (record for record in records if isinstance(record, Rehearsal))
    comparisons = (record for record in records if isinstance(record, ComparisonRecord))
    parity = tuple(record for record in records if isinstance(record, ParityRecord))
    return PipelineState(
        runners=runners,
        commits=tuple(snapshot for _, snapshot in sorted(commits.items())),
        journal={one.id: one for one in sorted(journal.values(), key=lambda one: one.order)},
        drills=dict(sorted(drills.items())),
        malformed=malformed,
        summary=summary,
        parity=parity,
        wanted_acls=wanted_acls,
        holds=Holds(record for record in records if isinstance(record, Hold)),
        rehearsals=list_rehearsals(rehearsals, drills.values()),
        comparison=next(comparisons, None),
        cleared=ClearedTerms(record for record in records if isinstance(record, Cleared)),
        rows=rows,
    )
