"""Create and grow topics, wait until they are ready, and read their settings.

Errors are returned per topic, so that a caller stops only the affected one.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from confluent_kafka.admin import ConfigEntry as NewSetting

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.client_errors import reason
from k2ktui.kafka.clients import (
    REQUEST_TIMEOUT_S,
    Cluster,
    ConfigEntry,
    TopicDescription,
)
from k2ktui.text import counted, safe_text

T = TypeVar("T")
Settings = Mapping[str, ConfigEntry]

_BROKER_DEFAULT = -1
# A KRaft controller refuses a request of more than 10,000 records, one for each partition and topic
# (QuorumController.MAX_RECORDS_PER_USER_OP). Smaller ones also end long before REQUEST_TIMEOUT_S.
_PARTITIONS_AT_ONCE = 2_000
_UNAUTHORIZED = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create; None for ``partitions`` or ``replication`` uses the broker's default."""

    name: str
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def create_topics(
    cluster: Cluster, specs: Collection[TopicSpec], *, validate_only: bool = False
) -> dict[str, K2kError | None]:
    """Create topics, a few thousand partitions at once; a topic that exists counts as created.

    With ``validate_only`` the cluster checks everything, including permissions, and creates
    nothing.

    Returns:
        By topic, None if it exists now, otherwise the error.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    by_name = {spec.name: spec for spec in specs}
    found: dict[str, K2kError | None] = {}
    for names in _requests({spec.name: spec.partitions or 1 for spec in specs}):
        wanted = [_new_topic(by_name[name]) for name in names]
        ask = partial(
            cluster.admin.create_topics,
            wanted,
            request_timeout=REQUEST_TIMEOUT_S,
            validate_only=validate_only,
        )
        for name, future in cluster.ask("creating topics", ask).items():
            found[name] = _failure(cluster, future, partial(_not_created, cluster, by_name[name]))
    return found


def _new_topic(spec: TopicSpec) -> NewTopic:
    return NewTopic(
        spec.name,
        num_partitions=spec.partitions or _BROKER_DEFAULT,
        replication_factor=spec.replication or _BROKER_DEFAULT,
        config=dict(spec.config),
    )


def grow_topics(
    cluster: Cluster, counts: Mapping[str, int], *, validate_only: bool = False
) -> dict[str, K2kError | None]:
    """Increase topics to the given partition counts; otherwise as :func:`create_topics`.

    A topic that has as many or more counts as grown.
    """
    found: dict[str, K2kError | None] = {}
    for names in _requests(counts):
        ask = partial(
            cluster.admin.create_partitions,
            [NewPartitions(name, counts[name]) for name in names],
            request_timeout=REQUEST_TIMEOUT_S,
            validate_only=validate_only,
        )
        for name, future in cluster.ask("adding partitions", ask).items():
            explain = partial(_not_grown, cluster, name, counts[name])
            found[name] = _failure(cluster, future, explain)
    return found


def _requests(partitions: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield the topics of each request, given the partitions of each topic."""
    names, total = list[str](), 0
    for name, count in partitions.items():
        if names and total + count > _PARTITIONS_AT_ONCE:
            yield names
            names, total = [], 0
        names.append(name)
        total += count
    if names:
        yield names


def await_topics(
    cluster: Cluster, counts: Mapping[str, int], *, attempts: int, delay_s: float
) -> dict[str, TopicDescription]:
    """Wait until each topic has the required partitions and all of them have leaders.

    Args:
        counts: minimum partition count of each topic.
        attempts: maximum number of checks.
        delay_s: seconds between checks.

    Returns:
        The topics that are ready; :func:`not_ready` builds the error for the others.
    """
    waiting, found = dict(counts), dict[str, TopicDescription]()
    for attempt in range(attempts):
        if not waiting:
            break
        if attempt:
            time.sleep(delay_s)
        for name, topic in cluster.describe(waiting).items():
            if isinstance(topic, TopicDescription) and _serves(topic, counts[name]):
                found[name] = topic
                del waiting[name]
    return found


def not_ready(cluster: Cluster, names: Collection[str]) -> TimedOut:
    """Return the error for topics that were created or grown but have no leaders yet."""
    return TimedOut(
        f"created or extended on the {cluster.label} cluster, but without leaders yet: "
        + ", ".join(safe_text(name) for name in sorted(names)),
        unchanged="No record was written to them.",
        hint="See the controller's log; continue when kafka-topics.sh --describe shows leaders.",
    )


def alter_topic(cluster: Cluster, name: str, setting: str, value: str) -> K2kError | None:
    """Change one setting of a topic; return the error if that was refused.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    entry = NewSetting(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    what = f"changing a setting of topic {safe_text(name)}"
    futures = cluster.ask(
        what,
        lambda: cluster.admin.incremental_alter_configs(
            [resource], request_timeout=REQUEST_TIMEOUT_S
        ),
    )
    try:
        cluster.results(what, futures)
    except (ConnectionFailed, TimedOut):
        raise
    except K2kError as error:
        return error
    return None


def broker_count(cluster: Cluster) -> int:
    """Return the number of brokers that the cluster has now.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    return len(cluster.broker_ids("counting brokers"))


