"""``mm2.properties``, the file of a dedicated MirrorMaker 2, as flows from cluster to cluster.

What counts for a flow is found as MirrorMaker 2 finds it (``MirrorMakerConfig``): the value for
``A->B.`` before that for all; of client properties ``A->B.source.cluster.`` before ``A.`` before
that for all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.config.problems import Mark, Problem, refuse
from k2ktui.errors import ConfigError
from k2ktui.mm2.javaprops import Property, parse
from k2ktui.mm2.policy import (
    GROUPS_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    HEARTBEATS,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    NameFilter,
    ReplicationPolicy,
)
from k2ktui.mm2.providers import fill
from k2ktui.text import safe_text

Side = Literal["source", "target"]

_CLIENT_NAMES = ("bootstrap.servers", "client.dns.lookup")
_CLIENT_PREFIXES = ("security.", "ssl.", "sasl.")
_ROLES = ("consumer", "producer", "admin")
_POLICIES: Mapping[str, Literal["default", "identity"]] = {
    "DefaultReplicationPolicy": "default",
    "IdentityReplicationPolicy": "identity",
}


@dataclass(frozen=True)
class Flow:
    """One direction that MirrorMaker 2 copies in.

    Attributes:
        source: alias of the cluster that is read.
        target: alias of the cluster that is written.
        settings: the properties that count for its connectors, among others.
        worker: properties of the Connect worker that runs it.
        clients: Java properties by side and role (``common`` for all); they hold secrets.
        policy: names of its topics.
        topics: source topics that it takes.
        groups: consumer groups whose offsets it translates.
        file: where it is configured.
    """

    source: str
    target: str
    settings: Mapping[str, str] = field(repr=False)
    worker: Mapping[str, str] = field(repr=False)
    clients: Mapping[Side, Mapping[str, Mapping[str, str]]] = field(repr=False)
    policy: ReplicationPolicy
    topics: NameFilter
    groups: NameFilter
    file: str = ""

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @cached_property
    def enabled(self) -> bool:
        """Whether it copies; one that does not may still emit heartbeats."""
        return self.switch("enabled", False)

    @cached_property
    def offset_syncs_side(self) -> Side:
        """The cluster that the offset-syncs topic is on."""
        return (
            "target" if self.settings.get("offset-syncs.topic.location") == "target" else "source"
        )

    @cached_property
    def offset_syncs_topic(self) -> str:
        """The topic that says where records landed."""
        other = self.target if self.offset_syncs_side == "source" else self.source
        return self.policy.offset_syncs_topic(other)

    @cached_property
    def checkpoints_topic(self) -> str:
        """The topic on the target that holds translated offsets of groups."""
        return self.policy.checkpoints_topic(self.source)

    @cached_property
    def heartbeats_topic(self) -> str:
        """The source's heartbeats topic as it is copied to the target."""
        return self.policy.remote_topic(self.source, HEARTBEATS)

    @cached_property
    def connect_offsets_topic(self) -> str:
        """The topic on the target that holds the positions of connectors."""
        return self.worker.get("offset.storage.topic", f"mm2-offsets.{self.source}.internal")

    @cached_property
    def worker_group(self) -> str:
        """The group of the Connect workers that run it, on the target."""
        return self.worker.get("group.id", f"{self.source}-mm2")

    @cached_property
    def reads_committed(self) -> bool:
        """Whether aborted records are left out."""
        return self.clients["source"].get("consumer", {}).get("isolation.level") == "read_committed"

    @cached_property
    def exactly_once(self) -> bool:
        """Whether it copies in transactions; then the target has markers between the records."""
        return self.worker.get("exactly.once.source.support", "").lower() == "enabled"

    @cached_property
    def syncs_groups(self) -> bool:
        """Whether it commits translated offsets on the target itself."""
        return self.switch("sync.group.offsets.enabled", False)

    def switch(self, key: str, default: bool) -> bool:
        """Return a boolean property of its connectors."""
        return self.settings.get(key, str(default)).strip().lower() == "true"

    def seconds(self, key: str, default: int) -> int:
        """Return a property that counts seconds."""
        text = self.settings.get(key, "").strip()
        return int(text) if text.isascii() and text.isdecimal() else default

    def replicates(self, topic: str) -> bool:
        """Tell whether it copies a topic of the source."""
        wanted = self.topics.matches(topic) or (
            self.switch("heartbeats.replication.enabled", True) and self.policy.is_heartbeats(topic)
        )
        return wanted and not self.policy.is_internal(topic) and not self._returns(topic)

    def target_topic(self, topic: str) -> str:
        """Return what a source topic is called on the target.

        A topic that was copied from the target once has its own name there.
        """
        if self.policy.kind == "default" and self.policy.topic_source(topic) == self.target:
            return self.policy.original_topic(topic)
        return self.policy.remote_topic(self.source, topic)

    def cluster(self, side: Side) -> ClusterConfig:
        """Return the clients of one side; what only tunes MirrorMaker 2's own is left out."""
        by_role = self.clients[side]
        kept = {
            role: {k: v for k, v in by_role.get(role, {}).items() if _is_client(k)}
            for role in ("common", *_ROLES)
        }
        if side == "source":
            kept["producer"] = {}
        return ClusterConfig(kafka=KafkaClients.model_validate(kept))

    def _returns(self, topic: str) -> bool:
        """Whether a topic came from the target, on whatever way."""
        source = self.policy.topic_source(topic)
        if source is None or source == self.target:
            return source is not None
        upstream = self.policy.upstream_topic(topic)
        return upstream is not None and upstream != topic and self._returns(upstream)


