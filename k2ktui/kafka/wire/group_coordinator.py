"""Send requests about consumer groups to their coordinators, with retries.

A broker answers the requests of one connection in order, and a commit waits for its record to be
written. Bulk requests are therefore spread over several connections.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Generic, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.wire.cluster import (
    GROUP_KEY,
    NotSent,
    OutcomeUnknown,
    Wire,
    WireClient,
    back_off,
)
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE, Code

log = logging.getLogger(__name__)

T = TypeVar("T")

_AHEAD = 4
_KEYS_A_REQUEST = 500
_ASIDE_S = 5.0
_SETUP_S = 10.0
# A restarting broker is back within seconds; the library's back-off would grow to 30 seconds.
_RECONNECT_MS = 1000
PASSING = COORDINATOR_RETRIABLE | {Code.REQUEST_TIMED_OUT}
# What a broker says of each group of a batch, not of the batch because of one of them.
_OF_EACH = frozenset(
    {
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.GROUP_ID_NOT_FOUND,
        Code.UNSUPPORTED_VERSION,
    }
)


@dataclass(frozen=True, slots=True)
class GroupError:
    """Why the request failed for one group.

    Attributes:
        code: protocol error code.
        reason: message that replaces the code's own description; empty if the code suffices.
        doubtful: the coordinator may have carried out the request despite the error.
    """

    code: int
    reason: str = ""
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class BatchRequest(Generic[T]):
    """One kind of request for many groups, sent in batches.

    Attributes:
        batch: maximum number of groups per request.
        build: returns the request for a batch of groups.
        read: takes the batch and the response; yields an answer or an error for each group.
        connections: maximum number of connections per broker to spread the requests over.
    """

    batch: int
    build: Callable[[Sequence[str]], Any]
    read: Callable[[Sequence[str], Any], Iterable[tuple[str, T | GroupError]]]
    connections: int = 1


@dataclass(slots=True)
class _Round(Generic[T]):
    """One attempt for all groups without an answer; ``silent`` maps failed brokers to errors.

    ``spoiled`` are the groups of batches that failed as a whole, perhaps because of one of them.
    """

    request: BatchRequest[T]
    answers: dict[str, T | GroupError] = field(default_factory=dict)
    silent: dict[int, GroupError] = field(default_factory=dict)
    spoiled: set[str] = field(default_factory=set)


class GroupCoordinatorClient(WireClient):
    """Connections to the brokers of one cluster, and the coordinators of its groups.

    Args:
        options: wire options, from ``k2ktui.kafka.properties.translation``.
        label: ``source`` or ``target``, for messages.
        patience: seconds without progress after which a batch request stops retrying.
    """

    def __init__(self, options: Mapping[str, Any], label: str, patience: float) -> None:
        own = {
            "reconnect_backoff_max_ms": _RECONNECT_MS,
            "socket_connection_setup_timeout_ms": min(patience, _SETUP_S) * 1000,
        }
        self._options = own | dict(options)
        super().__init__(self._options, label)
        self._label, self._patience = label, patience
        self._connections = [self._wire]
        self._coordinators: dict[str, int] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections[1:]:
            connection.close()
        super().close()

    async def _ask_all_brokers(self, make: Callable[[], Any]) -> dict[int, Any | GroupError]:
        """Send a request to every broker; return the response or error by broker id.

        Raises:
            NotSent, OutcomeUnknown: the list of brokers could not be fetched.
        """
        brokers = await self._wire.brokers(min(self._patience, _ASIDE_S))
        posted = {node: self._wire.post(make(), node, self._patience) for node in brokers}
        responses: dict[int, Any | GroupError] = {}
        for node, future in posted.items():
            try:
                responses[node] = await self._wire.answer(future)
            except (NotSent, OutcomeUnknown) as error:
                responses[node] = _connection_error(error)
        return responses

    async def _ask(
        self, groups: Collection[str], request: BatchRequest[T]
    ) -> dict[str, T | GroupError]:
        """Send the request for every group; return an answer or an error for each.

        Transient errors (a coordinator that moves or loads, a lost connection) are retried until
        ``patience`` seconds pass without progress, so a broker may receive a request repeatedly.
        The groups of a batch that failed as a whole are asked for again one by one: brokers answer
        one bad group of a batch with an error for all of them.
        """
        answers: dict[str, T | GroupError] = {}
        pending = list(dict.fromkeys(groups))
        await self._widen(min(request.connections, len(pending) // (request.batch * 2 * _AHEAD)))
        until, attempt = monotonic() + self._patience, 0
        doubtful: set[str] = set()
        alone: set[str] = set()
        while pending:
            attempted = await self._attempt(pending, request, alone)
            answered, spoiled = attempted.answers, attempted.spoiled - alone
            alone |= spoiled
            doubtful |= {group for group, answer in answered.items() if _doubtful(answer)}
            settled = {
                group: answer
                for group, answer in answered.items()
                if not is_retriable(answer) and group not in spoiled
            }
            answers |= settled
            pending = [group for group in pending if group not in settled]
            if settled or any(not is_retriable(answered[group]) for group in spoiled):
                until, attempt = monotonic() + self._patience, 0
            elif monotonic() > until:
                return answers | {
                    group: replace(answer, doubtful=group in doubtful)
                    for group, answer in answered.items()
                    if isinstance(answer, GroupError)
                }
            if pending:
                log.info("%d groups asked again, attempt %d", len(pending), attempt + 1)
                await self._gather_strength(pending, attempt)
                attempt += 1
        return answers

    async def _gather_strength(self, pending: Iterable[str], attempt: int) -> None:
        for group in pending:
            self._coordinators.pop(group, None)
        await self._loop.sleep(back_off(attempt))
        for connection in self._connections:
            try:
                await connection.brokers(min(self._patience, _ASIDE_S))
            except (NotSent, OutcomeUnknown):
                return

    async def _widen(self, connections: int) -> None:
        while len(self._connections) < connections:
            connection = Wire(self._loop, self._options, self._label)
            try:
                await connection.open(min(self._patience, _ASIDE_S))
            except ConnectionFailed:
                connection.close()
                return
            self._connections.append(connection)

    async def _attempt(
        self, groups: Sequence[str], request: BatchRequest[T], alone: Collection[str]
    ) -> _Round[T]:
        at = _Round(request, dict[str, T | GroupError](await self._locate(groups)))
        located = [group for group in groups if group not in at.answers]
        batches = [
            *self._split_by_broker([g for g in located if g not in alone], request.batch),
            *self._split_by_broker([g for g in located if g in alone], 1),
        ]
        connections = self._connections[: request.connections]
        window: deque[tuple[int, Sequence[str], Wire, Any]] = deque()
        for number, (node, names) in enumerate(batches):
            if len(window) >= _AHEAD * len(connections):
                await self._collect(at, *window.popleft())
            if node in at.silent:
                at.answers |= dict.fromkeys(names, at.silent[node])
                continue
            wire = connections[number % len(connections)]
            future = wire.post(request.build(names), node, self._patience)
            window.append((node, names, wire, future))
        while window:
            await self._collect(at, *window.popleft())
        return at

    def _split_by_broker(
        self, groups: Iterable[str], batch: int
    ) -> Iterable[tuple[int, Sequence[str]]]:
        """Yield the broker and groups of each request, alternating between brokers."""
        by_node: dict[int, list[str]] = defaultdict(list)
        for group in groups:
            by_node[self._coordinators[group]].append(group)
        longest = max(map(len, by_node.values()), default=0)
        for first in range(0, longest, batch):
            for node, members in by_node.items():
                if names := members[first : first + batch]:
                    yield node, names

    async def _collect(
        self, at: _Round[T], node: int, names: Sequence[str], wire: Wire, future: Any
    ) -> None:
        try:
            response = await wire.answer(future)
        except (NotSent, OutcomeUnknown) as error:
            # Skip this broker's remaining batches: each would wait for the same timeout in turn.
            lost = _connection_error(error)
            at.silent[node] = replace(lost, doubtful=False)
            at.answers |= dict.fromkeys(names, lost)
            if isinstance(error, OutcomeUnknown) and len(names) > 1:
                at.spoiled.update(names)  # the broker may have closed the connection because of one
            return
        unanswered = GroupError(
            Code.COORDINATOR_NOT_AVAILABLE, "the broker's response does not contain it"
        )
        answers: dict[str, T | GroupError] = dict.fromkeys(names, unanswered)
        answers |= dict(at.request.read(names, response))
        at.answers |= answers
        codes = {
            answer.code if isinstance(answer, GroupError) else 0 for answer in answers.values()
        }
        if len(names) > 1 and len(codes) == 1 and not codes <= PASSING | _OF_EACH | {Code.NONE}:
            at.spoiled.update(names)

    async def _locate(self, groups: Iterable[str]) -> dict[str, GroupError]:
        """Look up unknown coordinators; return the groups for which that failed."""
        unknown = [group for group in groups if group not in self._coordinators]
        batch = _KEYS_A_REQUEST if self._wire.version_of(FindCoordinatorRequest) >= 4 else 1
        refused: dict[str, GroupError] = {}
        window: deque[tuple[Sequence[str], Any]] = deque()
        for first in range(0, len(unknown), batch):
            if len(window) >= _AHEAD:
                refused |= await self._read_locations(*window.popleft())
            names = unknown[first : first + batch]
            window.append((names, self._wire.post(_find(names), None, self._patience)))
        while window:
            refused |= await self._read_locations(*window.popleft())
        return refused

    async def _read_locations(self, groups: Sequence[str], future: Any) -> dict[str, GroupError]:
        try:
            response = await self._wire.answer(future)
        except (NotSent, OutcomeUnknown) as error:
            return dict.fromkeys(groups, replace(_connection_error(error), doubtful=False))
        if not response.coordinators:
            coordinators = {groups[0]: (response.error_code, response.node_id)}
        else:
            coordinators = {
                coordinator.key: (coordinator.error_code, coordinator.node_id)
                for coordinator in response.coordinators
            }
        self._coordinators |= {
            group: node for group, (code, node) in coordinators.items() if not code
        }
        missing = dict.fromkeys(groups, (Code.COORDINATOR_NOT_AVAILABLE, -1))
        return {
            group: GroupError(code) for group, (code, _) in (missing | coordinators).items() if code
        }


def is_retriable(answer: object) -> bool:
    """Whether an answer is a transient error."""
    return isinstance(answer, GroupError) and answer.code in PASSING


def _doubtful(answer: object) -> bool:
    return isinstance(answer, GroupError) and answer.doubtful


def _connection_error(error: NotSent | OutcomeUnknown) -> GroupError:
    return GroupError(Code.NETWORK_EXCEPTION, str(error), isinstance(error, OutcomeUnknown))


def _find(groups: Sequence[str]) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(
        key=groups[0], key_type=GROUP_KEY, coordinator_keys=list(groups), max_version=6
    )
