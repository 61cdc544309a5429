"""Clients can do on the target what they do on the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from time import time

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.registration import ALL, WITH_SOURCE, check
from k2ktui.drill.checks.topic_pairs import newest_records, read_names
from k2ktui.engine.acl import Acl
from k2ktui.engine.drill.changes import Entity
from k2ktui.engine.drill.checks import CheckFinding, DrillPhase, could_not_check, fails, passes
from k2ktui.engine.parity.acls import AclMapping, compare_acls, find_uncovered, map_acls
from k2ktui.engine.parity.quotas import find_lower
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.engine.schemas.ids import (
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    describe_schema_id,
    find_schema_ids,
)
from k2ktui.kafka.admin.acls import NoAuthorizer, read_acls
from k2ktui.kafka.admin.log_dirs import LogDir, read_log_dirs
from k2ktui.kafka.admin.quotas import client_quotas
from k2ktui.parity.wanted import creates_rights
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.id_lookup import has_schema
from k2ktui.registry.settings import RegistrySettings, read_registry_settings, read_registry_url
from k2ktui.replication.preflight.clusters import SIDES
from k2ktui.text import counted, duration, first_names, join_first, safe_text

_SAMPLED = 100
_MOST_IDS = 50
_GB = 1 << 30


@check("D29", "ACLs", {DrillPhase.PREFLIGHT: ALL})
def check_acls(context: CheckContext) -> CheckFinding:
    """Pass if the target has every ACL of the source on these topics, groups and transactional
    ids, or a drill creates it. Without the source: as the record says that parity keeps.
    """
    target = _read_rules(context, "target")
    if context.down("source") is not None:
        return _check_kept_acls(context, target)
    source = _read_rules(context, "source")
    if target is None:
        here = "neither cluster" if source is None else "the target"
        return passes(f"{here} has an authorizer: nothing is denied on the target")
    if source is None:
        return could_not_check(
            f"the source has no authorizer, the target has {counted(len(target), 'access rule')}: "
            "what clients need is not known",
            "Check with k2ktui check, and with the clients' principals on the target.",
        )
    names = read_names(context)
    on_target = context.topic_names("target")
    mapping = AclMapping(names, on_target, context.config.consumer_groups.matches)
    mapped = map_acls(source, mapping)
    difference = compare_acls(mapped, target, mapping)
    text = (
        f"{counted(mapped.compared, 'access rule')} of these topics, groups and transactional "
        "ids on the source"
    )
    missing = [wanted.acl for wanted in difference.missing]
    return _judge_acls(context, text, missing, difference.denied)


def _read_rules(context: CheckContext, side: Side) -> frozenset[Acl] | None:
    """Return the access rules of a cluster; None if it has no authorizer."""
    cluster = context.cluster(side)
    try:
        return context.read(f"the access rules of the {side} cluster", partial(read_acls, cluster))
    except NoAuthorizer:
        return None


def _check_kept_acls(context: CheckContext, target: frozenset[Acl] | None) -> CheckFinding:
    if target is None:
        return passes("the target has no authorizer: nothing is denied there")
    record = context.state().wanted_acls
    if record is None:
        return could_not_check(
            "the source does not answer, and the target has no record of its access rules",
            "k2ktui sync keeps it, unless parity.acls.mode is off.",
        )
    age = duration(max(0.0, time() - record.at_ms / 1000))
    cluster = safe_text(record.cluster)
    text = f"{counted(len(record.all), 'access rule')} that cluster {cluster} asked for {age} ago"
    return _judge_acls(context, text, sorted(find_uncovered(record.all, target)))


def _judge_acls(
    context: CheckContext, text: str, missing: Sequence[Acl], denied: Sequence[Acl] = ()
) -> CheckFinding:
    """Decide by what the target lacks, but for what a drill creates, and by its denials."""
    left = sorted(find_uncovered(missing, _read_promised(context)))
    text += f": {len(left):,} missing on the target, {len(denied):,} denials only there"
    if len(left) < len(missing):
        text += f"; {len(missing) - len(left):,} more are created when a drill opens it"
    if not left and not denied:
        return passes(text)
    shown = [*(f"missing {rule}" for rule in left), *map(str, denied)]
    return fails(
        f"{text}; {join_first(shown, 3)}",
        "Create the missing access rules on the target (k2ktui parity plan, or kafka-acls.sh "
        "--add), and remove denials that are not intended.",
    )


def _read_promised(context: CheckContext) -> tuple[Acl, ...]:
    """Return the ACLs that a drill creates when it opens the target."""
    pipeline = context.flow.pipeline
    if pipeline is None or not creates_rights(pipeline):
        return ()
    record = context.state().wanted_acls
    return () if record is None else record.all


@check("D30", "client quotas", {DrillPhase.PREFLIGHT: WITH_SOURCE})
def check_quotas(context: CheckContext) -> CheckFinding:
    """Pass if no client has a lower quota on the target than on the source."""
    quotas = {}
    for side in SIDES:
        cluster = context.cluster(side)
        quotas[side] = context.read(
            f"the quotas of the {side} cluster", partial(client_quotas, cluster)
        )
    lower = find_lower(quotas["source"], quotas["target"])
    text = (
        f"quotas of {counted(len(quotas['source']), 'client')} on the source, of "
        f"{len(quotas['target']):,} on the target; {len(lower):,} lower on the target"
    )
    if lower:
        first = lower[0]
        before = "unlimited" if first.source is None else f"{first.source:,.0f}"
        return fails(
            f"{text}: {_entity_text(first.entity)} {safe_text(first.key)} {first.target:,.0f}, "
            f"{before} on the source",
            "Raise the quotas on the target before clients move: kafka-configs.sh --alter "
            "--add-config.",
        )
    return passes(text)


def _entity_text(entity: Entity) -> str:
    parts = [f"{kind} {'(default)' if name is None else name}" for kind, name in entity]
    return safe_text(", ".join(parts))


@check("D31", "schema ids", {DrillPhase.PREFLIGHT: ALL})
def check_schemas(context: CheckContext) -> CheckFinding:
    """Pass if the registry for the target has every schema id in sampled records."""
    records = newest_records(context, _SAMPLED)
    places = Counter(
        schema_id
        for _, _, record in records
        for part, payload in ((SchemaPart.KEY, record.key), (SchemaPart.VALUE, record.value))
        for schema_id in find_schema_ids(part, payload, record.headers)
    )
    text = f"{counted(len(records), 'sampled record')}"
    if not places:
        if not records:
            return could_not_check("no record is on the target yet")
        return passes(f"{text}, none has a schema id")
    ids = sorted(places, key=lambda schema_id: (schema_id.form, schema_id.value))
    text += (
        f", {counted(places.total(), 'place')} in keys, values and headers with what may be a "
        f"schema id, {counted(len(ids), 'id')}"
    )
    asked = ids[:_MOST_IDS]
    settings = _registry(context)
    if settings is None:
        return could_not_check(
            f"{text}; the registry of the target's clients is unknown",
            "Name it: k2ktui drill check --registry URL.",
        )

    def read() -> list[str]:
        with RegistryClient(settings) as client:
            return [_id_text(schema_id) for schema_id in asked if not has_schema(client, schema_id)]

    missing = context.read("the schema registry", read)
    if missing:
        return fails(
            f"{text}; {len(missing):,} of {len(asked):,} not in the registry: "
            f"{first_names(missing)}",
            "Copy the schemas with their ids to that registry, or let clients of the target use "
            "the source's registry.",
        )
    return passes(f"{text}; the registry has {len(asked):,} of {len(asked):,} that were asked for")


def _registry(context: CheckContext) -> RegistrySettings | None:
    """Return how to reach the registry of the target's clients; None if it is unknown."""
    config = context.flow.config
    if context.facts.registry:
        return read_registry_url(context.facts.registry, "target")
    if config.features.schema_mapping:
        return read_registry_settings(config.target, "target")
    return None


