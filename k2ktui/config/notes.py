"""Notes and errors on keys whose values are right, but not beside other keys.

No key is accepted and ignored. A key has a note if ignoring it changes nothing on the target, and
an error if the file asks for more than k2ktui does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k2ktui.config.clusters import TYPED_QUOTES, has_typed_quotes
from k2ktui.config.drill import HOOKS, REDIRECT
from k2ktui.config.model import RESET, SHORTEST_GRACE_S, PipelineConfig
from k2ktui.config.problems import Path, Problem
from k2ktui.config.replication import HeaderRule
from k2ktui.config.tree import Node
from k2ktui.engine.schemas.ids import ID_HEADERS, SchemaPart
from k2ktui.secret_values import without_userinfo

_NO_SCHEMAS = "features.schemaMapping is disabled"
_ONE_DIRECTION = "features.bidirectionalReplication is disabled"
_PROVENANCE = "bidirectional.mode is provenance, which needs no header"
_GRACE_WINDOW: Path = ("coordination", "assignment", "graceWindow")
_MODE: Path = ("coordination", "mode")
_EXCLUSIVE = "coordination.mode is exclusive: a new run fences the one before at once"
_TOO_SHORT = (
    f"less than {SHORTEST_GRACE_S:g} seconds: coordination.mode is exclusive, and a new run fences "
    "the one before at once"
)
_NOT_SHARED = "coordination.mode is not shared: one run copies, and fences all slots in turn"

#: Why a key has no effect; with a section, all of its keys have none.
UNUSED: Mapping[Path, str] = {
    ("metrics", "prefix", "targetConsumer"): "no metric describes a consumer of the target",
    ("source", "kafka", "producer"): "k2ktui never writes to the source",
}
#: Keys that have an effect only with ``coordination.mode: shared``.
OF_SHARED: tuple[Path, ...] = (
    ("coordination", "assignment", "fencingMaxParallelism"),
    ("topicCreation", "control", "assignment"),
)
#: Keys that have an effect only if schema ids are rewritten.
OF_SCHEMAS: tuple[Path, ...] = (
    ("schemaMapping",),
    ("source", "registry"),
    ("target", "registry"),
)
# Keys that have no effect on schemas of transforms.
_ONLY_MAPPING = ("supportedTypes", "topics", "onUnknownSchema", "deadLetter")
# Sections that tell how k2ktui copies, or moves a pipeline of its own.
_OF_COPYING: tuple[Path, ...] = (
    *((key,) for key in ("configuration", "offsetMapping", "tracing", "spark", "start", "mm2")),
    *((key,) for key in ("onSourceDataLoss", "drill", "parity")),
    ("coordination", "commit"),
    ("coordination", "assignment"),
    ("coordination", "mode"),
    ("topicCreation", "replication"),
    ("features", "exactlyOnce"),
    ("features", "offsetMapping"),
    ("features", "keepRecordCreationTimestamp"),
    ("features", "tracingHeaders"),
)
_OTHER_COPIER = "another program copies (copier), and no drill moves what it copies"
_TYPES: Path = ("schemaMapping", "supportedTypes")
_YANG = "YANG applies only where both registries know this type; Apicurio and Confluent's do not"
_PARALLELISM = (
    ("configuration", "pipelineParallelism"),
    ("configuration", "partitionParallelism"),
)
_RESET: Path = ("source", "kafka", "consumer", RESET)
_LATER = (
    "applies to partitions that appear later too: what is written before they are found is not "
    "copied; start.from: latest copies it"
)
_COMPRESSION = (
    "applies where records are decoded; verbatim batches keep the source's compression "
    "(k2ktui explain shows which)"
)
_IN_COMMAND = (
    "expected no template and no login: every user of a host sees the arguments of its processes; "
    "let the command read secrets from a file"
)

# A key and what there is to say about it.
_Texts = Iterator[tuple[Path, str]]


def noted_keys(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield a note for every key of the files that has no effect, or another one than expected."""
    for path, reason in _unused_keys(tree, config):
        node = tree.at(path)
        if node is not None and node.value is not None and node.value != {}:
            yield tree.problem(path, f"has no effect: {reason}")
    for path, text in (*_unexpected(tree, config), *_typed_quotes(tree), *_lost_ids(config)):
        if tree.at(path) is not None:
            yield tree.problem(path, text)


