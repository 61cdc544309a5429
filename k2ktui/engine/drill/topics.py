"""Which topics a drill over some topics moves, and which groups read others, too; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.acl import LITERAL, TOPIC, Acl
from k2ktui.engine.name_pattern import require_match
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic, MovedTopics
from k2ktui.errors import ConfigError, Refused
from k2ktui.text import counted, list_names, safe_text

UNCHANGED = "No drill was begun."
# What is typed, or named in --yes-to, to confirm the topics of a drill before it begins.
TOPICS_STEP = "topics"
_NAMED = 3
_LISTED = 20

Routes = Mapping[str, Collection[str]]
"""Target topics by source topic."""


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics that a drill moves.

    Attributes:
        topics: the source topics, sorted.
        targets: their target topics, by source topic.
        others: how many source topics of the pipeline stay, and were not moved before.
    """

    topics: tuple[str, ...]
    targets: Mapping[str, str]
    others: int

    def describe(self) -> str:
        """Return the topics in one line, safe to print."""
        return f"{counted(len(self.topics), 'topic')}: {list_names(self.topics, _LISTED)}"


def choose_topics(
    chosen: Callable[[str], bool], routes: Routes, moved: MovedTopics = NO_MOVED_TOPICS
) -> TopicChoice:
    """Return the topics of a pipeline that a pattern matches.

    Args:
        chosen: the pattern.
        routes: all topics of the pipeline.
        moved: those that drills have moved before.

    Raises:
        ConfigError: the pattern matches no topic, or all of them.
        Refused: one is moved already, or is copied into the same topic as one that stays.
    """
    require_match(chosen, routes.keys(), "topic")
    names = sorted(filter(chosen, routes))
    _refuse_moved([move for name in names if (move := moved.get(name)) is not None])
    if len(names) == len(routes):
        raise ConfigError(
            f"--topics matches all of the pipeline's topics ({len(names):,})",
            unchanged=UNCHANGED,
            hint="Leave out --topics: the whole pipeline is then moved, and fenced.",
        )
    _refuse_split_targets(names, routes)
    targets = {name: next(iter(routes[name])) for name in names}
    others = sum(moved.get(name) is None for name in routes.keys() - set(names))
    return TopicChoice(tuple(names), targets, others)


def _refuse_moved(moves: Iterable[MovedTopic]) -> None:
    shown = [f"{safe_text(move.topic)} (drill {safe_text(move.drill)})" for move in moves]
    if shown:
        raise Refused(
            f"{counted(len(shown), 'topic')} moved already: {list_names(shown, _NAMED)}",
            unchanged=UNCHANGED,
            hint="Choose other topics; or let these be copied again: k2ktui drill release "
            "--topics REGEX -f FILE.",
        )


def _refuse_split_targets(names: Collection[str], routes: Routes) -> None:
    """Refuse to move a part of what is copied into one topic: its readers read all of it."""
    for name in names:
        if len(routes[name]) != 1:
            raise Refused(
                f"{safe_text(name)} is copied into several topics "
                f"({list_names(sorted(routes[name]), _NAMED)})",
                unchanged=UNCHANGED,
                hint="Move the whole pipeline: leave out --topics.",
            )
    into = {target for name in names for target in routes[name]}
    left = sorted(name for name in routes.keys() - set(names) if into & set(routes[name]))
    if left:
        shared = sorted(into & {target for name in left for target in routes[name]})
        with_them = sorted(name for name in names if set(routes[name]) & set(shared))
        raise Refused(
            f"{list_names(with_them, _NAMED)} and {list_names(left, _NAMED)} are copied into "
            f"{list_names(shared, _NAMED)}, and --topics matches only "
            f"{list_names(with_them, _NAMED)}",
            unchanged=UNCHANGED,
            hint="Choose all topics that are copied into one topic, or none of them.",
        )


