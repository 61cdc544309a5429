"""Create and grow topics, wait until they are ready, and read their settings.

Errors are returned per topic, so that a caller stops only the affected one.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

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
from k2ktui.kafka.throttle import SHORT_THROTTLE_S
from k2ktui.text import counted, duration, safe_text

log = logging.getLogger(__name__)

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


class OverQuota(TimedOut):
    """A topic was not created or extended yet: the cluster's quota allows no more for some time."""


def create_topics(
    cluster: Cluster,
    specs: Collection[TopicSpec],
    *,
    validate_only: bool = False,
    waits: bool = True,
) -> dict[str, K2kError | None]:
    """Create topics, a few thousand partitions at once; a topic that exists counts as created.

    Args:
        cluster: the cluster.
        specs: the topics.
        validate_only: the cluster checks everything, including permissions, and creates nothing.
            For its quota that counts as if it did.
        waits: wait until the cluster's quota allows more (``Cluster.pause``).

    Returns:
        By topic, None if it exists now, otherwise the error; OverQuota without ``waits``.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    by_name = {spec.name: spec for spec in specs}

    def ask(names: Sequence[str]) -> Mapping[str, Future[None]]:
        futures: dict[str, Future[None]] = cluster.admin.create_topics(
            [_new_topic(by_name[name]) for name in names],
            request_timeout=REQUEST_TIMEOUT_S,
            validate_only=validate_only,
        )
        return futures

    def explain(name: str, error: KafkaException) -> K2kError | None:
        return _not_created(cluster, by_name[name], error)

    partitions = {spec.name: spec.partitions or 1 for spec in specs}
    return _within_quota(cluster, "creating topics", partitions, ask, explain, waits=waits)


def _within_quota(
    cluster: Cluster,
    what: str,
    partitions: Mapping[str, int],
    ask: Callable[[Sequence[str]], Mapping[str, Future[None]]],
    explain: Callable[[str, KafkaException], K2kError | None],
    *,
    waits: bool,
) -> dict[str, K2kError | None]:
    """Send requests that create or extend topics, as fast as the cluster's quota allows.

    Older requests are carried out above the quota, too, and then the connection is not read for
    some time; newer ones are refused topic by topic (KIP-599).
    """
    outcomes: dict[str, K2kError | None] = {}
    requests = deque(_requests(partitions))
    while requests:
        names = requests.popleft()
        left = cluster.throttled_s
        if left > SHORT_THROTTLE_S and not (waits and _wait_for_quota(cluster, what, left)):
            outcomes |= {name: _over_quota(cluster, name, left) for name in names}
            continue
        futures = cluster.ask(what, partial(ask, names))
        refused = []
        for name, future in futures.items():
            outcomes[name], over = None, False
            try:
                cluster.wait(future)
            except KafkaException as error:
                over = error.args[0].code() == KafkaError.THROTTLING_QUOTA_EXCEEDED
                outcomes[name] = None if over else explain(name, error)
            if over:
                refused.append(name)
        left = cluster.heed_quota()
        if refused and waits and _wait_for_quota(cluster, what, max(left, SHORT_THROTTLE_S)):
            requests.appendleft(refused)
        else:
            outcomes |= {name: _over_quota(cluster, name, left) for name in refused}
    return outcomes


def _wait_for_quota(cluster: Cluster, what: str, seconds: float) -> bool:
    """Wait for a quota; return whether to go on."""
    text = (
        f"{what} on the {cluster.label} cluster waits {duration(seconds)} for its quota "
        "(controller_mutation_rate)"
    )
    log.info("%s", text)
    return not cluster.pause(text, seconds)


def _over_quota(cluster: Cluster, name: str, left: float) -> OverQuota:
    return OverQuota(
        f"topic {safe_text(name)} is not created or extended yet: the {cluster.label} cluster's "
        f"quota (controller_mutation_rate) allows no more for {duration(left)}",
        unchanged="The topic was not changed.",
        hint="It is tried again. Raise the quota of this client on that cluster to save time.",
    )


def _new_topic(spec: TopicSpec) -> NewTopic:
    return NewTopic(
        spec.name,
        num_partitions=spec.partitions or _BROKER_DEFAULT,
        replication_factor=spec.replication or _BROKER_DEFAULT,
        config=dict(spec.config),
    )


def grow_topics(
    cluster: Cluster,
    counts: Mapping[str, int],
    *,
    validate_only: bool = False,
    waits: bool = True,
) -> dict[str, K2kError | None]:
    """Increase topics to the given partition counts; otherwise as :func:`create_topics`.

    A topic that has as many or more counts as grown.
    """

    def ask(names: Sequence[str]) -> Mapping[str, Future[None]]:
        futures: dict[str, Future[None]] = cluster.admin.create_partitions(
            [NewPartitions(name, counts[name]) for name in names],
            request_timeout=REQUEST_TIMEOUT_S,
            validate_only=validate_only,
        )
        return futures

    def explain(name: str, error: KafkaException) -> K2kError | None:
        return _not_grown(cluster, name, counts[name], error)

    return _within_quota(cluster, "adding partitions", counts, ask, explain, waits=waits)


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
    waiting, ready = dict(counts), dict[str, TopicDescription]()
    for attempt in range(attempts):
        if not waiting:
            break
        if attempt:
            time.sleep(delay_s)
        for name, topic in cluster.describe(waiting).items():
            if isinstance(topic, TopicDescription) and _serves(topic, counts[name]):
                ready[name] = topic
                del waiting[name]
    return ready


def not_ready(cluster: Cluster, names: Collection[str]) -> TimedOut:
    """Return the error for topics that were created or grown but have no leaders yet."""
    return TimedOut(
        f"created or extended on the {cluster.label} cluster, but without leaders yet: "
        + ", ".join(safe_text(name) for name in sorted(names)),
        unchanged="No record was written to them.",
        hint="See the controller's log; continue when kafka-topics.sh --describe shows leaders.",
    )


def alter_topics(
    cluster: Cluster,
    changes: Mapping[str, Mapping[str, str | None]],
    *,
    validate_only: bool = False,
) -> dict[tuple[str, str], K2kError]:
    """Change settings of topics, all others stay; return the errors of those that were refused.

    Args:
        cluster: the cluster.
        changes: by topic, the new values by setting; None deletes the topic's own value.
        validate_only: the cluster checks the changes, and makes none.

    Returns:
        By topic and setting, the error.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    refused: dict[tuple[str, str], K2kError] = {}
    topics = {name: values for name, values in changes.items() if values}
    for name, error in _alter(cluster, topics, validate_only=validate_only).items():
        values = topics[name]
        if len(values) == 1:
            refused[name, next(iter(values))] = error
            continue
        # One bad setting makes brokers refuse the whole topic.
        for setting, value in values.items():
            alone = _alter(cluster, {name: {setting: value}}, validate_only=validate_only)
            if name in alone:
                refused[name, setting] = alone[name]
    return refused


