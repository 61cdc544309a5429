"""Target topics: planned for all source topics, then created and grown, never shrunk.

A topic that this pipeline does not yet replicate must fit before anything is written: with
``partition: source``, a target with fewer partitions is refused. The target of an already
replicated topic grows with its source (``features.autoCreateTopics``); if it cannot, only the
partitions without a target partition stop. With ``partition: producer`` a target is never grown:
that would move existing keys to other partitions.

A topic that a drill has moved belongs to the applications of the target: nothing is done to it, and
no other source topic is copied into it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import sleep

from confluent_kafka import KafkaError
from kafka.errors import for_code

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopic, MovedTopics
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.kafka.admin.broker_settings import broker_values
from k2ktui.kafka.admin.known_settings import KnownSettings
from k2ktui.kafka.admin.topics import (
    Settings,
    TopicSpec,
    await_topics,
    broker_count,
    create_command,
    create_topics,
    grow_command,
    grow_topics,
    not_ready,
    topic_settings,
)
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.topic_description import is_missing
from k2ktui.replication.ownership.topic_moves import read_moved
from k2ktui.replication.topics.naming import check_supported, target_names
from k2ktui.replication.topics.target_settings import (
    DEFAULT_MAX_MESSAGE_BYTES,
    FUTURE_LIMIT,
    NO_LIMIT,
    TIMESTAMP_TYPE,
    future_limit,
    size_settings,
    target_spec,
    without_future_limit,
)
from k2ktui.text import counted, list_names, safe_text

log = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_REFUSED_LIMIT = (
    f"created without {FUTURE_LIMIT}, which the target refuses: records with timestamps further in "
    "the future than its own limit would stop their partitions"
)
# Number of topics that a log line names.
_NAMED = 5
_READY_ATTEMPTS = 100
_READY_DELAY_S = 0.1
_MISSING_ATTEMPTS = 5
_MISSING_DELAY_S = 0.2


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """The target topic of a source topic.

    Attributes:
        name: topic on the target.
        topic_id: hex text, empty if the broker has no topic ids.
        partitions: current number of partitions.
        sizes: its ``size_settings``; Kafka's default for what cannot be read.
        timestamp_type: ``CreateTime`` or ``LogAppendTime``; empty if it cannot be read.
        notes: notes for the operator on how the topic was created.
        short: why it has fewer partitions than its source; the surplus source partitions stop.
        dead_letters: where records that fail its transform go.
    """

    name: str
    topic_id: str
    partitions: int
    sizes: tuple[int, str] = (DEFAULT_MAX_MESSAGE_BYTES, "")
    timestamp_type: str = ""
    notes: tuple[str, ...] = ()
    short: K2kError | None = None
    dead_letters: TargetTopic | None = None


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """The planned changes of one target topic.

    Attributes:
        name: the target topic.
        sources: its source topics that are copied, sorted by name.
        existing: the topic as it is, None if it is to be created.
        create: the topic to create, None if it exists.
        grow_to: number of partitions to grow it to, 0 if it has enough.
        short: source topics that are copied only in part, and why.
        notes: notes for the operator.
    """

    name: str
    sources: tuple[TopicDescription, ...]
    existing: TopicDescription | None = None
    create: TopicSpec | None = None
    grow_to: int = 0
    short: Mapping[str, K2kError] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def partitions(self) -> int:
        """Number of partitions once the plan is carried out."""
        if self.create is not None:
            return self.create.partitions or 0
        return self.grow_to or (self.existing.partitions if self.existing else 0)


Refusals = dict[str, K2kError]


def ensure_targets(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    topics: Collection[TopicDescription],
    replicated: Collection[str],
    known: KnownSettings | None = None,
    moved: MovedTopics = NO_MOVED_TOPICS,
    *,
    waits: bool = True,
) -> tuple[dict[str, tuple[TargetTopic, ...]], Refusals]:
    """Create and grow target topics where allowed, and describe them.

    Before it grows any, it reads from the target which topics are moved now.

    Args:
        config: the pipeline.
        source: its source cluster, only read.
        target: its target cluster.
        topics: the source topics to copy.
        replicated: names of source topics that already have a position in this pipeline.
        known: settings of the target's topics that were read before; None for none.
        moved: source topics that a drill has moved, as the caller knows them.
        waits: wait until the target's quota on creating topics allows more; otherwise what it
            does not allow now is refused.

    Returns:
        The targets by source topic, and the refused source topics with the reason. Moved topics are
        in neither. The targets have no dead-letter topics: ``ensure_dead_letters`` adds them.

    Raises:
        ConfigError: the pipeline enables an unsupported feature; nothing was changed.
        ConnectionFailed, TimedOut: a cluster did not answer.
        UnreadableRecords: it is not known what is moved.
    """
    plans, refused = plan_targets(config, source, target, topics, replicated, moved)
    if any(plan.grow_to for plan in plans):
        # No fence keeps a driver from growing topics that does not know of a move yet.
        moved = read_moved(config, target)
        plans, refused = plan_targets(config, source, target, topics, replicated, moved)
    known = known or KnownSettings(target)
    return carry_out(config, target, known, plans, refused, replicated, waits=waits), refused


def carry_out(
    config: PipelineConfig,
    target: Cluster,
    known: KnownSettings,
    plans: Collection[TargetPlan],
    refused: Refusals,
    replicated: Collection[str] = (),
    *,
    waits: bool,
) -> dict[str, tuple[TargetTopic, ...]]:
    """Create and grow topics as planned, and describe them by source topic.

    Args:
        config: the pipeline.
        target: its target cluster.
        known: reads their settings.
        plans: what to do.
        refused: gets the source topics that cannot be copied, with the reason.
        replicated, waits: as for :func:`ensure_targets`.
    """
    failed, plans = _create_and_grow(config, target, plans, waits=waits)
    changed = {
        p.name: p.partitions for p in plans if (p.create or p.grow_to) and not failed[p.name]
    }
    ready = await_topics(target, changed, attempts=_READY_ATTEMPTS, delay_s=_READY_DELAY_S)
    settled: list[TargetPlan] = []
    for plan in plans:
        error = failed[plan.name]
        if error is None and plan.name in changed and plan.name not in ready:
            error = not_ready(target, [plan.name])
        _log_change(plan, error)
        plan = replace(plan, existing=ready.get(plan.name, plan.existing))
        kept = plan if error is None else _without_change(plan, error, replicated, refused)
        if kept is not None:
            settled.append(kept)
    return _describe(known, settled)


def plan_targets(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    topics: Collection[TopicDescription],
    replicated: Collection[str],
    moved: MovedTopics = NO_MOVED_TOPICS,
) -> tuple[list[TargetPlan], Refusals]:
    """Plan what :func:`ensure_targets` would do without changing anything; same arguments."""
    check_supported(config)
    here = [topic for topic in topics if topic.name not in moved]
    named, refused = group_topics(here, lambda name: target_names(config, name))
    for move in moved.all:
        refused.update(
            (topic.name, _moved_target_error(topic, move)) for topic in named.pop(move.target, [])
        )
    described = _describe_targets(target, named, replicated)
    new = [name for name, topic in described.items() if is_missing(topic)]
    settings = topic_settings(source, [topic.name for name in new for topic in named[name]])
    brokers = broker_count(target) if new else 0
    future_ms = _future_limit_of_target(config, target, settings.values())
    planner = _Planner(config, frozenset(replicated), refused)
    plans: list[TargetPlan | None] = []
    for name, group in named.items():
        topic = described[name]
        if isinstance(topic, TopicDescription):
            plans.append(planner.existing(name, group, topic))
        elif is_missing(topic):
            spec, notes = target_spec(config, name, group, settings, brokers, future_ms)
            plans.append(planner.new(spec, group, notes))
        else:
            refused.update(
                (source_topic.name, undescribed_error(source_topic, name, topic))
                for source_topic in group
            )
    return list(_without(refused, plans)), refused


def _without(refused: Refusals, plans: Iterable[TargetPlan | None]) -> Iterator[TargetPlan]:
    """Yield the plans without refused source topics: another of a topic's targets may refuse it."""
    for plan in plans:
        left = (
            tuple(source_topic for source_topic in plan.sources if source_topic.name not in refused)
            if plan
            else ()
        )
        if plan is not None and left:
            yield replace(plan, sources=left)


