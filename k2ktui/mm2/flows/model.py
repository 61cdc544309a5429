"""One replication flow of MirrorMaker 2: its settings, clients and topic names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from k2ktui.config.clusters import ClusterConfig, KafkaClients, Origin
from k2ktui.mm2.flows.policy import HEARTBEATS, NameFilter, ReplicationPolicy
from k2ktui.mm2.flows.resources import ConnectorReference

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
ROLES = ("consumer", "producer", "admin")

_CLIENT_NAMES = ("bootstrap.servers", "client.dns.lookup")
_CLIENT_PREFIXES = ("security.", "ssl.", "sasl.")


def is_client(key: str) -> bool:
    """Return whether a property is a connection property that applies to every client."""
    return key in _CLIENT_NAMES or key.startswith(_CLIENT_PREFIXES)


def cluster_names(
    settings: Mapping[str, str], otherwise: tuple[str, str] = SIDES
) -> tuple[str, str]:
    """Return what source and target of a connector are called: their aliases.

    Aliases may be blank or the same, which names no flow: then it is called as ``otherwise`` says.
    """
    source, target = (settings.get(f"{side}.cluster.alias", "").strip() for side in SIDES)
    names = source or otherwise[0], target or otherwise[1]
    return names if names[0] != names[1] else otherwise


@dataclass(frozen=True)
class FlowProperties:
    """One replication flow of MirrorMaker 2, from a source to a target cluster.

    Attributes:
        source: name of the source cluster in the file; as a rule its alias.
        target: name of the target cluster in the file; as a rule its alias.
        settings: properties that include those of its connectors.
        worker: properties of the Connect worker that runs it.
        clients: Java properties by side and role (``common`` for all); may contain secrets.
        policy: replication policy, which determines topic names.
        checkpoint_policy: that of its checkpoints, if their connector has another one.
        topics: filter for source topics.
        groups: filter for consumer groups whose offsets are translated.
        file: the file that configures it.
        connector: its MirrorSourceConnector on Kafka Connect; None in a dedicated MirrorMaker 2.
        origins: how its clusters' properties are read again; none if no file has them.
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
    connector: ConnectorReference | None = None
    checkpoint_policy: ReplicationPolicy | None = None
    origins: Mapping[Side, Origin] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that select it in a file: ``A->B`` and that of its connector."""
        return (str(self), self.connector.name) if self.connector else (str(self),)

    @property
    def source_alias(self) -> str:
        """The source's alias in names and records; a file may give another one, or a blank."""
        return self.settings.get("source.cluster.alias", self.source)

    @property
    def target_alias(self) -> str:
        """The target's alias in names and records; a file may give another one, or a blank."""
        return self.settings.get("target.cluster.alias", self.target)

    @cached_property
    def enabled(self) -> bool:
        """Whether the flow copies; a disabled flow may still emit heartbeats."""
        return self.switch("enabled", False)

    @cached_property
    def offset_syncs_side(self) -> Side:
        """The side that holds the offset-syncs topic."""
        return (
            "target" if self.settings.get("offset-syncs.topic.location") == "target" else "source"
        )

    @cached_property
    def offset_syncs_topic(self) -> str:
        """The topic that maps offsets of source records to offsets of their copies."""
        other = self.target_alias if self.offset_syncs_side == "source" else self.source_alias
        return self.policy.offset_syncs_topic(other)

    @cached_property
    def checkpoints_topic(self) -> str:
        """The topic on the target with the translated offsets of groups."""
        return (self.checkpoint_policy or self.policy).checkpoints_topic(self.source_alias)

    @cached_property
    def heartbeats_topic(self) -> str:
        """The name of the copy of the source's heartbeats topic on the target."""
        return self.policy.remote_topic(self.source_alias, HEARTBEATS)

    @cached_property
    def connect_offsets_topic(self) -> str:
        """The topic on the target with the connectors' positions; "" if it is not known."""
        return self.worker.get("offset.storage.topic", f"mm2-offsets.{self.source}.internal")

    @cached_property
    def worker_group(self) -> str:
        """The group id of the Connect workers that run the flow, on the target."""
        return self.worker.get("group.id", f"{self.source}-mm2")

    @cached_property
    def exactly_once(self) -> bool:
        """Whether it writes in transactions, which puts markers between records on the target."""
        return self.worker.get("exactly.once.source.support", "").lower() == "enabled"

    @cached_property
    def syncs_groups(self) -> bool:
        """Whether it commits translated offsets on the target."""
        return self.switch("sync.group.offsets.enabled", False)

    @cached_property
    def reset(self) -> str:
        """Where partitions without a position begin: ``auto.offset.reset`` in lower case."""
        consumer = self.clients["source"].get("consumer", {})
        return consumer.get("auto.offset.reset", "earliest").strip().lower()

    def switch(self, key: str, default: bool) -> bool:
        """Return a boolean property of its connectors."""
        return self.settings.get(key, str(default)).strip().lower() == "true"

    def seconds(self, key: str, default: int) -> int:
        """Return a property in seconds, or ``default`` if it is not a whole number."""
        text = self.settings.get(key, "").strip()
        return int(text) if text.isascii() and text.isdecimal() else default

    def replicates(self, topic: str) -> bool:
        """Return whether the flow copies a source topic."""
        wanted = self.topics.matches(topic) or (
            self.switch("heartbeats.replication.enabled", True) and self.policy.is_heartbeats(topic)
        )
        return wanted and not self.policy.is_internal(topic) and not self._returns(topic)

    def target_topic(self, topic: str) -> str:
        """Return the target name of a source topic.

        A topic that was itself copied from the target maps back to its original name.
        """
        if self.policy.kind == "default" and self.policy.topic_source(topic) == self.target_alias:
            return self.policy.original_topic(topic)
        return self.policy.remote_topic(self.source_alias, topic)

    def cluster(self, side: Side) -> ClusterConfig:
        """Return the connection properties of one side, without MirrorMaker 2's client tuning."""
        by_role = self.clients[side]
        kept = {
            role: {k: v for k, v in by_role.get(role, {}).items() if is_client(k)}
            for role in ("common", *ROLES)
        }
        if side == "source":
            kept["producer"] = {}
        cluster = ClusterConfig(kafka=KafkaClients.model_validate(kept))
        if side in self.origins:
            cluster.set_origin(self.origins[side])
        return cluster

    def _returns(self, topic: str) -> bool:
        """Return whether a topic came from the target, directly or through other clusters."""
        source = self.policy.topic_source(topic)
        if source is None or source == self.target_alias:
            return source is not None
        upstream = self.policy.upstream_topic(topic)
        return upstream is not None and upstream != topic and self._returns(upstream)
