"""Reads the flows from ``mm2.properties``, a Strimzi resource or a connector's JSON.

The precedence is that of ``MirrorMakerConfig``: ``A->B.`` overrides the global value; for client
properties, ``A->B.source.cluster.`` overrides ``A.``, which overrides the global value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from k2ktui.config.bounded_yaml import BYTE_LIMIT
from k2ktui.config.clusters import BOOTSTRAP, TYPED_QUOTES, address_problem, has_typed_quotes
from k2ktui.config.inputs import read_file
from k2ktui.config.javaprops import Property, byte_order_mark, parse
from k2ktui.config.mirror_files import is_document
from k2ktui.config.problems import FilePosition, Problem, refuse
from k2ktui.errors import ConfigError
from k2ktui.kafka.properties.translation import unused_security
from k2ktui.mm2.flows.model import ROLES, FlowProperties, Side, cluster_names, is_client
from k2ktui.mm2.flows.policy import (
    GROUPS_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    NameFilter,
    ReplicationPolicy,
)
from k2ktui.mm2.flows.providers import fill_variables
from k2ktui.mm2.flows.resource_files import read_resources
from k2ktui.mm2.flows.resources import ConnectorReference
from k2ktui.text import safe_text

_NUMBER = re.compile(r"\s*(\d{1,6})(?:[\s:|.)]|$)")
_AS_JSON = 'write it as JSON, {"name": …, "config": {…}}, or give --connect where a command has it'
_ENABLE = "Set A->B.enabled = true, with your aliases."
_OVERRIDDEN = (("source", "consumer"), ("target", "producer"), ("target", "admin"))
_POLICIES: Mapping[str, Literal["default", "identity"]] = {
    "DefaultReplicationPolicy": "default",
    "IdentityReplicationPolicy": "identity",
}


@dataclass(frozen=True)
class MirrorSettings:
    """Content of a file: aliases, flows that copy or only emit heartbeats, and notes.

    ``unusable`` has the problems of flows that are not enabled, by flow; those of enabled flows are
    reported when the file is read. ``on_connect``: the file describes connectors. ``switches`` says
    of each ``A->B.enabled`` of the file why it enables no flow.
    """

    file: str
    clusters: tuple[str, ...]
    flows: tuple[FlowProperties, ...]
    notes: tuple[str, ...]
    unusable: Mapping[str, Sequence[Problem]] = field(default_factory=dict)
    on_connect: bool = False
    switches: tuple[str, ...] = ()

    def flow(self, name: str = "") -> FlowProperties:
        """Return the flow ``A->B`` or of a connector, or the only enabled one if ``name`` is empty.

        Raises:
            ConfigError: there is no such flow, or more than one, or it has problems.
        """
        enabled = [flow for flow in self.flows if flow.enabled]
        chosen = [flow for flow in self.flows if name in flow.names] if name else enabled
        if len(chosen) == 1:
            if problems := self.unusable.get(str(chosen[0])):
                raise refuse(problems)
            return chosen[0]
        advice = "; ".join(self.switches)
        advice = advice or ("Add the MirrorSourceConnector." if self.on_connect else _ENABLE)
        available = ", ".join(safe_text(flow) for flow in (self.flows if name else enabled))
        if name:
            raise ConfigError(
                f"{safe_text(self.file)} has no flow {safe_text(name)}",
                unchanged="Nothing was done.",
                hint=f"Choose one of its flows: {available}." if available else advice,
            )
        raise ConfigError(
            f"{safe_text(self.file)} enables {available or 'no flow'}",
            unchanged="Nothing was done.",
            hint=f"Choose one: -f '{safe_text(self.file)}#A->B'." if available else advice,
        )


def load_settings(
    path: str | Path, env: Mapping[str, str] | None = None, *, filled: bool = True
) -> MirrorSettings:
    """Read ``mm2.properties``, a Strimzi resource or a connector's JSON.

    Args:
        path: the file, ``-`` for standard input; its suffix says which, or else its content.
        env: variables for ``EnvVarConfigProvider``; defaults to the process environment.
        filled: fill ``${…}`` of config providers; otherwise keep them verbatim.

    Raises:
        ConfigError: reports every error, each with its file and line.
    """
    try:
        raw = read_file(str(path))
    except OSError as error:
        raise ConfigError(
            f"{safe_text(path)} cannot be read: {error.strerror}",
            unchanged="Nothing was done.",
            hint="Check the file name.",
        ) from error
    if len(raw) > BYTE_LIMIT:
        raise ConfigError(f"{safe_text(path)} is larger than {BYTE_LIMIT >> 10} KiB")
    return parse_settings(raw, str(path), (os.environ if env is None else env) if filled else None)


def parse_settings(raw: bytes, file: str, env: Mapping[str, str] | None) -> MirrorSettings:
    """Parse a file, see :func:`load_settings`; ``env`` None fills no variables."""
    problems: list[Problem] = []
    if has_line_numbers(raw.decode("latin-1")):
        wanted = "every line begins with its number; copy the file without line numbers"
        raise refuse([Problem(FilePosition(file, 1), "", wanted)])
    resources = read_resources(raw, file, problems) if is_document(file, raw) else None
    if resources is not None and problems:
        raise refuse(problems)
    if resources is None:
        problems += byte_order_mark(raw, file)
    properties: Mapping[str, Property] = resources.properties if resources else parse(raw, file)
    if env is not None:
        on_connect = resources is not None
        properties = fill_variables(properties, env, problems, on_connect=on_connect)
    connectors = resources.connectors if resources else {}
    settings = _Reading(file, properties, problems, connectors).settings()
    if problems:
        raise refuse(problems)
    quotes = [
        str(Problem(property_.mark, safe_text(key), TYPED_QUOTES))
        for key, property_ in properties.items()
        if has_typed_quotes(property_.value)
    ]
    more = resources.notes if resources else ()
    notes = (*settings.notes, *more, *dict.fromkeys(quotes))
    return replace(settings, notes=notes, on_connect=resources is not None)


def has_line_numbers(text: str) -> bool:
    """Return whether the lines begin with 1, 2, 3, …, as a viewer has shown them."""
    matches = [_NUMBER.match(line) for line in text.splitlines() if line.strip()]
    numbers = [int(match[1]) for match in matches if match]
    return len(numbers) == len(matches) > 1 and numbers == sorted(set(numbers))


def connector_flow(config: Mapping[str, str], offsets_topic: str) -> FlowProperties:
    """Return the flow of a MirrorMaker 2 connector that runs on a Connect cluster.

    Args:
        config: the connector's configuration, as returned by Connect's REST API.
        offsets_topic: ``offset.storage.topic`` of the Connect workers.

    Raises:
        ConfigError: a setting is missing or invalid.
    """
    name = config.get("name", "connector")
    source, target = cluster_names(config)
    lines = {
        "clusters": f"{source}, {target}",
        "offset.storage.topic": offsets_topic,
        **{f"{source}->{target}.{key}": value for key, value in config.items()},
        f"{source}->{target}.enabled": "true",
    }
    properties = {key: Property(value, FilePosition(name, 0)) for key, value in lines.items()}
    problems: list[Problem] = []
    settings = _Reading(name, properties, problems).settings()
    if problems:
        raise refuse(problems)
    return settings.flow(f"{source}->{target}")


@dataclass(frozen=True)
class _Reading:
    """Converts one file's properties to flows."""

    file: str
    properties: Mapping[str, Property]
    problems: list[Problem]
    connectors: Mapping[str, ConnectorReference] = field(default_factory=dict)

    def settings(self) -> MirrorSettings:
        named = self.properties.get("clusters")
        aliases = _split_list(named.value) if named else ()
        if not aliases:
            mark = named.mark if named else FilePosition(self.file, 1)
            wrong = "missing; it lists the aliases"
            if "connector.class" in self.properties and not named:
                wrong = f"{wrong}. This is a connector: {_AS_JSON}"
            self.problems.append(Problem(mark, "clusters", wrong))
        flows = [
            self._flow(source, target)
            for source in aliases
            for target in aliases
            if source != target and self._is_enabled(source, target)
        ]
        unusable = {}
        for flow in flows:
            problems = self._problems(flow)
            if flow.enabled:
                self.problems.extend(problems)
            else:
                unusable[str(flow)] = problems
        notes = tuple(self._strangers(aliases))
        switches = tuple(self._switches(aliases))
        return MirrorSettings(self.file, aliases, tuple(flows), notes, unusable, switches=switches)

    def _switches(self, aliases: tuple[str, ...]) -> Iterator[str]:
        """Yield why each switch of a flow in the file enables none."""
        listed = safe_text(", ".join(aliases))
        flows = [f"{source}->{target}." for source in aliases for target in aliases]
        for key, property_ in self.properties.items():
            flow, dot, last = key.rpartition(".")
            source, arrow, target = flow.partition("->")
            value = property_.value.strip()
            if property_.value.startswith("->"):
                yield f"{property_.mark}: write the flow without blanks, as A->B.enabled"
            elif not dot or last != "enabled" or not arrow:
                continue
            elif source not in aliases or target not in aliases:
                if key.startswith(tuple(flows)):
                    continue  # another switch of a flow that is listed
                yield f"{property_.mark}: {safe_text(key)} is no flow between clusters: {listed}"
            elif value.lower() != "true":
                yield f"{property_.mark}: {safe_text(key)} is {safe_text(value)}; set it to true"

    def _value(self, key: str, default: str = "") -> str:
        property_ = self.properties.get(key)
        return property_.value if property_ else default

    def _is_enabled(self, source: str, target: str) -> bool:
        own = any(key.startswith(f"{source}->{target}.") for key in self.properties)
        return own or self._value("enabled").strip().lower() == "true"

    def _properties_below(self, prefix: str) -> dict[str, str]:
        size = len(prefix)
        return {k[size:]: p.value for k, p in self.properties.items() if k.startswith(prefix)}

    def _flow(self, source: str, target: str) -> FlowProperties:
        own = self._properties_below(f"{source}->{target}.")
        common = {k: p.value for k, p in self.properties.items() if "->" not in k}
        # MirrorMaker passes all that is below a cluster's name on as source.cluster.* and
        # target.cluster.*, also an alias.
        aliases = {
            f"{side}.cluster.alias": alias.value
            for side, cluster in (("source", source), ("target", target))
            if (alias := self.properties.get(f"{cluster}.alias"))
        }
        settings = {k: v for k, v in (common | aliases | own).items() if not is_client(k)}
        clients: dict[Side, Mapping[str, Mapping[str, str]]] = {
            "source": self._clients(source, own, "source"),
            "target": self._clients(target, own, "target"),
        }
        return FlowProperties(
            source=source,
            target=target,
            settings=settings,
            worker={**self._worker(), **self._properties_below(f"{target}.")},
            clients=clients,
            policy=self._policy(settings.get("source.cluster.alias", source), settings),
            checkpoint_policy=self._checkpoint_policy(source, target, settings),
            topics=_filter(settings, "topics", TOPICS_DEFAULT, TOPICS_EXCLUDE_DEFAULT),
            groups=_filter(settings, "groups", GROUPS_DEFAULT, GROUPS_EXCLUDE_DEFAULT),
            file=self.file,
            connector=self.connectors.get(f"{source}->{target}"),
        )

    def _worker(self) -> dict[str, str]:
        prefixes = ("offset.storage", "config.storage", "status.storage")
        return {k: p.value for k, p in self.properties.items() if k.startswith(prefixes)}

    def _clients(self, alias: str, own: Mapping[str, str], side: Side) -> dict[str, dict[str, str]]:
        common = {k: p.value for k, p in self.properties.items() if is_client(k)}
        cluster = self._properties_below(f"{alias}.")
        clients = {"common": common | {k: v for k, v in cluster.items() if is_client(k)}}
        for role in ROLES:
            clients[role] = _strip_prefix(cluster, f"{role}.")
        # A flow's properties override its cluster's.
        clients["common"] |= {
            k: v for k, v in _strip_prefix(own, f"{side}.cluster.").items() if is_client(k)
        }
        for role in ROLES:
            clients[role] |= _strip_prefix(own, f"{role}.") | _strip_prefix(own, f"{side}.{role}.")
            # Connect's own prefix: its workers' clients of the target, and a consumer's by mistake.
            overrides = _strip_prefix(clients[role], "override.")
            plain = {k: v for k, v in clients[role].items() if not k.startswith("override.")}
            clients[role] = plain | overrides if (side, role) in _OVERRIDDEN else plain
        return clients

    def _checkpoint_policy(
        self, source: str, target: str, settings: Mapping[str, str]
    ) -> ReplicationPolicy | None:
        connector = self.connectors.get(f"{source}->{target}")
        if connector is None or connector.checkpoint_names is None:
            return None
        own = dict(connector.checkpoint_names)
        alias = own.get("source.cluster.alias", settings.get("source.cluster.alias", source))
        return self._policy(alias, own)

    def _policy(self, alias: str, settings: Mapping[str, str]) -> ReplicationPolicy:
        key = "replication.policy.class"
        name = settings.get(key, "DefaultReplicationPolicy").strip().rpartition(".")[2]
        if name not in _POLICIES:
            self.problems.append(
                Problem(
                    self._mark(key, ""),
                    key,
                    f"expected one of {' and '.join(_POLICIES)}; the topic names of "
                    f"{safe_text(name)} are unknown to k2ktui",
                )
            )
        separator = settings.get("replication.policy.separator", ".")
        inner = settings.get("replication.policy.internal.topic.separator.enabled", "true")
        return ReplicationPolicy(
            kind=_POLICIES.get(name, "default"),
            separator=separator,
            internal_separator=separator if inner.lower() == "true" else ".",
            own_alias=alias,
        )

    def _problems(self, flow: FlowProperties) -> list[Problem]:
        problems = []
        for side, alias in (("source", flow.source), ("target", flow.target)):
            by_role = flow.clients[side]  # type: ignore[index]
            if not by_role["common"].get("bootstrap.servers", "").strip():
                key = f"{alias}.bootstrap.servers"
                where = self._mark(f"{flow}.enabled", "clusters")
                problems.append(Problem(where, safe_text(key), "missing"))
            problems += self._addresses(flow, side, alias)  # type: ignore[arg-type]
        for key, names in (("topics", flow.topics), ("groups", flow.groups)):
            try:
                names.check()
            except ValueError as error:
                where = self._mark(f"{flow}.{key}", key)
                problems.append(Problem(where, key, f"expected {error}"))
        for key in ("topic.filter.class", "group.filter.class"):
            name = flow.settings.get(key, "Default").rpartition(".")[2]
            if not name.startswith("Default"):
                message = f"the filter {safe_text(name)} is not supported"
                problems.append(Problem(self._mark(f"{flow}.{key}", key), key, message))
        return problems

    def _addresses(self, flow: FlowProperties, side: Side, alias: str) -> Iterator[Problem]:
        clients = flow.clients[side]
        for role in ("", *ROLES):
            own = {**clients["common"], **clients.get(role, {})}
            if role and BOOTSTRAP not in clients.get(role, {}):
                continue
            wrong = address_problem(
                own.get(BOOTSTRAP, ""), own.get("security.protocol", "PLAINTEXT")
            )
            if wrong:
                name = f"{role}.{BOOTSTRAP}" if role else BOOTSTRAP
                keys = (f"{flow}.{side}.cluster.{name}", f"{flow}.{side}.{name}", f"{alias}.{name}")
                key = next((key for key in keys if key in self.properties), name)
                yield Problem(self._mark(key, "clusters"), safe_text(key), wrong)

    def _mark(self, key: str, otherwise: str) -> FilePosition:
        property_ = self.properties.get(key) or self.properties.get(otherwise)
        return property_.mark if property_ else FilePosition(self.file, 1)

    def _strangers(self, aliases: tuple[str, ...]) -> list[str]:
        """Return notes on flows between clusters that the file does not list."""
        strangers = {}
        for key, property_ in self.properties.items():
            source, arrow, rest = key.partition("->")
            target = next((a for a in aliases if rest.startswith(f"{a}.")), None)
            if arrow and (source not in aliases or target is None):
                name = f"{source}->{rest.partition('.')[0]}"
                strangers[name] = (
                    f"{property_.mark}: {safe_text(name)} does not name two clusters; ignored"
                )
        return list(strangers.values())


def _strip_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {k[len(prefix) :]: v for k, v in properties.items() if k.startswith(prefix)}


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _filter(settings: Mapping[str, str], key: str, include: str, exclude: str) -> NameFilter:
    excluded = settings.get(f"{key}.exclude", settings.get(f"{key}.blacklist", exclude))
    return NameFilter(_split_list(settings.get(key, include)), _split_list(excluded))


def security_notes(flow: FlowProperties) -> list[str]:
    """Return the notes on properties of a login or of TLS that no client's protocol uses."""
    distinct: dict[str, None] = {}
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for finding in unused_security(flow.cluster(side)):  # type: ignore[arg-type]
            part = "" if finding.section == "common" else f"{finding.section}."
            distinct[f"{safe_text(f'{alias}.{part}{finding.key}')} {finding.message}"] = None
    return list(distinct)