@dataclass(frozen=True)
class MirrorSettings:
    """All of a file: the aliases, the flows that copy or only emit heartbeats, and notes."""

    file: str
    clusters: tuple[str, ...]
    flows: tuple[Flow, ...]
    notes: tuple[str, ...]

    def flow(self, name: str = "") -> Flow:
        """Return the flow ``A->B``, or the only one that copies.

        Raises:
            ConfigError: there is none like it, or several.
        """
        enabled = [flow for flow in self.flows if flow.enabled]
        found = [flow for flow in self.flows if str(flow) == name] if name else enabled
        if len(found) == 1:
            return found[0]
        there = ", ".join(safe_text(flow) for flow in (self.flows if name else enabled))
        if name:
            raise ConfigError(
                f"{safe_text(self.file)} has no flow {safe_text(name)}",
                mend=f"It has {there or 'none'}.",
            )
        raise ConfigError(
            f"{safe_text(self.file)} enables {there or 'no flow'}",
            mend=f"Choose one: -f '{safe_text(self.file)}#A->B'."
            if there
            else "Set A->B.enabled = true, with your aliases.",
        )


def load_settings(path: str | Path, env: Mapping[str, str] | None = None) -> MirrorSettings:
    """Read ``mm2.properties``.

    Args:
        path: the file.
        env: what the provider of environment variables sees; the process's by default.

    Raises:
        ConfigError: with every error, each with its file and line.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{safe_text(path)} cannot be read: {error.strerror}", mend="Check the name."
        ) from None
    return parse_settings(raw, str(path), os.environ if env is None else env)


def parse_settings(raw: bytes, file: str, env: Mapping[str, str]) -> MirrorSettings:
    """Read the bytes of ``mm2.properties``; as :func:`load_settings`."""
    problems: list[Problem] = []
    properties = dict(fill(parse(raw, file), env, problems).properties)
    found = _Reading(file, properties, problems).settings()
    if problems:
        raise refuse(problems)
    return found


def connector_flow(config: Mapping[str, str], offsets_topic: str) -> Flow:
    """Return the flow of a MirrorMaker 2 connector that runs on a Connect cluster.

    Args:
        config: the connector's configuration, as Connect's REST interface shows it.
        offsets_topic: ``offset.storage.topic`` of the Connect workers.

    Raises:
        ConfigError: something is missing or cannot be used.
    """
    name = config.get("name", "connector")
    source = config.get("source.cluster.alias", "source")
    target = config.get("target.cluster.alias", "target")
    lines = {
        "clusters": f"{source}, {target}",
        "offset.storage.topic": offsets_topic,
        **{f"{source}->{target}.{key}": value for key, value in config.items()},
        f"{source}->{target}.enabled": "true",
    }
    properties = {key: Property(value, Mark(name, 0)) for key, value in lines.items()}
    problems: list[Problem] = []
    found = _Reading(name, properties, problems).settings()
    if problems:
        raise refuse(problems)
    return found.flow(f"{source}->{target}")


@dataclass(frozen=True)
class _Reading:
    """One file's properties on their way to flows."""

    file: str
    properties: Mapping[str, Property]
    problems: list[Problem]

    def settings(self) -> MirrorSettings:
        named = self.properties.get("clusters")
        aliases = _listed(named.value) if named else ()
        if not aliases:
            mark = named.mark if named else Mark(self.file, 1)
            self.problems.append(Problem(mark, "clusters", "missing; it lists the aliases"))
        flows = [
            self._flow(source, target)
            for source in aliases
            for target in aliases
            if source != target and self._wanted(source, target)
        ]
        return MirrorSettings(self.file, aliases, tuple(flows), tuple(self._strangers(aliases)))

    def _value(self, key: str, default: str = "") -> str:
        found = self.properties.get(key)
        return found.value if found else default

    def _wanted(self, source: str, target: str) -> bool:
        own = any(key.startswith(f"{source}->{target}.") for key in self.properties)
        return own or self._value("enabled").strip().lower() == "true"

    def _below(self, prefix: str) -> dict[str, str]:
        size = len(prefix)
        return {k[size:]: p.value for k, p in self.properties.items() if k.startswith(prefix)}

    def _flow(self, source: str, target: str) -> Flow:
        own = self._below(f"{source}->{target}.")
        common = {k: p.value for k, p in self.properties.items() if "->" not in k}
        settings = {k: v for k, v in (common | own).items() if not _is_client(k)}
        clients: dict[Side, Mapping[str, Mapping[str, str]]] = {
            "source": self._clients(source, own, "source"),
            "target": self._clients(target, own, "target"),
        }
        flow = Flow(
            source=source,
            target=target,
            settings=settings,
            worker={**self._worker(), **self._below(f"{target}.")},
            clients=clients,
            policy=self._policy(source, settings),
            topics=_filter(settings, "topics", TOPICS_DEFAULT, TOPICS_EXCLUDE_DEFAULT),
            groups=_filter(settings, "groups", GROUPS_DEFAULT, GROUPS_EXCLUDE_DEFAULT),
            file=self.file,
        )
        if flow.enabled:
            self._check(flow)
        return flow

    def _worker(self) -> dict[str, str]:
        prefixes = ("offset.storage", "config.storage", "status.storage")
        return {k: p.value for k, p in self.properties.items() if k.startswith(prefixes)}

    def _clients(self, alias: str, own: Mapping[str, str], side: Side) -> dict[str, dict[str, str]]:
        common = {k: p.value for k, p in self.properties.items() if _is_client(k)}
        cluster = self._below(f"{alias}.")
        found = {"common": common | {k: v for k, v in cluster.items() if _is_client(k)}}
        for role in _ROLES:
            found[role] = _stripped(cluster, f"{role}.")
        # The properties of one flow win over those of a cluster.
        found["common"] |= {
            k: v for k, v in _stripped(own, f"{side}.cluster.").items() if _is_client(k)
        }
        for role in _ROLES:
            found[role] |= _stripped(own, f"{role}.") | _stripped(own, f"{side}.{role}.")
        return found

    def _policy(self, source: str, settings: Mapping[str, str]) -> ReplicationPolicy:
        key = "replication.policy.class"
        name = settings.get(key, "DefaultReplicationPolicy").strip().rpartition(".")[2]
        if name not in _POLICIES:
            self.problems.append(
                Problem(
                    self._mark(key, ""),
                    key,
                    f"expected one of {' and '.join(_POLICIES)}; what {safe_text(name)} calls "
                    "topics cannot be known here",
                )
            )
        separator = settings.get("replication.policy.separator", ".")
        inner = settings.get("replication.policy.internal.topic.separator.enabled", "true")
        return ReplicationPolicy(
            kind=_POLICIES.get(name, "default"),
            separator=separator,
            internal_separator=separator if inner.strip().lower() == "true" else ".",
            own_alias=source,
        )

    def _check(self, flow: Flow) -> None:
        for side, alias in (("source", flow.source), ("target", flow.target)):
            by_role = flow.clients[side]  # type: ignore[index]
            if not by_role["common"].get("bootstrap.servers", "").strip():
                key = f"{alias}.bootstrap.servers"
                where = self._mark(f"{flow}.enabled", "clusters")
                self.problems.append(Problem(where, safe_text(key), "missing"))
        for key, names in (("topics", flow.topics), ("groups", flow.groups)):
            try:
                names.check()
            except ValueError as error:
                where = self._mark(f"{flow}.{key}", key)
                self.problems.append(Problem(where, key, f"expected {error}"))
        for key in ("topic.filter.class", "group.filter.class"):
            name = flow.settings.get(key, "Default").rpartition(".")[2]
            if not name.startswith("Default"):
                message = f"what {safe_text(name)} takes cannot be known here"
                self.problems.append(Problem(self._mark(f"{flow}.{key}", key), key, message))

    def _mark(self, key: str, otherwise: str) -> Mark:
        found = self.properties.get(key) or self.properties.get(otherwise)
        return found.mark if found else Mark(self.file, 1)

    def _strangers(self, aliases: tuple[str, ...]) -> list[str]:
        """Say which flows name clusters that the file does not list."""
        strangers = {}
        for key, found in self.properties.items():
            source, arrow, rest = key.partition("->")
            target = next((a for a in aliases if rest.startswith(f"{a}.")), None)
            if arrow and (source not in aliases or target is None):
                name = f"{source}->{rest.partition('.')[0]}"
                strangers[name] = f"{found.mark}: {safe_text(name)} is no pair of clusters; unused"
        return list(strangers.values())


def _is_client(key: str) -> bool:
    return key in _CLIENT_NAMES or key.startswith(_CLIENT_PREFIXES)


def _stripped(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {k[len(prefix) :]: v for k, v in properties.items() if k.startswith(prefix)}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _filter(settings: Mapping[str, str], key: str, include: str, exclude: str) -> NameFilter:
    excluded = settings.get(f"{key}.exclude", settings.get(f"{key}.blacklist", exclude))
    return NameFilter(_listed(settings.get(key, include)), _listed(excluded))
