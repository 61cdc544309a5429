"""States of connectors and their tasks, as Kafka Connect's workers keep them in a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from k2ktui.engine.strict_json import MalformedRecord, field, mapping, parse
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.reader import read_committed
from k2ktui.text import safe_text

_READ_S = 30.0
_CONNECTOR, _TASK = "status-connector-", "status-task-"
# A stopped connector's tasks are taken from the workers (KIP-875).
_NOT_RUNNING = frozenset({"STOPPED", "UNASSIGNED", "DESTROYED"})


@dataclass(frozen=True, slots=True)
class ConnectorStates:
    """What the workers say about some connectors.

    Attributes:
        running: the connectors and tasks that are not stopped, with their states.
        unknown: names of connectors without a state: deleted ones, or misspelled ones.
    """

    running: tuple[str, ...]
    unknown: tuple[str, ...]


def read_connector_states(
    target: Cluster, topic: str, connectors: tuple[str, ...]
) -> ConnectorStates:
    """Return which of these connectors and their tasks run.

    Args:
        target: the cluster of the Connect workers.
        topic: their ``status.storage.topic``.
        connectors: names of connectors.

    Raises:
        Refused: the topic does not exist or cannot be read.
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    status_topic = target.describe([topic])[topic]
    if not isinstance(status_topic, TopicDescription):
        raise Refused(f"{safe_text(topic)} cannot be read: {safe_text(status_topic.str())}")
    states: dict[str, str] = {}
    for record in read_committed(target, topic, status_topic.partitions, _READ_S):
        name = (record.key or b"").decode(errors="replace")
        states[name] = _state(record.value)
    return ConnectorStates(
        tuple(_find_running(states, connectors)),
        tuple(name for name in connectors if not states.get(f"{_CONNECTOR}{name}")),
    )


def _find_running(states: Mapping[str, str], connectors: tuple[str, ...]) -> Iterator[str]:
    for name in connectors:
        state = states.get(f"{_CONNECTOR}{name}", "")
        if state and state not in _NOT_RUNNING:
            yield f"connector {safe_text(name)} is {safe_text(state)}"
        prefix = f"{_TASK}{name}-"
        for key, task in sorted(states.items()):
            number = key.removeprefix(prefix)
            if key.startswith(prefix) and number.isdecimal() and task not in (*_NOT_RUNNING, ""):
                yield f"task {number} of {safe_text(name)} is {safe_text(task)}"


def _state(value: bytes | None) -> str:
    """Return the state of a record, "" for a deleted one; what is not a state counts as running."""
    if value is None:
        return ""
    try:
        return str(field(mapping(parse(value, "the value")), "state"))
    except MalformedRecord:
        return "of an unknown state"