def _describe_targets(
    target: Cluster, named: Mapping[str, list[TopicDescription]], replicated: Collection[str]
) -> Mapping[str, TopicDescription | KafkaError]:
    """Describe target topics; retry while one that existed before is missing, or an error passes.

    A broker of a ZooKeeper cluster that has just started knows no topics until its controller
    sends it the metadata.
    """
    once_there = {name for name, group in named.items() if {t.name for t in group} & {*replicated}}
    for _ in range(_MISSING_ATTEMPTS):
        described = target.describe(named)
        missing = [name for name in once_there if is_missing(described[name])]
        missing += [name for name, topic in described.items() if is_passing(topic)]
        if not missing:
            break
        log.debug("target topics not found, asking again: %s", list_names(missing, _NAMED))
        sleep(_MISSING_DELAY_S)
    return described


def group_topics(
    topics: Iterable[TopicDescription], names_of: Callable[[str], Iterable[str]]
) -> tuple[dict[str, list[TopicDescription]], Refusals]:
    """Return the source topics by the topics on the target that each is written to.

    Args:
        topics: the source topics.
        names_of: returns the names of those topics; K2kError says why there are none.
    """
    named: dict[str, list[TopicDescription]] = defaultdict(list)
    refused: Refusals = {}
    for topic in sorted(topics, key=lambda topic: topic.name):
        try:
            for name in names_of(topic.name):
                named[name].append(topic)
        except K2kError as error:
            refused[topic.name] = error
    return dict(named), refused


