"""Converts a flow of MirrorMaker 2 to a pipeline file; lists settings without a counterpart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from k2ktui.config.model import LONGEST_POLL_S, SHORTEST_POLL_S
from k2ktui.config.problems import Problem, is_secret_key
from k2ktui.config.scalars import duration_text
from k2ktui.config.topics import compile_pattern
from k2ktui.errors import ConfigError
from k2ktui.mm2.flows import ROLES, FlowProperties, Side, is_client
from k2ktui.mm2.policy import NameFilter, numbered_references, shift_references
from k2ktui.text import safe_text

# Converts a value, given side, role, key and text. None omits the property.
Value = Callable[[Side, str, str, str], str | None]

_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_GROUPS_INTERVAL, _GROUPS_INTERVAL_S = "sync.group.offsets.interval.seconds", 60
_RESET = "auto.offset.reset"
_PLAIN_NAME = re.compile(r"[a-z.]+")
_FLAGS = re.compile(r"\(\?([a-z]+)\)")

# Settings by prefix of their names: "" if carried over, else why there is no counterpart.
_CARRIED = ""
_COUNTERPARTS: tuple[tuple[str, str], ...] = (
    ("enabled", _CARRIED),
    ("clusters", _CARRIED),
    ("config.providers", _CARRIED),
    ("topics", _CARRIED),
    ("groups", _CARRIED),
    ("replication.policy.", _CARRIED),
    ("replication.factor", _CARRIED),
    ("config.properties.exclude", _CARRIED),
    ("config.properties.blacklist", _CARRIED),
    ("sync.group.offsets.interval.seconds", _CARRIED),
    ("source.cluster.", _CARRIED),
    ("target.cluster.", _CARRIED),
    ("source.consumer.", _CARRIED),
    ("source.admin.", _CARRIED),
    ("target.producer.", _CARRIED),
    ("target.admin.", _CARRIED),
    (
        "sync.group.offsets.enabled",
        "k2ktui sync replaces it, or k2ktui plan and apply at a failover",
    ),
    ("emit.checkpoints", "groups are translated from the mapping on request"),
    ("checkpoints.", "groups are translated from the mapping on request"),
    ("emit.offset-syncs", "every record's offset is recorded, in the same transaction"),
    ("offset-syncs.", "every record's offset is recorded, in the same transaction"),
    ("offset.lag.max", "every record's offset is recorded, in the same transaction"),
    ("emit.heartbeats", "k2ktui start writes heartbeats to the state topic"),
    ("heartbeats.", "k2ktui start writes heartbeats to the state topic"),
    ("refresh.", "topics and groups are re-read every few seconds"),
    ("sync.topic.configs", "settings are copied only when a topic is created"),
    ("sync.topic.acls", "ACLs are not copied"),
    ("tasks.max", "spark.slots is its counterpart; as many as cores by default"),
    ("dedicated.mode", "there are no Connect workers"),
    ("offset.storage.", "positions are kept in coordination.commit.topic"),
    ("config.storage.", "there are no Connect workers"),
    ("status.storage.", "there are no Connect workers"),
    ("listeners", "there are no Connect workers"),
    ("transforms", "see the transform section of docs/configuration.md"),
    ("use.defaults.from", "topics are created with the source's non-default settings"),
    ("exactly.once.", "exactly once is the default"),
)


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
    excluded = _excluded_settings(flow)
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
    if factor.isdecimal():
        tree["topicCreation"] = {
            "replication": {"common": {"replication": int(factor)}},
            "control": {"common": {"replication": int(factor)}},
        }
    return tree


def _poll_interval(flow: FlowProperties) -> float:
    """Return the interval of the flow's group commits, in the range of ``groups.pollInterval``."""
    wanted = float(flow.seconds(_GROUPS_INTERVAL, _GROUPS_INTERVAL_S))
    return min(max(wanted, SHORTEST_POLL_S), LONGEST_POLL_S)


def import_flow(flow: FlowProperties) -> Imported:
    """Convert a flow, read without filling its variables, to a pipeline file.

    Secrets are not written: they are replaced by environment variables, which the notes name.

    Raises:
        ConfigError: a filter cannot be expressed in a pipeline.
    """
    notes: list[str] = []
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{flow.source}-to-{flow.target}")
    tree = pipeline_document(
        flow, name, lambda *property_: _value_for_file(*property_, notes=notes)
    )
    _check_patterns(flow, tree)
    # In the file this section is a list.
    tree["replication"] = [{key: each} for key, each in tree["replication"].items()]
    notes += _without_counterpart(flow)
    if _poll_interval(flow) != flow.seconds(_GROUPS_INTERVAL, _GROUPS_INTERVAL_S):
        notes.append(
            f"{_GROUPS_INTERVAL}: groups.pollInterval is {duration_text(_poll_interval(flow))}, "
            "the nearest allowed value"
        )
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)
    head = f"# Made by k2ktui mm2 import from the flow {safe_text(flow)} of MirrorMaker 2.\n"
    return Imported(head + text, tuple(dict.fromkeys(notes)))


