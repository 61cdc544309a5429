"""confluent-kafka clients of a pipeline's clusters, and the questions this program asks them.

Every method turns the library's errors into ``k2ktui.errors``: who did not answer, what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from k2ktui.config.clusters import ClusterConfig
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.properties import librdkafka
from k2ktui.text import safe_text

T = TypeVar("T")
Partition = tuple[str, int]

REQUEST_TIMEOUT_S = 30.0

# librdkafka's own codes, negative by its convention (rdkafka.h).
_LOCAL_TIMED_OUT = -185
_UNREACHABLE = frozenset({-195, -193, -187, -181, -169})  # transport, resolve, all down, TLS, login
_REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as its cluster describes it; ``topic_id`` is hex text, empty if it has none.

    ``leaderless`` counts the partitions that nobody leads now.
    """

    name: str
    topic_id: str
    partitions: int
    replication: int
    leaderless: int = 0


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A topic setting; ``is_default`` when it was not set on the topic itself."""

    value: str
    is_default: bool


class Cluster:
    """One cluster of a pipeline, seen through confluent-kafka.

    Args:
        config: its client properties.
        label: ``source`` or ``target``, for messages.
    """

    def __init__(self, config: ClusterConfig, label: str) -> None:
        self.config = config
        self.label = label

    @cached_property
    def admin(self) -> AdminClient:
        """The admin client, made at first use."""
        return self._make(AdminClient, librdkafka(self.config, "admin"))

    def consumer(self, **overrides: Any) -> Consumer:
        """Make a consumer that never commits and joins no group; ``overrides`` are librdkafka's."""
        settings = {
            **librdkafka(self.config, "consumer"),
            # librdkafka wants a group id although nothing is ever committed under it.
            "group.id": "k2ktui-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
            **overrides,
        }
        settings = {key.replace("__", "."): value for key, value in settings.items()}
        return self._make(Consumer, settings)

    def _make(self, kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
        settings.setdefault("log_level", 2)
        try:
            return kind({**settings, "logger": QUIET})
        except KafkaException as error:
            raise ConnectionFailed(
                f"no client for the {self.label} cluster: {reason(error)}",
                mend=f"Check {self.label}.kafka in the configuration.",
            ) from None

    def ask(self, what: str, question: Callable[[], T]) -> T:
        """Run a call of the library, turning its errors into ours.

        Raises:
            ConnectionFailed, TimedOut, Refused, K2kError: by what the library reports.
        """
        try:
            return question()
        except KafkaException as error:
            raise self._translate(what, error) from None

    def _translate(self, what: str, error: KafkaException) -> K2kError:
        code = error.args[0].code() if error.args and hasattr(error.args[0], "code") else 0
        text = f"{what} on the {self.label} cluster: {reason(error)}"
        if code in _UNREACHABLE:
            return ConnectionFailed(text, mend="Check that it is up, and the credentials.")
        if code in (_LOCAL_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT):
            return TimedOut(text, mend="Check that it is up and reachable from here.")
        if code in _REFUSED:
            return Refused(text, mend="Grant the principal what it needs (k2ktui check lists it).")
        return K2kError(text)

    def results(self, what: str, futures: Mapping[Any, Future[T]]) -> dict[Any, T]:
        """Wait for an admin call's futures; the first failure is raised."""
        return {
            key: self.ask(what, lambda f=future: f.result(REQUEST_TIMEOUT_S))  # type: ignore[misc]
            for key, future in futures.items()
        }

    def topic_names(self) -> frozenset[str]:
        """Return the names of all topics the principal may describe."""
        metadata = self.ask("listing topics", lambda: self.admin.list_topics(timeout=10))
        return frozenset(name for name, topic in metadata.topics.items() if topic.error is None)

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaError]:
        """Describe topics; one that is missing or forbidden maps to its error."""
        if not names:
            return {}
        futures = self.ask(
            "describing topics",
            lambda: self.admin.describe_topics(
                TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT_S
            ),
        )
        found: dict[str, TopicDescription | KafkaError] = {}
        for name, future in futures.items():
            try:
                found[name] = _description(future.result(REQUEST_TIMEOUT_S))
            except KafkaException as error:
                if error.args[0].code() in _UNREACHABLE | {_LOCAL_TIMED_OUT}:
                    raise self._translate("describing topics", error) from None
                found[name] = error.args[0]
        return found

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Return the settings of topics."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        found = self.results(
            "reading topic settings",
            self.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S),
        )
        return {
            resource.name: {
                name: ConfigEntry(entry.value or "", entry.is_default or entry.source != 1)
                for name, entry in entries.items()
            }
            for resource, entries in found.items()
        }

    def offsets(
        self,
        partitions: Collection[Partition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[Partition, int]:
        """Return an offset of each partition; partitions that fail are left out.

        With READ_COMMITTED, ``OffsetSpec.latest()`` is the last stable offset. A timestamp after
        the last record yields -1.
        """
        if not partitions:
            return {}
        futures = self.admin.list_offsets(
            {TopicPartition(topic, partition): spec for topic, partition in partitions},
            isolation_level=isolation,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        found: dict[Partition, int] = {}
        for where, future in futures.items():
            try:
                found[(where.topic, where.partition)] = future.result(REQUEST_TIMEOUT_S).offset
            except KafkaException as error:
                if error.args[0].code() in _UNREACHABLE | {_LOCAL_TIMED_OUT}:
                    raise self._translate("listing offsets", error) from None
        return found

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        metadata = self.ask("reaching a broker", lambda: self.admin.list_topics(timeout=10))
        return str(metadata.cluster_id)


class _Quiet:
    """librdkafka's own log lines go nowhere: what matters reaches us as errors."""

    def log(self, *_: object, **__: object) -> None:
        """Drop a line."""

    debug = info = warning = error = critical = exception = log


QUIET = _Quiet()


def source_cluster(config: PipelineConfig) -> Cluster:
    """Return the source side of a pipeline."""
    return Cluster(config.source, "source")


def target_cluster(config: PipelineConfig) -> Cluster:
    """Return the target side of a pipeline."""
    return Cluster(config.target, "target")


def reason(error: KafkaException) -> str:
    """Return the first line of a library error, safe to print."""
    inner = error.args[0] if error.args else error
    text = inner.str() if hasattr(inner, "str") else str(inner)
    return safe_text((text or "no reason given").splitlines()[0])


def _description(found: Any) -> TopicDescription:
    topic_id = getattr(found, "topic_id", None)
    return TopicDescription(
        name=found.name,
        topic_id=_hex(topic_id),
        partitions=len(found.partitions),
        replication=min((len(p.replicas) for p in found.partitions), default=0),
        leaderless=sum(p.leader is None for p in found.partitions),
    )


def _hex(topic_id: Any) -> str:
    if topic_id is None:
        return ""
    high = topic_id.get_most_significant_bits() & 0xFFFFFFFFFFFFFFFF
    low = topic_id.get_least_significant_bits() & 0xFFFFFFFFFFFFFFFF
    return f"{high:016x}{low:016x}" if high or low else ""
