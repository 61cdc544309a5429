"""confluent-kafka clients of a pipeline's clusters, and the requests this program makes with them.

Every method translates library errors into ``k2ktui.errors`` that name the cluster and the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from k2ktui.config.clusters import ClusterConfig
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ClusterRefused, ConnectionFailed, K2kError, LoginFailed, TimedOut
from k2ktui.kafka.auth.logins import LOGINS, Login, password_login
from k2ktui.kafka.client_errors import (
    LIBRARY_LOG,
    LOCAL_TIMED_OUT,
    LOGIN,
    NO_LEADER_KNOWN,
    NO_RESPONSE,
    NOT_AUTHORIZED,
    SILENT,
    UNREACHABLE,
    RecentErrors,
    clean_message,
    is_silence,
    keeps_out,
    log_level,
    reason,
)
from k2ktui.kafka.client_login import ClientLogin
from k2ktui.kafka.properties.translation import librdkafka
from k2ktui.kafka.renewable_admin import RenewableAdmin
from k2ktui.kafka.throttle import SHORT_THROTTLE_S, Pause, Throttle, pause_with_progress
from k2ktui.kafka.topic_description import ConfigEntry as ConfigEntry
from k2ktui.kafka.topic_description import TopicDescription as TopicDescription
from k2ktui.kafka.topic_description import is_missing, read_description
from k2ktui.kafka.unreachable import (
    Address,
    addresses,
    no_answer,
    no_connection,
    other_cluster,
    refusal,
)
from k2ktui.kafka.wire.codes import LEADER_MOVED, TOPIC_GONE
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

T = TypeVar("T")
Partition = tuple[str, int]

REQUEST_TIMEOUT_S = 30.0
_RECONNECT_MAX, _RECONNECT_MS = "reconnect.backoff.max.ms", 1000
_ANSWER_S = (3.0, 9.0, 18.0)
LEADER_WAIT_S, _LEADER_POLL_S = 1.0, 0.1
_OFFSETS_AT_ONCE = 500  # the library takes time in proportion to the square of their number
# The short attempts detect refused logins and closed ports without waiting for the full timeout.
# The library logs in again 1.5 s after a refusal (client_login): it is noticed before that.
_METADATA_S = (0.7, 1.0, 1.0, 10.0)
_ANSWERS_S = 2.0
_LOOK_AFTER_S = 1.0
# Brokers may disagree about a certificate: another broker has this long to accept it.
_REFUSED_AFTER_S = 2.0
_LISTEN_EVERY_S = 0.25


class Cluster:
    """One cluster of a pipeline, accessed through confluent-kafka; several threads may share it.

    Args:
        config: the cluster's client properties.
        label: ``source`` or ``target``, for messages.

    Attributes:
        expected_id: the cluster's id; where metadata have another one, requests fail with
            OtherCluster. "" for any.
        pause: how to wait for a quota.
    """

    def __init__(self, config: ClusterConfig, label: str) -> None:
        self.config = config
        self.label = label
        self._errors = RecentErrors()
        self._brokers: frozenset[Address] = frozenset()
        self._topic = ""
        self.expected_id = ""
        self.pause: Pause = pause_with_progress
        self._throttle = Throttle()
        self._admin = RenewableAdmin(self._make_admin)
        self.login = ClientLogin(config, label)
        self._generation = 0
        self._admin_login: Login = None
        self._has_answered, self._made_at = False, 0  # the admin client

    @property
    def admin(self) -> AdminClient:
        """The admin client, created on first use, and again when its login was renewed.

        Raises:
            LoginFailed: the login was refused less than 30 seconds ago.
        """
        if (generation := self.login.generation) != self._generation:
            self._generation = generation
            self._admin.close()
        return self._admin.get()

    def disconnect(self) -> None:
        """Close the admin client; the next request connects again."""
        self._admin.close()

    def _make_admin(self) -> AdminClient:
        settings = librdkafka(self.config, "admin")
        self._admin_login, self._has_answered = password_login(settings), False
        self._made_at = LOGINS.refusals
        # By default, the library asks for topics as a producer does.
        ours = {"allow.auto.create.topics": False, "throttle_cb": self._throttle.note}
        return self._make(AdminClient, {**settings, **ours}, self._look_after)

    @property
    def throttled_s(self) -> float:
        """Seconds for which the brokers ask this client to send nothing (quota)."""
        self.admin.poll(0)  # librdkafka calls throttle_cb only then
        return self._throttle.left_s

    def heed_quota(self) -> float:
        """Return :attr:`throttled_s` after a request that counts in a quota.

        The brokers read no more of the connection until then. What is only read does not count, and
        gets another one.
        """
        left = self.throttled_s
        if left > SHORT_THROTTLE_S:
            log.info("%s cluster: throttled for %.1f s (quota)", self.label, left)
            self._admin.leave()
        return left

    def consumer(self, look_after: Callable[[], None] | None = None, **overrides: Any) -> Consumer:
        """Create a consumer that never commits and joins no group.

        Use it on the target only: librdkafka looks up a group coordinator even so, which makes a
        broker create ``__consumer_offsets``. The source is read through ``kafka/wire/cluster.py``,
        except for the opposite pipeline's mappings: it is the target of that pipeline.

        Args:
            look_after: see :meth:`kept_consumer`.
            overrides: librdkafka settings, with ``__`` accepted for ``.``.
        """
        settings = {
            **librdkafka(self.config, "consumer"),
            # librdkafka requires a group id; nothing is ever committed under it.
            "group.id": "k2ktui-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
            **overrides,
        }
        settings = {key.replace("__", "."): value for key, value in settings.items()}
        made = self._make(Consumer, settings, look_after)
        if self.expected_id:
            try:
                self._require_cluster_of(made)
            except BaseException:
                made.close()
                raise
        return made

    def _require_cluster_of(self, consumer: Consumer) -> None:
        """Refuse a consumer whose brokers are another cluster's: the admin client has its own."""
        topic = self._topic or "__consumer_offsets"
        cluster_id = self.ask(
            "reaching a broker", lambda: consumer.list_topics(topic, timeout=_METADATA_S[-1])
        ).cluster_id
        if cluster_id and cluster_id != self.expected_id:
            raise other_cluster(self.label, self.expected_id, str(cluster_id))

    def kept_consumer(
        self, look_after: Callable[[], None] | None = None, **overrides: Any
    ) -> Consumer:
        """Create a consumer, as :meth:`consumer`, that stays connected between readings.

        After an outage it does not wait for librdkafka's 10 seconds, unless so configured.

        Args:
            look_after: a method that closes it if its login is refused while nobody reads.
            overrides: as there.
        """
        given = librdkafka(self.config, "consumer")
        if not any(name in given for name in ("reconnect.backoff.ms", _RECONNECT_MAX)):
            overrides = {_RECONNECT_MAX: _RECONNECT_MS, **overrides}
        return self.consumer(look_after, **overrides)

    def _make(
        self,
        kind: Callable[[dict[str, Any]], T],
        settings: dict[str, Any],
        look_after: Callable[[], None] | None = None,
    ) -> T:
        settings.setdefault("log_level", log_level())
        settings = self.login.checked(settings, self._errors, look_after)
        try:
            return kind({**settings, "logger": LIBRARY_LOG})
        except KafkaException as error:
            raise ConnectionFailed(
                f"no client for the {self.label} cluster: {reason(error)}",
                hint=f"Check {self.label}.kafka in the configuration.",
            ) from error

    def ask(self, what: str, question: Callable[[], T]) -> T:
        """Run a library call and translate its errors.

        Raises:
            ConnectionFailed, TimedOut, Refused, K2kError: depending on the library's error code.
        """
        try:
            return question()
        except KafkaException as error:
            raise self._translate(what, error) from error

    def _translate(self, what: str, error: KafkaException) -> K2kError:
        code = error.args[0].code() if error.args and hasattr(error.args[0], "code") else 0
        text = f"{what} on the {self.label} cluster: {reason(error)}"
        log.info("%s", text)
        if code in NOT_AUTHORIZED:
            hint = "Grant the principal what it needs (k2ktui check lists it)."
            return ClusterRefused(text, hint=hint)
        if code not in UNREACHABLE | NO_RESPONSE | {KafkaError.REQUEST_TIMED_OUT}:
            return K2kError(text)
        if keeps_out(error.args[0]):
            self._errors(error.args[0])
        if (refused := self.refused_login()) is not None:
            return refused
        if self._throttle.left_s and code not in UNREACHABLE:
            return TimedOut(
                f"{text}: the cluster throttles this client (quota)",
                hint="Raise the quotas of this client on that cluster, or wait.",
            )
        self._admin.replace()
        last = self._errors.last()
        if code in SILENT and is_silence(last):
            return self._explain_silence(text, certain=code not in NO_RESPONSE)
        text += f" ({clean_message(last)})" if last else ""
        if code in UNREACHABLE:
            where = f"bootstrap.servers and security.protocol of {self.label}.kafka"
            return ConnectionFailed(text, hint=f"Check that it is up, and {where}.")
        self._answers()  # the library may have waited for a broker that is gone
        return TimedOut(text, hint="Check that it is up and reachable from here.")

    def _explain_silence(self, text: str, *, certain: bool) -> K2kError:
        """Return the error for a request without an answer.

        Args:
            text: what was asked.
            certain: whether no broker answers; otherwise one broker may have ignored the request.
        """
        # The library repeats no error of a broker, and what it said may be long ago.
        if why := self._refusal():
            return no_connection(self.label, why)
        if certain or not self._answers():
            return no_answer(self.label)
        return TimedOut(text, hint="Check that it is up and reachable from here.")

    def _refusal(self) -> str:
        """Return why no known broker accepts connections; "" if one does or might."""
        return refusal(self._brokers | addresses(self.config.bootstrap_servers))

    def _answers(self) -> bool:
        """Whether any broker answers a request now."""
        try:
            self._list_topics(_ANSWERS_S)
        except KafkaException:
            return False
        return True

    def refused_login(self) -> K2kError | None:
        """Return the error of a login or a certificate that brokers refused just now, if any.

        That of any client of this cluster: a consumer reports only that nothing arrives.
        """
        try:
            heard = self._listen()
        except LoginFailed as error:
            return error
        if heard is None:
            return None
        self._admin.close()  # it would log in again and again
        return self.login.error(heard)

    def _look_after(self) -> None:
        """Close the admin client if its login is refused, while no thread asks for anything."""
        client = self._admin.current
        if client is not None:
            client.poll(0)
            if LOGINS.was_refused(self._admin_login, self._made_at):
                self._admin.close()

    def is_refused(self, since: float) -> bool:
        """Whether any client's login was refused since then, in monotonic seconds."""
        heard = self._errors.refusal(since)
        return heard is not None and heard.code() == LOGIN

    def require_login(self, since: float) -> None:
        """Raise LoginFailed if any client's login was refused since then, in monotonic seconds.

        A client that goes on would try the same login again.
        """
        heard = self._errors.refusal(since)
        if heard is not None and heard.code() == LOGIN:
            raise self.login.error(heard)

    def _listen(self, since: float = 0.0) -> KafkaError | None:
        """Return the recent login or certificate error, if any; none before monotonic ``since``."""
        # librdkafka calls error_cb only while it is polled.
        self.admin.poll(0)
        return self._errors.refusal(since)

    def wait(self, future: Future[T]) -> T:
        """Wait for an admin call's result; fail early if the cluster is down or refuses the login.

        Raises:
            KafkaException: the call failed or timed out, or the brokers refuse the login or have
                an untrusted certificate.
            ConnectionFailed: no broker accepts connections.
        """
        began = monotonic()
        look_after = _LOOK_AFTER_S if self._brokers else _LISTEN_EVERY_S
        look_at, refresh_after = began + look_after, _LOOK_AFTER_S
        while True:
            try:
                return future.result(_LISTEN_EVERY_S)
            except TimeoutError:
                waited = monotonic() - began
            known = self._listen()
            if known is not None and (waited > _REFUSED_AFTER_S or known.code() == LOGIN):
                raise KafkaException(known)
            if monotonic() >= look_at:
                self._look(list_first=not self._brokers)
                look_at = monotonic() + _LOOK_AFTER_S
            if waited >= refresh_after:
                # The library waits, busily, for the controller or leader that it knows, although
                # another broker may have become it: only new metadata makes it ask that one.
                with suppress(KafkaException):
                    self._list_topics(_METADATA_S[0])
                refresh_after *= 2
            # The library's own timeout is shorter, so its more specific error normally wins.
            if waited > REQUEST_TIMEOUT_S + 5:
                raise KafkaException(KafkaError(LOCAL_TIMED_OUT))

    def _look(self, *, list_first: bool = False) -> None:
        """Check that a known broker accepts connections; librdkafka reports only a timeout.

        Raises:
            ConnectionFailed: no known broker accepts connections.
        """
        why = self._refusal()
        if not why:
            return
        if list_first:
            # The library may know brokers other than the bootstrap servers.
            with suppress(KafkaException):
                self._list_topics(_METADATA_S[0])
                return
        raise no_connection(self.label, why)

    def results(self, what: str, futures: Mapping[Any, Future[T]]) -> dict[Any, T]:
        """Wait for an admin call's futures and raise the first failure."""
        return {
            key: self.ask(what, lambda f=future: self.wait(f))  # type: ignore[misc]
            for key, future in futures.items()
        }

    def topic_names(self) -> frozenset[str]:
        """Return the names of all topics the principal may describe."""
        metadata = self._metadata("listing topics")
        return frozenset(name for name, topic in metadata.topics.items() if topic.error is None)

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of all topics the principal may describe."""
        topics = self._metadata("listing topics").topics
        return {n: len(topic.partitions) for n, topic in topics.items() if topic.error is None}

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
        descriptions: dict[str, TopicDescription | KafkaError] = {}
        for name, future in futures.items():
            try:
                descriptions[name] = read_description(self.wait(future))
            except KafkaException as error:
                if error.args[0].code() in UNREACHABLE | NO_RESPONSE:
                    raise self._translate("describing topics", error) from error
                descriptions[name] = error.args[0]
        return descriptions

    def find(self, name: str) -> TopicDescription | None:
        """Describe a topic; return None only if the cluster reports that it does not exist.

        Raises:
            K2kError: whether the topic exists is unknown; callers must not treat it as missing.
        """
        topic = self.describe([name])[name]
        if isinstance(topic, TopicDescription):
            return topic
        if is_missing(topic):
            return None
        raise self._translate(f"describing topic {safe_text(name)}", KafkaException(topic))

    def offsets(
        self,
        partitions: Collection[Partition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        denied: set[Partition] | None = None,
    ) -> dict[Partition, int]:
        """Return an offset of each partition; partitions that fail are omitted.

        Those that the principal may not describe are added to ``denied``.

        With READ_COMMITTED, ``OffsetSpec.latest()`` is the last stable offset. A timestamp after
        the last record yields -1. A partition without a leader (broker restart, leader election, a
        new topic) is retried for up to ``LEADER_WAIT_S`` seconds.
        """
        offsets: dict[Partition, int] = {}
        until = 0.0  # counts from the first answer: a broker that stood still gave it late
        left, limits = set(partitions), list(_ANSWER_S)
        while left:
            asked = monotonic()
            try:
                left = self._offsets_once(left, spec, isolation, offsets, limits[0], denied)
                silent = monotonic() - asked > 0.9 * limits[0]
            except TimedOut:
                if not limits[1:]:
                    raise
                left, silent = left - offsets.keys(), True
            if is_gone := silent and bool(limits[1:]):  # and there may be another leader
                del limits[0]
            if is_gone or not until:
                until = monotonic() + LEADER_WAIT_S
            if not left or monotonic() > until:
                break
            sleep(_LEADER_POLL_S)
            # librdkafka keeps asking its cached leaders until its metadata is refreshed.
            self._metadata("finding leaders")
        return offsets

    def _offsets_once(
        self,
        partitions: Collection[Partition],
        spec: OffsetSpec,
        isolation: IsolationLevel,
        offsets: dict[Partition, int],
        limit: float,
        denied: set[Partition] | None,
    ) -> set[Partition]:
        """Query each leader once; return the partitions that have no leader at the moment."""
        asked = [TopicPartition(topic, partition) for topic, partition in partitions]
        futures, moving = dict[TopicPartition, Future[Any]](), set()
        for first in range(0, len(asked), _OFFSETS_AT_ONCE):
            some = dict.fromkeys(asked[first : first + _OFFSETS_AT_ONCE], spec)
            futures |= self.admin.list_offsets(
                some, isolation_level=isolation, request_timeout=limit
            )
        for where, future in futures.items():
            at = (where.topic, where.partition)
            try:
                offset = self.wait(future).offset
                if offset == OFFSET_INVALID:  # without an error, if its leader is gone
                    moving.add(at)
                else:
                    offsets[at] = offset
            except KafkaException as error:
                code = error.args[0].code()
                if code in UNREACHABLE | NO_RESPONSE:
                    raise self._translate("listing offsets", error) from error
                # A leader that has not heard of its new topic yet says that there is none.
                if code in LEADER_MOVED | TOPIC_GONE or code == NO_LEADER_KNOWN:
                    moving.add(at)
                elif code in NOT_AUTHORIZED and denied is not None:
                    denied.add(at)
        return moving

    def cluster_id(self) -> str:
        """Return the cluster id, "" if it has none.

        After the first time, it does not ask for all topics.
        DescribeCluster is not used anywhere: librdkafka 2.16 aborts the process (an assertion in
        ``rd_kafka_admin_response_parse``) if a broker answers that the cluster has no brokers. A
        KRaft broker that was suspended for longer than its session does so.
        """
        if self._topic:
            # An error is explained by asking as for the first time.
            with suppress(KafkaException):
                if cluster_id := self._list_topics(_METADATA_S[0], self._topic).cluster_id:
                    return str(cluster_id)
        return str(self._metadata("reaching a broker").cluster_id or "")

    def require_expected(self) -> None:
        """Ask for the cluster's id if one is expected.

        Raises:
            OtherCluster: another cluster answers.
            ConnectionFailed, TimedOut: the cluster does not answer.
        """
        if self.expected_id:
            self.cluster_id()

    def broker_ids(self, what: str) -> list[int]:
        """Return the ids of the brokers that the cluster has now; ``what`` is for messages.

        Raises:
            ConnectionFailed, TimedOut: the cluster did not answer.
        """
        return sorted(self._metadata(what).brokers)

    def _metadata(self, what: str) -> Any:
        *short, last = _METADATA_S
        self.admin.poll(0)  # what came while no thread asked is old
        began = monotonic()
        for seconds in short:
            try:
                return self._list_topics(seconds)
            except KafkaException as error:
                if self._listen(began) is not None:
                    raise self._translate(what, error) from error
                self._look()
        return self.ask(what, lambda: self._list_topics(last))

    def _list_topics(self, seconds: float, *only: str) -> Any:
        try:
            metadata = self.admin.list_topics(*only, timeout=seconds)
        except KafkaException as error:
            # A frame of the library has the client: it would log in again, with a login that was
            # refused, for as long as anybody keeps the error. It has no cause to hide.
            raise error.with_traceback(None) from None
        if self.expected_id and metadata.cluster_id and metadata.cluster_id != self.expected_id:
            self._admin.replace()  # it would stay with the brokers that it knows now
            raise other_cluster(self.label, self.expected_id, str(metadata.cluster_id))
        if not self._has_answered:
            self._has_answered = True
            LOGINS.accepted(self._admin_login)
        self._brokers = frozenset(
            (broker.host, broker.port) for broker in metadata.brokers.values()
        )
        if not only:
            existing = (name for name, topic in metadata.topics.items() if topic.error is None)
            self._topic = min(existing, default="")
        return metadata


def describe_readable(cluster: Cluster, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Describe topics; those that are missing or may not be described are left out."""
    described = cluster.describe(sorted(set(names)))
    return {name: topic for name, topic in described.items() if isinstance(topic, TopicDescription)}


def partitions_of(described: Mapping[str, TopicDescription | KafkaError]) -> list[Partition]:
    """Return the partitions of topics, of those that were described."""
    return [
        (topic.name, number)
        for topic in described.values()
        if isinstance(topic, TopicDescription)
        for number in range(topic.partitions)
    ]


def list_partitions(cluster: Cluster, topics: Collection[str]) -> list[Partition]:
    """Return the partitions of topics, of those that exist and can be described."""
    return partitions_of(describe_readable(cluster, topics))


def source_cluster(config: PipelineConfig) -> Cluster:
    """Return the source cluster of a pipeline."""
    return Cluster(config.source, "source")


def target_cluster(config: PipelineConfig) -> Cluster:
    """Return the target cluster of a pipeline."""
    return Cluster(config.target, "target")
