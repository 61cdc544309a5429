"""Shadow groups: committed on the target like real ones, read by a real consumer, deleted again.

A shadow group is named ``<coordination.commit.group>.drill.<id>.<group>``, so that what a killed
process left is found by its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic

from confluent_kafka import (
    OFFSET_STORED,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
)

from k2ktui.drill.changes.target import delete_shadow_groups, shadow_prefix
from k2ktui.drill.facts import GroupReads
from k2ktui.drill.phases.client_reads import make_reads
from k2ktui.drill.phases.moves import make_plan, planned_sources
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus, GroupResult
from k2ktui.engine.drill.steps import find_change
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.moves.plan import PlanRow
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.client_errors import PARTITION_END
from k2ktui.log.content import ContentReader
from k2ktui.log.record import Header, KafkaRecord, compare_content
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.sync.cluster_readers import TargetClusterReader
from k2ktui.sync.moves.apply import Applier
from k2ktui.sync.store import StateStore
from k2ktui.sync.verify.changed_records import ignored_parts, leaves_records_out
from k2ktui.text import counted, first_lines, safe_message, safe_text

_CONSUMERS = 8
_CONSUME_S = 30.0
_READ_S = 60.0
# Offsets to read on the source for each record that is compared: some hold no record.
_SPAN = 4

Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ShadowRow:
    """A row of the plan that a shadow group reads, with what the group would read next."""

    row: PlanRow
    source: SourcePartition
    offset: int
    expected: tuple[KafkaRecord, ...] = ()


def run_shadow(session: Session) -> PhaseResult:
    """Commit, read, compare and delete shadow groups."""
    session.show(DrillPhase.SHADOW, "planning")
    rows, left_out, transformed = _choose(session)
    untried = (
        f"; {counted(transformed, 'offset')} not tried, as a transform may leave records out there"
        if transformed
        else ""
    )
    if not rows:
        return PhaseResult(
            f"no group has an exact offset that could be tried{untried}",
            tuple(first_lines([f"{safe_text(name)}: not tried" for name in left_out], 5)),
        )
    groups = sorted({shadow.row.group for shadow in rows})
    change = _intend(session, len(groups))
    delete_shadow_groups(session)
    rows = _read_expected(session, rows)
    problems = _commit(session, rows)
    failpoint("drill-shadow-groups-committed")
    try:
        if not problems:
            problems = _consume(session, rows)
    finally:
        delete_shadow_groups(session)
    session.settle(change, ChangeStatus.UNDONE)
    compared = sum(group.compared for group in session.drill.groups)
    text = (
        f"{counted(len(groups), 'shadow group')} read {counted(compared, 'record')} as expected"
        if not problems
        else f"shadow groups found {counted(len(problems), 'difference')}"
    )
    if left_out:
        text += f"; {counted(len(left_out), 'group')} not tried (limit or no exact offset)"
    text += untried
    return failed(text, *first_lines(problems, 20)) if problems else PhaseResult(text)


def _choose(session: Session) -> tuple[list[ShadowRow], list[str], int]:
    """Return the rows to try, of a limited number of groups, and the groups left out.

    Also returns the number of rows that a transform rules out: the next record on the source may
    have no copy, or several.
    """
    plan = session.plan or make_plan(session)
    every = [
        ShadowRow(row, source, offset)
        for row, source, offset in planned_sources(plan.rows)
        if row.proposed is not None and row.basis in (Basis.EXACT, Basis.END)
    ]
    exact = [
        shadow for shadow in every if not leaves_records_out(session.config, shadow.source.topic)
    ]
    names = sorted({shadow.row.group for shadow in exact})
    chosen = set(names[: session.drill.options.shadow_groups])
    left_out = sorted({row.group for row in plan.rows} - chosen)
    return [row for row in exact if row.row.group in chosen], left_out, len(every) - len(exact)


def _intend(session: Session, groups: int) -> Change:
    change = find_change(session.drill, ChangeKind.SHADOW_GROUPS)
    if change is not None:
        return change
    prefix = shadow_prefix(session)
    what = f"create {counted(groups, 'shadow group')} named {prefix}* on the target"
    return session.intend_new(DrillPhase.SHADOW, ChangeKind.SHADOW_GROUPS, what, after=prefix)


def _read_expected(session: Session, rows: Sequence[ShadowRow]) -> list[ShadowRow]:
    """Return the rows with the records that their groups would read next on the source."""
    wanted = session.drill.options.shadow_records
    positions = session.flow.read_copier(session.source, session.target).positions
    asked: dict[tuple[str, int, int], int] = {}
    for shadow in rows:
        copied = (
            positions[shadow.source].offset - shadow.offset if shadow.source in positions else 0
        )
        count = max(0, min(wanted * _SPAN, copied))
        if count:
            asked[shadow.source.topic, shadow.source.partition, shadow.offset] = count
    with ContentReader(session.source) as reader:
        stretches = dict(zip(asked, reader.stretches(list(asked.items()), _READ_S), strict=True))
    result = []
    for shadow in rows:
        stretch = stretches.get((shadow.source.topic, shadow.source.partition, shadow.offset))
        records = sorted(stretch.records.items()) if stretch else []
        result.append(replace(shadow, expected=tuple(record for _, record in records[:wanted])))
    return result


def _commit(session: Session, rows: Sequence[ShadowRow]) -> list[str]:
    """Commit the shadow groups' offsets by the code that applies plans; return what failed."""
    prefix = shadow_prefix(session)
    writes = [
        OffsetWrite(
            prefix + shadow.row.group,
            shadow.row.topic,
            shadow.row.partition,
            None,
            "",
            shadow.row.proposed,
            shadow.row.metadata,
        )
        for shadow in sorted(rows, key=lambda row: row.row.group)
    ]
    reader = TargetClusterReader(session.config)
    store = StateStore(session.config, session.target)
    try:
        # They are deleted again: nothing of them is recorded as a pipeline's commit.
        results = Applier(session.config, reader, store, records=False).write_only(writes)
    finally:
        store.close()
        reader.close()
    return [
        f"{safe_text(result.write.group)} {safe_text(result.write.topic)}-"
        f"{result.write.partition}: {result.outcome} {safe_message(result.reason)}".rstrip()
        for result in results
        if result.outcome is not WriteOutcome.APPLIED
    ]


