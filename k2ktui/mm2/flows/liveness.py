"""Detects whether MirrorMaker 2 still runs, from its traces on the target cluster.

A dedicated MirrorMaker 2 has no API. While it runs, its workers are members of their group, it
writes heartbeats, and it stores positions. A process that hangs or was killed remains a group
member until the session timeout, so it is not considered stopped too early. The workers of Kafka
Connect may run other connectors; they keep the state of each one in a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import monotonic, sleep

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.moves.groups import EMPTY_STATES
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster, Partition, list_partitions
from k2ktui.kafka.control.reader import require_offsets
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from k2ktui.log.content import ContentReader
from k2ktui.mm2.flows.connector_states import read_connector_states
from k2ktui.mm2.flows.formats import PARTITION, ForeignRecord, read_connect_offset, read_heartbeat
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.policy import HEARTBEATS
from k2ktui.mm2.flows.resources import ConnectorReference
from k2ktui.sync.flow import CopierObservation
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_OPEN_S = 10.0
_READ_S = 10.0
_LEAST_S = 3.0
_POLL_S = 0.25
_NAME = "MirrorMaker 2"
_NO_POSITION = f"no position was stored for {_LEAST_S:g} s"
_BEATS = "it writes heartbeats"


def find_signs_of_life(flow: FlowProperties, target: Cluster) -> list[str]:
    """Return messages that show that a flow's MirrorMaker 2 runs; empty if it is stopped.

    Watches for three of its heartbeat intervals, at least three seconds.

    Raises:
        ConnectionFailed, TimedOut: the target did not answer.
    """
    signs = _group(flow)
    if not signs:
        before = _ends(flow, target)
        until = monotonic() + _watched_s(flow)
        while monotonic() < until:
            sleep(_POLL_S)
        signs = _group(flow) or _written_since(flow, target, before)
    log.info("MirrorMaker 2 of %s: %s", flow, "; ".join(signs) or "no sign of life")
    return signs


def observe_copier(flow: FlowProperties, target: Cluster) -> CopierObservation:
    """Return whether a flow's MirrorMaker 2 runs, dedicated or on Kafka Connect.

    Raises:
        ConnectionFailed, TimedOut: the target did not answer.
    """
    if flow.connector is not None:
        return _observe_connectors(flow, flow.connector, target)
    signs = find_signs_of_life(flow, target)
    group = safe_text(flow.worker_group)
    return CopierObservation(
        _NAME,
        tuple(signs),
        f"its workers' group {group} has no members, and for {_watched_s(flow):g} s it wrote no "
        "heartbeat and stored no position",
        "",
        f"Stop every process that was started with {safe_text(flow.file)}, on all hosts; a killed "
        "one counts as running for its session timeout, 10 s by default.",
    )


def _observe_connectors(
    flow: FlowProperties, connector: ConnectorReference, target: Cluster
) -> CopierObservation:
    signs, evidence, unproven = _read_states(flow, connector, target)
    if not signs and flow.connect_offsets_topic:
        before = _ends(flow, target)
        sleep(_LEAST_S)
        # Its heartbeat connector may run on: it neither copies nor commits.
        signs = tuple(sign for sign in _written_since(flow, target, before) if sign != _BEATS)
        evidence = "; ".join(filter(None, (evidence, _NO_POSITION)))
    log.info("MirrorMaker 2 of %s: %s", flow, "; ".join(signs) or evidence or unproven)
    return CopierObservation(_NAME, signs, evidence, unproven, connector.how_to_stop)


def _read_states(
    flow: FlowProperties, connector: ConnectorReference, target: Cluster
) -> tuple[tuple[str, ...], str, str]:
    """Return which connectors run, how that is known, and why it is not; two of them empty."""
    topic, group = flow.worker.get("status.storage.topic", ""), safe_text(flow.worker_group)
    names, file = ", ".join(map(safe_text, connector.writers)), safe_text(flow.file)
    if not topic:
        needed = "the status.storage.topic of the Connect workers, which says whether"
        return (), "", f"{file} does not name {needed} {names} run"
    states = read_connector_states(target, topic, connector.writers)
    if states.running and group and not _group(flow):
        why = f"the workers were killed, or the group.id in {file} is another one"
        running = "; ".join(states.running)
        return (), "", f"{running}, but the workers' group {group} has no members: {why}"
    if states.unknown and not states.running:
        missing = ", ".join(map(safe_text, states.unknown))
        why = f"deleted, or {file} names another one"
        return (), "", f"{safe_text(topic)} has no state of {missing}: {why}"
    return states.running, f"{safe_text(topic)} says that {names} are stopped", ""


def require_stopped(flow: FlowProperties, target: Cluster, unchanged: str) -> None:
    """Check that MirrorMaker 2 is stopped.

    Raises:
        Refused: it runs; the message lists the evidence and what to stop.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    signs = find_signs_of_life(flow, target)
    if signs:
        raise Refused(
            f"MirrorMaker 2 still copies {safe_text(flow)}: " + "; ".join(signs),
            unchanged=unchanged,
            hint="Stop every process that was started with this mm2.properties "
            "(connect-mirror-maker.sh), on all hosts; a killed process counts as "
            "running for its session timeout, 10 s by default.",
        )


def _watched_s(flow: FlowProperties) -> float:
    return max(_LEAST_S, 3.0 * flow.seconds("emit.heartbeats.interval.seconds", 1))


def _group(flow: FlowProperties) -> list[str]:
    """Check the group of its workers for members."""
    name = flow.worker_group
    with ConsumerGroupClient(wire(flow.cluster("target"), "admin"), "target") as groups:
        groups.open(_OPEN_S)
        state = groups.describe([name])[name]
    if state.error:
        return [f"its workers' group {safe_text(name)} cannot be described: {state.error}"]
    if state.state in EMPTY_STATES and not state.members:
        return []
    hosts = ", ".join(sorted({safe_text(member.named.host) for member in state.members}))
    return [f"its workers' group {safe_text(name)} is {state.state}, with members on {hosts}"]


def _ends(flow: FlowProperties, target: Cluster) -> dict[Partition, int]:
    where = list_partitions(target, [HEARTBEATS, flow.connect_offsets_topic])
    return require_offsets(target, where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)


def _written_since(
    flow: FlowProperties, target: Cluster, before: Mapping[Partition, int]
) -> list[str]:
    """Check for heartbeats and positions of this flow written since ``before``."""
    grown = {
        at: end - before[at] for at, end in _ends(flow, target).items() if end > before.get(at, end)
    }
    if not grown:
        return []
    spans = [((*at, before[at]), count) for at, count in grown.items()]
    with ContentReader(target) as contents:
        stretches = contents.stretches(spans, _READ_S)
    signs = set()
    for (topic, number), read in zip(grown, stretches, strict=True):
        for record in read.records.values():
            if topic == HEARTBEATS and number == PARTITION and _beats(flow, record.key):
                signs.add(_BEATS)
            if topic == flow.connect_offsets_topic and _stores(flow, record.key, record.value):
                signs.add("it stores positions")
        if read.unread:
            signs.add(f"{safe_text(topic)} receives records and cannot be read: {read.unread}")
    return sorted(signs)


def _beats(flow: FlowProperties, key: bytes | None) -> bool:
    try:
        aliases, _ = read_heartbeat(key, None)
    except ForeignRecord:
        return False
    return aliases == (flow.source_alias, flow.target_alias)


def _stores(flow: FlowProperties, key: bytes | None, value: bytes | None) -> bool:
    try:
        stored = read_connect_offset(key, value)
    except ForeignRecord:
        return False
    return stored is not None and stored[0].cluster == flow.source_alias
