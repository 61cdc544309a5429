"""What a pipeline file says about which records are copied, where to, and how they are changed.

Runs that share a pipeline must agree on it (docs/runners.md#one-file). How fast they copy, with
which clients and how often they try again may differ from host to host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.config.replication import HeaderRule
from k2ktui.config.sink_rules import PartitionExpression
from k2ktui.engine.java_patterns import NameSelection
from k2ktui.engine.records.editions import digest_of
from k2ktui.engine.topics import TopicMapping
from k2ktui.engine.transforms.model import SchemaSource, Transform


def copy_digest(config: PipelineConfig) -> str:
    """Return the digest of the copy rules; equal for files with the same rules.

    A schema file counts by its content, or by its name if it cannot be read here.
    """
    return digest_of(copy_rules(config))


def copy_rules(config: PipelineConfig) -> Mapping[str, object]:
    """Return every setting that changes which records are written, as plain values.

    A new key of the model belongs here if two runs that differ in it would write different records;
    test_copying.py asks about each key. The key's default must leave the digest unchanged:
    otherwise hosts with the new release would count as having another file.
    """
    features, start = config.features, config.start
    return {
        "topics": _selection(config),
        "target": _target(config.replication.sink.topic),
        "partition": _partition(config.replication.sink.partition),
        "transforms": [
            [rule.topics, asdict(_with_content(rule.steps))]
            for rule in config.replication.transform
        ],
        "headers": _headers(config),
        "timestamps": features.keep_record_creation_timestamp,
        "schemas": _schemas(config),
        "bothWays": _both_ways(config),
        "mappings": config.offset_mapping.topic if features.offset_mapping else None,
        "loss": config.on_source_data_loss,
        "start": [start.kind, start.timestamp_ms, start.later],
    }


def _selection(config: PipelineConfig) -> object:
    selection = config.topics
    if selection.pattern is None:
        return sorted(set(selection.names))
    return {
        "pattern": selection.pattern,
        "leftOut": sorted(selection.excluded),
        "programs": selection.excludes_programs,
    }


def _target(mapping: TopicMapping) -> object:
    if mapping == TopicMapping(kind="affix"):
        return asdict(TopicMapping())
    return asdict(mapping)


def _partition(chosen: str | PartitionExpression) -> object:
    return chosen if isinstance(chosen, str) else {"expression": chosen.expression}


def _with_content(steps: Transform) -> Transform:
    """Return a transform with the digests of schema files in place of their names."""
    key, value = steps.decode_key, steps.decode_value
    return replace(
        steps,
        decode_key=replace(key, source=_content(key.source)),
        decode_value=replace(value, source=_content(value.source)),
        encode_key_schema=_content(steps.encode_key_schema),
        encode_value_schema=_content(steps.encode_value_schema),
    )


def _content(source: SchemaSource | None) -> SchemaSource | None:
    if source is None or not source.file:
        return source
    try:
        content = hashlib.sha256(Path(source.file).read_bytes()).hexdigest()
    except OSError:
        content = source.file  # the start says why it cannot be read
    return replace(source, file=content)


def _headers(config: PipelineConfig) -> object:
    wanted, names = config.features.tracing_headers, config.tracing.headers
    return {
        "copied": config.features.header_replication,
        "tracing": {what: getattr(names, what) for what, is_wanted in wanted if is_wanted},
        "rules": [_header_rule(rule) for rule in config.replication.headers],
    }


def _header_rule(rule: HeaderRule) -> object:
    names = rule.names
    return {
        "topics": rule.topics,
        "keep": _names(names.keep),
        "drop": _names(names.drop),
        "rename": names.rename,
        "add": list((rule.add or {}).items()),
        "tracing": rule.added,
    }


def _names(chosen: NameSelection | None) -> object:
    if chosen is None:
        return None
    return chosen.pattern if chosen.pattern is not None else sorted(set(chosen.names))


def _schemas(config: PipelineConfig) -> object:
    if not config.features.schema_mapping:
        return None
    section = config.schema_mapping
    return {
        "types": sorted(set(section.supported_types)),
        "topics": [[rule.pattern, rule.key, rule.value] for rule in section.topics],
        "registers": section.auto_register,
        "unknown": section.on_unknown_schema,
        "deadLetters": section.dead_letter.topic,
    }


def _both_ways(config: PipelineConfig) -> object:
    """Return by what records of the opposite direction are recognized; None in one direction."""
    mode = config.bidirectional_mode
    if not mode:
        return None
    by: dict[str, Any] = {"mode": mode}
    if mode == "provenance":
        return by | {"registrations": config.opposite.commit_topic}
    return by | {"header": config.bidirectional.header}
