"""Phases about the source: lag, fencing of producers, drain, consumers, and its loss."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from time import monotonic, time

from k2ktui.drill.changes.handler import read_change
from k2ktui.drill.logs import (
    SourceLogEnd,
    SourceLogs,
    count_written,
    digest_ends,
    name_partitions,
)
from k2ktui.drill.phases.leave_topics import run_leave_topics
from k2ktui.drill.phases.moves import note_on_source
from k2ktui.drill.phases.redirect import cut_off, try_cut_off
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill.changes import dump_names, read_denied_topics
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, DrillOptions, Fence
from k2ktui.engine.drill.steps import drill_command, find_change
from k2ktui.engine.members import name_groups
from k2ktui.engine.moves.groups import GroupView
from k2ktui.engine.producers import Writers, name_writers
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.kafka.admin.acls import denied_topics, deny_writes
from k2ktui.sync.cluster_readers import SourceClusterReader
from k2ktui.sync.commit_snapshots import read_known_commits
from k2ktui.sync.store import StateStore
from k2ktui.text import counted, duration, moment, safe_text

_STILL_S = 5.0
# Producers that the journal names; of more, it says nothing.
_MOST_NAMED = 20


def run_lag(session: Session) -> PhaseResult:
    """Wait until the lag is below its bound."""
    bound = session.drill.options.lag_records
    logs = session.open_logs()

    def look() -> tuple[bool, str]:
        ends = logs.read()
        lag = sum(end.lag for end in ends)
        _record_loss(session, ends)
        return lag <= bound, f"{counted(lag, 'record')} behind, the bound is {bound:,}"

    try:
        live = session.wait(
            DrillPhase.LAG,
            look,
            hint="Check that the pipeline runs, or raise the bound with --max-lag.",
        )
    finally:
        logs.close()
    return PhaseResult(live)


def run_fence_producers(session: Session) -> PhaseResult:
    """Fence the producers, and prove that nothing is written any more."""
    with closing(session.open_logs()) as logs:
        needed = session.drill.options.frozen_s
        if session.drill.options.fence is Fence.ACL:
            _fence_by_acl(session, logs)
        if session.drill.options.fence is Fence.CUT_OFF:
            redirect = session.config.drill.redirect
            # A command may leave connections open that HAProxy closes.
            is_closed = redirect is not None and redirect.haproxy is not None
            if is_closed and needed == DrillOptions().frozen_s:
                needed = _STILL_S
            if (held := cut_off(session)) is not None:
                return held
        return _prove_frozen(session, logs, needed)


def _fence_by_acl(session: Session, logs: SourceLogs) -> None:
    """Deny Write on the pipeline's own topics; no other member of a site drill has one of them."""
    change = find_change(session.drill, ChangeKind.ACLS)
    if change is None:
        topics = logs.topics()
        before = sorted(denied_topics(session.source, topics))
        added = [topic for topic in topics if topic not in before]
        text = counted(len(added), "topic")
        change = session.intend_new(
            DrillPhase.FENCE_PRODUCERS,
            ChangeKind.ACLS,
            f"deny Write on {text} of the source to User:*",
            dump_names(before),
            dump_names(added),
        )
    denied = read_change(session.drill, change, read_denied_topics)
    session.peers.record_denied(denied)
    deny_writes(session.source, denied)
    if change.status is not ChangeStatus.MADE:
        session.settle(change, ChangeStatus.MADE)