def topic_settings(
    cluster: Cluster, names: Collection[str]
) -> dict[str, dict[str, ConfigEntry] | K2kError]:
    """Read the settings of topics; a topic whose settings cannot be read maps to its error.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = cluster.ask(
        "reading topic settings",
        lambda: cluster.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S),
    )
    found: dict[str, dict[str, ConfigEntry] | K2kError] = {}
    for resource, future in futures.items():
        try:
            entries = cluster.ask("reading topic settings", partial(cluster.wait, future))
        except (ConnectionFailed, TimedOut):
            raise
        except K2kError as error:
            found[resource.name] = error
        else:
            found[resource.name] = {
                name: ConfigEntry(entry.value or "", entry.is_default or entry.source != 1)
                for name, entry in entries.items()
            }
    return found


def require_topic_settings(
    cluster: Cluster, names: Collection[str]
) -> dict[str, dict[str, ConfigEntry]]:
    """Read the settings of topics.

    Raises:
        K2kError: the first error, of the cluster or of a topic.
    """
    found: dict[str, dict[str, ConfigEntry]] = {}
    for name, settings in topic_settings(cluster, names).items():
        if isinstance(settings, K2kError):
            raise settings
        found[name] = settings
    return found


def create_command(config: ClusterConfig, spec: TopicSpec) -> str:
    """Return the kafka-topics.sh command that creates a topic on a cluster."""
    words = [*_topics_command(config), "--create", "--topic", spec.name]
    if spec.partitions:
        words += ["--partitions", str(spec.partitions)]
    if spec.replication:
        words += ["--replication-factor", str(spec.replication)]
    for name, value in sorted(spec.config.items()):
        words += ["--config", f"{name}={value}"]
    return _line(words)


def grow_command(config: ClusterConfig, name: str, partitions: int) -> str:
    """Return the kafka-topics.sh command that increases a topic to ``partitions`` partitions."""
    return _line(
        [*_topics_command(config), "--alter", "--topic", name, "--partitions", str(partitions)]
    )


def alter_command(config: ClusterConfig, name: str, setting: str, value: str) -> str:
    """Return the kafka-configs.sh command that changes a setting of a topic."""
    what = ["--entity-type", "topics", "--entity-name", name]
    change = ["--alter", "--add-config", f"{setting}={value}"]
    return _line(["kafka-configs.sh", *_connection(config), *what, *change])


def _topics_command(config: ClusterConfig) -> list[str]:
    return ["kafka-topics.sh", *_connection(config)]


def _connection(config: ClusterConfig) -> list[str]:
    """Return the options with which Kafka's tools connect as the admin client does."""
    properties = config.properties("admin")
    words = ["--bootstrap-server", properties.get("bootstrap.servers", config.bootstrap_servers)]
    if properties.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT":
        words += ["--command-config", "client.properties"]
    return words


def _line(words: list[str]) -> str:
    return " ".join(shlex.quote(safe_text(word)) for word in words)


def _serves(topic: TopicDescription, partitions: int) -> bool:
    return topic.partitions >= partitions and not topic.leaderless


def _failure(
    cluster: Cluster, future: Future[T], explain: Callable[[KafkaException], K2kError | None]
) -> K2kError | None:
    try:
        cluster.wait(future)
    except KafkaException as error:
        return explain(error)
    return None


def _not_created(cluster: Cluster, spec: TopicSpec, error: KafkaException) -> K2kError | None:
    code = error.args[0].code()
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return None
    _raise_if_silent(cluster, "creating topics", error)
    if code in _UNAUTHORIZED:
        hint = "Grant the target principal Create on the topic (or the cluster), or create it: "
    else:
        hint = _CREATE_HINTS.get(code, "Correct the cause, or create the topic: ")
    return Refused(
        f"topic {safe_text(spec.name)} could not be created on the {cluster.label} cluster: "
        f"{reason(error)}",
        unchanged="The topic does not exist; nothing was written.",
        hint=hint + create_command(cluster.config, spec),
    )


_CREATE_HINTS = {
    KafkaError.INVALID_REPLICATION_FACTOR: (
        "Set topicCreation's replication to at most the number of brokers there, or create it: "
    ),
    KafkaError.INVALID_CONFIG: (
        "Name the setting in target.kafka.topicPropsExclusionList, override it in topicCreation, "
        "or create the topic: "
    ),
    KafkaError.POLICY_VIOLATION: (
        "The cluster's create.topic.policy rejects it; override the settings in "
        "topicCreation, or create the topic: "
    ),
}


def _not_grown(cluster: Cluster, name: str, count: int, error: KafkaException) -> K2kError | None:
    if error.args[0].code() == KafkaError.INVALID_PARTITIONS:
        found = cluster.describe([name])[name]
        if isinstance(found, TopicDescription) and found.partitions >= count:
            return None  # another run has added them in the meantime
    _raise_if_silent(cluster, "adding partitions", error)
    return Refused(
        f"topic {safe_text(name)} could not be extended to {counted(count, 'partition')} on the "
        f"{cluster.label} cluster: {reason(error)}",
        unchanged="Its partitions were not changed.",
        hint="Grant the target principal Alter on the topic, or add the partitions: "
        + grow_command(cluster.config, name, count),
    )


def _raise_if_silent(cluster: Cluster, what: str, error: KafkaException) -> None:
    """Raise if no broker answered, because such an error is not specific to one topic."""

    def again() -> None:
        raise error

    try:
        cluster.ask(what, again)
    except (ConnectionFailed, TimedOut):
        raise
    except K2kError:
        return
