"""The run record of a pipeline in its commit topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair, read_cluster_pair
from k2ktui.engine.records.editions import (
    NO_EDITIONS,
    Edition,
    Editions,
    edition_of_layout,
    editions_value,
    read_digest,
    read_editions,
)
from k2ktui.engine.strict_json import (
    MalformedRecord,
    UnknownVersion,
    dump_object,
    field,
    integer,
    parse_object,
    text,
)
from k2ktui.engine.wire import (
    COUNT,
    FLAG,
    MILLIS,
    TEXT,
    Wire,
    WireType,
    defaulted,
    list_of,
    object_of,
    optional,
    or_none,
    required,
    whole,
)

_VERSION = 1
# Of the runs of a pipeline with slots that are taken one by one, and of its slots: a release that
# does not know them cannot fence them, and must not take the pipeline over.
_SHARED_VERSION = 2
# Of the runs of a pipeline with moved topics: a release that does not know them would copy these,
# and must not take the pipeline over.
_MOVED_VERSION = 3
_VERSIONS = (_VERSION, _SHARED_VERSION, _MOVED_VERSION)
_LARGEST_BYTES = 1 << 20
# Kinds of records of the assignment topic, which may be the commit topic.
ASSIGNMENT_KINDS = ("owners", "member")
SLOT_RUN = "slotRun"
RUN_MARK = b'"run":true'
# Every key of a run record has one of these member names, of a pipeline's run or a slot's.
_RUN_MEMBERS = (b'"run"', f'"{SLOT_RUN}"'.encode())
# A driver that takes over fences the slots one by one.
LARGEST_SLOTS = 10_000
# A shared slot is fenced as a pipeline is, with a connection of its own and a look at the topic.
LARGEST_SHARED_SLOTS = 1_000
# More runs than any pipeline has. A term above it was not written by a run, and does not count: the
# one after it could not be written.
LARGEST_TERM = 1 << 40
TERM = whole(high=LARGEST_TERM)
_LONGEST_LAYOUT_ID = 64


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """A division of a pipeline's partitions into slots (docs/internals/ownership.md).

    ``id`` is different for every layout. It is ready once every slot of any layout before it has
    been fenced.
    """

    id: str
    slots: int
    ready: bool = False

    @property
    def edition(self) -> Edition:
        """The edition of the pipeline file for which it was made; unknown of earlier releases."""
        return edition_of_layout(self.id)


@dataclass(frozen=True, slots=True)
class Interruption:
    """A takeover that only records moved topics: the run that it fences goes on when it is over.

    ``term`` is that of the run record before it; the run that has written it takes over again.
    """

    term: int
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the driver: its term, its number of slots, what it copies.

    Attributes:
        term: as in Raft: numbers the runs of a pipeline.
        slots: the highest number of transactional ids that the slots of any run so far may have
            used; a new driver fences them all.
        name: name of the pipeline in the run's file.
        host: where it runs.
        started_ms: when it began, epoch milliseconds.
        pair: the clusters.
        registers: whether it registers the producer ids that it writes with.
        bidirectional: the mode in which it leaves out records that came from the target; "" if it
            copies everything.
        layout: how runs share the pipeline; None if they do not. The id is different for every
            layout, and ends with ``-EDITION-DIGEST`` of the file that it was made for.
        most_shared: the largest number of slots of any layout so far.
        shared_slot: the shared slot that the record is of, as in the key; None in the pipeline's.
        fenced_by: id of the drill that keeps the pipeline from starting, unless that drill's record
            says otherwise.
        digest: of what the run's file decides; not known of earlier releases.
        editions: the numbers of the digests of all runs so far, the 100 highest; the highest one is
            that of the newest file.
        has_moved: whether there may be moved topics.
        interrupts: in the record of a takeover that only moves or releases topics: the term of the
            run that goes on, and whether it may take over again.
        lost_term: the term up to which positions may be lost, as the commit topic had lost records
            when a run took over; 0 if it never had.
        log_starts: the log start offsets of the commit topic's partitions that ``lost_term``
            accounts for; what is deleted after them is a new loss.
        has_unregistered: whether the pipeline may have written with producer ids that are not
            registered: positions were recovered, and what would name these ids had expired.
        alone: the division of a run that copies all slots alone; None without one, and beside a
            layout. No run of this release makes one.
    """

    term: int
    slots: int
    name: str = ""
    host: str = ""
    started_ms: int = 0
    pair: ClusterPair = UNKNOWN_PAIR
    registers: bool = False
    bidirectional: str = ""
    layout: SharedLayout | None = None
    most_shared: int = 0
    shared_slot: int | None = None
    fenced_by: str = ""
    digest: str = ""
    editions: Editions = NO_EDITIONS
    has_moved: bool = False
    interrupts: Interruption | None = None
    lost_term: int = 0
    log_starts: tuple[int, ...] = ()
    has_unregistered: bool = False
    alone: SharedLayout | None = None

    @property
    def division(self) -> SharedLayout | None:
        """The division whose slots may be taken once it is ready, by all runs or by one."""
        return self.layout or self.alone