def _prove_frozen(session: Session, logs: SourceLogs, needed: float) -> PhaseResult:
    abort = drill_command(session.drill, "abort")
    # Where people stop the producers, some that still write are no surprise.
    by_people = session.drill.options.fence.is_by_people
    way = "" if by_people else f"; wait until they stop, or take the fence back: {abort}"
    before: list[SourceLogEnd] = []
    since, is_first, writers = monotonic(), True, Writers()

    def look() -> tuple[bool, str]:
        nonlocal before, since, is_first
        ends = logs.read()
        read_at = monotonic()
        written = count_written(before, ends) if before else {}
        held = [end.at for end in ends if end.in_transactions]
        # What was open before the first reading is told by its first offset.
        moved = [end for end in before or _begin_at_stable(ends) if end.at in {*written, *held}]
        writers.add(logs.read_writers(moved), monotonic())
        _note_writers(session, writers)
        if written or held or is_first:
            since = read_at
        before, is_first = ends, False
        still = read_at - since
        who = name_writers(writers.list())
        if held:
            text = f"open transactions on {name_partitions(held)}"
            return False, (f"{text}; written by {who}" if who else text) + way
        if written:
            text = f"still written: {name_partitions(written)}"
            return False, (f"{text}, by {who}" if who else text) + way
        return still >= needed, f"no write for {duration(still)} of {duration(needed)}"

    session.wait(
        DrillPhase.FENCE_PRODUCERS,
        look,
        hint="Stop the producers that still write to the source, and end open transactions there. "
        f"Or abort the drill, which takes its fence back: {abort}.",
    )
    session.change_drill(
        lambda drill: replace(
            drill, figures=replace(drill.figures, source_ends=digest_ends(before))
        )
    )
    ends = counted(len(before), "partition")
    return PhaseResult(
        f"nothing was written for {duration(needed)} to {ends}, and no transaction is open"
    )


def _note_writers(session: Session, writers: Writers) -> None:
    """Write into the journal who is seen to write for the first time."""
    new = writers.list_new(_MOST_NAMED)
    if new:
        is_by_people = session.drill.options.fence.is_by_people
        what = (
            "still written to the source"
            if is_by_people
            else ("written to the source while it is fenced")
        )
        text = f"{what}: {name_writers(new, _MOST_NAMED)}"
        session.write(text, phase=str(DrillPhase.FENCE_PRODUCERS))


def _begin_at_stable(ends: list[SourceLogEnd]) -> list[SourceLogEnd]:
    return [replace(end, high=end.stable) for end in ends]


def find_written(session: Session, ends: list[SourceLogEnd]) -> str:
    """Return what was written to the source since the producers were fenced; "" for nothing."""
    if digest_ends(ends) == session.drill.figures.source_ends:
        return ""
    late = [end.at for end in ends if not end.is_drained]
    where = f": {name_partitions(late)}" if late else ""
    return f"records were written to the source after its producers were fenced{where}"


def run_drain(session: Session) -> PhaseResult:
    """Prove that everything on the source is on the target, partition by partition."""
    logs = session.open_logs()
    ends: list[SourceLogEnd] = []

    def look() -> tuple[bool, str]:
        nonlocal ends
        ends = logs.read()
        left = [end for end in ends if not end.is_drained]
        lag = sum(end.lag for end in left)
        text = f"{counted(lag, 'record')} left on {name_partitions(end.at for end in left)}"
        return not left, text

    try:
        session.wait(
            DrillPhase.DRAIN,
            look,
            hint="Check that the pipeline runs: k2ktui status -f FILE.",
        )
    finally:
        logs.close()
    written = find_written(session, ends)
    if written:
        return failed(written, "Fence the producers again: resume the drill with --from-fence.")
    _record_loss(session, ends, age=0.0, size=0)
    count = counted(len(ends), "partition")
    return PhaseResult(f"position, last stable offset and high watermark are the same on {count}")


def _record_loss(
    session: Session,
    ends: list[SourceLogEnd],
    age: float | None = None,
    size: int | None = None,
) -> None:
    lag = sum(end.lag for end in ends)
    session.change_drill(
        lambda drill: replace(
            drill, figures=replace(drill.figures, rpo_records=lag, rpo_bytes=size, rpo_s=age)
        )
    )


def measure_loss(session: Session) -> str:
    """Measure what would be lost if the source were lost now, and return it in words."""
    with closing(session.open_logs()) as logs:
        ends = logs.read()
        age, size = logs.oldest_age_s(ends), logs.count_bytes(ends)
    _record_loss(session, ends, age, size)
    lag = sum(end.lag for end in ends)
    known = f", {size:,} bytes" if lag and size is not None else ""
    oldest = f", the oldest {duration(age)} old" if lag and age is not None else ""
    return f"{counted(lag, 'record')} not copied{known}{oldest}"


