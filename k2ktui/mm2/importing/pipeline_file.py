"""Converts a flow of MirrorMaker 2 to a pipeline file; lists settings without a counterpart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import yaml
from pydantic import ValidationError

from k2ktui.config.model import LONGEST_POLL_S, SHORTEST_POLL_S, PipelineConfig
from k2ktui.config.problems import Problem, format_path
from k2ktui.config.scalars import duration_text
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.errors import ConfigError
from k2ktui.mm2.flows.model import ROLES, SIDES, FlowProperties, Side, is_client
from k2ktui.mm2.flows.policy import NameFilter, numbered_references, shift_references
from k2ktui.mm2.flows.settings import load_settings, security_notes
from k2ktui.mm2.importing.client_properties import choose_properties
from k2ktui.mm2.importing.counterparts import left_out
from k2ktui.mm2.offsets.positions import reset_notes
from k2ktui.text import file_part, safe_text

# Converts a value, given side, role, key and text. None omits the property.
Value = Callable[[Side, str, str, str], str | None]

# Both are 60 seconds by default: MirrorMaker 2 translates at one, and commits at the other.
_INTERVALS = ("sync.group.offsets.interval.seconds", "emit.checkpoints.interval.seconds")
_INTERVAL_S = 60
_RESET = "auto.offset.reset"
_PLAIN_NAME = re.compile(r"[a-z.]+")
# Settings whose values a pipeline may refuse, with the keys that they become.
_OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "replication.factor": ("topicCreation",),
    "config.properties.exclude": ("parity", "topicConfigs", "exclude"),
}
_NAMES_ONLY = "expected names or regular expressions without ${…}; write their values"
_EXCLUSIONS = ("config.properties.exclude", "config.properties.blacklist")
# Switches of what MirrorMaker 2 keeps in step, with the sections of parity.
_SYNCED = {"sync.topic.configs.enabled": "topicConfigs", "sync.topic.acls.enabled": "acls"}
_MODES = {"true": "apply", "false": "off"}
_FLAGS = re.compile(r"\(\?([a-z]+)\)")


@dataclass(frozen=True, slots=True)
class Imported:
    """A pipeline file; ``notes`` list settings without a counterpart and manual steps."""

    text: str
    notes: tuple[str, ...]


def pipeline_document(flow: FlowProperties, name: str, value: Value) -> dict[str, Any]:
    """Return a flow as the content of a pipeline file.

    Args:
        flow: a flow of MirrorMaker 2.
        name: name of the pipeline.
        value: converts each client property.
    """
    target = _clients(flow, "target", value)
    # Regular expressions are left out.
    excluded = [name for name in _listed_exclusions(flow) if _PLAIN_NAME.fullmatch(name)]
    if excluded:
        target["topicPropsExclusionList"] = excluded
    tree: dict[str, Any] = {
        "name": name,
        "source": {"kafka": _clients(flow, "source", value)},
        "target": {"kafka": target},
        "features": {"autoCreateControlTopics": "enabled"},
        "replication": {
            "source": {"topic": topic_pattern(flow)},
            "sink": {"topic": _sink(flow), "partition": "source"},
        },
        "groups": {
            "consumerGroups": _both(flow.groups.include, _excludes(flow.groups)),
            "pollInterval": duration_text(_poll_interval(flow)),
        },
    }
    factor = flow.settings.get("replication.factor", "").strip()
    if factor.isascii() and factor.isdecimal():
        tree["topicCreation"] = {
            "replication": {"common": {"replication": int(factor)}},
            "control": {"common": {"replication": int(factor)}},
        }
    parity = _parity(flow)
    if parity:
        tree["parity"] = parity
    return tree


def _parity(flow: FlowProperties) -> dict[str, Any]:
    """Return the section of what is kept in step, as far as the flow says it.

    Nothing is changed on the target because of a default of MirrorMaker 2.
    """
    section: dict[str, Any] = {}
    for key, name in _SYNCED.items():
        mode = _MODES.get(flow.settings.get(key, "").strip().lower())
        if mode is not None:
            section[name] = {"mode": mode}
    if any(key in flow.settings for key in _EXCLUSIONS):
        configs = section.setdefault("topicConfigs", {})
        configs["exclude"] = _listed_exclusions(flow)
    return section


def _parity_notes(flow: FlowProperties) -> list[str]:
    notes = []
    for key, name in _SYNCED.items():
        given = flow.settings.get(key)
        if given is None or given.strip().lower() in _MODES:
            continue
        notes.append(
            f"{key}: {safe_text(given.strip())} is neither true nor false; parity.{name}.mode: "
            "report"
        )
    return notes


def _poll_interval(flow: FlowProperties) -> float:
    """Return the shorter one of the flow's intervals, in the range of ``groups.pollInterval``."""
    return min(max(float(_interval(flow)[1]), SHORTEST_POLL_S), LONGEST_POLL_S)