NO_RUN = Run(0, 0)


def run_key(group: str, shared_slot: int | None = None) -> bytes:
    """Compaction key of the run record of a pipeline, or of one of its shared slots."""
    if shared_slot is not None:
        return dump_object({"group": group, SLOT_RUN: shared_slot})
    return dump_object({"group": group, "run": True})


_LAYOUT = Wire(
    SharedLayout,
    id=required("id", WireType(lambda value: text(value, _LONGEST_LAYOUT_ID))),
    slots=required("slots", whole(1, high=LARGEST_SHARED_SLOTS)),
    ready=required("ready", FLAG),
)
_INTERRUPTION = Wire(Interruption, term=required("term", TERM), is_over=required("over", FLAG))
_WIRE = Wire(
    Run,
    term=required("term", TERM),
    slots=required("slots", whole(high=LARGEST_SLOTS)),
    name=defaulted("name", TEXT, ""),
    host=defaulted("host", TEXT, ""),
    started_ms=defaulted("startedAt", MILLIS, 0),
    registers=optional("registers", FLAG, False),
    bidirectional=optional("bidirectional", TEXT, ""),
    layout=optional("layout", or_none(object_of(_LAYOUT)), None),
    most_shared=optional("mostShared", whole(high=LARGEST_SHARED_SLOTS), 0),
    fenced_by=optional("fencedBy", TEXT, ""),
    digest=optional("digest", WireType(read_digest), ""),
    editions=optional("editions", WireType(read_editions, editions_value), NO_EDITIONS),
    has_moved=optional("moved", FLAG, False),
    interrupts=optional("interrupts", or_none(object_of(_INTERRUPTION)), None),
    lost_term=optional("lostTerm", TERM, 0),
    log_starts=optional(
        "logStarts", list_of(COUNT, LARGEST_SLOTS), (), unless=lambda run: not any(run.log_starts)
    ),
    has_unregistered=optional("unregistered", FLAG, False),
    alone=optional("alone", or_none(object_of(_LAYOUT)), None),
)


def run_value(run: Run) -> bytes:
    """Value of the run record."""
    return dump_object({"v": _version(run), **_WIRE.write(run), **run.pair.as_fields()})


def _version(run: Run) -> int:
    if run.has_moved:
        return _MOVED_VERSION
    return _VERSION if run.division is None and run.shared_slot is None else _SHARED_VERSION


def parse_run(value: Mapping[str, Any], shared_slot: object = None) -> Run:
    """Return the run in a decoded value; raises MalformedRecord."""
    version = integer(field(value, "v"))
    if version not in _VERSIONS:
        raise MalformedRecord(
            f"a run of version {version}, this release reads up to {max(_VERSIONS)}"
        )
    slot = None if shared_slot is None else integer(shared_slot, high=LARGEST_SHARED_SLOTS - 1)
    return _WIRE.read(value, pair=read_cluster_pair(value), shared_slot=slot)


def has_been_cut(run: Run, starts: Mapping[int, int]) -> bool:
    """Return whether a commit topic has lost records at its start since a run record was written.

    A compacted topic begins at offset 0 for ever, unless its records are deleted.

    Args:
        run: the newest run record.
        starts: the log start offset of each partition.
    """
    accounted = dict(enumerate(run.log_starts))
    return any(start > accounted.get(partition, 0) for partition, start in starts.items())


def may_be_run(key: bytes | None) -> bool:
    """Return False only if a key is not that of a run record; this is quicker than decoding it.

    A JSON text without a backslash has the names of its members as they are.
    """
    return key is not None and (b"\\" in key or any(name in key for name in _RUN_MEMBERS))


def read_run(key: bytes | None, value: bytes | None) -> tuple[str, Run] | None:
    """Decode a record of a commit topic if it is a run, with its group; None for any other record.

    Raises:
        UnknownVersion: a run of another release; ``of`` is its group.
        MalformedRecord: a run that cannot be read.
    """
    if key is None or value is None or RUN_MARK not in key:
        return None
    head = parse_object(key, "the key", largest=_LARGEST_BYTES)
    if head.get("run") is not True:
        return None
    group = text(field(head, "group"))
    body = parse_object(value, "the value", largest=_LARGEST_BYTES)
    if integer(field(body, "v")) not in _VERSIONS:
        raise UnknownVersion("a run", group)
    return group, parse_run(body)
