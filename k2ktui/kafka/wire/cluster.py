"""Send Kafka protocol requests to one cluster through kafka-python's network layer.

Used for operations that client libraries do not expose: fetching and producing whole record
batches, and moving a producer id and epoch between processes. Other code uses confluent-kafka.

Coroutines here run on kafka-python's event loop (``NetworkSelector``), not on asyncio's.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Any, Protocol, Self, TypeVar

from kafka.errors import KafkaError, NodeNotReadyError, UnknownBrokerIdError
from kafka.future import Future
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from k2ktui.errors import ConnectionFailed, LoginFailed
from k2ktui.kafka.unreachable import (
    OtherCluster,
    certificate_refused,
    login_refused,
    no_answer,
    no_connection,
    not_trusted,
    other_cluster,
    refusal,
)
from k2ktui.kafka.wire._kafka_python import ClosedInUseError, Selector, release_of
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE, Code, code_name
from k2ktui.kafka.wire.connections import (
    ConnectionManager,
    OtherClusterId,
    Unrecoverable,
    is_certificate_refused,
    is_closed,
    is_login,
    is_silence,
    is_untrusted,
    why,
)

log = logging.getLogger(__name__)

_T = TypeVar("_T")

# A fetch response may hold one batch larger than the requested maximum (KIP-74).
_MAX_RESPONSE_BYTES = 1 << 30
_REQUEST_MS = 30_000
# Kinds of coordinators, as FindCoordinator names them.
GROUP_KEY, TRANSACTION_KEY = 0, 1
_THROTTLE_PAUSE_S = _CONNECTING_S = 0.05
# Seconds to retry closed ports: enough for a listener that is just opening.
_CLOSED_S = 0.6


class NotSent(Exception):
    """The request did not reach the broker; it is safe to resend."""


class Throttled(NotSent):
    """The broker has asked this client to send nothing for some time, because of a quota."""


class OutcomeUnknown(Exception):
    """The connection was lost or the request timed out; the broker may have processed it."""


class CoordinatorError(Exception):
    """A coordinator refused the request, or retries ended without success."""

    def __init__(self, code: int, request: str) -> None:
        super().__init__(code, request)
        self.code = code
        self.request = request

    def __str__(self) -> str:
        return f"{self.request}: {code_name(self.code)}"


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """A partition's leader: broker id (-1 if none) and leader epoch (-1 if unknown)."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic's metadata from a broker; ``error`` is a protocol error code, 0 if none."""

    error: int
    topic_id: str = ""
    partitions: Mapping[int, PartitionLeader] = field(default_factory=dict)


class Loop:
    """An event loop that several ``Wire`` objects of one process share."""

    def __init__(self) -> None:
        self.net = Selector(slow_task_threshold_secs=0)

    def run(self, coroutine: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run the loop until the coroutine ends; return its value or raise its error."""
        return self.net.run(coroutine)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Schedule a coroutine; return the library's task, which supports ``cancel``."""
        return self.net.call_soon(coroutine)

    async def sleep(self, seconds: float) -> None:
        """Suspend the current coroutine for ``seconds``."""
        await self.net.sleep(seconds)

    def close(self) -> None:
        """Close the loop; wires on it must be closed first."""
        self.net.close()


class Signal:
    """A flag that one coroutine waits for and callbacks set."""

    def __init__(self, loop: Loop) -> None:
        self._net = loop.net
        self._future: Any = Future()
        self._set = False

    def set(self) -> None:
        """Wake the waiting coroutine, or make its next wait return at once."""
        self._set = True
        if not self._future.is_done:
            self._future.success(None)

    async def wait(self, timeout: float) -> None:
        """Wait until the flag is set or ``timeout`` seconds pass; clear the flag."""
        if not self._set and timeout > 0:
            self._future = future = Future()
            timer = self._net.call_later(timeout, self.set)
            await future
            self._net.cancel(timer)
        self._set = False


class Sleeper(Protocol):
    """Something that suspends a coroutine, such as a :class:`Loop`."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the current coroutine for ``seconds``."""


class CoordinatorWire(Protocol):
    """What requests to transaction coordinators need of a :class:`Wire`, which has the details.

    Tests run the same requests against a model of the coordinator.
    """

    @property
    def loop(self) -> Sleeper:
        """Where coroutines wait."""

    def version_of(self, request: type) -> int:
        """Return the highest request version that both sides support, -1 if none."""

    async def send(
        self, request: Any, node: int | None = None, timeout: float | None = None
    ) -> Any:
        """Send a request and return its response."""

    async def coordinator(self, transactional_id: str, timeout: float = 60.0) -> int:
        """Return the broker id of a transactional id's coordinator."""

    def forget_coordinator(self, transactional_id: str) -> None:
        """Discard the cached coordinator of a transactional id."""