def _interval(flow: FlowProperties) -> tuple[str, int]:
    """Return the setting with the shortest interval of those that the flow has, and its seconds."""
    given = [(key, flow.seconds(key, _INTERVAL_S)) for key in _INTERVALS if _has_number(flow, key)]
    return min(given, key=lambda interval: interval[1], default=(_INTERVALS[0], _INTERVAL_S))


def _has_number(flow: FlowProperties, key: str) -> bool:
    text = flow.settings.get(key, "").strip()
    return text.isascii() and text.isdecimal()


def import_file(file: str) -> Imported:
    """Convert the flow of ``FILE[#A->B]`` to a pipeline file; notes are those of the file, too.

    Raises:
        ConfigError: the file is not valid, or its flow cannot be expressed in a pipeline.
    """
    path, _, flow = file.partition("#")
    settings = load_settings(path, filled=False)
    imported = import_flow(settings.flow(flow))
    return replace(imported, notes=(*settings.notes, *imported.notes))


def import_flow(flow: FlowProperties) -> Imported:
    """Convert a flow, read without filling its variables, to a pipeline file.

    Secrets are not written: they are replaced by environment variables, which the notes name. The
    file is valid as soon as these are set; what a pipeline cannot have is left out or replaced, and
    noted.

    Raises:
        ConfigError: a filter or a name cannot be expressed in a pipeline.
    """
    notes: list[str] = [*reset_notes(flow), *security_notes(flow)]
    name = file_part(f"{flow.source}-to-{flow.target}")
    clients = {side: choose_properties(flow, side, notes) for side in SIDES}
    tree = pipeline_document(flow, name, lambda *_: None)
    for side, chosen in clients.items():
        tree[side]["kafka"] |= {role: dict(section) for role, section in chosen.literal.items()}
    _check_patterns(flow, tree)
    tree = _valid_tree(flow, tree, notes)
    for side, chosen in clients.items():
        tree[side]["kafka"] |= {role: dict(section) for role, section in chosen.written.items()}
    for key in _INTERVALS:
        if key in flow.settings and not _has_number(flow, key):
            poll, text = tree["groups"]["pollInterval"], safe_text(flow.settings[key].strip())
            notes.append(f"{key}: {text} is not a number; groups.pollInterval: {poll}")
    # In the file this section is a list.
    tree["replication"] = [{key: value} for key, value in tree["replication"].items()]
    key, seconds = _interval(flow)
    if _poll_interval(flow) != seconds:
        notes.append(
            f"{key}: groups.pollInterval is {duration_text(_poll_interval(flow))}, "
            "the nearest allowed value"
        )
    notes += _parity_notes(flow)
    notes += left_out(flow)
    notes += [
        f"config.properties.exclude: {safe_text(name_pattern)} is in parity.topicConfigs.exclude "
        "only; target.kafka.topicPropsExclusionList, for new topics, takes whole names"
        for name_pattern in _listed_exclusions(flow)
        if not _PLAIN_NAME.fullmatch(name_pattern)
    ]
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)
    head = f"# Made by k2ktui mm2 import from the flow {safe_text(flow)} of MirrorMaker 2.\n"
    return Imported(head + text, tuple(dict.fromkeys(notes)))


