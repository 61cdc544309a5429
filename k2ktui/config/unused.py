"""Keys of Lenses K2K that have no effect here: noted when they are read, or refused.

No key is accepted and ignored. A key is in ``UNUSED`` if ignoring it changes nothing on the target,
and an error if the file asks for more than k2ktui does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k2ktui.config.addresses import has_typed_quotes
from k2ktui.config.coordination import SHORTEST_GRACE_S
from k2ktui.config.model import PipelineConfig
from k2ktui.config.problems import Path, Problem, format_path
from k2ktui.config.start import RESET
from k2ktui.config.tree import Node

TYPED_QUOTES = "has typographic quotes, which are a part of the value; write \" or '"
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
_TYPES: Path = ("schemaMapping", "supportedTypes")
_YANG = "YANG applies only where both registries know this type; Apicurio and Confluent's do not"
_PARALLELISM = (
    ("configuration", "pipelineParallelism"),
    ("configuration", "partitionParallelism"),
)
_PRODUCER: Path = ("target", "kafka", "producer")


def unused_keys(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield a note for every key of the files that has no effect."""
    for path, reason in UNUSED.items():
        yield from _note(tree, path, reason)
    yield from _unused_by_mode(tree, config)
    yield from _unused_schema_keys(tree, config)
    if config.spark.slots is not None:
        for path in _PARALLELISM:
            yield from _note(tree, path, "spark.slots is set")
    if tree.at(("replication", "source", "topic")) is None:
        path = ("metrics", "prefix", "targetProducer")
        yield from _note(tree, path, "nothing is copied, and sync has no metrics of its producer")
    if config.start.later == "latest":
        path = ("source", "kafka", "consumer", RESET)
        reason = (
            "applies to partitions that appear later too: what is written before they are found is "
            "not copied; start.from: latest copies it"
        )
        yield Problem(tree.nearest(path).mark, format_path(path), reason)
    if "compression.type" in config.target.properties("producer"):
        path = _property(tree, "compression.type")
        reason = (
            "applies where records are decoded; verbatim batches keep the source's compression "
            "(k2ktui explain shows which)"
        )
        yield Problem(tree.nearest(path).mark, format_path(path), reason)


def _unused_by_mode(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Keys without effect in the mode of coordination, or in one direction."""
    if config.coordination.mode == "exclusive":
        is_short = config.coordination.assignment.grace_window_s < SHORTEST_GRACE_S
        is_chosen = tree.at(_MODE) is not None
        reason = _TOO_SHORT if is_short and not is_chosen else _EXCLUSIVE
        yield from _note(tree, _GRACE_WINDOW, reason)
    if config.coordination.mode != "shared":
        for path in OF_SHARED:
            yield from _note(tree, path, _NOT_SHARED)
    if not config.features.bidirectional_replication:
        yield from _note(tree, ("bidirectional",), _ONE_DIRECTION)
    elif config.bidirectional.mode == "provenance":
        yield from _note(tree, ("bidirectional", "headers"), _PROVENANCE)


def _unused_schema_keys(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Keys without effect while no schema is mapped, or for one of its types."""
    if not config.features.schema_mapping:
        used = transform_registries(config)
        for path in OF_SCHEMAS:
            if path[0] == "schemaMapping" and "target" in used:
                for key in _ONLY_MAPPING:
                    yield from _note(tree, (*path, key), _NO_SCHEMAS)
            elif path[0] not in used:
                yield from _note(tree, path, _NO_SCHEMAS)
    elif tree.at(_TYPES) is not None and "YANG" in config.schema_mapping.supported_types:
        yield Problem(tree.nearest(_TYPES).mark, format_path(_TYPES), _YANG)


def typed_quotes(tree: Node) -> Iterator[Problem]:
    """Yield a note for every value with typographic quotes, which are a part of it."""
    for _, node in tree.walk():
        if isinstance(node.value, str) and has_typed_quotes(node.value):
            yield Problem(node.mark, node.written, TYPED_QUOTES)


def weak_writes(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield an error for every property that exactly-once does not allow."""
    if not config.features.exactly_once:
        return
    given = config.target.properties("producer")
    for key, strong in (("acks", ("all", "-1")), ("enable.idempotence", ("true",))):
        value = given.get(key, strong[0]).strip().lower()
        if value not in strong:
            path = _property(tree, key)
            needed = f"expected {strong[0]}, which features.exactlyOnce needs"
            yield Problem(tree.nearest(path).mark, format_path(path), needed)


def unsafe_standby(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield an error for every setting that makes a takeover by another run unsafe."""
    mode = config.coordination.mode
    if mode == "exclusive":
        return
    if not config.features.exactly_once:
        node = tree.nearest(_MODE)
        needed = (
            f"{mode} needs features.exactlyOnce: without transactions, a run that hangs cannot be "
            "fenced"
        )
        yield Problem(node.mark, format_path(_MODE), needed)
    if config.coordination.assignment.grace_window_s < SHORTEST_GRACE_S:
        node = tree.nearest(_GRACE_WINDOW)
        needed = f"expected at least {SHORTEST_GRACE_S:g} seconds with coordination.mode: {mode}"
        yield Problem(node.mark, format_path(_GRACE_WINDOW), needed)


def transform_registries(config: PipelineConfig) -> frozenset[str]:
    """Return the clusters whose registries have schemas of transforms."""
    transforms = (rule.transform for rule in config.replication.transform)
    return frozenset(
        side for transform in transforms if transform is not None for side in transform.registries
    )


def missing_registries(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield an error for every registry that is needed and that the file does not name."""
    used = transform_registries(config)
    for side, cluster in (("source", config.source), ("target", config.target)):
        mapped = config.features.schema_mapping
        if not mapped and side not in used:
            continue
        if not cluster.registry.config.get("schema.registry.url", "").strip():
            path: Path = (side, "registry", "config", "schema.registry.url")
            user = "features.schemaMapping" if mapped else "a schema in replication.transform"
            yield Problem(tree.nearest(path).mark, format_path(path), f"missing; {user} needs it")


def dropped_headers(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield an error for every rule of headers that are dropped anyway."""
    if config.features.header_replication:
        return
    for index, _ in enumerate(config.replication.headers):
        for key in ("keep", "drop", "rename"):
            node = tree.at(("replication", "headers", index, key))
            if node is not None and node.value is not None:
                needed = "features.headerReplication: disabled drops all headers of the source"
                yield Problem(node.mark, node.written, f"has no effect: {needed}")


def _note(tree: Node, path: Path, reason: str) -> Iterator[Problem]:
    node = tree.at(path)
    if node is not None and node.value is not None and node.value != {}:
        yield Problem(node.mark, node.written, f"has no effect: {reason}")


def _property(tree: Node, key: str) -> Path:
    own = (*_PRODUCER, key)
    return own if tree.at(own) is not None else ("target", "kafka", "common", key)