def run_stop_consumers(session: Session) -> PhaseResult:
    """Wait until no chosen group has members on the source, and none commits."""
    if session.drill.topics:
        return run_leave_topics(session)
    reader = SourceClusterReader(session.config)
    before: dict[str, object] = {}
    since = monotonic()
    needed = min(_STILL_S, session.drill.options.frozen_s)

    def look() -> tuple[bool, str]:
        nonlocal before, since
        groups = _read_groups(session, reader)
        active = {name: view.named for name, view in groups.items() if not view.empty}
        note_on_source(session, active)
        now: dict[str, object] = {name: dict(view.offsets) for name, view in groups.items()}
        if now != before or active:
            since = monotonic()
        before = now
        if active:
            return False, f"{counted(len(active), 'group')} with members: {name_groups(active)}"
        still = monotonic() - since
        return (
            still >= needed,
            f"no members; commits unchanged for {duration(still)} of {duration(needed)}",
        )

    try:
        session.wait(
            DrillPhase.STOP_CONSUMERS,
            look,
            hint="Stop the consumers of these groups on the source; all of them: "
            "k2ktui groups --members -f FILE.",
        )
    finally:
        reader.close()
    groups = counted(len(before), "group")
    return PhaseResult(f"{groups} without members, and no new commits for {duration(needed)}")


def _read_groups(session: Session, reader: SourceClusterReader) -> dict[str, GroupView]:
    view = reader.read_committed(session.config.topics.matches)
    return {
        name: group
        for name, group in view.groups.items()
        if session.chooses(name) and any(session.config.topics.matches(t) for t, _ in group.offsets)
    }


def run_source_lost(session: Session) -> PhaseResult:
    """Establish that the source does not answer, and what was last known of it."""
    copier = session.flow.read_copier(session.source, session.target)
    clusters = copier.clusters
    try:
        cluster_id = session.source.cluster_id()
    except (ConnectionFailed, TimedOut) as error:
        why = error.message
    else:
        why = ""
        if clusters.source and cluster_id and cluster_id != clusters.source:
            why = f"another cluster, {safe_text(cluster_id)}, answers in place of the source"
    if not why:
        return failed(
            "the source answers",
            "A disaster drill is for a source that is lost. Use k2ktui drill planned, which loses "
            "nothing.",
        )
    with closing(StateStore(session.config, session.target)) as store:
        commits = store.read().commits
        known = read_known_commits(commits, clusters.source, [clusters])
    if known is None:
        return failed(
            f"{why}; the target has no snapshot of its consumer groups",
            "Translate positions yourself: k2ktui translate -f FILE TOPIC:PARTITION:OFFSET.",
        )
    silent = max(0.0, time() - known.at)
    lost = _count_known_loss(copier.positions, known.groups)
    read = f"at least {counted(lost, 'record')} lost"
    lowest: int | None = lost
    if session.flow.is_mirror:
        # Its positions stay before markers of transactions, which only the source could tell.
        read, lowest = f"at most {counted(lost, 'record')} lost that groups had read", None
    session.change_drill(
        lambda drill: replace(
            drill,
            figures=replace(drill.figures, rpo_records=None, rpo_at_least=lowest, silent_s=silent),
        )
    )
    return PhaseResult(
        f"{why}; commits of {moment(known.at)}, {duration(silent)} old, {read}; what was written "
        "since is unknown",
        try_cut_off(session),
    )


def _count_known_loss(
    positions: Mapping[SourcePartition, Position], groups: Mapping[str, GroupView]
) -> int:
    """Return the number of records that groups had read on the source and that were not copied."""
    furthest: dict[tuple[str, int], int] = {}
    for view in groups.values():
        for where, commit in view.offsets.items():
            furthest[where] = max(commit.offset, furthest.get(where, -1))
    return sum(
        max(0, furthest.get((at.topic, at.partition), -1) - position.offset)
        for at, position in positions.items()
    )