class Wire:
    """Connections to one cluster.

    Args:
        loop: the event loop, shared with other ``Wire`` objects.
        options: keyword arguments of ``KafkaConnectionManager``, from
            ``kafka/properties/translation.py``.
        label: ``source`` or ``target``, for messages.
        cluster_id: the cluster that must answer; every connection asks its broker before anything
            else is sent. "" for any, see ``require``; None to ask for no id.
    """

    def __init__(
        self,
        loop: Loop,
        options: Mapping[str, Any],
        label: str,
        cluster_id: str | None = None,
    ) -> None:
        self.loop = loop
        self.label = label
        self._coordinators: dict[str, int] = {}
        settings = dict(options)
        settings.setdefault("receive_message_max_bytes", _MAX_RESPONSE_BYTES)
        settings["max_in_flight_requests_per_connection"] = 1000  # callers limit requests in flight
        self.request_timeout_s = settings.get("request_timeout_ms", _REQUEST_MS) / 1000
        self._manager = ConnectionManager(loop.net, **settings)
        self._manager.expected = cluster_id

    def require(self, cluster_id: str) -> None:
        """Let only this cluster answer from now on; "" for any.

        Raises:
            OtherCluster: another one has answered already; this object must not be used further.
        """
        self._manager.expected = cluster_id
        others = self._manager.ids - {cluster_id}
        if cluster_id and others:
            raise other_cluster(self.label, cluster_id, min(others))

    async def open(self, timeout: float, *, patient: bool = False) -> None:
        """Connect to a bootstrap broker.

        Args:
            timeout: seconds to wait for brokers that do not respond.
            patient: also retry closed ports for ``timeout`` seconds; otherwise a cluster whose
                ports are all closed is reported within a second.

        Raises:
            ConnectionFailed: no broker answered within ``timeout`` seconds, the login was refused,
                or the certificate is not trusted.
        """
        self._manager.closed_until = None if patient else monotonic() + _CLOSED_S
        try:
            await self._manager.bootstrap_async(timeout * 1000)
        except (KafkaError, Unrecoverable) as error:
            failed = self._not_open(timeout)
            log.info("%s", failed.message)
            raise failed from error
        log.debug("connected to the %s cluster", self.label)

    def _not_open(self, timeout: float) -> ConnectionFailed:
        failure = self._manager.failure
        if (other := self.as_other_cluster(failure)) is not None:
            return other
        if refused := self._login_error(failure):
            return refused
        if is_closed(failure) and self._manager.ports_are_closed:
            return no_connection(self.label, self.refusal() or why(failure))
        if is_silence(failure):
            return no_answer(self.label)
        return ConnectionFailed(
            f"the {self.label} cluster did not respond within {timeout:g} s: {why(failure)}",
            hint=f"Check bootstrap.servers and security.protocol of {self.label}.kafka.",
        )

    def _login_error(self, failure: Exception | None) -> LoginFailed | None:
        renewal = self._manager.renewal
        advice = renewal.advice if renewal else ""
        if is_login(failure):
            return login_refused(self.label, why(failure), advice)
        if is_certificate_refused(failure):
            return certificate_refused(self.label, why(failure), advice)
        return not_trusted(self.label, why(failure)) if is_untrusted(failure) else None

    def outage(self) -> ConnectionFailed | None:
        """Return why no connection could be made when each broker and bootstrap server was tried.

        None if one could be; ``LoginFailed`` if a login or a certificate is the cause.
        """
        outage = self._manager.outage
        if outage is None:
            return None
        node, failure = outage
        reason = f"{self._manager.address_of(node)}: {why(failure)}"
        if is_closed(failure):
            reason = self.refusal() or reason  # in the words of an attempt to connect again
        other = self.as_other_cluster(failure)
        return other or self._login_error(failure) or no_connection(self.label, reason)

    def trouble(self, node: int) -> str:
        """Return why a broker cannot be connected to; "" if its last attempt did not fail."""
        failure = self._manager.cause_of(node)
        where = f"broker {node} of the {self.label} cluster ({self._manager.address_of(node)})"
        return f"{where}: {why(failure)}" if failure else ""

    def refusal(self) -> str:
        """Return why no known broker accepts connections now; "" if one does or might."""
        cluster = self._manager.cluster
        known = [*cluster.bootstrap_brokers(), *cluster.brokers()]
        return refusal({(str(broker.host), int(broker.port)) for broker in known})

    def close(self) -> None:
        """Close all connections."""
        self._manager.close()

    @property
    def broker_version(self) -> str:
        """Kafka release that the broker's API versions show (:func:`release_of`); "" if unknown."""
        data = self._manager.broker_version_data
        return release_of(data) if data is not None else ""

    @property
    def answered(self) -> tuple[str, list[str]]:
        """Id of the cluster that answered, "" if unknown, and the addresses of its brokers."""
        ids = sorted(self._manager.ids)
        brokers = self._manager.cluster.brokers()
        hosts = ((f"[{b.host}]" if ":" in b.host else b.host, b.port) for b in brokers)
        return ids[0] if len(ids) == 1 else "", [f"{host}:{port}" for host, port in hosts]

    def version_of(self, request: type) -> int:
        """Return the highest request version that both sides support, -1 if none."""
        data = self._manager.broker_version_data
        try:
            return int(data.api_version(request)) if data is not None else -1
        except KafkaError:
            return -1

    async def send(
        self, request: Any, node: int | None = None, timeout: float | None = None
    ) -> Any:
        """Send a request and return its response; while a quota throttles, wait first.

        Raises:
            NotSent: there is no connection to the broker yet, or its address is not known yet.
            Throttled: a quota has throttled for ``timeout`` seconds.
            OutcomeUnknown: the connection was lost, or no response came within ``timeout`` seconds
                (default: ``request.timeout.ms``).
        """
        until = monotonic() + (self.request_timeout_s if timeout is None else timeout)
        while True:
            try:
                return await self.answer(self.post(request, node, timeout))
            except Throttled:
                if monotonic() > until:
                    raise
            await self.loop.sleep(_THROTTLE_PAUSE_S)

    async def send_when_connected(self, request: Any, node: int, timeout: float) -> Any:
        """Send a request and return its response; wait until the broker can be asked.

        Raises:
            NotSent: it could not be asked within ``timeout`` seconds.
            OutcomeUnknown: as for :meth:`send`; an attempt to connect that fails is one, too.
        """
        until = monotonic() + timeout
        while True:
            try:
                return await self.send(request, node, max(0.1, until - monotonic()))
            except NotSent:  # its address is not known yet, or an attempt to connect has failed
                if monotonic() > until:
                    raise
            await self.loop.sleep(_CONNECTING_S)

    def post(self, request: Any, node: int | None = None, timeout: float | None = None) -> Any:
        """Send a request without waiting; pass the returned future to ``answer``."""
        timeout = self.request_timeout_s if timeout is None else timeout
        try:
            return self._manager.send(request, node, timeout * 1000)
        except UnknownBrokerIdError:
            # It joined after the brokers were asked for, which the library repeats after 5 minutes.
            self._manager.cluster.request_update()
            return Future().failure(NodeNotReadyError(node))
        except KafkaError:  # nothing was sent; the manager knows why
            return Future().failure(NodeNotReadyError(node))

    async def answer(self, future: Any) -> Any:
        """Await the response to a posted request; errors as for ``send``.

        Raises:
            OtherCluster: the broker belongs to another cluster; the request was not sent.
        """
        try:
            return await future
        except NodeNotReadyError as error:
            if self._manager.is_throttled:
                raise Throttled(
                    f"the {self.label} cluster throttles this client (quota)"
                ) from error
            raise NotSent(f"no connection to the {self.label} broker yet") from error
        except KafkaError as error:
            if (other := self.as_other_cluster(error)) is not None:
                raise other from error
            raise OutcomeUnknown(f"{self.label} cluster: {why(error)}") from error

    def as_other_cluster(self, error: BaseException | None) -> OtherCluster | None:
        """Return why a request was not sent, if another cluster answers; None if that is not it."""
        if not isinstance(error, OtherClusterId):
            return None
        return other_cluster(self.label, self._manager.expected or "", error.cluster_id)

    @staticmethod
    def was_closed(error: BaseException | None) -> bool:
        """Return whether a request failed because the broker closed the connection in use."""
        return isinstance(error, ClosedInUseError)

    def drop(self, node: int) -> None:
        """Close the connection to a broker; requests in flight fail with OutcomeUnknown."""
        self._manager.close(node)

    async def metadata(
        self, topics: Collection[str], timeout: float | None = None
    ) -> dict[str, TopicInfo]:
        """Request topic metadata (never creating topics) and update the known brokers.

        Raises:
            NotSent, OutcomeUnknown: as for ``send``.
        """
        response = await self._metadata(topics, timeout)
        return {topic.name: _topic_info(topic) for topic in response.topics}

    async def brokers(self, timeout: float | None = None) -> list[int]:
        """Request the current brokers, update their addresses, and return their ids.

        Raises:
            NotSent, OutcomeUnknown: as for ``send``.
        """
        response = await self._metadata((), timeout)
        return [int(broker.node_id) for broker in response.brokers]

    async def _metadata(self, topics: Collection[str], timeout: float | None) -> Any:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            max_version=12,
        )
        response = await self.send(request, timeout=timeout)
        try:
            self._manager.identify(str(response.cluster_id or ""))
        except OtherClusterId as error:
            raise other_cluster(
                self.label, self._manager.expected or "", error.cluster_id
            ) from error
        self._manager.cluster.update_metadata(response)
        return response

    async def coordinator(self, transactional_id: str, timeout: float = 60.0) -> int:
        """Return the broker id of a transactional id's coordinator, cached after one lookup.

        Raises:
            CoordinatorError: the principal may not use this transactional id, or no coordinator
                was found within ``timeout`` seconds (with the last retriable code).
        """
        known = self._coordinators.get(transactional_id)
        if known is not None:
            return known
        until = monotonic() + timeout
        broker = await self.find_coordinator(transactional_id, TRANSACTION_KEY, timeout)
        self._coordinators[transactional_id] = broker.node_id
        await self._learn(broker, until)
        return int(broker.node_id)

    async def find_coordinator(self, key: str, key_type: int, timeout: float) -> Any:
        """Return a broker's answer about a coordinator; errors as for :meth:`coordinator`.

        The cluster creates the internal topic of these coordinators if it is missing.
        """
        until = monotonic() + timeout
        for attempt in count():
            request = FindCoordinatorRequest(
                key=key, key_type=key_type, coordinator_keys=[key], max_version=3
            )
            try:
                response = await self.send(request, timeout=max(0.1, until - monotonic()))
                code = response.error_code
            except (NotSent, OutcomeUnknown):
                code = Code.COORDINATOR_NOT_AVAILABLE
            if code == Code.NONE:
                return response
            if code not in COORDINATOR_RETRIABLE or monotonic() > until:
                break
            await self.loop.sleep(back_off(attempt))
        raise CoordinatorError(code, "FindCoordinator")

    async def _learn(self, coordinator: Any, until: float) -> None:
        """Ask for the brokers if a coordinator has another address than is known."""
        known = self._manager.cluster.broker_metadata(coordinator.node_id)
        if known is None or (known.host, known.port) != (coordinator.host, coordinator.port):
            with contextlib.suppress(NotSent, OutcomeUnknown):  # the next request fails, and asks
                await self.brokers(max(0.1, until - monotonic()))

    def forget_coordinator(self, transactional_id: str) -> None:
        """Discard the cached coordinator of a transactional id."""
        self._coordinators.pop(transactional_id, None)


