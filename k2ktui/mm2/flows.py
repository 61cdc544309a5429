"""One direction that MirrorMaker 2 copies in: its settings, clients, and names of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.mm2.policy import HEARTBEATS, NameFilter, ReplicationPolicy

Side = Literal["source", "target"]
ROLES = ("consumer", "producer", "admin")

_CLIENT_NAMES = ("bootstrap.servers", "client.dns.lookup")
_CLIENT_PREFIXES = ("security.", "ssl.", "sasl.")


def is_client(key: str) -> bool:
    """Tell whether a property says how to reach a cluster, for every client of it."""
    return key in _CLIENT_NAMES or key.startswith(_CLIENT_PREFIXES)


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
            role: {k: v for k, v in by_role.get(role, {}).items() if is_client(k)}
            for role in ("common", *ROLES)
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
