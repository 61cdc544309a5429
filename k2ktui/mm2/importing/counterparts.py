"""What stands for each setting of MirrorMaker 2 in a pipeline, or why nothing needs to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k2ktui.mm2.flows.model import ROLES, FlowProperties, is_client
from k2ktui.text import safe_text

CARRIED = ""
_TRANSLATED = "groups.pollInterval is its counterpart in k2ktui sync, which translates on request"
_EXACT = "offsetMapping.topic is its counterpart: it maps every record, in the same transaction"
_PUBLISH = "mm2.publish: enabled writes the same topic"
_WORKERS = "there are no Connect workers; Spark runs the tasks (spark.master, spark.config)"
_REST = "there is no REST interface; k2ktui status, watch and the console show the state"
_CONVERT = "records are copied as bytes, so no converter is needed"
_DISCOVERY = "no counterpart: topics and groups are read again every few seconds"
_TOLERANCE = (
    "onError of a replication.transform rule is its counterpart: all is skip, or deadLetter"
)
_ERRORS = (
    "no counterpart: a record that fails a transform fails again; onError of its "
    "replication.transform rule decides, and a note or a dead letter names the step"
)
_BY_HAND = "are its counterparts (Spark SQL, docs/transforms.md): add them by hand"
_TRANSFORM = f"replication.transform, replication.headers and replication.sink.topic {_BY_HAND}"
_PREDICATE = f"topics and filter of a replication.transform rule {_BY_HAND}"
# Kafka's own transformations and predicates, by the last part of their class.
_STEPS = {
    "Filter": "filter of a replication.transform rule",
    "DropHeaders": "drop of a replication.headers rule",
    "InsertHeader": "add of a replication.headers rule",
    "RegexRouter": "replication.sink.topic",
    "TimestampRouter": "replication.sink.topic with an expression",
    "TopicNameMatches": "topics of the rule",
    "HasHeaderKey": "filter with exists(headers, h -> h.key = 'NAME')",
    "RecordIsTombstone": "filter with value IS NULL",
}
_STEP_TYPE = re.compile(r"(?:transforms|predicates)\..+\.type")
_STORAGE = "coordination.commit.topic and topicCreation.control are its counterparts"
_METRICS = "metrics is its counterpart (docs/metrics.md)"
_SESSION = "no counterpart: transactional ids fence another owner at once"
_FLUSH = "coordination.commit.batchTimeout is its counterpart"

# Reasons by the beginning of a setting's name; the first match counts. "" if it is carried over.
_COUNTERPARTS: tuple[tuple[str, str], ...] = (
    ("enabled", CARRIED),
    ("clusters", CARRIED),
    ("config.providers", CARRIED),
    ("topics.exclude", CARRIED),
    ("topics.blacklist", CARRIED),
    ("groups.exclude", CARRIED),
    ("groups.blacklist", CARRIED),
    ("topic.filter.class", CARRIED),
    ("group.filter.class", CARRIED),
    ("replication.policy.", CARRIED),
    ("config.properties.exclude", CARRIED),
    ("config.properties.blacklist", CARRIED),
    ("config.property.filter.class", "parity.topicConfigs.exclude is its counterpart"),
    ("source.cluster.", CARRIED),
    ("target.cluster.", CARRIED),
    ("alias", CARRIED),
    ("sync.group.offsets.interval.seconds", CARRIED),
    (
        "sync.group.offsets.enabled",
        "k2ktui sync replaces it, or k2ktui plan and apply at a failover",
    ),
    ("emit.checkpoints.interval.seconds", CARRIED),
    ("emit.checkpoints", f"{_TRANSLATED}; {_PUBLISH}"),
    ("checkpoints.", f"{_TRANSLATED}; {_PUBLISH}"),
    ("emit.offset-syncs", _EXACT),
    ("offset-syncs.", _EXACT),
    ("offset.lag.max", _EXACT),
    ("emit.heartbeats", f"k2ktui start writes to coordination.state.topic; {_PUBLISH}"),
    ("heartbeats.", f"k2ktui start writes to coordination.state.topic; {_PUBLISH}"),
    ("refresh.", _DISCOVERY),
    ("sync.topic.configs.enabled", CARRIED),
    ("sync.topic.acls.enabled", CARRIED),
    ("sync.topic.", "groups.pollInterval is its counterpart in k2ktui sync (docs/parity.md)"),
    ("use.incremental.alter.configs", "parity changes only the settings that differ"),
    (
        "use.defaults.from",
        "parity sets the source's default, or removes what it has created (docs/parity.md)",
    ),
    ("add.source.alias.to.metrics", _METRICS),
    ("tasks.max.enforce", _WORKERS),
    ("tasks.max", "spark.slots is its counterpart; as many as cores by default"),
    ("name", "name is the pipeline's name"),
    ("connector.class", "k2ktui start copies"),
    ("connector.plugin.version", "k2ktui start copies"),
    ("connector.", _WORKERS),
    ("key.converter", _CONVERT),
    ("value.converter", _CONVERT),
    ("header.converter", _CONVERT),
    ("internal.key.converter", _CONVERT),
    ("internal.value.converter", _CONVERT),
    ("config.action.reload", _WORKERS),
    ("errors.tolerance", _TOLERANCE),
    ("errors.", _ERRORS),
    ("transforms", _TRANSFORM),
    ("predicates", _PREDICATE),
    ("topic.creation", "topicCreation.replication is its counterpart"),
    ("exactly.once.", "features.exactlyOnce is its counterpart, enabled by default"),
    ("transaction.boundary", _FLUSH),
    ("offset.flush", _FLUSH),
    ("offsets.storage.topic", _STORAGE),
    ("offset.storage.", _STORAGE),
    ("config.storage.", _WORKERS),
    ("status.storage.", _WORKERS),
    ("dedicated.mode", _WORKERS),
    ("listeners", _REST),
    ("admin.listeners", _REST),
    ("rest.", _REST),
    ("access.control.", _REST),
    ("response.http.", _REST),
    ("group.id", "coordination.commit.group is its counterpart"),
    ("plugin.", _WORKERS),
    ("worker.", _WORKERS),
    ("connect.protocol", _WORKERS),
    ("inter.worker.", _WORKERS),
    ("scheduled.rebalance", _WORKERS),
    ("rebalance.timeout.ms", _SESSION),
    ("session.timeout.ms", _SESSION),
    ("heartbeat.interval.ms", _SESSION),
    ("task.shutdown", "k2ktui stop waits for the transactions under way"),
    ("topic.tracking", _METRICS),
    ("metric", _METRICS),
    ("forwarding.admin.class", "source.kafka.admin and target.kafka.admin are its counterparts"),
    ("admin.timeout.ms", "source.kafka.admin and target.kafka.admin: request.timeout.ms"),
    ("consumer.poll.timeout.ms", "source.kafka.consumer: fetch.max.wait.ms is its counterpart"),
    ("auto.offset.reset", "source.kafka.consumer: auto.offset.reset is its counterpart"),
)
# Names that are the beginning of others.
_WHOLE = ("topics", "groups", "replication.factor")

# Keys of a Strimzi resource.
_RESOURCE = {
    "tasksMax": CARRIED,
    "tasks.max": CARRIED,
    "state": "k2ktui start and stop are its counterparts",
    "pause": "k2ktui start and stop are its counterparts",
    "autoRestart": "a failed task is repeated; systemd restarts a run (docs/deployment.md)",
    "listOffsets": "k2ktui offsets show is its counterpart",
    "alterOffsets": "k2ktui offsets is its counterpart",
    "version": "k2ktui start copies",
    "replicas": "spark.slots and spark.master are its counterparts",
    "rack": "source.kafka.consumer: client.rack is its counterpart",
    "metricsConfig": _METRICS,
    "tracing": "features.tracingHeaders is its counterpart",
    "logging": "k2ktui start --log-format is its counterpart",
}


def resource_reason(path: str) -> str:
    """Return what stands for a key of a Strimzi resource; "" if a setting is noted for it."""
    return _RESOURCE.get(path.rpartition(".")[2], _WORKERS)


def reason(key: str) -> str | None:
    """Return what stands for a setting of a flow: "" if it is carried over, None if unknown."""
    if key in _WHOLE:
        return CARRIED
    return next((why for start, why in _COUNTERPARTS if key.startswith(start)), None)


def left_out(flow: FlowProperties) -> Iterator[str]:
    """Yield a note for every setting that is not of a client and is not carried over."""
    connector = flow.connector
    for path in connector.left_out if connector else ():
        if why := resource_reason(path):
            yield f"{safe_text(path)}: not carried over; {why}"
    of_target, of_source = f"{flow.target}.", f"{flow.source}."
    given = {f"{of_target}{key}": key for key in flow.worker if not _is_strimzi_default(flow, key)}
    for key in flow.settings:
        if reason(key) is not None:
            given[key] = key
        elif not key.startswith(of_target):
            given[key] = key.removeprefix(of_source)
    factor = flow.settings.get("replication.factor", "1").strip()
    if not (factor.isascii() and factor.isdecimal()):
        yield (
            f"replication.factor: {safe_text(factor)} not carried over; "
            "topicCreation.replication.common.replication is its counterpart, by default the "
            "brokers' default.replication.factor"
        )
    for shown, key in sorted(given.items()):
        if not is_client(key) and (why := _why_left_out(flow, shown, key)):
            yield f"{safe_text(shown)}: not carried over; {why}"


def _why_left_out(flow: FlowProperties, shown: str, key: str) -> str:
    why = reason(key)
    if why and _STEP_TYPE.fullmatch(key):
        chosen = flow.settings.get(key, "").strip().rpartition(".")[2].partition("$")[0]
        step = _STEPS.get(chosen, "decode, set and drop of a replication.transform rule")
        return f"{step}: its counterpart, to add by hand (docs/transforms.md)"
    if why is not None:
        return why
    bare = key.removeprefix("source.").removeprefix("target.")
    role, _, name = bare.partition(".")
    if role in ROLES:
        name = name.removeprefix("override.")
        read = any(name in flow.clients[side].get(role, {}) for side in flow.clients)
        return "" if read else "it has no effect in MirrorMaker 2"
    alias = key.partition(".")[0]
    if shown == key and alias in (
        cluster.strip() for cluster in flow.settings["clusters"].split(",")
    ):
        return f"it is of cluster {safe_text(alias)}; import its flows as pipelines of their own"
    return "no counterpart: MirrorMaker 2 has no such setting"


def _is_strimzi_default(flow: FlowProperties, key: str) -> bool:
    """Return whether a worker's setting is not of the file, but a default name of Strimzi."""
    value = flow.worker[key]
    return flow.connector is not None and (
        not value or value.startswith(("mirrormaker2-cluster", "connect-cluster"))
    )