def find_shared_groups(
    read: Mapping[str, Collection[str]], topics: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the groups that have committed on these topics and on others, with the others.

    Args:
        read: the topics on which each group has committed.
        topics: the topics.
    """
    shared = {}
    for name in sorted(read):
        others = set(read[name]).difference(topics)
        if others and len(others) < len(set(read[name])):
            shared[name] = tuple(sorted(others))
    return shared


def choose_rights(acls: Iterable[Acl], targets: Collection[str]) -> tuple[list[Acl], int]:
    """Return the ACLs that clients of some target topics need, and how many others there are.

    An ACL with a prefix, or on all topics, would give rights on topics that are still copied.
    """
    chosen, others = [], 0
    for acl in acls:
        is_one = acl.kind != TOPIC or (acl.pattern == LITERAL and acl.name in targets)
        if is_one:
            chosen.append(acl)
        elif acl.pattern != LITERAL or acl.is_general:
            others += 1
    return chosen, others


class Reading(StrEnum):
    """Whether a group reads some topics, by its members; ``joining``: it is not known yet."""

    YES = "reads"
    NO = "does not read"
    JOINING = "joining"
    UNKNOWN = "unknown"


Members = Collection[tuple[Collection[str] | None, str]]
"""Of each member, the topics that it reads, None if unknown, and its pattern, "" without one."""


def judge_reading(
    members: Members, topics: Collection[str], *, is_empty: bool, is_stable: bool
) -> Reading:
    """Return whether a group reads topics.

    Args:
        members: its members.
        topics: the topics.
        is_empty, is_stable: what its state says.
    """
    if not members:
        return Reading.NO if is_empty else Reading.JOINING
    known = [read for read, _ in members if read is not None]
    if any(set(read).intersection(topics) for read in known):
        return Reading.YES
    matches = [_matches(pattern, topics) for _, pattern in members if pattern]
    if True in matches:
        return Reading.YES
    if len(known) < len(members) and not is_stable:
        return Reading.JOINING
    return Reading.UNKNOWN if len(known) < len(members) or None in matches else Reading.NO


def _matches(pattern: str, topics: Collection[str]) -> bool | None:
    """Return whether a pattern that a broker resolves matches a topic; None if it is not known."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError):
        return None
    return any(compiled.fullmatch(topic) for topic in topics)


def describe_begin(
    choice: TopicChoice,
    readers: Collection[str],
    shared: Mapping[str, Collection[str]],
    running: Collection[str],
    *,
    moves: bool,
) -> list[str]:
    """Return what the operator has to know before a drill over some topics begins; safe to print.

    Args:
        choice: the topics.
        readers: all groups that have committed on them.
        shared: groups that read other topics of the pipeline, too, with those.
        running: groups of these topics that have members on the target.
        moves: whether it moves the topics; a rehearsal does not.
    """
    goes_on = "No other topic of the pipeline is left."
    if choice.others:
        goes_on = f"The pipeline goes on with {counted(choice.others, 'other topic')}."
    lines = [f"{choice.describe()}. {goes_on}"]
    lines.append(
        f"{counted(len(readers), 'group')} of these topics: {list_names(sorted(readers), _LISTED)}."
        if readers
        else "No group has committed on these topics."
    )
    if moves and choice.others:
        lines.append(
            "In move-topics, the other topics stop for seconds, in every run of the pipeline."
        )
    if shared:
        named = [
            f"{safe_text(group)} (also {list_names(sorted(others), _NAMED)})"
            for group, others in sorted(shared.items())
        ]
        must = ": let them leave these topics on the source, they may go on there with the others"
        lines.append(
            f"Groups that read other topics, too: {list_names(named, _LISTED)}"
            f"{must if moves else ''}."
        )
    if running:
        waits = (
            ": stop them there from apply until the target is open, the drill waits for it"
            if moves
            else ""
        )
        lines.append(
            f"Groups that run on the target already: {list_names(sorted(running), _LISTED)}{waits}."
        )
    return lines
