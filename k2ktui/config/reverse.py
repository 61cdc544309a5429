"""The file of the opposite pipeline: source and target swapped, topics mapped back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from k2ktui.config.clusters import is_connection
from k2ktui.config.load import load, read_layers
from k2ktui.config.model import PipelineConfig
from k2ktui.config.problems import format_path
from k2ktui.config.show import PROPERTY_TABLES, dump_yaml
from k2ktui.config.tree import Node
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.errors import Refused
from k2ktui.secret_values import is_secret_key, without_userinfo
from k2ktui.text import safe_text

_SUFFIX = "-reverse"
_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\?\.)+")
# Java's default of a new group, which says where to start: each pipeline has its own start.
_START = "auto.offset.reset"
_CONTROL = {
    "commitTopic": ("coordination", "commit", "topic"),
    "mappingTopic": ("offsetMapping", "topic"),
    "stateTopic": ("coordination", "state", "topic"),
    "metricsTopic": ("metrics", "kafka", "topic"),
}

_Table = dict[str, Any]


@dataclass(frozen=True)
class ReversedFile:
    """The text of the opposite pipeline's file, and what its author has to look at."""

    text: str
    notes: tuple[str, ...]


def reverse_file(
    paths: Iterable[str | FilePath], *, env: Mapping[str, str] | None = None
) -> ReversedFile:
    """Return the opposite pipeline of the one in ``paths``.

    Templates such as ``${env:string:PASSWORD}`` stay as they are.

    Raises:
        ConfigError: the files are not valid.
        Refused: the topic mapping cannot be inverted, or a secret is in the file itself.
    """
    files = [str(path) for path in paths]
    config = load(files, env=env).config
    tree = read_layers(files)
    _refuse_secrets(tree)
    given: _Table = tree.plain()
    opposite: _Table = {"name": _name(config.name)}
    kept = set(given) - {"name", "source", "target", "replication", "start", "mm2", "license"}
    opposite |= {key: given[key] for key in given if key in kept}
    _leave_out_hooks(opposite)
    opposite["features"] = {**given.get("features", {}), "bidirectionalReplication": "enabled"}
    opposite["source"], opposite["target"] = _clusters(given)
    opposite["replication"] = _replication(config)
    if config.schema_mapping.topics and config.topic_mapping.kind != "source":
        section = {
            **opposite["schemaMapping"],
            "topics": _schema_rules(config, opposite["replication"]),
        }
        opposite["schemaMapping"] = section
    _swap_control_topics(opposite, config)
    commit = opposite.get("coordination", {}).get("commit", {})
    if "group" in commit:
        commit["group"] = _name(config.coordination.commit.group)
    return ReversedFile(dump_yaml(opposite), tuple(_notes(config, given)))


def _name(name: str) -> str:
    return name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else f"{name}{_SUFFIX}"


def _leave_out_hooks(opposite: _Table) -> None:
    """Leave out commands that lead the workload to the other cluster: here, they would mislead."""
    given = opposite.get("drill", {})
    section = {key: value for key, value in given.items() if key not in ("hooks", "redirect")}
    if len(section) < len(given):
        del opposite["drill"]
        opposite |= {"drill": section} if section else {}


def _refuse_secrets(tree: Node) -> None:
    for path, node in tree.walk():
        if not isinstance(node.value, str) or "${" in node.value:
            continue
        in_table = len(path) > 1 and path[-2] in PROPERTY_TABLES
        secret = in_table and is_secret_key(str(path[-1]))
        if secret or without_userinfo(node.value) != node.value:
            raise Refused(
                f"{node.mark}: {format_path(path)} holds a secret, which is not printed",
                unchanged="Nothing was printed.",
                hint="Replace it by ${env:string:NAME} or ${file:string:PATH} in the file.",
            )


def _clusters(given: _Table) -> tuple[_Table, _Table]:
    """Swap the clusters: connections go with the cluster, all else stays with the client."""
    old_source, old_target = given.get("source", {}), given.get("target", {})
    source = {key: old_target[key] for key in old_target if key not in ("kafka", "writers")}
    target = {key: value for key, value in old_source.items() if key != "kafka"}
    source_clients, target_clients = old_source.get("kafka", {}), old_target.get("kafka", {})
    source["kafka"] = _clients(
        target_clients, source_clients, {"consumer": "consumer", "admin": "admin"}
    )
    roles = {"consumer": "consumer", "producer": "consumer", "admin": "admin"}
    target["kafka"] = _clients(source_clients, target_clients, roles)
    if "topicPropsExclusionList" in target_clients:
        target["kafka"]["topicPropsExclusionList"] = target_clients["topicPropsExclusionList"]
    return source, target


