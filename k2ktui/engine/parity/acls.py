"""Which ACLs the target should have because of the source's; pure.

MirrorMaker 2 copies the ACLs of literal topic names, without ALLOW Write and with ALLOW All as
Read. It leaves out prefixes, groups and transactional ids, and it copies a DENY Write: the fence of
a failover would lock the producers out of the new primary. Here:

- Prefixes and ``*`` are copied, too: as they are where they cover nothing but copies on the target,
  else topic by topic.
- What applications need only after a failover is marked as such: changes to topics, and all of
  groups and transactional ids. All on topics is Read until then.
- A rule that keeps everyone from writing, or everyone's groups or transactional ids from working,
  has the form of a fence, and is never copied.
- No client may do on a copy what it may not do on each of its source topics; a fence is the only
  exception.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Literal

from k2ktui.engine.acl import (
    ALL,
    ALLOW,
    ANY,
    CHANGING,
    DENY,
    EVERYONE,
    GROUP,
    LITERAL,
    OPERATIONS,
    PREFIXED,
    READING,
    TOPIC,
    TRANSACTIONAL_ID,
    Acl,
    is_fence,
)
from k2ktui.engine.topics import KAFKA_INTERNAL_TOPICS, program_of
from k2ktui.text import counted, safe_text

# Of a rule that would become more, clusters in the cloud would refuse the rest.
_MOST_NAMED = 1_000


# What is done with rights that applications need only after a failover.
AclWrite = Literal["report", "afterFailover", "now"]


@dataclass(frozen=True, slots=True)
class WantedAcl:
    """An ACL that the target should have.

    Attributes:
        acl: on the target.
        source: the one on the source that asks for it.
        after_failover: whether applications need it only when they use the target.
    """

    acl: Acl
    source: Acl
    after_failover: bool = False


@dataclass(frozen=True, slots=True)
class AclNotCopied:
    """An ACL of the source that cannot be on the target, and why."""

    acl: Acl
    why: str


@dataclass(frozen=True, slots=True)
class WantedAcls:
    """What the source's ACLs ask of the target.

    Attributes:
        compared: number of the source's ACLs that concern the pipeline.
        wanted: what the target should have, without doubles, denials first.
        not_copied: what it should not have, though it concerns the pipeline.
    """

    compared: int = 0
    wanted: tuple[WantedAcl, ...] = ()
    not_copied: tuple[AclNotCopied, ...] = ()

    def now(self, *, with_changes: bool = False) -> tuple[WantedAcl, ...]:
        """Return those that the target should have before a failover.

        Args:
            with_changes: include what applications need only afterwards.
        """
        return tuple(acl for acl in self.wanted if with_changes or not acl.after_failover)


@dataclass(frozen=True, slots=True)
class AclMapping:
    """How names of the source become names of the target.

    Attributes:
        topics: target topics by source topic, of copied and of selected topics.
        target_topics: every topic of the target.
        is_moved: whether the pipeline looks after a consumer group.
        fences: drills by the topic on which they have denied Write.
    """

    topics: Mapping[str, Sequence[str]]
    target_topics: Collection[str]
    is_moved: Callable[[str], bool]
    fences: Mapping[str, str] = field(default_factory=dict)


def map_acls(source: Collection[Acl], mapping: AclMapping) -> WantedAcls:
    """Return what the source's ACLs ask of the target.

    Args:
        source: all ACLs of the source.
        mapping: how names become those of the target.
    """
    mapper = _Mapper(frozenset(source), mapping)
    for acl in sorted(source):
        mapper.take(acl)
    mapper.add_denials()
    # Denials first: an ACL that allows must not be there before what limits it.
    order = sorted(mapper.wanted.values(), key=lambda w: (w.acl.permission == ALLOW, w.acl))
    return WantedAcls(mapper.compared, tuple(order), tuple(mapper.not_copied))


class _Mapper:
    def __init__(self, source: frozenset[Acl], mapping: AclMapping) -> None:
        self._source, self._mapping = source, mapping
        self._allowed: dict[str, list[Acl]] = {}
        for acl in source:
            if acl.permission == ALLOW:
                self._allowed.setdefault(acl.principal, []).append(acl)
        self._origins: dict[str, list[str]] = {}
        for topic, targets in mapping.topics.items():
            for target in targets:
                self._origins.setdefault(target, []).append(topic)
        self._affix = _find_affix(mapping.topics)
        self._copied, self._on_target = sorted(mapping.topics), sorted(mapping.target_topics)
        self.compared = 0
        self.wanted: dict[Acl, WantedAcl] = {}
        self.not_copied: list[AclNotCopied] = []

    def take(self, acl: Acl) -> None:
        """Map one ACL of the source, if it concerns the pipeline."""
        if not self.concerns(acl):
            return
        self.compared += 1
        if acl.operation not in OPERATIONS[acl.kind]:
            self._leave(acl, "this release does not know its operation")
        elif is_fence(acl):
            drill = self._mapping.fences.get(acl.name, "") if acl.pattern == LITERAL else ""
            by = f"drill {safe_text(drill)} has set it" if drill else "it has the form of a fence"
            self._leave(acl, f"{by}: it would keep clients from the target after a failover")
        elif acl.kind == TOPIC:
            self._take_topic(acl)
        else:
            self._want(acl, acl, after_failover=True)

    def add_denials(self) -> None:
        """Add denials on what is not copied, where a prefix or ``*`` allows it on the target."""
        wide: dict[str, list[WantedAcl]] = {}
        for acl, wanted in self.wanted.items():
            is_kept = acl.kind != TOPIC or self._affix == ""
            if is_kept and acl.permission == ALLOW and (acl.is_general or acl.pattern == PREFIXED):
                wide.setdefault(acl.kind, []).append(wanted)
        for acl in sorted(self._source):
            if acl.permission == ALLOW or self.concerns(acl) or is_fence(acl):
                continue
            above = [
                wanted
                for wanted in wide.get(acl.kind, ())
                if wanted.acl.covers_resource(acl) and _share_principal(wanted.acl, acl)
            ]
            if above and acl.operation in OPERATIONS[acl.kind]:
                self._want(acl, acl, after_failover=all(wanted.after_failover for wanted in above))

    def concerns(self, acl: Acl) -> bool:
        """Whether an ACL concerns a copied topic, a group of the pipeline, or transactional ids."""
        if acl.kind == TOPIC:
            return bool(self._covered(acl))
        if acl.kind == GROUP:
            # Which groups begin with a prefix is unknown until they exist.
            return acl.name == ANY or acl.pattern == PREFIXED or self._mapping.is_moved(acl.name)
        return acl.kind == TRANSACTIONAL_ID

    def _covered(self, acl: Acl) -> list[str]:
        """Return the copied topics that an ACL of topics covers."""
        if acl.is_general:
            return self._copied
        if acl.pattern == PREFIXED:
            return _begin_with(self._copied, acl.name)
        return [acl.name] if acl.name in self._mapping.topics else []

    def _take_topic(self, acl: Acl) -> None:
        for operation, after_failover in _split(acl):
            part = replace(acl, operation=operation)
            if is_fence(part):
                self._leave(acl, "it denies Write to everyone, as a fence: only the rest is copied")
                continue
            pattern = self._keep_pattern(part)
            if pattern is not None:
                self._want(pattern, acl, after_failover=after_failover)
            else:
                self._name_topics(acl, part, after_failover=after_failover)

    def _keep_pattern(self, acl: Acl) -> Acl | None:
        """Return a prefixed or general ACL for the target; None if it would cover other topics."""
        if self._affix is None or not (acl.is_general or acl.pattern == PREFIXED):
            return None
        begin = self._affix + ("" if acl.is_general else acl.name)
        others = [name for name in _begin_with(self._on_target, begin) if name not in self._origins]
        if not begin:
            # k2ktui's own are on every target: each rule would have to be named topic by topic.
            others = [name for name in others if not _is_of_program(name)]
        if others:
            return None
        return replace(acl, name=begin, pattern=PREFIXED) if begin else replace(acl, name=ANY)

    def _name_topics(self, source: Acl, acl: Acl, *, after_failover: bool) -> None:
        named = sorted({to for topic in self._covered(acl) for to in self._mapping.topics[topic]})
        # A denial is always named: without it, an ACL that allows would give more than the source.
        if acl.permission == ALLOW and (acl.is_general or acl.pattern == PREFIXED):
            why = ""
            if acl.operation == "CREATE":
                why = "topics that do not exist yet cannot be named one by one"
            elif len(named) > _MOST_NAMED:
                why = f"it would become one for each of {counted(len(named), 'topic')}"
            if why:
                pattern = "its topics have no common pattern on the target that covers only copies"
                self._leave(source, f"{acl.operation}: {pattern}, and {why}")
                return
        for name in named:
            on_target = replace(acl, name=name, pattern=LITERAL)
            lacking = self._find_lacking(on_target) if acl.permission == ALLOW else ""
            if lacking:
                where = f"{safe_text(name)} on the target also has records of {safe_text(lacking)}"
                why = f"{acl.operation}: {where}, on which the source does not allow it"
                self._leave(source, why)
            else:
                self._want(on_target, source, after_failover=after_failover)

    def _find_lacking(self, acl: Acl) -> str:
        """Return a source topic of a target topic on which the source does not allow the same."""
        rules = [*self._allowed.get(acl.principal, ()), *self._allowed.get(EVERYONE, ())]
        for topic in self._origins.get(acl.name, ()):
            on_source = replace(acl, name=topic)
            if not any(rule.covers(on_source) for rule in rules):
                return topic
        return ""

    def _want(self, acl: Acl, source: Acl, *, after_failover: bool) -> None:
        known = self.wanted.get(acl)
        if known is None or (known.after_failover and not after_failover):
            self.wanted[acl] = WantedAcl(acl, source, after_failover)

    def _leave(self, acl: Acl, why: str) -> None:
        entry = AclNotCopied(acl, why)
        if entry not in self.not_copied:
            self.not_copied.append(entry)


def _share_principal(acl: Acl, other: Acl) -> bool:
    return acl.principal == other.principal or EVERYONE in (acl.principal, other.principal)


def _split(acl: Acl) -> list[tuple[str, bool]]:
    """Return the operations that an ACL of topics becomes, and whether a failover needs them."""
    if acl.operation != ALL:
        return [(acl.operation, acl.operation in CHANGING)]
    if acl.permission == ALLOW:
        return [("READ", False), (ALL, True)]
    return [*((word, False) for word in READING), *((word, True) for word in CHANGING)]


def _find_affix(topics: Mapping[str, Sequence[str]]) -> str | None:
    """Return what precedes every source topic's name on the target; None if names differ more."""
    affixes = {
        targets[0][: -len(topic)] if len(targets) == 1 and targets[0].endswith(topic) else None
        for topic, targets in topics.items()
    }
    return affixes.pop() if len(affixes) == 1 else None


