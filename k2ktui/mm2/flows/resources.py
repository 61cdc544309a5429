"""References to a MirrorSourceConnector on Kafka Connect and to its Strimzi resource."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from urllib.parse import quote

from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

MIRROR_MAKER, CONNECTOR = "kafkamirrormaker2", "kafkaconnector"
KINDS = {MIRROR_MAKER: "KafkaMirrorMaker2", CONNECTOR: "KafkaConnector"}
# Name of a Kubernetes resource (RFC 1123 subdomain).
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?")


def is_kubernetes_name(name: str) -> bool:
    """Return whether ``name`` is a valid name of a Kubernetes resource."""
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class StrimziResource:
    """The Strimzi resource that defines a connector.

    Attributes:
        kind: :data:`MIRROR_MAKER` or :data:`CONNECTOR`.
        name: its name.
        namespace: its namespace; "" for that of kubectl's context.
        mirror: JSON pointer of the entry of ``spec.mirrors``; "" if it is not known.
        source_path: path of the source's alias below ``mirror``.
        workers: name of the KafkaConnect that runs the connector; "" if it is not known.
    """

    kind: str
    name: str
    namespace: str = ""
    mirror: str = ""
    source_path: str = "/sourceCluster"
    workers: str = ""

    @property
    def selector(self) -> str:
        """Kind, name and namespace as arguments of kubectl."""
        return f"{self.kind} {shlex.quote(self.name)}{self._flag}"

    @property
    def pod(self) -> str:
        """A pod of the workers and its namespace as arguments of kubectl."""
        return (f"{self._deployment}-0" if self._deployment else "POD") + self._flag

    @property
    def service(self) -> str:
        """The service of the workers' REST API and its namespace as arguments of kubectl."""
        name = f"service/{self._deployment}-api" if self._deployment else "POD"
        return name + self._flag

    @property
    def _deployment(self) -> str:
        if self.kind == MIRROR_MAKER:
            return f"{self.name}-mirrormaker2"
        return f"{self.workers}-connect" if self.workers else ""

    @property
    def _flag(self) -> str:
        return f" -n {shlex.quote(self.namespace)}" if self.namespace else ""


@dataclass(frozen=True, slots=True)
class ConnectorReference:
    """A connector on Kafka Connect, as a file defines it.

    Attributes:
        name: its name on Connect.
        resource: the Strimzi resource that defines it; None for a connector's JSON.
        left_out: keys of the resource that are not settings of the connector.
        checkpoints: name of the flow's MirrorCheckpointConnector; "" if the file has none.
        checkpoint_names: the settings with which that one names topics, as each connector reads its
            own; None without one.
    """

    name: str
    resource: StrimziResource | None = None
    left_out: tuple[str, ...] = ()
    checkpoints: str = ""
    checkpoint_names: tuple[tuple[str, str], ...] | None = None

    @property
    def writers(self) -> tuple[str, ...]:
        """The connectors that write copies and offsets of groups."""
        return (self.name, self.checkpoints) if self.checkpoints else (self.name,)

    @property
    def how_to_stop(self) -> str:
        """What the operator does to stop them, as a sentence."""
        names = " and ".join(map(safe_text, self.writers))
        if self.resource is None:
            return f"Stop {names} on Kafka Connect: PUT /connectors/NAME/stop."
        places = [self.resource]
        if self.resource.kind == CONNECTOR:  # each connector has a resource of its name
            places = [replace(self.resource, name=name) for name in self.writers]
        commands = "; ".join(f"kubectl edit {place.selector}" for place in places)
        return f"Set state: stopped for {names}: {commands}."

    @property
    def url(self) -> str:
        """URL of the connector in a pod of the workers."""
        return f"http://localhost:8083/connectors/{quote(self.name, safe='')}"


def state_unknown(file: str, connector: ConnectorReference, unchanged: str) -> ConfigError:
    """Return the error of a command that must know whether the connector is stopped."""
    return ConfigError(
        f"{safe_text(file)} defines connector {safe_text(connector.name)} on Kafka Connect, and "
        "only Connect knows whether it is stopped",
        unchanged=unchanged,
        hint=_reach(connector),
    )


def topic_unknown(file: str, connector: ConnectorReference) -> ConfigError:
    """Return the error of a command that reads positions from an offsets topic without a name."""
    return ConfigError(
        f"{safe_text(file)} does not name the offset.storage.topic of the Connect workers that run "
        f"{safe_text(connector.name)}",
        unchanged="Nothing was changed.",
        hint=_reach(connector),
    )


def _reach(connector: ConnectorReference) -> str:
    place = connector.resource
    if place is None:
        return "Give --connect URL."
    return (
        f"Run kubectl port-forward {place.service} 8083, and give --connect "
        "http://localhost:8083. To see its offsets without k2ktui: kubectl exec "
        f"{place.pod} -- curl -sS {shlex.quote(connector.url)}/offsets"
    )


def parse_resource(text: str, namespace: str = "") -> StrimziResource:
    """Parse ``kafkamirrormaker2/NAME`` or ``kafkaconnector/NAME``.

    Raises:
        ConfigError: the text or the namespace is invalid.
    """
    kind, _, name = text.partition("/")
    usable = is_kubernetes_name(name) and (not namespace or is_kubernetes_name(namespace))
    if kind.lower() not in KINDS or not usable:
        raise ConfigError(
            f"{safe_text(text)} is not a Strimzi resource",
            unchanged="Nothing was changed.",
            hint=f"Give {MIRROR_MAKER}/NAME or {CONNECTOR}/NAME.",
        )
    return StrimziResource(kind.lower(), name, namespace)