@dataclass(frozen=True, slots=True)
class _Planner:
    config: PipelineConfig
    replicated: frozenset[str]
    refused: Refusals

    def new(
        self, spec: TopicSpec, group: list[TopicDescription], notes: tuple[str, ...]
    ) -> TargetPlan | None:
        fit: list[TopicDescription] = []
        for topic in group:
            error = self._not_creatable(spec, topic)
            if error is None:
                fit.append(topic)
            else:
                self.refused[topic.name] = error
        return TargetPlan(spec.name, tuple(fit), create=spec, notes=notes) if fit else None

    def _not_creatable(self, spec: TopicSpec, topic: TopicDescription) -> K2kError | None:
        if topic.name in self.replicated:
            return _missing_target_error(self.config, topic, spec)
        if not self.config.features.auto_create_topics:
            return missing_error(self.config, topic, spec)
        if self._keeps_partitions and (spec.partitions or 0) < topic.partitions:
            return _set_too_narrow(topic, spec)
        return None

    def existing(
        self, name: str, group: list[TopicDescription], existing: TopicDescription
    ) -> TargetPlan | None:
        wide = [
            t for t in group if not self._keeps_partitions or t.partitions <= existing.partitions
        ]
        narrow = [topic for topic in group if topic not in wide]
        known = any(topic.name in self.replicated for topic in group)
        if narrow and known and self.config.features.auto_create_topics:
            grow_to = max(topic.partitions for topic in narrow)
            return TargetPlan(name, tuple(group), existing, grow_to=grow_to)
        errors = {topic.name: self._too_narrow(topic, existing) for topic in narrow}
        short = {topic: error for topic, error in errors.items() if topic in self.replicated}
        self.refused.update((t, error) for t, error in errors.items() if t not in short)
        copied = tuple(t for t in group if t in wide or t.name in short)
        return TargetPlan(name, copied, existing, short=short) if copied else None

    def _too_narrow(self, topic: TopicDescription, existing: TopicDescription) -> K2kError:
        partial = topic.name in self.replicated
        return Refused(
            f"topic {safe_text(topic.name)} has "
            f"{counted(topic.partitions, 'partition')} and its target "
            f"{safe_text(existing.name)} has {existing.partitions}; partition: source keeps "
            "partition numbers",
            unchanged=f"Nothing was written for its partitions from {existing.partitions} on, and "
            "the target was not grown: features.autoCreateTopics is disabled."
            if partial
            else "Nothing of it was written, and the target was not grown: this pipeline does not "
            "replicate to it yet.",
            hint=f"Run: {grow_command(self.config.target, existing.name, topic.partitions)} "
            "(or use partition: producer).",
        )

    @property
    def _keeps_partitions(self) -> bool:
        return self.config.replication.sink.keeps_partitions


def targets_by_source(plans: Iterable[TargetPlan]) -> dict[str, list[str]]:
    """Return the names of the target topics by source topic."""
    names: dict[str, list[str]] = defaultdict(list)
    for plan in plans:
        for topic in plan.sources:
            names[topic.name].append(plan.name)
    return names


