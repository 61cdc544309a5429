"""An owner's own records in the commit topic: run records, positions, registrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.moved_topic import MovedTopic, moved_topic_key, moved_topic_value
from k2ktui.engine.records.producer_registration import (
    ProducerRegistration,
    registration_key,
    registration_value,
)
from k2ktui.engine.records.run_record import Run, run_key, run_value
from k2ktui.engine.records.state import Position, SourcePartition, position_key, position_value
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.reader import await_stable
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import CoordinatorError, OutcomeUnknown, Signal, Wire
from k2ktui.kafka.wire.codes import FENCED, REFUSALS, TOO_LARGE, code_name
from k2ktui.kafka.wire.transactions import add_partitions, end_transaction
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import make_records
from k2ktui.replication.copying.batch_sender import BatchRefused, BatchSender, Fenced, SlotFailed
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.fencing_errors import outcome_unknown, records_refused, refuse_unreadable
from k2ktui.replication.ownership import commit_state
from k2ktui.replication.ownership.commit_state import CommitState, CommitTopic
from k2ktui.replication.ownership.epochs import DRIVER, STATE
from k2ktui.replication.ownership.fence import Fence

_BATCH_BYTES = 512 << 10


class RecordStore:
    """Reads an owner's records, and writes them in transactions that the fence protects.

    Args:
        target: the target cluster.
        topic: the commit topic.
        fence: has the token of what is written.
        pair: the clusters for which producer ids are registered; None registers none.
        transactional: whether exactly-once is enabled.
        sync_timeout: seconds to wait for open transactions, and for reading the topic.

    Attributes:
        topic: the commit topic, with all partitions that it was seen to have.
    """

    def __init__(
        self,
        target: Cluster,
        topic: CommitTopic,
        fence: Fence,
        pair: ClusterPair | None,
        *,
        transactional: bool,
        sync_timeout: float,
    ) -> None:
        self._target, self._fence = target, fence
        self._transactional, self._sync_timeout = transactional, sync_timeout
        self._pair = pair if pair is not None and pair.is_known else None
        self._registered: dict[int, ProducerRegistration] = {}
        self._own_runs: set[Run] = set()
        self.topic = topic

    @property
    def registers(self) -> bool:
        """Whether producer ids are registered before their first use."""
        return self._pair is not None

    def adopt(self, known: Mapping[int, ProducerRegistration], pair: ClusterPair) -> None:
        """Replace what is known of registrations with what the commit topic says after a takeover.

        ``pair`` has the aliases on record: an id that was registered before a cluster was restored
        is registered for the same clusters.
        """
        self._registered = dict(known)
        if self._pair is not None:
            self._pair = pair

    def is_usable(self, producer_id: int) -> bool:
        """Return whether a producer id is not registered for other clusters."""
        pair, known = self._pair, self._registered.get(producer_id)
        if pair is None or known is None:
            return True
        return known.source in pair.sources and known.target in pair.targets

    def register(self, producer_id: int) -> None:
        """Register a producer id if it is new; raises as ``write``."""
        if self._missing([producer_id], 0):
            self.write([], register=True)

    def _missing(self, producer_ids: Iterable[int], at_ms: int) -> list[ProducerRegistration]:
        """Return the registrations that these producer ids still need before their first use."""
        if self._pair is None:
            return []
        return [
            ProducerRegistration(id_, self._pair.source, self._pair.target, at_ms)
            for id_ in sorted(set(producer_ids))
            if id_ not in self._registered
        ]

    def read(self, canceled: Callable[[], bool] = lambda: False) -> CommitState:
        """Wait until no transaction is open on the commit topic, then read the state."""
        self.topic = topic = commit_state.with_all_partitions(self._target, self.topic)
        if self._transactional:
            await_stable(self._target, topic.name, topic.partitions, self._sync_timeout, canceled)
        state = self.read_committed()
        # Another cluster under the same address has no positions: all would be copied again.
        self._target.require_expected()
        return state

    def read_committed(self) -> CommitState:
        """Read the state, whatever is open."""
        return commit_state.read_commit_state(self._target, self.topic, self._sync_timeout)

    def read_log_starts(self) -> dict[int, int]:
        """Return the log start offset of each partition of the commit topic."""
        self.topic = commit_state.with_all_partitions(self._target, self.topic)
        return commit_state.read_log_starts(self._target, self.topic)

    def read_written_runs(self) -> list[Run]:
        """Return the run records of the pipeline, and of the slot, also those never committed."""
        self.topic = commit_state.with_all_partitions(self._target, self.topic)
        return list(commit_state.read_written_runs(self._target, self.topic, self._sync_timeout))

    def read_later_runs(self, term: int) -> list[Run]:
        """Return the run records of other drivers of this term or a later one."""
        slot, runs = self.topic.shared_slot, self.read_written_runs()
        others = (run for run in runs if run.shared_slot == slot and run not in self._own_runs)
        return [run for run in others if run.term >= term]

    def has_written(self, term: int) -> bool:
        """Return whether a run record of this term is this driver's, committed or not."""
        return any(run.term == term for run in self._own_runs)

    def write_run(
        self,
        run: Run,
        changed: Mapping[SourcePartition, Position] | None = None,
        moved: Iterable[MovedTopic] = (),
        producer_ids: Iterable[int] = (),
    ) -> None:
        """Write a run record, with the registrations that are missing; raises as ``write``.

        Positions that are given are written in the same transaction, without registrations; so are
        moved topics, and registrations of the producer ids that are given.

        Raises:
            Refused: no run could read the record, as its term or its slots are too many.
        """
        refuse_unreadable(run, self.topic.name)
        self._own_runs.add(run)
        group = self.topic.group
        entries: list[tuple[bytes, bytes | None]] = [
            (run_key(group, run.shared_slot), run_value(run))
        ]
        entries += self.position_entries(changed or {})
        entries += [(moved_topic_key(group, one.topic), moved_topic_value(one)) for one in moved]
        new = self._missing(producer_ids, now_ms())
        entries += [(registration_key(group, r.producer_id), registration_value(r)) for r in new]
        self.write(entries, register=changed is None)
        self._registered |= {added.producer_id: added for added in new}

    def position_entries(
        self, changed: Mapping[SourcePartition, Position]
    ) -> list[tuple[bytes, bytes | None]]:
        """Return the records of positions, as key and value."""
        group = self.topic.group
        return [(position_key(group, s), position_value(p)) for s, p in changed.items()]

    def remove_positions(self, sources: Iterable[SourcePartition]) -> None:
        """Delete positions from all partitions of the commit topic; raises as ``write``."""
        self._remove(position_key(self.topic.group, source) for source in sources)

    def remove_moved(self, topics: Iterable[str]) -> None:
        """Delete the records of moved topics from all partitions; raises as ``write``."""
        self._remove(moved_topic_key(self.topic.group, topic) for topic in topics)

    def _remove(self, keys: Iterable[bytes]) -> None:
        """Write tombstones to all partitions: the records are in whatever the topic had then."""
        self.write([(key, None) for key in keys], range(self.topic.partitions))

    def write(
        self,
        entries: Sequence[tuple[bytes, bytes | None]],
        partitions: Sequence[int] = (),
        *,
        register: bool = False,
    ) -> None:
        """Write records in a transaction; ``register`` adds the registrations that are missing.

        Raises:
            Superseded: another driver has taken over; nothing was written.
            TimedOut: the outcome is unknown.
            Refused: the target refused the records.
        """
        at = now_ms()
        ids = self._fence.producer_ids().values()
        new = self._missing(ids, at) if register else []
        group = self.topic.group
        entries = [
            *entries,
            *((registration_key(group, r.producer_id), registration_value(r)) for r in new),
        ]
        if not entries:
            return
        producer = self._fence.recover(STATE)
        where = [(self.topic.name, p) for p in partitions or (self.topic.partition(DRIVER),)]
        try:
            self._fence.loop.run(
                lambda: _write_records(
                    self._fence.wire,
                    producer,
                    where,
                    entries,
                    at,
                    transactional=self._transactional,
                )
            )
        except (Fenced, CoordinatorError) as error:
            if not isinstance(error, Fenced) and error.code not in FENCED:
                raise self._fence.explain(error) from error
            # Not necessarily another driver: the coordinator also aborts timed-out transactions.
            self._fence.confirm()
            raise outcome_unknown(self.topic.name, "the transaction was aborted") from error
        except (SlotFailed, BatchRefused) as error:
            if error.code in REFUSALS | TOO_LARGE:
                raise records_refused(self.topic.name, error.code, str(error)) from error
            raise outcome_unknown(self.topic.name, str(error)) from error
        except OutcomeUnknown as error:
            raise outcome_unknown(self.topic.name, str(error)) from error
        self._registered |= {added.producer_id: added for added in new}


async def _write_records(
    wire: Wire,
    producer: Producer,
    where: Sequence[tuple[str, int]],
    entries: Sequence[tuple[bytes, bytes | None]],
    at_ms: int,
    *,
    transactional: bool,
) -> None:
    """Write keys and values to each of these partitions, in one transaction if there are any.

    Raises:
        Fenced, SlotFailed, BatchRefused, CoordinatorError, OutcomeUnknown: as a slot's transaction.
    """
    records = make_records([(i, at_ms, key, value) for i, (key, value) in enumerate(entries)])
    sender = BatchSender(wire, producer, Signal(wire.loop))
    if transactional:
        for (topic, number), code in (await add_partitions(wire, producer, where)).items():
            raise SlotFailed(f"{topic}-{number}: {code_name(code)}", code)
    for partition in where:
        for built in build_batches(records, 0, _BATCH_BYTES):
            sender.offer(OutgoingBatch(partition, memoryview(built.data), built.count))
    await sender.drain()
    failpoint("recorded")
    if transactional:
        await end_transaction(wire, producer, commit=True)