def _begin_with(names: list[str], prefix: str) -> list[str]:
    """Return the names that begin with a prefix, of sorted names."""
    begin = bisect_left(names, prefix)
    return list(takewhile(lambda name: name.startswith(prefix), islice(names, begin, None)))


def _is_of_program(topic: str) -> bool:
    return topic in KAFKA_INTERNAL_TOPICS or bool(program_of(topic))


@dataclass(frozen=True, slots=True)
class AclDifference:
    """How the target's ACLs differ from what the source's ask for.

    Attributes:
        missing: what the target lacks, denials first.
        stale: what parity created and nothing on the source asks for any more.
        denied: denials that only the target has.
    """

    missing: tuple[WantedAcl, ...] = ()
    stale: tuple[Acl, ...] = ()
    denied: tuple[Acl, ...] = ()


def compare_acls(
    mapped: WantedAcls,
    target: Collection[Acl],
    mapping: AclMapping,
    created: Collection[Acl] = (),
) -> AclDifference:
    """Compare the target's ACLs with what the source's ask for.

    Args:
        mapped: what they ask for.
        target: all ACLs of the target.
        mapping: how names become those of the target.
        created: what parity has created.
    """
    present = frozenset(target)
    acls = [entry.acl for entry in mapped.wanted]
    missing = find_uncovered(acls, present)
    copies = {name for names in mapping.topics.values() for name in names}
    on_target = _Mapper(present, replace(mapping, topics={name: (name,) for name in copies}))
    denials = [acl for acl in present if acl.permission == DENY and on_target.concerns(acl)]
    # What is denied on both clusters is no denial of the target's own, though it is not copied.
    of_source = [
        replace(left.acl, name=name)
        for left in mapped.not_copied
        for name in (left.acl.name, *mapping.topics.get(left.acl.name, ()))
    ]
    return AclDifference(
        missing=tuple(entry for entry in mapped.wanted if entry.acl in missing),
        stale=tuple(sorted((present & frozenset(created)).difference(acls))),
        denied=tuple(sorted(find_uncovered(denials, [*acls, *of_source]))),
    )


def find_uncovered(acls: Iterable[Acl], by: Iterable[Acl]) -> set[Acl]:
    """Return the ACLs that none of the others includes."""
    present = set(by)
    by_principal: dict[str, list[Acl]] = {}
    for acl in present:
        by_principal.setdefault(acl.principal, []).append(acl)
    return {
        acl
        for acl in acls
        if acl not in present
        and not any(
            other.covers(acl)
            for principal in {acl.principal, EVERYONE}
            for other in by_principal.get(principal, ())
        )
    }
