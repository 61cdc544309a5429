"""Records of the state topic: runners' heartbeats, snapshots of group commits, and the journal.

How they are written is in :mod:`k2ktui.engine.journal_format`.

- *Runner*: what one running process last said of itself.
- *CommitSnapshot*: what a consumer group had committed on the source.
- *JournalHeader* and *JournalRows*: what a command changed, with what was there before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from k2ktui.engine.groups import CommittedOffset, Partition

BEAT_MS = 5_000
SILENT_AFTER_MS = 15_000
JOURNAL_ENTRIES = 200
LARGEST_SEQUENCE = (1 << 53) - 1
# What the journal calls the changes that k2ktui sync makes by itself.
SYNC = "sync"
# How a header counts rows that are being written.
BEGUN = "begun"


class RunnerState(StrEnum):
    """What a runner says of itself, and ``silent``: it has said nothing for too long."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class RunnerKey:
    """Key of a heartbeat: the unique id of the process."""

    runner: str


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """Key of a snapshot: the consumer group on the source."""

    consumer_group: str


@dataclass(frozen=True, slots=True, order=True)
class JournalKey:
    """Key of a part of a journal entry; the header has no consumer group."""

    id: str
    consumer_group: str = ""


StateKey = RunnerKey | SnapshotKey | JournalKey


@dataclass(frozen=True, slots=True)
class Runner:
    """A heartbeat: what a running pipeline says of itself every few seconds.

    Attributes:
        runner: unique id of the process.
        host, user, pid: where it runs, and as whom.
        started_ms, at_ms: its start and this heartbeat, epoch milliseconds by its own clock.
        state: never ``silent``: that is what a reader finds, see :meth:`standing`.
        lap: number of its last lap.
        slots: number of slots, 0 until it has begun.
        lag_records: source offsets not copied yet, None while unknown.
        last_error: the last that went wrong, "" for nothing.
        version: of k2ktui.
        term: of its run, 0 until it has begun.
        commit_ms: mean time that a commit took in its last lap, None if there was none.
        heard_ms: when a reader heard it last, by the reader's clock; None as long as nobody has
            observed it. Not part of the record.
    """

    runner: str
    host: str
    user: str
    pid: int
    started_ms: int
    at_ms: int
    state: RunnerState
    lap: int = 0
    slots: int = 0
    lag_records: int | None = None
    last_error: str = ""
    version: str = ""
    term: int = 0
    commit_ms: float | None = None
    heard_ms: int | None = field(default=None, compare=False)

    @property
    def key(self) -> RunnerKey:
        """Where it is kept."""
        return RunnerKey(self.runner)

    @property
    def last_ms(self) -> int:
        """When it was heard last, epoch milliseconds; by its own clock if never observed."""
        return self.at_ms if self.heard_ms is None else self.heard_ms

    def standing(self, now_ms: int) -> RunnerState:
        """Return its state as a reader sees it: one that should have spoken by now is silent."""
        late = now_ms - self.last_ms > SILENT_AFTER_MS
        return RunnerState.SILENT if late and self.state is not RunnerState.STOPPED else self.state

    def alive(self, now_ms: int) -> bool:
        """Whether it must be taken to be running."""
        return self.standing(now_ms) not in (RunnerState.STOPPED, RunnerState.SILENT)


@dataclass(frozen=True, slots=True)
class CommitSnapshot:
    """What a consumer group had committed on the source.

    Attributes:
        consumer_group: its name.
        cluster: id of the source cluster.
        at_ms: when it was read, epoch milliseconds.
        state: of the group then, as Kafka calls it.
        offsets: committed offsets by topic and partition.
    """

    consumer_group: str
    cluster: str
    at_ms: int
    state: str
    offsets: Mapping[Partition, CommittedOffset] = field(default_factory=dict)

    @property
    def key(self) -> SnapshotKey:
        """Where it is kept."""
        return SnapshotKey(self.consumer_group)


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """One change, as a whole.

    Attributes:
        id: of the entry, unique; its time is of one host's clock.
        at_ms: epoch milliseconds.
        who: ``user@host``.
        what: ``apply``, ``undo``, ``sync``, ``offsets set``, ``offsets clear``, …
        plan: id of the plan that was applied, "" for none.
        pipeline: name of the pipeline.
        counts: how many rows had which result.
        undoes: id of the entry that this one takes back, "" for none.
        sequence: greater than that of every entry that was on the journal when it was begun; 0 in
            entries of earlier releases.
    """

    id: str
    at_ms: int
    who: str
    what: str
    plan: str = ""
    pipeline: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    undoes: str = ""
    sequence: int = 0

    @property
    def order(self) -> tuple[int, str]:
        """What entries are sorted by; the clocks of two hosts may disagree."""
        return self.sequence, self.id

    @property
    def key(self) -> JournalKey:
        """Where it is kept."""
        return JournalKey(self.id)


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One offset that was changed; None is no offset."""

    topic: str
    partition: int
    before: int | None
    before_metadata: str
    after: int | None
    after_metadata: str
    result: str


@dataclass(frozen=True, slots=True)
class JournalRows:
    """What an entry changed of one consumer group.

    For a change of the pipeline's own positions the group is ``coordination.commit.group``, and
    the metadata are the position records as they are on the commit topic.
    """

    id: str
    consumer_group: str
    rows: tuple[JournalRow, ...] = ()

    @property
    def key(self) -> JournalKey:
        """Where they are kept."""
        return JournalKey(self.id, self.consumer_group)


StateRecord = Runner | CommitSnapshot | JournalHeader | JournalRows


def new_id(at_ms: int, salt: str) -> str:
    """Return an id for a journal entry; ``salt`` keeps two apart, on other hosts too."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%d-%H%M%S}-{salt}"


def next_sequence(headers: Iterable[JournalHeader]) -> int:
    """Return the sequence number of an entry that is begun after these."""
    highest = max((header.sequence for header in headers), default=0)
    return min(highest + 1, LARGEST_SEQUENCE)


def find_outdated(
    entries: Mapping[str, JournalHeader | None],
    writing: Collection[str] = (),
    keep: int = JOURNAL_ENTRIES,
) -> list[str]:
    """Return the ids of journal entries that go, the oldest first.

    The newest ``keep`` of each kind stay, so that what ``k2ktui sync`` does by itself never pushes
    out what an operator did, and finished entries never push out one that is being written.

    Args:
        entries: headers by id; None for an entry without one.
        writing: ids of entries that this process is writing: they stay.
        keep: how many stay of each kind.
    """
    kinds: dict[tuple[bool, bool], list[tuple[tuple[int, str], str]]] = {}
    for name, header in entries.items():
        if name in writing:
            continue
        order = header.order if header is not None else (0, name)
        kinds.setdefault(_kind(header), []).append((order, name))
    gone = []
    for kind, found in kinds.items():
        mine = sum(_kind(entries.get(name)) == kind for name in writing)
        gone += sorted(found)[: max(0, len(found) + mine - keep)]
    return [name for _, name in sorted(gone)]


def _kind(header: JournalHeader | None) -> tuple[bool, bool]:
    return header is not None and header.what == SYNC, header is None or BEGUN in header.counts