def _log_change(plan: TargetPlan, error: K2kError | None) -> None:
    if plan.create is None and not plan.grow_to:
        return
    what = "grow" if plan.grow_to else "create"
    if error is not None:  # the next discovery tries again, and stopped partitions say why
        log.debug("target topic %s: could not %s it: %s", plan.name, what, error.message)
        return
    done = "grown" if plan.grow_to else "created"
    log.info("target topic %s %s: %s", plan.name, done, counted(plan.partitions, "partition"))


def _create_and_grow(
    config: PipelineConfig, target: Cluster, plans: Collection[TargetPlan], *, waits: bool
) -> tuple[dict[str, K2kError | None], list[TargetPlan]]:
    """Return the errors by target topic, and the plans as they were carried out."""
    failed: dict[str, K2kError | None] = {plan.name: None for plan in plans}
    specs = [plan.create for plan in plans if plan.create]
    created, reduced = create_reduced(config, target, specs, waits=waits)
    failed |= created
    grown = {plan.name: plan.grow_to for plan in plans if plan.grow_to}
    failed |= grow_topics(target, grown, waits=waits)
    return failed, with_reduced(plans, reduced)


def create_reduced(
    config: PipelineConfig,
    target: Cluster,
    specs: Collection[TopicSpec],
    *,
    validate_only: bool = False,
    waits: bool = True,
) -> tuple[dict[str, K2kError | None], dict[str, TopicSpec]]:
    """Create topics as ``create_topics`` does, without a setting of the source if it is refused.

    A hosted cluster may refuse how far in the future the source's timestamps may be.

    Returns:
        By topic, None or the error; and those that were created without it.
    """
    failed = create_topics(target, specs, validate_only=validate_only, waits=waits)
    less = {
        spec.name: left
        for spec in specs
        if isinstance(failed.get(spec.name), Refused)
        and (left := without_future_limit(config, spec)) is not None
    }
    if not less:
        return failed, {}
    again = create_topics(target, less.values(), validate_only=validate_only, waits=waits)
    reduced = {name: less[name] for name, error in again.items() if error is None}
    return failed | again, reduced


def with_reduced(
    plans: Collection[TargetPlan], reduced: Mapping[str, TopicSpec]
) -> list[TargetPlan]:
    """Return the plans with the topics that were created without a setting, and a note of it."""
    return [
        replace(plan, create=reduced[plan.name], notes=(*plan.notes, _REFUSED_LIMIT))
        if plan.name in reduced
        else plan
        for plan in plans
    ]


def _future_limit_of_target(
    config: PipelineConfig, target: Cluster, sources: Iterable[Settings | K2kError]
) -> int:
    """Return how far in the future the target's new topics take timestamps, in ms.

    It is asked only if a source topic takes some that a Kafka 4 would refuse.
    """
    readable = [settings for settings in sources if not isinstance(settings, K2kError)]
    if all((future_limit(settings) or 0) <= _HOUR_MS for settings in readable):
        return NO_LIMIT
    name = config.coordination.commit.topic
    settings = topic_settings(target, [name])[name]
    if not isinstance(settings, K2kError):
        entry = settings.get(FUTURE_LIMIT)
        return int(entry.value) if entry is not None and entry.value.isdecimal() else NO_LIMIT
    values = broker_values(target, f"log.{FUTURE_LIMIT}", most=1) or {}
    return min((int(value) for value in values.values() if value.isdecimal()), default=NO_LIMIT)


def _without_change(
    plan: TargetPlan, error: K2kError, replicated: Collection[str], refused: Refusals
) -> TargetPlan | None:
    """Return what can still be copied after creation or growth failed; refuse the rest."""
    has = plan.existing.partitions if plan.existing else 0
    short = {t.name: error for t in plan.sources if t.partitions > has and t.name in replicated}
    left = tuple(t for t in plan.sources if has and (t.partitions <= has or t.name in short))
    refused.update((topic.name, error) for topic in plan.sources if topic not in left)
    return replace(plan, sources=left, grow_to=0, short=short) if left else None