def _id_text(schema_id: SchemaId) -> str:
    text = describe_schema_id(schema_id)
    return text if schema_id.form is SchemaIdForm.PREFIX else f"{text} ({schema_id.form})"


@check("D33", "disk space on the target", {DrillPhase.PREFLIGHT: ALL})
def check_disk_space(context: CheckContext) -> CheckFinding:
    """Pass if every log directory of the target has a share of its space free."""
    cluster, limit = context.cluster("target"), context.limits.free_space

    def read() -> list[LogDir]:
        return read_log_dirs(cluster, context.limits.reading_s / 2)

    dirs = context.read("the target's log directories", read)
    broken = [log_dir for log_dir in dirs if log_dir.error]
    known = [
        (log_dir, log_dir.usable / log_dir.total)
        for log_dir in dirs
        if log_dir.total and log_dir.usable
    ]
    full = [log_dir for log_dir in dirs if log_dir.usable == 0]
    brokers = counted(len({log_dir.broker for log_dir in dirs}), "broker")
    text = f"log directories of {brokers}: {len(dirs):,}"
    if broken:
        where = f"{broken[0].error} on broker {broken[0].broker}"
        return fails(f"{text}; {len(broken):,} failed: {where}", _repair(broken[0]))
    if full or any(share < limit for _, share in known):
        worst = full[0] if full else min(known, key=lambda entry: entry[1])[0]
        share = 0.0 if full else min(share for _, share in known)
        return fails(
            f"{text}; broker {worst.broker}: {share:.1%} free ({(worst.usable or 0) / _GB:,.1f} "
            f"GiB), at least {limit:.1%} wanted",
            f"Free or add disk space on broker {worst.broker} of the target before clients write "
            "there.",
        )
    if len(known) < len(dirs) or not dirs:
        return could_not_check(f"{text}; brokers before Kafka 3.3 do not report their free space")
    least, share = min(known, key=lambda entry: entry[1])
    return passes(f"{text}; least free: {share:.1%} ({(least.usable or 0) / _GB:,.1f} GiB)")


def _repair(log_dir: LogDir) -> str:
    path = safe_text(log_dir.path, 120)
    return f"Repair or replace the disk of {path} on broker {log_dir.broker} of the target."
