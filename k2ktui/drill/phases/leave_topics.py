"""Consumers leave some topics of the source; their groups may go on there with others.

Brokers say which topics a member reads only of a stable group of consumers. Whoever consumes
without joining is seen by new commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from time import monotonic

from k2ktui.drill.logs import name_partitions
from k2ktui.drill.phases.moves import note_on_source
from k2ktui.drill.session import PhaseResult, Session
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.topics import Reading, judge_reading
from k2ktui.engine.members import GroupMember, name_groups
from k2ktui.engine.moves.groups import EMPTY_STATES
from k2ktui.errors import Refused
from k2ktui.kafka.wire.groups import GroupState
from k2ktui.sync.cluster_readers import ConsumerGroupReader
from k2ktui.text import counted, duration, list_names, safe_text

_LISTED = 20
_STABLE = "Stable"
Commits = Mapping[tuple[str, str, int], int]


@dataclass(frozen=True, slots=True)
class SourceReaders:
    """The chosen groups on the source at one moment.

    Attributes:
        readings: whether each group reads the drill's topics; those that do not are left out.
        commits: the offsets that all of them have committed on these topics.
        unread: why groups could not be read.
        members: of each of these groups, those that are known to read the topics; all of them
            where it is known of none.
    """

    readings: Mapping[str, Reading]
    commits: Commits
    unread: tuple[str, ...]
    members: Mapping[str, tuple[GroupMember, ...]]

    def of(self, *wanted: Reading) -> list[str]:
        """Return the groups of which one of these is known, sorted."""
        return sorted(name for name, reading in self.readings.items() if reading in wanted)

    def name(self, groups: Collection[str]) -> str:
        """Return groups with their members as text."""
        return name_groups({group: self.members[group] for group in groups})


def read_source_readers(session: Session, reader: ConsumerGroupReader) -> SourceReaders:
    """Read who reads the drill's topics on the source.

    A group of which it is not known counts only if it has committed on them.

    Raises:
        ConnectionFailed, TimedOut: the source does not answer.
    """
    topics, selected = session.drill.topics, session.config.consumer_groups
    listed = reader.groups.list()
    names = [n for n in listed if n and selected.matches(n) and session.chooses(n)]
    states = reader.groups.describe(names, listed)
    committed = reader.groups.read_committed(names, listed)
    commits = {
        (name, *at): commit.offset
        for name in names
        for at, commit in committed[name].offsets.items()
        if at[0] in topics
    }
    readings, unread = {}, []
    if reader.incomplete_reason:
        unread.append(reader.incomplete_reason)
    of_topics = {name for name, _, _ in commits}
    for name in names:
        if error := committed[name].error or states[name].error:
            unread.append(f"{safe_text(name)}: {error}")
            continue
        reading = _judge(states[name], topics)
        if reading is Reading.YES or (reading is not Reading.NO and name in of_topics):
            readings[name] = reading
    members = {name: _find_members(states[name], topics) for name in readings}
    return SourceReaders(readings, commits, tuple(unread), members)


def _find_members(state: GroupState, topics: Collection[str]) -> tuple[GroupMember, ...]:
    reading = [m.named for m in state.members if m.topics and not m.topics.isdisjoint(topics)]
    return tuple(reading or [member.named for member in state.members])


def _judge(state: GroupState, topics: tuple[str, ...]) -> Reading:
    members = [(member.topics, member.pattern) for member in state.members]
    return judge_reading(
        members, topics, is_empty=state.state in EMPTY_STATES, is_stable=state.state == _STABLE
    )


def run_leave_topics(session: Session) -> PhaseResult:
    """Wait until no member of a chosen group reads the topics on the source, and none commits."""
    reader = ConsumerGroupReader(session.config, "source")
    needed, since = session.drill.options.frozen_s, monotonic()
    before: Commits = {}
    seen = SourceReaders({}, {}, (), {})

    def look() -> tuple[bool, str]:
        nonlocal before, since, seen
        seen = read_source_readers(session, reader)
        active = seen.of(Reading.YES, Reading.JOINING)
        note_on_source(session, {name: seen.members[name] for name in active})
        if seen.commits != before or active or seen.unread:
            since = monotonic()
        before = seen.commits
        if seen.unread:
            return False, f"groups that cannot be read: {list_names(seen.unread, 1)}"
        if active:
            return False, f"{counted(len(active), 'group')} on these topics: {seen.name(active)}"
        still = monotonic() - since
        text = f"no member reads these topics; commits unchanged for {duration(still)}"
        return still >= needed, f"{text} of {duration(needed)}"

    try:
        session.wait(
            DrillPhase.STOP_CONSUMERS,
            look,
            hint="Let these groups leave the topics on the source: stop them, or change what they "
            "subscribe to.",
        )
    finally:
        reader.close()
    unknown = seen.of(Reading.UNKNOWN)
    if unknown:
        _ask(session, unknown)
    groups = counted(len({name for name, _, _ in seen.commits}), "group")
    text = f"no member of {groups} reads these topics, and no new commits for {duration(needed)}"
    said = f"; by the operator's word: {name_partitions(unknown)}" if unknown else ""
    return PhaseResult(text + said)


def _ask(session: Session, unknown: list[str]) -> None:
    """Require that a person says of groups that they do not read the topics any more."""
    lines = [
        "Brokers do not say which topics the members of these groups read; they have committed on "
        "the topics of this drill before:",
        *(f"  {safe_text(name)}" for name in unknown[:_LISTED]),
        *([f"  and {len(unknown) - _LISTED:,} more"] if len(unknown) > _LISTED else []),
        "Look into their configuration. If none reads these topics on the source any more, type "
        "the drill's id.",
    ]
    if not session.agree(DrillPhase.STOP_CONSUMERS, lines):
        raise Refused(
            "\n".join(["a person must say that these groups have left the topics.", *lines[:-1]]),
            unchanged="The drill stays where it is.",
            hint="Stop these groups, or repeat at a terminal: k2ktui drill resume "
            f"{safe_text(session.drill.id)} -f FILE.",
        )


def find_returned(session: Session) -> list[str]:
    """Return the groups that read the topics on the source again; new commits change the plan.

    Raises:
        ConnectionFailed, TimedOut: the source does not answer.
    """
    with closing(ConsumerGroupReader(session.config, "source")) as reader:
        seen = read_source_readers(session, reader)
    active = seen.of(Reading.YES)
    if not active:
        return []
    text = f"{counted(len(active), 'group')} on these topics of the source again"
    return [f"{text}: {seen.name(active)}"]