def _consume(session: Session, rows: Sequence[ShadowRow]) -> list[str]:
    """Read with every shadow group, compare, and return the differences."""
    by_group: dict[str, list[ShadowRow]] = defaultdict(list)
    for shadow in rows:
        by_group[shadow.row.group].append(shadow)
    reads: list[Mapping[Where, list[KafkaRecord]]] = []
    with ThreadPoolExecutor(_CONSUMERS) as pool:
        for read in pool.map(lambda name: _read_group(session, name, by_group[name]), by_group):
            reads.append(read)
            done = f"{len(reads):,} of {len(by_group):,} shadow groups read"
            session.show(DrillPhase.SHADOW, done)
    problems: list[str] = []
    seen: list[GroupReads] = []
    for group, records_by_place in zip(by_group, _add_headers(session, reads), strict=True):
        compared, different = _compare(session, by_group[group], records_by_place)
        problems += different
        seen += [
            make_reads(session, shadow.row, shadow.source, shadow.offset, records)
            for shadow in by_group[group]
            if (records := records_by_place.get((shadow.row.topic, shadow.row.partition), []))
        ]
        _keep_result(session, group, compared, len(different))
    session.reads = tuple(seen)
    return problems


def _read_group(
    session: Session, group: str, rows: Sequence[ShadowRow]
) -> Mapping[Where, list[KafkaRecord]]:
    """Resume at the shadow group's committed offsets, and read the expected number of records."""
    left = {(e.row.topic, e.row.partition): len(e.expected) for e in rows if e.expected}
    records: dict[Where, list[KafkaRecord]] = {at: [] for at in left}
    consumer = session.target.consumer(
        group__id=shadow_prefix(session) + group,
        isolation__level="read_committed",
        enable__partition__eof=True,
        fetch__wait__max__ms=50,
    )
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_STORED) for topic, number in left])
        until = monotonic() + _CONSUME_S
        while left and monotonic() < until:
            message = consumer.poll(0.2)
            if message is None:
                continue
            at = (str(message.topic()), int(message.partition() or 0))
            error = message.error()
            if error is not None:
                if error.code() != PARTITION_END:
                    raise K2kError(f"shadow group of {safe_text(group)}: {error.str()}")
                left.pop(at, None)
            elif at in left:
                records[at].append(_read_message(message))
                if len(records[at]) >= left[at]:
                    del left[at]
    finally:
        consumer.close()
    return records