def _valid_tree(flow: FlowProperties, tree: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the tree without optional values that a pipeline refuses, which are noted.

    Raises:
        ConfigError: another value is refused.
    """
    for key, path in (*_OPTIONAL.items(), ("", ())):
        try:
            PipelineConfig.model_validate(tree)
            break
        except ValidationError as failure:
            errors = failure.errors(include_url=False, include_input=False, include_context=False)
            message = errors[0]["msg"].replace("Value error,", "expected")
            if not path:
                where = [Problem(None, format_path(error["loc"]), error["msg"]) for error in errors]
                # The cause quotes values, and passwords may be among them.
                raise not_expressible(flow, where) from None
            if any(error["loc"][: len(path)] == path for error in errors):
                *above, last = path
                reduce(lambda node, step: node[step], above, tree).pop(last)
                name = ".".join(path)
                notes.append(f"{key}: not carried over; {name} is its counterpart: {message}")
    return tree


def _check_patterns(flow: FlowProperties, tree: Mapping[str, Any]) -> None:
    problems = []
    if "${" in str(tree["replication"]["sink"]["topic"]):
        wanted = "expected a separator and an alias without ${…}; write their values"
        problems.append(Problem(None, "replication.policy.separator", wanted))
    for key, pattern in (
        ("topics", tree["replication"]["source"]["topic"]),
        ("groups", tree["groups"]["consumerGroups"]),
    ):
        if "${" in pattern:
            problems.append(Problem(None, key, _NAMES_ONLY))
            continue
        try:
            compile_pattern(pattern)
        except ValueError as error:
            problems.append(Problem(None, key, f"expected {error}"))
    if any("${" in name for name in _listed_exclusions(flow)):
        problems.append(Problem(None, "config.properties.exclude", _NAMES_ONLY))
    if problems:
        raise not_expressible(flow, problems)


def not_expressible(flow: FlowProperties, problems: Sequence[Problem]) -> ConfigError:
    """Return the error of a flow that no pipeline can stand for."""
    name = safe_text(f"{flow} of {flow.file}" if flow.file else flow)
    lines = [f"  {problem}" for problem in problems]
    return ConfigError(
        "\n".join([f"the flow {name} cannot be expressed as a pipeline:", *lines]),
        hint="Write topics, groups and their excludes as regular expressions that can be "
        "part of another: (?i:orders.*) instead of (?i)orders.*, and no group name "
        "(?<name>…) twice in all of them.",
    )


def topic_pattern(flow: FlowProperties) -> str:
    """Return one expression for the source topics that a flow copies, except heartbeats."""
    policy = flow.policy
    dot = re.escape(policy.internal_separator)
    never = [
        *_excludes(flow.topics),
        r"__.*",
        r"\..*",
        rf"mm2.*{dot}internal",
        rf".*{dot}checkpoints{dot}internal",
    ]
    # Topics that came from the target, even indirectly, would be replicated in a cycle. Which ones
    # did is told by the parts of a name: at a blank separator, its single characters.
    alias, between = flow.target_alias, policy.separator
    is_part = between not in alias if between else len(alias) == 1
    if policy.kind == "default" and is_part:
        dot = re.escape(between)
        never.append(rf"(?:.*{dot})?{re.escape(alias)}{dot}.+")
    return _both(flow.topics.include, never)


def _both(include: str, excludes: list[str]) -> str:
    excluded = "|".join(dict.fromkeys(pattern for pattern in excludes if pattern))
    if not excluded:
        return include
    scoped = _scope_flags(include)
    if numbered_references(scoped):
        scoped = shift_references(scoped, compile_pattern(excluded).groups)
    return f"(?!(?:{excluded})$)(?:{scoped})"


def _excludes(names: NameFilter) -> list[str]:
    # As in MirrorMaker 2, which joins them: flags at the beginning apply to all of them, and groups
    # are numbered through.
    return [_scope_flags(names.exclude)]


def _scope_flags(pattern: str) -> str:
    """Limit flags at the beginning to the pattern: Python takes no others inside of another."""
    match = _FLAGS.match(pattern)
    return f"(?{match[1]}:{pattern[match.end() :]})" if match else pattern


def _sink(flow: FlowProperties) -> str | dict[str, str]:
    return {"prefix": flow.policy.prefix} if flow.policy.prefix else "source"


def _clients(flow: FlowProperties, side: Side, value: Value) -> dict[str, Any]:
    sections: dict[str, Any] = {}
    by_role = flow.clients[side]
    for role in ("common", *ROLES):
        if side == "source" and role == "producer":
            continue
        own = by_role.get(role, {})
        kept = {k: v for k, v in own.items() if role == "common" or is_client(k) or k == _RESET}
        if side == "target" and role == "consumer":
            kept.pop(_RESET, None)
        values = {k: value(side, role, k, v) for k, v in sorted(kept.items())}
        section = {k: v for k, v in values.items() if v is not None}
        if section:
            sections[role] = section
    return sections


def _listed_exclusions(flow: FlowProperties) -> list[str]:
    given = flow.settings
    old = given.get("config.properties.blacklist", "")
    listed = given.get("config.properties.exclude", old).split(",")
    return [part.strip() for part in listed if part.strip()]
