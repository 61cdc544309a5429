"""D29, D30, D31 and D33: clients can do on the target what they do on the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from k2ktui.drill.checks.context import SIDES, CheckContext, Side
from k2ktui.drill.checks.topic_pairs import newest_records, read_names
from k2ktui.engine.drill_acls import Acl, compare_acls
from k2ktui.engine.drill_checks import CheckFinding, could_not_check, fails, passes
from k2ktui.engine.drill_findings import Entity, find_lower_quotas
from k2ktui.engine.schema_ids import (
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    describe_schema_id,
    find_schema_ids,
)
from k2ktui.kafka.acls import NoAuthorizer, read_acls
from k2ktui.kafka.log_dirs import LogDir, read_log_dirs
from k2ktui.kafka.quotas import client_quotas
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.id_lookup import has_schema
from k2ktui.registry.settings import (
    RegistrySettings,
    read_registry_settings,
    read_registry_url,
)
from k2ktui.replication.preflight.checks import first_names
from k2ktui.text import counted, safe_text

_SAMPLED = 100
_MOST_IDS = 50
_GB = 1 << 30


def check_acls(context: CheckContext) -> CheckFinding:
    """D29: access rules on topics, groups and transactional ids."""
    found: dict[Side, frozenset[Acl] | None] = {}
    for side in SIDES:
        cluster = context.cluster(side)
        try:
            found[side] = context.read(
                f"the access rules of the {side} cluster", partial(read_acls, cluster)
            )
        except NoAuthorizer:
            found[side] = None
    source, target = found["source"], found["target"]
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
    moved = context.config.consumer_groups.matches
    compared = compare_acls(source, target, names, moved)
    text = (
        f"{counted(compared.compared, 'access rule')} of these topics, groups and transactional "
        f"ids on the source: {len(compared.missing):,} missing on the target, "
        f"{len(compared.denied):,} denials only there"
    )
    if compared.missing or compared.denied:
        shown = [f"missing {each}" for each in compared.missing]
        shown += [str(each) for each in compared.denied]
        more = f" and {len(shown) - 3:,} more" if len(shown) > 3 else ""
        return fails(
            f"{text}; {'; '.join(shown[:3])}{more}",
            "Create the missing access rules on the target (kafka-acls.sh --add), and remove "
            "denials that are not intended.",
        )
    return passes(text)


def check_quotas(context: CheckContext) -> CheckFinding:
    """D30: client quotas."""
    found = {}
    for side in SIDES:
        cluster = context.cluster(side)
        found[side] = context.read(
            f"the quotas of the {side} cluster", partial(client_quotas, cluster)
        )
    lower = find_lower_quotas(found["source"], found["target"])
    text = (
        f"quotas of {counted(len(found['source']), 'client')} on the source, of "
        f"{len(found['target']):,} on the target; {len(lower):,} lower on the target"
    )
    if lower:
        entity, key, here, there = lower[0]
        before = "unlimited" if here is None else f"{here:,.0f}"
        return fails(
            f"{text}: {_entity_text(entity)} {safe_text(key)} {there:,.0f}, {before} on the source",
            "Raise the quotas on the target before clients move: kafka-configs.sh --alter "
            "--add-config.",
        )
    return passes(text)


def _entity_text(entity: Entity) -> str:
    parts = [f"{kind} {'(default)' if name is None else name}" for kind, name in entity]
    return safe_text(", ".join(parts))


def check_schemas(context: CheckContext) -> CheckFinding:
    """D31: schema ids of sampled records."""
    records = newest_records(context, _SAMPLED)
    found = Counter(
        schema_id
        for _, _, record in records
        for part, payload in ((SchemaPart.KEY, record.key), (SchemaPart.VALUE, record.value))
        for schema_id in find_schema_ids(part, payload, record.headers)
    )
    text = f"{counted(len(records), 'sampled record')}"
    if not found:
        if not records:
            return could_not_check("no record is on the target yet")
        return passes(f"{text}, none has a schema id")
    ids = sorted(found, key=lambda each: (each.form, each.value))
    text += (
        f", {counted(found.total(), 'place')} in keys, values and headers with what may be a "
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
            return [_id_text(each) for each in asked if not has_schema(client, each)]

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


def check_disk_space(context: CheckContext) -> CheckFinding:
    """D33: free space of the target's log directories."""
    cluster, limit = context.cluster("target"), context.limits.free_space

    def read() -> list[LogDir]:
        return read_log_dirs(cluster, context.limits.reading_s / 2)

    dirs = context.read("the target's log directories", read)
    broken = [each for each in dirs if each.error]
    known = [(each, each.usable / each.total) for each in dirs if each.total and each.usable]
    full = [each for each in dirs if each.usable == 0]
    brokers = counted(len({each.broker for each in dirs}), "broker")
    text = f"log directories of {brokers}: {len(dirs):,}"
    if broken:
        where = f"{broken[0].error} on broker {broken[0].broker}"
        return fails(f"{text}; {len(broken):,} failed: {where}", "Repair or replace the disk.")
    if full or any(share < limit for _, share in known):
        worst = full[0] if full else min(known, key=lambda each: each[1])[0]
        share = 0.0 if full else min(share for _, share in known)
        return fails(
            f"{text}; broker {worst.broker}: {share:.1%} free ({(worst.usable or 0) / _GB:,.1f} "
            f"GiB), at least {limit:.1%} wanted",
            "Free or add disk space on the target before clients write there.",
        )
    if len(known) < len(dirs) or not dirs:
        return could_not_check(f"{text}; brokers before Kafka 3.3 do not report their free space")
    least, share = min(known, key=lambda each: each[1])
    return passes(f"{text}; least free: {share:.1%} ({(least.usable or 0) / _GB:,.1f} GiB)")


CHECKS: Mapping[str, Callable[[CheckContext], CheckFinding]] = {
    "D29": check_acls,
    "D30": check_quotas,
    "D31": check_schemas,
    "D33": check_disk_space,
}