class WireClient:
    """Connections to one cluster, with an event loop of their own; not thread-safe.

    Args:
        options: wire options, from ``k2ktui.kafka.properties.translation``.
        label: ``source`` or ``target``, for messages.
    """

    def __init__(self, options: Mapping[str, Any], label: str) -> None:
        self._loop = Loop()
        self._wire = Wire(self._loop, options, label)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, timeout: float) -> None:
        """Connect.

        Raises:
            ConnectionFailed: no broker answered within ``timeout`` seconds, the login was refused,
                or the certificate is not trusted.
        """
        self._loop.run(lambda: self._wire.open(timeout))

    def run(self, requests: Callable[[Wire], Coroutine[Any, Any, _T]]) -> _T:
        """Run requests on these connections; return their result or raise their error."""
        result: _T = self._loop.run(lambda: requests(self._wire))
        return result

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()
        self._loop.close()


def back_off(attempt: int) -> float:
    """Return the seconds to wait before the next retry; ``attempt`` counts from 0."""
    return float(min(0.02 * 2 ** min(attempt, 5), 0.5))


def _topic_info(topic: Any) -> TopicInfo:
    topic_id: uuid.UUID | None = getattr(topic, "topic_id", None)
    return TopicInfo(
        error=topic.error_code,
        topic_id=topic_id.hex if topic_id and topic_id.int else "",
        partitions={
            p.partition_index: PartitionLeader(p.leader_id, getattr(p, "leader_epoch", -1))
            for p in topic.partitions
        },
    )