def refused_keys(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield an error for every key that contradicts another one, is missing, or shows a secret."""
    refused = (
        *(_weak_writes(tree, config) if config.features.exactly_once else ()),
        *(_unsafe_standby(config) if config.coordination.mode != "exclusive" else ()),
        *(_dropped_headers(tree, config) if not config.features.header_replication else ()),
        *_missing_registries(config),
        *(_secrets_of_hooks(tree) if config.drill.hooks or config.drill.redirect else ()),
    )
    return (tree.problem(path, text) for path, text in refused)


def _unused_keys(tree: Node, config: PipelineConfig) -> _Texts:
    yield from UNUSED.items()
    coordination = config.coordination
    if coordination.mode == "exclusive":
        is_short = coordination.assignment.grace_window_s < SHORTEST_GRACE_S
        yield _GRACE_WINDOW, _TOO_SHORT if is_short and tree.at(_MODE) is None else _EXCLUSIVE
    if coordination.mode != "shared":
        yield from ((path, _NOT_SHARED) for path in OF_SHARED)
    if not config.features.bidirectional_replication:
        yield ("bidirectional",), _ONE_DIRECTION
    elif config.bidirectional.mode == "provenance":
        yield ("bidirectional", "headers"), _PROVENANCE
    if not config.features.schema_mapping:
        used = _registries_of_transforms(config)
        for path in OF_SCHEMAS:
            if path[0] == "schemaMapping" and "target" in used:
                yield from (((*path, key), _NO_SCHEMAS) for key in _ONLY_MAPPING)
            elif path[0] not in used:
                yield path, _NO_SCHEMAS
    if config.spark.slots is not None:
        yield from ((path, "spark.slots is set") for path in _PARALLELISM)
    if config.copier != "k2ktui":
        yield from ((path, _OTHER_COPIER) for path in _OF_COPYING)
    if not config.replicates:
        reason = "nothing is copied, and sync has no metrics of its producer"
        yield ("metrics", "prefix", "targetProducer"), reason


def _unexpected(tree: Node, config: PipelineConfig) -> _Texts:
    if config.features.schema_mapping and "YANG" in config.schema_mapping.supported_types:
        yield _TYPES, _YANG
    if config.start.later == "latest":
        yield _RESET, _LATER
    if "compression.type" in config.target.properties("producer"):
        yield _property(tree, "compression.type"), _COMPRESSION


def _typed_quotes(tree: Node) -> _Texts:
    for path, node in tree.walk():
        if isinstance(node.value, str) and has_typed_quotes(node.value):
            yield path, TYPED_QUOTES


def _lost_ids(config: PipelineConfig) -> _Texts:
    """Keys that drop or rename the headers in which records have the ids of their schemas."""
    if not config.features.schema_mapping:
        return
    lost: dict[Path, list[str]] = {}
    if not config.features.header_replication:
        lost["features", "headerReplication"] = _id_headers(config, None)
    else:
        for index, rule in enumerate(config.replication.headers):
            for name in _id_headers(config, rule):
                if key := _losing_key(rule, name):
                    lost.setdefault(("replication", "headers", index, key), []).append(name)
    for path, names in lost.items():
        ids = f"records whose schema ids are in headers ({', '.join(names)})"
        if names:
            yield path, f"{ids} lose them: consumers of the target cannot read such records"


def _losing_key(rule: HeaderRule, name: str) -> str:
    """Return which key of a rule keeps a header off the target; "" if none does."""
    names = rule.names
    if names.keep is not None and not names.keep.matches(name):
        return "keep"
    if names.drop is not None and names.drop.matches(name):
        return "drop"
    return "" if names.target_for(name) == name else "rename"


def _id_headers(config: PipelineConfig, rule: HeaderRule | None) -> list[str]:
    """Return the names of headers that may have ids in the records of a rule's topics.

    Without a rule, in those of all topics.
    """
    parts = _parts(config, rule)
    return [name for part in SchemaPart if part in parts for name in ID_HEADERS[part]]


def _parts(config: PipelineConfig, rule: HeaderRule | None) -> set[SchemaPart]:
    topics = config.schema_topics
    written: set[SchemaPart] = set()
    if topics.selection.pattern is None:
        for name in topics.selection.names:
            if rule is None or config.replication.header_rule(name) is rule:
                written |= topics.parts(name)
        return written
    # The names of the topics are not known here.
    same = (".*", ".*" if rule is None else rule.topics)
    for pattern, parts in topics.rules:
        written |= {part for part in SchemaPart if parts[part]}
        if pattern in same:
            return written
    return set(SchemaPart)


def _weak_writes(tree: Node, config: PipelineConfig) -> _Texts:
    """Properties that exactly-once does not allow."""
    given = config.target.properties("producer")
    for key, strong in (("acks", ("all", "-1")), ("enable.idempotence", ("true",))):
        if given.get(key, strong[0]).strip().lower() not in strong:
            needed = f"expected {strong[0]}, which features.exactlyOnce needs"
            yield _property(tree, key), needed


def _unsafe_standby(config: PipelineConfig) -> _Texts:
    """Settings that make a takeover by another run unsafe."""
    mode = config.coordination.mode
    if not config.features.exactly_once:
        yield (
            _MODE,
            f"{mode} needs features.exactlyOnce: without transactions, a run that hangs cannot be "
            "fenced",
        )
    if config.coordination.assignment.grace_window_s < SHORTEST_GRACE_S:
        needed = f"expected at least {SHORTEST_GRACE_S:g} seconds with coordination.mode: {mode}"
        yield _GRACE_WINDOW, needed


def _dropped_headers(tree: Node, config: PipelineConfig) -> _Texts:
    """Rules of headers that are dropped anyway."""
    needed = "features.headerReplication: disabled drops all headers of the source"
    for index, _ in enumerate(config.replication.headers):
        for key in ("keep", "drop", "rename"):
            node = tree.at(path := ("replication", "headers", index, key))
            if node is not None and node.value is not None:
                yield path, f"has no effect: {needed}"


def _registries_of_transforms(config: PipelineConfig) -> frozenset[str]:
    """Return the clusters whose registries have schemas of transforms."""
    transforms = (rule.transform for rule in config.replication.transform)
    return frozenset(
        side for transform in transforms if transform is not None for side in transform.registries
    )


def _missing_registries(config: PipelineConfig) -> _Texts:
    """Registries that are needed and that the file does not name."""
    mapped, used = config.features.schema_mapping, _registries_of_transforms(config)
    user = "features.schemaMapping" if mapped else "a schema in replication.transform"
    for side, cluster in (("source", config.source), ("target", config.target)):
        url = cluster.registry.config.get("schema.registry.url", "").strip()
        if (mapped or side in used) and not url:
            path = (side, "registry", "config", "schema.registry.url")
            yield path, f"missing; {user} needs it"


def _secrets_of_hooks(tree: Node) -> _Texts:
    """Texts of hooks that have a secret, or that a template has filled.

    Every user of a host can read the arguments of its processes.
    """
    for path, node in tree.walk():
        of_redirect = path[:2] == REDIRECT and path[2:3] != ("config",)
        if not (path[:2] == HOOKS or of_redirect) or not isinstance(node.value, str):
            continue
        if node.secret or without_userinfo(node.value) != node.value:
            yield path, _IN_COMMAND


def _property(tree: Node, key: str) -> Path:
    own = ("target", "kafka", "producer", key)
    return own if tree.at(own) is not None else ("target", "kafka", "common", key)