def _clients(cluster: _Table, purpose: _Table, roles: Mapping[str, str]) -> _Table:
    """Return the client properties of a cluster in its new place.

    Args:
        cluster: its properties so far, which say how to connect.
        purpose: those of the cluster that had this place, which say how to read or write.
        roles: the client roles of the new place, each with the role that connects in the same way.
    """
    clients = {}
    for role in ("common", *roles):
        how = cluster.get(roles.get(role, role), {})
        what = purpose.get(role, {})
        # Those of the connection belong to the cluster; all others to a client's purpose.
        table = {k: v for k, v in how.items() if is_connection(k)}
        table |= {k: v for k, v in what.items() if not is_connection(k) and k != _START}
        if table:
            clients[role] = table
    return clients


def _swap_control_topics(tree: _Table, config: PipelineConfig) -> None:
    """Give the control topics the names of the opposite ones, and the other way round."""
    section = {**tree.get("bidirectional", {})}
    section.pop("opposite", None)
    section["mode"] = config.bidirectional.mode
    own, opposite = (t.model_dump(by_alias=True) for t in (config.own_topics, config.opposite))
    others = {key: name for key, name in own.items() if opposite[key] != name}
    for key in others:
        _put(tree, _CONTROL[key], opposite[key])
    if others:
        section["opposite"] = others
    tree["bidirectional"] = section


def _put(table: _Table, path: tuple[str, ...], value: str) -> None:
    for step in path[:-1]:
        table[step] = table = {**table.get(step, {})}
    table[path[-1]] = value


def _replication(config: PipelineConfig) -> list[_Table]:
    sink = config.replication.sink
    topics, mapping = _invert(config)
    return [
        {"source": {"topic": topics}},
        {"sink": {"topic": mapping, "partition": sink.partition}},
    ]


def _schema_rules(config: PipelineConfig, replication: list[_Table]) -> list[_Table]:
    """Return a rule for each topic by its name on the other side."""
    rules = []
    for renaming in replication[-1]["sink"]["topic"]["staticMapping"]:
        for pattern, name in renaming.items():
            parts = config.schema_topics.parts(name)
            toggles = {str(p): "enabled" if p in parts else "disabled" for p in SchemaPart}
            rules.append({"pattern": pattern, **toggles})
    return rules


def _invert(config: PipelineConfig) -> tuple[Any, Any]:
    """Return the opposite pipeline's source topics and its topic mapping."""
    mapping = config.topic_mapping
    if config.replication.sink.routing is not None:
        raise _refuse("an expression chooses where records go")
    pattern, names = config.replication.source.topic_choice
    if mapping.kind == "source":
        return (pattern if pattern is not None else list(names)), "source"
    if pattern is not None:
        names = tuple(_literals(config, pattern))
    targets = {name: mapping.target_for(name) for name in names}
    missing = [name for name, target in targets.items() if target is None]
    if missing:
        raise _refuse(f"{safe_text(missing[0])} has no target topic")
    back: dict[str, str] = {}
    for name, target in targets.items():
        assert target is not None
        if target in back:
            both = f"{safe_text(back[target])} and {safe_text(name)}"
            raise _refuse(f"{both} are both copied to {safe_text(target)}")
        back[target] = name
    rules = [{re.escape(target): name} for target, name in back.items()]
    return list(back), {"staticMapping": rules}


def _literals(config: PipelineConfig, pattern: str) -> Iterator[str]:
    """Yield the topics that a pattern and a static mapping of literal names select."""
    mapping = config.topic_mapping
    if mapping.kind != "staticMapping":
        raise _refuse(f"topics are selected by the pattern {safe_text(pattern)}")
    for rule, _ in mapping.rules:
        if not _LITERAL.fullmatch(rule):
            raise _refuse(f"a static mapping has the pattern {safe_text(rule)}")
        name = rule.replace("\\", "")
        if compile_pattern(pattern).fullmatch(name):
            yield name


def _refuse(why: str) -> Refused:
    return Refused(
        f"replication.sink.topic cannot be inverted: {why}",
        unchanged="Nothing was printed.",
        hint="List the topics by name in replication.source.topic, each with a target of its own, "
        "or use replication.sink.topic: source.",
    )


def _notes(config: PipelineConfig, given: _Table) -> Iterator[str]:
    if not config.features.bidirectional_replication:
        yield (
            "set features.bidirectionalReplication: enabled in the file of "
            f"{safe_text(config.name)}, too, and start it again before the opposite pipeline"
        )
    yield "the principals need other rights than before: see docs/security.md"
    for section in ("start", "mm2"):
        if section in given:
            yield f"{section} was left out"
    if config.drill.hooks:
        yield "drill.hooks was left out: write those of the way back yourself"
    if config.drill.redirect:
        yield (
            "drill.redirect was left out: write that of the way back yourself, with the clusters "
            "swapped; without it, a failback moves no name"
        )
    for entry, rules in (
        ("transform", config.replication.transform),
        ("headers", config.replication.headers),
    ):
        if rules:
            yield f"replication.{entry} was left out: its rules are for records of this direction"
