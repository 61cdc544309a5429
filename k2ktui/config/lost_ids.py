"""Notes on keys that drop the headers in which records have the ids of their schemas."""

from __future__ import annotations

from collections.abc import Iterator

from k2ktui.config.model import PipelineConfig
from k2ktui.config.problems import Path, Problem
from k2ktui.config.replication import HeaderRule
from k2ktui.config.tree import Node
from k2ktui.engine.schemas.ids import ID_HEADERS, SchemaPart

_EVERY_TOPIC = ".*"


def lost_schema_ids(tree: Node, config: PipelineConfig) -> Iterator[Problem]:
    """Yield a note for every key that drops or renames headers with ids that are mapped."""
    if not config.features.schema_mapping:
        return
    if not config.features.header_replication:
        names = _id_headers(config, None)
        yield from _note(tree, ("features", "headerReplication"), names)
        return
    for index, rule in enumerate(config.replication.headers):
        lost: dict[str, list[str]] = {}
        for name in _id_headers(config, rule):
            key = _losing_key(rule, name)
            if key:
                lost.setdefault(key, []).append(name)
        for key, names in lost.items():
            yield from _note(tree, ("replication", "headers", index, key), names)


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
    same = (_EVERY_TOPIC, _EVERY_TOPIC if rule is None else rule.topics)
    for pattern, parts in topics.rules:
        written |= {part for part in SchemaPart if parts[part]}
        if pattern in same:
            return written
    return set(SchemaPart)


def _note(tree: Node, path: Path, names: list[str]) -> Iterator[Problem]:
    node = tree.at(path)
    if node is not None and names:
        text = (
            f"records whose schema ids are in headers ({', '.join(names)}) lose them: consumers of "
            "the target cannot read such records"
        )
        yield Problem(node.mark, node.written, text)