def _check_patterns(flow: FlowProperties, tree: Mapping[str, Any]) -> None:
    problems = []
    for key, pattern in (
        ("topics", tree["replication"]["source"]["topic"]),
        ("groups", tree["groups"]["consumerGroups"]),
    ):
        try:
            compile_pattern(pattern)
        except ValueError as error:
            problems.append(Problem(None, key, f"expected {error}"))
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
    if policy.kind == "default":
        # Topics that came from the target, even indirectly, would be replicated in a cycle.
        dot = re.escape(policy.separator)
        never.append(rf"(?:.*{dot})?{re.escape(flow.target)}{dot}.+")
    return _both(flow.topics.include, never)


def _both(include: str, excludes: list[str]) -> str:
    excluded = "|".join(dict.fromkeys(each for each in excludes if each))
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
    found = _FLAGS.match(pattern)
    return f"(?{found[1]}:{pattern[found.end() :]})" if found else pattern


def _sink(flow: FlowProperties) -> str | dict[str, str]:
    if flow.policy.kind == "identity":
        return "source"
    return {"prefix": f"{flow.source}{flow.policy.separator}"}


def _clients(flow: FlowProperties, side: Side, value: Value) -> dict[str, Any]:
    found: dict[str, Any] = {}
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
            found[role] = section
    return found


def _excluded_settings(flow: FlowProperties) -> list[str]:
    """Return the excluded topic settings that are plain names, not regular expressions."""
    return [name for name in _listed_exclusions(flow) if _PLAIN_NAME.fullmatch(name)]


def _listed_exclusions(flow: FlowProperties) -> list[str]:
    given = flow.settings
    old = given.get("config.properties.blacklist", "")
    return _split_list(given.get("config.properties.exclude", old))


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _value_for_file(side: Side, role: str, key: str, text: str, *, notes: list[str]) -> str | None:
    found = _VARIABLE.search(text)
    if found is None and not is_secret_key(key):
        return text.replace("${", "$${")
    name = re.sub(r"[^A-Z0-9]", "_", f"{side}_{key}".upper())
    where = f"{side}.kafka.{role}.{safe_text(key)}"
    what = f"contained {safe_text(found[0])}" if found else "contained a secret"
    notes.append(f"{where} {what}; it is now read from the environment variable {name}")
    return f"${{env:string:{name}}}"


def _without_counterpart(flow: FlowProperties) -> list[str]:
    notes = []
    given = dict.fromkeys(flow.worker, f"{flow.target}.") | dict.fromkeys(flow.settings, "")
    for key in sorted(given):
        if re.match(rf"({re.escape(flow.source)}|{re.escape(flow.target)})\.", key):
            continue
        bare = re.sub(r"^(producer|consumer|admin)\.", "", key)
        if is_client(bare) or is_client(key):
            continue
        reason = next((why for start, why in _COUNTERPARTS if key.startswith(start)), None)
        if reason is None:
            reason = "no counterpart"
            if bare != key:
                reason = "it only tunes MirrorMaker 2's own clients"
        if reason:
            notes.append(f"{safe_text(given[key] + key)}: not carried over; {reason}")
    notes += [
        f"config.properties.exclude: {safe_text(each)} not carried over; only whole names are"
        for each in _listed_exclusions(flow)
        if not _PLAIN_NAME.fullmatch(each)
    ]
    return notes + _tuning(flow)


def _tuning(flow: FlowProperties) -> list[str]:
    """Return a note for every client property that is not carried over."""
    notes = []
    sides: Mapping[Side, str] = {"source": flow.source, "target": flow.target}
    for side, alias in sides.items():
        for role in ROLES:
            for key in sorted(flow.clients[side].get(role, {})):
                if not is_client(key) and not (side == "source" and key == _RESET):
                    name = safe_text(f"{alias}.{role}.{key}")
                    notes.append(f"{name}: not carried over; it tunes MirrorMaker 2's own clients")
    return notes
