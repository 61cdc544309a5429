"""Reads Strimzi resources and connectors' JSON as the properties of a dedicated MirrorMaker 2.

Forms, in YAML or JSON, also several in one file or in a ``List``:

- ``KafkaMirrorMaker2`` with ``clusters`` and ``connectCluster``, or with ``target`` and
  ``mirrors[].source``;
- ``KafkaConnector`` of MirrorMaker 2's classes; a ``KafkaConnect`` beside it names the
  topic of the positions;
- the body of Connect's ``POST /connectors``, ``PUT …/config`` or ``GET /connectors?expand=info``,
  optionally with ``worker``: properties of the Connect workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from k2ktui.config.javaprops import Property
from k2ktui.config.problems import FilePosition, Problem, format_path
from k2ktui.config.tree import Node, parse_documents
from k2ktui.mm2.flows.model import SIDES, cluster_names, is_client
from k2ktui.mm2.flows.resources import (
    CONNECTOR,
    MIRROR_MAKER,
    ConnectorReference,
    StrimziResource,
    is_kubernetes_name,
)
from k2ktui.mm2.flows.strimzi_clusters import (
    client_properties,
    listed,
    scalar,
    setting_of,
    settings_of,
)
from k2ktui.text import safe_text

SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat"
_SECTIONS = {
    "sourceConnector": SOURCE,
    "checkpointConnector": CHECKPOINT,
    "heartbeatConnector": HEARTBEAT,
}
# Settings that the checkpoint connector reads; of the others, those of the source connector count.
_OF_CHECKPOINTS = ("groups", "emit.checkpoints", "checkpoints.", "sync.group.", "refresh.groups")
_OF_HEARTBEATS = ("emit.heartbeats", "heartbeats.topic")
# Settings that decide on the names of topics.
_OF_NAMES = (
    "source.cluster.alias",
    "target.cluster.alias",
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
)
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
# Properties of the workers by the keys of a resource, and the ends of Strimzi's default names.
_STORAGE = {
    "groupId": ("group.id", ""),
    "configStorageTopic": ("config.storage.topic", "-configs"),
    "offsetStorageTopic": ("offset.storage.topic", "-offsets"),
    "statusStorageTopic": ("status.storage.topic", "-status"),
}
_MIRROR_MAKER_NAME, _CONNECT_NAME = "mirrormaker2-cluster", "connect-cluster"
_CLUSTERS = ("clusters", "connectCluster", "target", "mirrors")
_CLUSTER_LABEL = ("metadata", "labels", "strimzi.io/cluster")
# Keys of a resource, or of its spec, that has been copied in part.
_PARTS = ("spec", "metadata", "apiVersion", *_CLUSTERS)
_EXPECTED = (
    "expected a KafkaMirrorMaker2 or KafkaConnector of Strimzi, or a connector with name and config"
)

Settings = dict[str, Property]


@dataclass
class ResourceProperties:
    """What a file of resources says, as properties of a dedicated MirrorMaker 2.

    Attributes:
        properties: the properties, as ``mm2.properties`` would have them.
        connectors: the MirrorSourceConnector of each flow.
        notes: remarks for the operator.
    """

    properties: Settings = field(default_factory=dict)
    connectors: dict[str, ConnectorReference] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Connector:
    """One connector of MirrorMaker 2.

    Attributes:
        role: :data:`SOURCE` or one of the others.
        clusters: what source and target are called where the settings do not say.
    """

    role: str
    settings: Settings
    reference: ConnectorReference
    node: Node
    workers: Settings | None
    clusters: tuple[str, str] = SIDES

    @property
    def flow(self) -> tuple[str, str]:
        """What source and target are called."""
        given = {key: setting.value for key, setting in self.settings.items()}
        return cluster_names(given, self.clusters)


def read_resources(raw: bytes, file: str, problems: list[Problem]) -> ResourceProperties:
    """Parse a file; appends errors to ``problems``."""
    is_json = file.endswith(".json") or raw.lstrip()[:1] in (b"{", b"[")
    if is_json:
        # YAML forbids tabs where JSON allows them; a JSON string never contains one.
        raw = raw.replace(b"\t", b" ")
    composed = parse_documents(raw, file, problems)
    if problems and is_json:
        problems[:] = _json_problems(raw, file) or problems
    documents = [item for document in composed for item in _items(document, problems)]
    reader = _ResourceReader(file, problems)
    for document in documents:
        if scalar(document.at(("kind",))) == "KafkaConnect":
            reader.add_workers(document)
    for document in documents:
        reader.add(document)
    return reader.finish()


def _json_problems(raw: bytes, file: str) -> list[Problem]:
    """Return what is wrong with a file that is no YAML, as that of JSON; none for other reasons."""
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]}".removesuffix(" at")
        wrong = f"not valid JSON: {reason} at column {error.colno}"
        return [Problem(FilePosition(file, error.lineno), "", wrong)]
    except (ValueError, RecursionError):  # it is not UTF-8, or too deep
        pass
    return []


def _items(node: Node, problems: list[Problem]) -> Iterator[Node]:
    """Yield the resources and connectors of a document."""
    table, inner = node.table, node.at(("items",))
    if isinstance(node.value, list):
        for item in node.value:
            yield from _items(item, problems)
    elif inner is not None and isinstance(inner.value, list):
        for item in inner.value:
            yield from _items(item, problems)
    elif table and all(value.at(("info", "config")) for value in table.values()):
        yield from (value.table["info"] for value in table.values())
    elif "kind" in table or "config" in table or "connector.class" in table:
        yield node
    else:
        part = next((key for key in _PARTS if key in table), "")
        if part:
            wanted = f"missing beside {part}; it is KafkaMirrorMaker2 or KafkaConnector"
            problems.append(Problem(node.mark, "kind", wanted))
        else:
            problems.append(Problem(node.mark, node.written, _EXPECTED))


class _ResourceReader:
    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file, self._problems = file, problems
        self._resources = ResourceProperties()
        self._aliases: dict[str, None] = {}
        self._connectors: list[_Connector] = []
        self._by_role: dict[tuple[str, tuple[str, str]], _Connector] = {}
        self._workers: dict[str, Settings] = {}

    def add_workers(self, resource: Node) -> None:
        """Add a KafkaConnect, whose workers run connectors of the file."""
        name = scalar(resource.at(("metadata", "name")))
        self._workers[name] = _worker_settings(resource.nearest(("spec",)), _CONNECT_NAME)

    def add(self, resource: Node) -> None:
        """Add a resource or a connector; other kinds of resources are ignored."""
        kind = scalar(resource.at(("kind",)))
        if kind == "KafkaMirrorMaker2":
            self._add_mirror_maker(resource)
        elif kind == "KafkaConnector":
            self._add_kafka_connector(resource)
        elif not kind:
            self._add_json(resource)

    def finish(self) -> ResourceProperties:
        """Return the properties of everything that was added."""
        # Of two of one role and flow, the last counts; a second MirrorSourceConnector is an error.
        self._by_role = {(one.role, one.flow): one for one in self._connectors}
        for connector in self._connectors:
            self._add_flow(connector)
        resources = self._resources
        resources.notes += self._different_names()
        if self._aliases:
            mark = next(iter(resources.properties.values())).mark
            resources.properties["clusters"] = Property(", ".join(self._aliases), mark)
        elif not self._problems:
            wanted = "no connector of MirrorMaker 2 (MirrorSourceConnector)"
            self._problems.append(Problem(None, safe_text(self._file), wanted))
        return resources

    def _different_names(self) -> Iterator[str]:
        """Yield notes on what names topics and is not the same for all connectors of a flow.

        Each connector of MirrorMaker 2 reads its own settings: copies have the names of the
        MirrorSourceConnector, and checkpoints may name topics that it does not write.
        """
        for connector in self._connectors:
            copier = self._by_role.get((SOURCE, connector.flow))
            if connector.role != CHECKPOINT or copier is None:
                continue
            name, other = safe_text(connector.reference.name), safe_text(copier.reference.name)
            for key in _OF_NAMES:
                own, copying = connector.settings.get(key), copier.settings.get(key)
                if (own and own.value) == (copying and copying.value):
                    continue
                given = own or copying
                yield (
                    f"{given.mark if given else ''}: {key} is not the same for {other} and {name}: "
                    f"copies are named by {other}; {name} reads its own, or the default"
                )

    def _add_kafka_connector(self, resource: Node) -> None:
        spec = resource.nearest(("spec",))
        name, workers = self._name(resource), scalar(resource.at(_CLUSTER_LABEL))
        settings = {**self._scalars(resource.at(("spec", "config"))), **_tasks_of(spec)}
        place = StrimziResource(CONNECTOR, name, _namespace(resource), workers=workers)
        left_out = tuple(f"spec.{key}" for key in spec.table if key not in ("class", "config"))
        reference = ConnectorReference(name, place, left_out)
        self._add(scalar(spec.at(("class",))), settings, reference, resource, workers)

    def _add_json(self, connector: Node) -> None:
        config = connector.at(("config",)) or connector
        settings = self._scalars(config)
        own = settings.get("name")
        name = scalar(connector.at(("name",))) or (own.value if own else "")
        kind = settings.get("connector.class")
        worker = connector.at(("worker",))
        if worker is not None:
            self._workers[name] = self._scalars(worker)
        reference = ConnectorReference(name)
        self._add(kind.value if kind else "", settings, reference, connector, name)

    def _add(
        self, kind: str, settings: Settings, reference: ConnectorReference, node: Node, workers: str
    ) -> None:
        role = kind.rpartition(".")[2].removesuffix("Connector")
        if role not in _SECTIONS.values():
            name = safe_text(f"{reference.name} ({kind})")
            note = f"{node.mark}: connector {name} is not of MirrorMaker 2; ignored"
            self._resources.notes.append(note)
            return
        worker = self._workers.get(workers)
        self._connectors.append(_Connector(role, settings, reference, node, worker))

    def _add_mirror_maker(self, resource: Node) -> None:
        spec, namespace = resource.nearest(("spec",)), _namespace(resource)
        name = self._name(resource)
        clusters = {scalar(c.at(("alias",))): c for c in listed(spec, "clusters")}
        left_out = tuple(f"spec.{key}" for key in spec.table if key not in _CLUSTERS)
        for index, mirror in enumerate(listed(spec, "mirrors")):
            source, path = mirror.at(("source",)), "/source/alias"
            target = spec.at(("target",))
            if source is None:
                path = "/sourceCluster"
                source = clusters.get(scalar(mirror.at(("sourceCluster",))))
            if target is None:
                alias = scalar(mirror.at(("targetCluster",)))
                target = clusters.get(alias or scalar(spec.at(("connectCluster",))))
            if source is None or target is None:
                wanted = "expected the aliases of two of the resource's clusters"
                self._problems.append(Problem(mirror.mark, mirror.written, wanted))
                continue
            place = StrimziResource(
                MIRROR_MAKER, name, namespace, f"/spec/mirrors/{index}", path, name
            )
            self._add_mirror(mirror, place, (source, target), left_out)

    def _add_mirror(
        self,
        mirror: Node,
        place: StrimziResource,
        clusters: tuple[Node, Node],
        spec_keys: tuple[str, ...],
    ) -> None:
        source, target = clusters
        clients = {
            **self._side("source.cluster.", source, place.namespace),
            **self._side("target.cluster.", target, place.namespace),
        }
        patterns = {
            name: setting_of(node) for key, name in _PATTERNS.items() if (node := mirror.at((key,)))
        }
        if mirror.at(("checkpointConnector",)) is None:
            patterns["emit.checkpoints.enabled"] = Property("false", mirror.mark)
        aliases = scalar(source.at(("alias",))), scalar(target.at(("alias",)))
        worker = _worker_settings(target, _MIRROR_MAKER_NAME)
        for section, role in _SECTIONS.items():
            node = mirror.at((section,))
            if node is None:
                continue
            own = self._scalars(node.at(("config",)))
            settings = {**clients, **own, **patterns, **_tasks_of(node)}
            name = f"{'->'.join(aliases)}.{role}Connector"
            left_out = tuple(f"{node.written}.{key}" for key in node.table if key != "config")
            reference = ConnectorReference(name, place, (*spec_keys, *left_out))
            self._connectors.append(_Connector(role, settings, reference, mirror, worker, aliases))

    def _name(self, resource: Node) -> str:
        for path in (("metadata", "name"), ("metadata", "namespace"), _CLUSTER_LABEL):
            node = resource.at(path)
            required = path == ("metadata", "name")
            if required and node is None:
                wanted = "missing; kubectl get -o yaml prints the whole resource"
                self._problems.append(Problem(resource.mark, format_path(path), wanted))
                continue
            if (node is not None or required) and not is_kubernetes_name(scalar(node)):
                mark, wanted = resource.nearest(path).mark, "expected a name of Kubernetes"
                self._problems.append(Problem(mark, format_path(path), wanted))
        return scalar(resource.at(("metadata", "name")))

    def _side(self, prefix: str, cluster: Node, namespace: str) -> Settings:
        client = client_properties(cluster, namespace, self._problems)
        own = {f"{prefix}{key}": value for key, value in client.items() if is_client(key)}
        alias = cluster.at(("alias",))
        return own | ({f"{prefix}alias": setting_of(alias)} if alias else {})

    def _scalars(self, table: Node | None) -> Settings:
        scalars = {}
        for key, node in table.table.items() if table else ():
            if isinstance(node.value, list | dict):
                wanted = "expected a string, a number or a boolean"
                if key not in ("tasks", "worker"):
                    self._problems.append(Problem(node.mark, node.written, wanted))
            elif node.value is not None:
                scalars[key] = Property(str(node.value), node.mark)
        return scalars

    def _add_flow(self, connector: _Connector) -> None:
        settings = connector.settings
        source, target = connector.flow
        flow, properties = f"{source}->{target}", self._resources.properties
        self._aliases |= {source: None, target: None}
        mark = connector.node.mark
        if connector.role == SOURCE:
            if flow in self._resources.connectors:
                message = f"two MirrorSourceConnectors copy {safe_text(flow)}; keep one in the file"
                self._problems.append(Problem(mark, "", message))
                return
            self._resources.connectors[flow] = self._reference(connector)
            properties[f"{flow}.enabled"] = Property("true", mark)
        has_copier = (SOURCE, connector.flow) in self._by_role
        for key, value in settings.items():
            if connector.role == SOURCE or not has_copier or key not in _OF_NAMES:
                self._set(flow, key, value, connector.role)
        self._set_worker(target, connector)

    def _reference(self, copier: _Connector) -> ConnectorReference:
        """Return that of a MirrorSourceConnector, with what its flow's checkpoints are named by."""
        checkpoints = self._by_role.get((CHECKPOINT, copier.flow))
        if checkpoints is None:
            return copier.reference
        own = checkpoints.settings
        names = tuple((key, own[key].value) for key in _OF_NAMES if key in own)
        return replace(
            copier.reference, checkpoints=checkpoints.reference.name, checkpoint_names=names
        )

    def _set(self, flow: str, key: str, value: Property, role: str) -> None:
        """Set a property; of two connectors with different values, the one that reads it counts."""
        name = f"{flow}.{key}"
        known = self._resources.properties.get(name)
        if known is None or known.value == value.value:
            self._resources.properties[name] = value
            return
        if key in ("connector.class", "name", "tasks.max"):
            return
        wins = role == _reader_of(key)
        self._resources.properties[name] = value if wins else known
        used = value.mark if wins else known.mark
        self._resources.notes.append(
            f"{value.mark}: {safe_text(key)} differs between the connectors of {safe_text(flow)}; "
            f"the value in line {used.line} is used"
        )

    def _set_worker(self, target: str, connector: _Connector) -> None:
        mark, worker = connector.node.mark, connector.workers
        if worker is None and connector.role == SOURCE:
            self._resources.notes.append(
                f"{mark}: the file has no settings of the Connect workers, so the positions in "
                "their offset.storage.topic are not read (put their KafkaConnect into the file, or "
                '"worker": {"offset.storage.topic": …} beside "config")'
            )
        blank = Property("", mark)
        given = worker or {"offset.storage.topic": blank, "group.id": blank}
        for key, value in given.items():
            if not is_client(key):
                self._resources.properties.setdefault(f"{target}.{key}", value)


def _reader_of(key: str) -> str:
    if key.startswith(_OF_CHECKPOINTS):
        return CHECKPOINT
    return HEARTBEAT if key.startswith(_OF_HEARTBEATS) else SOURCE


def _worker_settings(spec: Node, default: str) -> Settings:
    """Return the properties of the workers of a resource; ``default`` is Strimzi's name."""
    given = settings_of(spec.at(("config",)))
    for key, (name, end) in _STORAGE.items():
        if node := spec.at((key,)):
            given[name] = setting_of(node)
        given.setdefault(name, Property(f"{default}{end}", spec.mark))
    return given


def _tasks_of(connector: Node) -> Settings:
    tasks = connector.at(("tasksMax",))
    return {"tasks.max": setting_of(tasks)} if tasks else {}


def _namespace(resource: Node) -> str:
    return scalar(resource.at(("metadata", "namespace")))
