"""Manifest for changing offsets where Strimzi runs MirrorMaker 2; its operator applies it.

Field names, annotations and the name of the ConfigMap's entry follow Strimzi's documentation,
"Managing connector offsets" (Strimzi 0.44 and later).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from k2ktui.engine.moves.positions import PositionPlan
from k2ktui.errors import ConfigError
from k2ktui.mm2.flows.connect import NOTHING
from k2ktui.mm2.flows.resources import MIRROR_MAKER, ConnectorReference, StrimziResource
from k2ktui.mm2.offsets.positions import (
    NOT_READ,
    Connector,
    connect_offset,
    offsets_body,
)
from k2ktui.text import safe_text

_CONNECTOR_NAME = re.compile(r"[\w.-]+->[\w.-]+")


def unreachable_connector(connector: str) -> Connector:
    """Return a connector that Strimzi runs and whose REST API is not reachable.

    The source's alias is taken from its name: ``A->B.MirrorSourceConnector``.

    Raises:
        ConfigError: the name has another form.
    """
    if not connector:
        raise ConfigError(
            "the alias of the source cluster is not known: no connector is named",
            unchanged=NOTHING,
            hint="Give -f FILE with the Strimzi resource, --connector A->B.MirrorSourceConnector, "
            "or --connect URL.",
        )
    source, arrow, rest = connector.partition("->")
    if not (source and arrow and rest.endswith(".MirrorSourceConnector")):
        raise ConfigError(
            f"the name of the connector {safe_text(connector)} does not contain the source's alias",
            unchanged=NOTHING,
            hint="Give -f FILE with the Strimzi resource, --connector A->B.MirrorSourceConnector, "
            "or --connect URL.",
        )
    return Connector(connector, source, NOT_READ, "earliest", {})


def manifest(where: StrimziResource, change: PositionPlan) -> str:
    """Return the ConfigMap with the offsets as YAML, with the required commands as comments.

    It contains all positions of the change; writing unchanged ones is harmless.

    Raises:
        ConfigError: the connector's name does not follow Strimzi's naming.
    """
    if where.kind == MIRROR_MAKER and not _CONNECTOR_NAME.fullmatch(change.pipeline):
        raise ConfigError(
            f"{safe_text(change.pipeline)} is not a connector of a KafkaMirrorMaker2; their "
            "names are A->B.MirrorSourceConnector",
            unchanged=NOTHING,
        )
    config_map = f"{where.name}-offsets"
    whole = where.kind == MIRROR_MAKER
    entry = f"{change.pipeline.replace('->', '--')}.json" if whole else "offsets.json"
    offsets = [connect_offset(change.alias, move.source, move.then) for move in change.moves]
    metadata = {"name": config_map}
    if where.namespace:
        metadata["namespace"] = where.namespace
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {entry: offsets_body(offsets) + "\n"},
    }
    comments = "".join(f"# {line}\n" for line in _steps(where, change, config_map, entry))
    return comments + yaml.dump(document, Dumper=_Dumper, sort_keys=False)


def _steps(
    where: StrimziResource, change: PositionPlan, config_map: str, entry: str
) -> Iterator[str]:
    alter = {"fromConfigMap": {"name": config_map}}
    yield "1. Stop the connector, and wait until the second command prints STOPPED:"
    yield from _set_state(where, change, "stopped", alter)
    yield f"   kubectl get {where.selector} -o jsonpath={shlex.quote(_state_path(where, change))}"
    yield "2. Apply this file: kubectl apply -f FILE"
    yield "3. Request the change of offsets; Strimzi removes the annotation when it is done:"
    yield f"   {_annotate(where, change)}"
    yield "4. Resume the connector:"
    yield from _set_state(where, change, "running", None)
    url = f"{ConnectorReference(change.pipeline).url}/offsets"
    template = shlex.quote(f"{{{{index .data {json.dumps(entry)}}}}}")
    namespace = f" -n {shlex.quote(where.namespace)}" if where.namespace else ""
    yield "Where Strimzi is older than 0.44, use Connect's REST API in a pod instead of step 3:"
    yield (
        f"   kubectl get configmap {config_map}{namespace} -o go-template={template} | kubectl "
        f"exec -i {where.pod} -- curl -sS -X PATCH -H 'Content-Type: application/json' "
        f"--data-binary @- {shlex.quote(url)}"
    )
    yield "To show the stored offsets:"
    yield f"   kubectl exec {where.pod} -- curl -sS {shlex.quote(url)}"


def _set_state(
    where: StrimziResource, change: PositionPlan, state: str, alter: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield the command that sets the state, and adds or removes ``alterOffsets``."""
    if where.kind == MIRROR_MAKER and not where.mirror:
        yield f"   kubectl edit {where.selector}, and set"
        spec = {"state": state, "alterOffsets": alter} if alter else {"state": state}
        yield from _fragment(change, spec)
        if not alter:
            yield "   and remove alterOffsets"
        return
    if where.kind == MIRROR_MAKER:
        # A merge patch would replace the whole list; the test guards against a changed order.
        section = f"{where.mirror}/sourceConnector"
        steps: list[dict[str, Any]] = [
            {"op": "test", "path": f"{where.mirror}{where.source_path}", "value": change.alias},
            {"op": "add", "path": f"{section}/state", "value": state},
        ]
        path = f"{section}/alterOffsets"
        if alter:
            steps.append({"op": "add", "path": path, "value": alter})
        else:
            steps.append({"op": "remove", "path": path})
        kind, patch = "json", json.dumps(steps)
    else:
        kind, patch = "merge", json.dumps({"spec": {"state": state, "alterOffsets": alter}})
    yield f"   kubectl patch {where.selector} --type={kind} -p {shlex.quote(patch)}"


def _state_path(where: StrimziResource, change: PositionPlan) -> str:
    if where.kind == MIRROR_MAKER:
        name = json.dumps(change.pipeline)
        return f"{{.status.connectors[?(@.name=={name})].connector.state}}"
    return "{.status.connectorStatus.connector.state}"


def _fragment(change: PositionPlan, spec: Mapping[str, Any]) -> list[str]:
    source, _, rest = change.pipeline.partition("->")
    mirror = {
        "sourceCluster": source,
        "targetCluster": rest.rpartition(".")[0],
        "sourceConnector": spec,
    }
    lines = yaml.safe_dump({"spec": {"mirrors": [mirror]}}, sort_keys=False).splitlines()
    return [f"     {line}" for line in lines]


def _annotate(where: StrimziResource, change: PositionPlan) -> str:
    marks = ["strimzi.io/connector-offsets=alter"]
    if where.kind == MIRROR_MAKER:
        marks.append(f"strimzi.io/mirrormaker-connector={change.pipeline}")
    return f"kubectl annotate {where.selector} {shlex.join(marks)}"


class _Dumper(yaml.SafeDumper):
    """Writes multi-line strings as literal blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