def _read_message(message: Message) -> KafkaRecord:
    """Return a record without its headers.

    ``Message.headers`` would raise for a name that is not UTF-8, as SystemError if it has two of
    them, and may raise the error in a later call of the thread instead.
    """
    kind, timestamp = message.timestamp()
    return KafkaRecord(
        int(message.offset() or 0),
        message.key(),
        message.value(),
        (),
        -1 if kind == TIMESTAMP_NOT_AVAILABLE else int(timestamp),
    )


def _add_headers(
    session: Session, reads: Sequence[Mapping[Where, list[KafkaRecord]]]
) -> list[Mapping[Where, list[KafkaRecord]]]:
    """Return the records that were read with their headers, which are read as bytes here.

    Raises:
        K2kError: a record cannot be read again.
    """
    offsets: dict[Where, set[int]] = defaultdict(set)
    for read in reads:
        for at, records in read.items():
            offsets[at] |= {record.offset for record in records}
    where = {at: (min(some), max(some) + 1 - min(some)) for at, some in offsets.items() if some}
    with ContentReader(session.target) as reader:
        asked = [((*at, first), count) for at, (first, count) in where.items()]
        stretches = dict(zip(where, reader.stretches(asked, _READ_S), strict=True))

    def headers(at: Where, offset: int) -> tuple[Header, ...]:
        record = stretches[at].records.get(offset)
        if record is not None:
            return record.headers
        why = stretches[at].unread or stretches[at].absence(offset)
        raise K2kError(
            f"the headers of {safe_text(at[0])}-{at[1]} at {offset} cannot be read: "
            f"{safe_message(why)}"
        )

    return [
        {
            at: [replace(record, headers=headers(at, record.offset)) for record in records]
            for at, records in read.items()
        }
        for read in reads
    ]


def _compare(
    session: Session, rows: Sequence[ShadowRow], records_by_place: Mapping[Where, list[KafkaRecord]]
) -> tuple[int, list[str]]:
    """Return the number of records that are as expected, and the first difference of each row."""
    same, different = 0, []
    for shadow in rows:
        ignored = ignored_parts(session.config, shadow.source.topic)
        read = records_by_place.get((shadow.row.topic, shadow.row.partition), [])
        where = (
            f"{safe_text(shadow.row.group)} {safe_text(shadow.row.topic)}-{shadow.row.partition}"
        )
        for number, expected in enumerate(shadow.expected):
            if number >= len(read):
                different.append(
                    f"{where}: record {number + 1} was not read; on the source it is at "
                    f"{expected.offset}"
                )
                break
            why = compare_content(expected, read[number], ignored)
            if why:
                different.append(
                    f"{where}: record {number + 1} is not the one at {expected.offset} on the "
                    f"source: {why}"
                )
                break
            same += 1
    return same, different


def _keep_result(session: Session, group: str, compared: int, different: int) -> None:
    def change(result: GroupResult) -> GroupResult:
        if result.group != group:
            return result
        return replace(result, compared=compared, different=different)

    session.change_drill(
        lambda drill: replace(drill, groups=tuple(change(result) for result in drill.groups))
    )
