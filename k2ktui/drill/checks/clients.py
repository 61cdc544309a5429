"""The clients' name can be moved, and a cut-off meets only clients that the drill moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import sleep

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.drill_dns import DrillDns
from k2ktui.config.model import PipelineConfig
from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.evidence import decide
from k2ktui.drill.checks.registration import ALL, MOVES, SWITCHOVERS, WITH_SOURCE, check
from k2ktui.drill.checks.topic_pairs import read_names
from k2ktui.drill.client_name import ask_name, find_many_hosts, find_shared
from k2ktui.drill.dns_server import DnsError, prove_move
from k2ktui.drill.haproxy import explain_servers
from k2ktui.drill.hook_process import explain_unsafe_command
from k2ktui.drill.kept_producers import read_producers
from k2ktui.engine.drill.checks import (
    CheckFinding,
    DrillKind,
    DrillPhase,
    fails,
    passes,
)
from k2ktui.engine.drill.redirects import explain_no_cluster, list_clusters
from k2ktui.engine.moves.groups import EMPTY_STATES
from k2ktui.engine.topics import KAFKA_INTERNAL_TOPICS, program_of
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from k2ktui.text import counted, list_names, safe_text

_NO_NAME = "the pipeline's file has no drill.redirect: clients are moved by hand or by hooks"
_SOME, _NO_MOVE = "a drill over some topics moves no name", "the drill moves no name"
_OPEN_S, _NAMED = 10.0, 5


@check("D51", "clients' name", {DrillPhase.PREFLIGHT: ALL}, blocks=MOVES)
def check_name(context: CheckContext) -> CheckFinding:
    """Pass if the clients' name leads to the source, or to nothing in a disaster, the pipeline has
    another way to it, and what is to move the name works, and only this user can change it.
    """
    redirect = context.config.drill.redirect
    if redirect is None or (reason := _explain_no_move(context)):
        return passes(_NO_NAME if redirect is None else reason)
    kind = DrillKind.PLANNED if context.facts.kind is DrillKind.REHEARSE else context.facts.kind
    reasons = [explain_unsafe_command(hook, *redirect.hosts) for hook in redirect.hooks(kind)]
    reasons.append(explain_servers(redirect.haproxy))
    unmovable, ttl = _prove_records(redirect.dns)
    reasons.append(unmovable)
    if problem := next(filter(None, reasons), ""):
        return fails(problem, "Correct drill.redirect, or what it names.")
    if many := find_many_hosts(redirect):
        return fails(
            f"several servers behind {list_names(many, _NAMED)}, of which one is asked",
            "Give each server an address of its own in drill.redirect.name; --accept D51 leaves it "
            "at the one that is asked.",
        )
    answers = ask_name(context.config, redirect)
    name = safe_text(redirect.name)
    if context.expects_source:
        source = context.cluster_id("source")
        problem = explain_no_cluster(answers, source)
        moving = (*context.facts.others, context.config)
        by_address = {config.source.bootstrap_servers: config for config in moving}
        for config in () if problem else by_address.values():
            if shared := find_shared(config, answers):
                who = "the pipeline" if config is context.config else safe_text(config.name)
                return fails(
                    f"{who} uses the clients' way, too: {list_names(shared, _NAMED)}",
                    "Give source.kafka a listener of its own, which a cut-off leaves open.",
                )
    else:
        source = context.facts.cluster_ids[0]
        others = [cluster for cluster in list_clusters(answers) if cluster != source]
        problem = f"{name} leads to {', '.join(map(safe_text, others))}" if others else ""
    if problem:
        hint = (
            "Check drill.redirect.name and drill.redirect.config, and that brokers advertise "
            "addresses of the clients' way."
        )
        return fails(problem, hint)
    answered = sum(bool(answer.cluster) for answer in answers)
    return passes(f"{answered:,} of {len(answers):,} addresses of {name} answer as the source{ttl}")


def _prove_records(dns: DrillDns | None) -> tuple[str, str]:
    """Return why records of DNS could not be moved, and how long caches may have them, in words;
    "" for what does not apply.
    """
    if dns is None:
        return "", ""
    try:
        return "", f"; TTL of its records: {prove_move(dns.move):,} s"
    except DnsError as error:
        return str(error), ""


@check(
    "D52",
    "clients outside of the drill",
    {DrillPhase.PREFLIGHT: WITH_SOURCE, DrillPhase.LAG: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_outsiders(context: CheckContext) -> CheckFinding:
    """Pass if every topic that is written on the source and every active group belongs to the
    pipeline, or to one that moves with it, where the drill would cut all clients off.
    """
    moving = (context.config, *context.facts.others)
    if reason := _explain_no_move(context):
        return passes(reason)
    source = context.cluster("source")
    control = (config.control_topics | config.opposite_topics for config in moving)
    own = KAFKA_INTERNAL_TOPICS.union(*control)
    topics, (groups, errors) = context.read(
        "other topics and groups of the source",
        lambda: (
            _find_written(source, context, moving, own),
            _list_active(source, lambda name: any(m.consumer_groups.matches(name) for m in moving)),
        ),
    )
    text = (
        f"{counted(len(topics), 'other topic')} written in {context.limits.sample_s:g} s, "
        f"{counted(len(groups), 'other group')} active"
    )
    outside = [f"topic {name}" for name in topics] + [f"group {name}" for name in groups]
    return decide(
        text,
        outside,
        "Let the pipeline copy these topics and groups, stop their clients, or give them another "
        "name; --accept D52 cuts them off.",
        errors,
        bad_after=": ",
    )


@check(
    "D53",
    "producer ids",
    {DrillPhase.PREFLIGHT: WITH_SOURCE, DrillPhase.FENCE_PRODUCERS: SWITCHOVERS},
    blocks=SWITCHOVERS,
)
def check_producer_ids(context: CheckContext) -> CheckFinding:
    """Pass if no idempotent producer of the source, which would follow the clients' name, has an id
    that its target topic knows of another producer.

    With another epoch, too: refused for its old one, Java's producer raises its own until it meets.
    """
    if reason := _explain_no_move(context):
        return passes(reason)
    names = {topic: to for topic, to in read_names(context).items() if to}
    source, target = context.cluster("source"), context.cluster("target")
    ours, theirs = context.read(
        "producers of both clusters",
        lambda: (
            read_producers(source, names),
            read_producers(target, {name for to in names.values() for name in to}),
        ),
    )
    unread = {name for name in names if name not in ours}
    unread |= {to for targets in names.values() for to in targets if to not in theirs}
    both, follow = [], 0
    for topic, targets in sorted(names.items()):
        ids = {p.producer_id for p in ours.get(topic, ()) if not p.is_transactional}
        follow += len(ids)
        for to in targets:
            known = {p.producer_id for p in theirs.get(to, ())}
            both += [f"{producer} of {to}" for producer in sorted(ids & known)]
    return decide(
        f"{len(both):,} of {counted(follow, 'producer id')} of the source known on the target",
        both,
        "Restart these producers once they are cut off, so that they get new ids; otherwise the "
        "target may end them with an error, as on a way back, or acknowledge records that it does "
        "not write. Then, or at that risk: --accept D53.",
        sorted(unread),
        bad_after=": ",
    )


def _explain_no_move(context: CheckContext) -> str:
    """Return why the drill does not move the clients' name; "" if it does."""
    if context.config.drill.redirect is None:
        return _NO_NAME
    if context.facts.topics:
        return _SOME
    return "" if context.facts.redirects else _NO_MOVE


def _find_written(
    source: Cluster,
    context: CheckContext,
    moving: Sequence[PipelineConfig],
    own: frozenset[str],
) -> list[str]:
    partitions = {
        (topic, number)
        for topic, count in source.partition_counts().items()
        if not any(config.topics.matches(topic) for config in moving)
        and topic not in own
        and not program_of(topic)
        for number in range(count)
    }
    if not partitions:
        return []
    before = source.offsets(partitions, OffsetSpec.latest())
    sleep(context.limits.sample_s)
    after = source.offsets(partitions, OffsetSpec.latest())
    return sorted({at[0] for at, end in after.items() if before.get(at, end) != end})


def _list_active(source: Cluster, is_own: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Return the active groups of others, and why some brokers did not list theirs."""
    with ConsumerGroupClient(wire(source.config, "admin"), source.label) as groups:
        groups.open(_OPEN_S)
        listed = groups.list()
        reasons = [groups.incomplete_reason] if groups.incomplete_reason else []
    # Brokers before 2.6 do not list states.
    active = (name for name, one in listed.items() if one.state not in EMPTY_STATES - {""})
    return sorted(name for name in active if not is_own(name)), reasons