def _alter(
    cluster: Cluster, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool
) -> dict[str, K2kError]:
    """Change settings of topics; return the errors by topic."""
    if not changes:
        return {}
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            name,
            incremental_configs=[_new_setting(*entry) for entry in values.items()],
        )
        for name, values in changes.items()
    ]
    what = "changing topic settings"
    if len(changes) == 1:
        what = f"changing a setting of topic {safe_text(next(iter(changes)))}"
    futures = cluster.ask(
        what,
        lambda: cluster.admin.incremental_alter_configs(
            resources, request_timeout=REQUEST_TIMEOUT_S, validate_only=validate_only
        ),
    )
    errors: dict[str, K2kError] = {}
    for resource, future in futures.items():
        try:
            cluster.ask(what, partial(cluster.wait, future))
        except (ConnectionFailed, TimedOut):
            raise
        except K2kError as error:
            errors[resource.name] = error
    return errors


def _new_setting(setting: str, value: str | None) -> NewSetting:
    if value is None:
        return NewSetting(setting, "", incremental_operation=AlterConfigOpType.DELETE)
    return NewSetting(setting, value, incremental_operation=AlterConfigOpType.SET)


def broker_count(cluster: Cluster) -> int:
    """Return the number of brokers that the cluster has now.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    return len(cluster.broker_ids("counting brokers"))


def value_of(settings: Settings, key: str) -> str:
    """Return the value of a setting, "" if the topic has none."""
    entry = settings.get(key)
    return entry.value if entry else ""


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
    settings_of: dict[str, dict[str, ConfigEntry] | K2kError] = {}
    for resource, future in futures.items():
        try:
            entries = cluster.ask("reading topic settings", partial(cluster.wait, future))
        except (ConnectionFailed, TimedOut):
            raise
        except K2kError as error:
            settings_of[resource.name] = error
        else:
            settings_of[resource.name] = {
                name: ConfigEntry(entry.value or "", entry.is_default or entry.source != 1)
                for name, entry in entries.items()
            }
    return settings_of


def require_topic_settings(
    cluster: Cluster, names: Collection[str]
) -> dict[str, dict[str, ConfigEntry]]:
    """Read the settings of topics.

    Raises:
        K2kError: the first error, of the cluster or of a topic.
    """
    settings_of: dict[str, dict[str, ConfigEntry]] = {}
    for name, settings in topic_settings(cluster, names).items():
        if isinstance(settings, K2kError):
            raise settings
        settings_of[name] = settings
    return settings_of


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


def abort_command(config: ClusterConfig, topic: str, partition: int, start: int | None) -> str:
    """Return the kafka-transactions.sh command that aborts the open transaction of a partition."""
    where = ["--topic", topic, "--partition", str(partition)]
    first = [] if start is None else ["--start-offset", str(start)]
    return _line(["kafka-transactions.sh", *_connection(config), "abort", *where, *first])


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
        topic = cluster.describe([name])[name]
        if isinstance(topic, TopicDescription) and topic.partitions >= count:
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
