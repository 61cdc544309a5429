"""What a pipeline file says about which records are copied, where to, and how they are changed.

Runs that share a pipeline must agree on it (docs/runners.md#one-file). How fast they copy, with
which clients and how often they try again may differ from host to host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from k2ktui.config.model import PipelineConfig, SchemaMapping
from k2ktui.config.replication import HeaderRule
from k2ktui.engine.records.editions import digest_of


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
    features, start, replication = config.features, config.start, config.replication
    added = {what for what, is_wanted in features.tracing_headers if is_wanted}
    return {
        "topics": _selection(config),
        "target": asdict(config.topic_mapping),
        "partition": replication.sink.model_dump()["partition"],
        "transforms": [
            [rule.topics, asdict(rule.steps, dict_factory=_with_content)]
            for rule in replication.transform
        ],
        "headers": {
            "copied": features.header_replication,
            "tracing": config.tracing.headers.model_dump(include=added),
            "rules": [_header_rule(rule) for rule in replication.headers],
        },
        "timestamps": features.keep_record_creation_timestamp,
        "schemas": _schemas(config.schema_mapping) if features.schema_mapping else None,
        "bothWays": _both_ways(config) if features.bidirectional_replication else None,
        "mappings": config.offset_mapping.topic if features.offset_mapping else None,
        "loss": config.on_source_data_loss,
        "start": [start.kind, start.timestamp_ms, start.later],
    }


def _selection(config: PipelineConfig) -> object:
    selection = config.topics
    if selection.pattern is None:
        return _sorted(selection.names)
    return {
        "pattern": selection.pattern,
        "leftOut": _sorted(selection.excluded),
        "programs": selection.excludes_programs,
    }


def _sorted(chosen: str | Iterable[str] | None) -> object:
    """Return a pattern or None as it is, and names in order."""
    return chosen if chosen is None or isinstance(chosen, str) else sorted(set(chosen))


def _with_content(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return fields of a transform with the digest of a schema file in place of its name."""
    return {key: _digest(value) if key == "file" and value else value for key, value in fields}


def _digest(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return file  # the start says why it cannot be read


def _header_rule(rule: HeaderRule) -> object:
    return {
        "topics": rule.topics,
        "keep": _sorted(rule.keep),
        "drop": _sorted(rule.drop),
        "rename": list((rule.rename or {}).items()),
        "add": list((rule.add or {}).items()),
        "tracing": rule.added,
    }


def _schemas(section: SchemaMapping) -> object:
    return {
        "types": _sorted(section.supported_types),
        "topics": [[rule.pattern, rule.key, rule.value] for rule in section.topics],
        "registers": section.auto_register,
        "unknown": section.on_unknown_schema,
        "deadLetters": section.dead_letter.topic,
    }


def _both_ways(config: PipelineConfig) -> object:
    """Return by what records of the opposite direction are recognized."""
    mode = config.bidirectional.mode
    if mode == "provenance":
        return {"mode": mode, "registrations": config.opposite.commit_topic}
    return {"mode": mode, "header": config.bidirectional.header}
