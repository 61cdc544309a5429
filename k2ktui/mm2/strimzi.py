"""Manifest for changing offsets where Strimzi runs MirrorMaker 2; its operator applies it.

Field names, annotations and the name of the ConfigMap's entry follow Strimzi's documentation,
"Managing connector offsets" (Strimzi 0.44 and later).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

import yaml

from k2ktui.errors import ConfigError
from k2ktui.mm2.connect import NOTHING
from k2ktui.mm2.positions import Connector, StoredChange, connect_offset, offsets_body
from k2ktui.text import safe_text

MIRROR_MAKER, CONNECTOR = "kafkamirrormaker2", "kafkaconnector"
_KINDS = {MIRROR_MAKER: "KafkaMirrorMaker2", CONNECTOR: "KafkaConnector"}
_CONNECTOR_NAME = re.compile(r"[\w.-]+->[\w.-]+")
# Name of a Kubernetes resource (RFC 1123 subdomain).
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class StrimziResource:
    """The Strimzi resource that defines a connector.

    ``kind`` is :data:`MIRROR_MAKER` or :data:`CONNECTOR`.
    """

    kind: str
    name: str
    namespace: str = ""


def parse_resource(text: str, namespace: str = "") -> StrimziResource:
    """Parse ``kafkamirrormaker2/NAME`` or ``kafkaconnector/NAME``.

    Raises:
        ConfigError: the text or the namespace is invalid.
    """
    kind, _, name = text.partition("/")
    usable = _NAME.fullmatch(name) and (not namespace or _NAME.fullmatch(namespace))
    if kind.lower() not in _KINDS or not usable:
        raise ConfigError(
            f"{safe_text(text)} is not a Strimzi resource",
            unchanged=NOTHING,
            hint=f"Give {MIRROR_MAKER}/NAME or {CONNECTOR}/NAME.",
        )
    return StrimziResource(kind.lower(), name, namespace)


def unreachable_connector(connector: str) -> Connector:
    """Return a connector that Strimzi runs and whose REST API is not reachable.

    The source's alias is taken from its name: ``A->B.MirrorSourceConnector``.

    Raises:
        ConfigError: the name has another form.
    """
    source, arrow, rest = connector.partition("->")
    if not (source and arrow and rest.endswith(".MirrorSourceConnector")):
        raise ConfigError(
            f"{safe_text(connector) or 'no connector'} does not contain the source's alias",
            unchanged=NOTHING,
            hint="Give --connector A->B.MirrorSourceConnector, or --connect URL.",
        )
    return Connector(connector, source, "not read", "earliest", {})


def manifest(where: StrimziResource, change: StoredChange) -> str:
    """Return the ConfigMap with the offsets as YAML, with the required steps as comments.

    It contains all positions of the change; writing unchanged ones is harmless.

    Raises:
        ConfigError: the connector's name does not follow Strimzi's naming.
    """
    if where.kind == MIRROR_MAKER and not _CONNECTOR_NAME.fullmatch(change.connector):
        raise ConfigError(
            f"{safe_text(change.connector)} is not a connector of a KafkaMirrorMaker2; their "
            "names are A->B.MirrorSourceConnector",
            unchanged=NOTHING,
        )
    config_map = f"{where.name}-offsets"
    whole = where.kind == MIRROR_MAKER
    entry = f"{change.connector.replace('->', '--')}.json" if whole else "offsets.json"
    offsets = [connect_offset(change.cluster, move.source, move.after) for move in change.moves]
    metadata = {"name": config_map}
    if where.namespace:
        metadata["namespace"] = where.namespace
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {entry: offsets_body(offsets) + "\n"},
    }
    spec = {"state": "stopped", "alterOffsets": {"fromConfigMap": {"name": config_map}}}
    steps = [
        f"1. Stop the connector: kubectl edit {_target(where)}, and set",
        *_fragment(where, change, spec),
        "   Wait until its status is stopped.",
        "2. Apply this file: kubectl apply -f FILE",
        "3. Request the change of offsets; Strimzi removes the annotation when it is done:",
        f"   {_annotate(where, change)}",
        "4. Resume the connector: set state: running instead of stopped, and remove alterOffsets.",
    ]
    comments = "".join(f"# {line}\n" for line in steps)
    return comments + yaml.dump(document, Dumper=_Dumper, sort_keys=False)


def _fragment(where: StrimziResource, change: StoredChange, spec: dict[str, Any]) -> list[str]:
    if where.kind == MIRROR_MAKER:
        source, _, rest = change.connector.partition("->")
        spec = {
            "mirrors": [
                {
                    "sourceCluster": source,
                    "targetCluster": rest.rpartition(".")[0],
                    "sourceConnector": spec,
                }
            ]
        }
    lines = yaml.safe_dump({"spec": spec}, sort_keys=False).splitlines()
    return [f"     {line}" for line in lines]


def _target(where: StrimziResource) -> str:
    namespace = f" -n {where.namespace}" if where.namespace else ""
    return f"{where.kind} {where.name}{namespace}"


def _annotate(where: StrimziResource, change: StoredChange) -> str:
    marks = ["strimzi.io/connector-offsets=alter"]
    if where.kind == MIRROR_MAKER:
        marks.append(f"strimzi.io/mirrormaker-connector={change.connector}")
    return f"kubectl annotate {_target(where)} {shlex.join(marks)}"


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings as literal blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