def _describe(
    known: KnownSettings, plans: Collection[TargetPlan]
) -> dict[str, tuple[TargetTopic, ...]]:
    settings = known.read({plan.name: plan.existing.topic_id for plan in plans if plan.existing})
    described: dict[str, tuple[TargetTopic, ...]] = {}
    for plan in plans:
        existing, entries = plan.existing, settings[plan.name]
        assert existing is not None
        readable: Settings = {} if isinstance(entries, K2kError) else entries
        stamps = readable.get(TIMESTAMP_TYPE)
        topic = TargetTopic(
            plan.name,
            existing.topic_id,
            existing.partitions,
            size_settings(readable),
            stamps.value if stamps else "",
            plan.notes,
        )
        for source_topic in plan.sources:
            found_topic = replace(topic, short=plan.short.get(source_topic.name))
            described[source_topic.name] = (*described.get(source_topic.name, ()), found_topic)
    return described


def is_passing(topic: TopicDescription | KafkaError) -> bool:
    """Return whether another attempt may describe a topic, as the Kafka protocol has it.

    Not by librdkafka's ``retriable()``, which is false for what a broker answers. A topic that does
    not exist is none of these, although the protocol lets clients ask again.
    """
    if not isinstance(topic, KafkaError) or is_missing(topic):
        return False
    return bool(for_code(topic.code()).retriable)


def undescribed_error(topic: TopicDescription, name: str, error: KafkaError) -> K2kError:
    """Return why a topic is not copied whose target topic ``name`` cannot be described."""
    text = f"topic {safe_text(topic.name)} is not copied: its target {safe_text(name)} cannot be "
    if is_passing(error):
        return TimedOut(
            f"{text}described now: {safe_text(error.str())}",
            unchanged="None of its records were written.",
            hint="A run asks again by itself. If it lasts, look at the target's brokers.",
        )
    return Refused(
        f"{text}described: {safe_text(error.str())}",
        unchanged="None of its records were written.",
        hint="Grant the target principal Describe and Write on it, and Create to create it.",
    )


def _moved_target_error(topic: TopicDescription, move: MovedTopic) -> K2kError:
    name, target = safe_text(topic.name), safe_text(move.target)
    return Refused(
        f"topic {name} is not copied: its target {target} was moved with "
        f"{safe_text(move.topic)} by drill {safe_text(move.drill)}",
        unchanged="None of its records were written: the clients of the target topic are on the "
        "target.",
        hint=f"Let its producers write to {target} on the target; or leave {name} out of "
        "replication.source.topic, or map it to another name.",
    )


def _missing_target_error(
    config: PipelineConfig, topic: TopicDescription, spec: TopicSpec
) -> K2kError:
    hint = f"Clear the positions of {safe_text(topic.name)} to copy it again from its start."
    if config.topic_mapping.kind == "expression":
        hint += " If the topic is new in replication.sink.topic, create it: " + create_command(
            config.target, spec
        )
    return Refused(
        f"topic {safe_text(topic.name)} was being copied to {safe_text(spec.name)}, which does not "
        "exist on the target any more (or replication.sink.topic was changed)",
        unchanged="It was not created again: it would lack the records copied so far.",
        hint=hint,
    )


def missing_error(
    config: PipelineConfig, topic: TopicDescription, spec: TopicSpec, *, dead_letters: bool = False
) -> K2kError:
    """Return why a topic is not copied of which a topic on the target must not be created."""
    name, missing = safe_text(topic.name), safe_text(spec.name)
    text = (
        f"topic {name} is not copied: its target {missing} does not exist, and "
        "features.autoCreateTopics is disabled"
    )
    if dead_letters:
        text = (
            f"topic {name} is not copied: its dead-letter topic {missing} does not exist, and "
            "features.autoCreateTopics is disabled"
        )
    return Refused(
        text,
        unchanged="None of its records were written.",
        hint="Set features.autoCreateTopics: enabled, or create it: "
        + create_command(config.target, spec),
    )


def _set_too_narrow(topic: TopicDescription, spec: TopicSpec) -> K2kError:
    return Refused(
        f"topic {safe_text(topic.name)} is not copied: it has "
        f"{counted(topic.partitions, 'partition')}, and "
        f"topicCreation.replication gives its target {safe_text(spec.name)} {spec.partitions}; "
        "partition: source keeps partition numbers",
        unchanged="Nothing of it was written, and the target was not created.",
        hint=f"Set partitions there to {topic.partitions} or more (or leave it out), or use "
        "partition: producer.",
    )
