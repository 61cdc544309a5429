"""How long requests to a coordinator may take, with a wire that never gets a response."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.producer import EndTxnRequest

from k2ktui.kafka.admin import probe
from k2ktui.kafka.admin.probe import NotDisclosed, Probe
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire import cluster, transactions
from k2ktui.kafka.wire.cluster import CoordinatorError, Loop, NotSent, OutcomeUnknown
from k2ktui.kafka.wire.codes import Code
from k2ktui.kafka.wire.transactions import add_partitions, end_transaction

_PRODUCER = Producer("id", 1, 1)


class SilentWire:
    """A coordinator that takes every request and never responds; nothing waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.timeouts: list[float] = []
        self.loop = self
        monkeypatch.setattr(transactions, "monotonic", lambda: self.now)
        # Only the module's clock: the event loop needs the real one.
        monkeypatch.setattr(probe, "time", SimpleNamespace(monotonic=lambda: self.now))

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def coordinator(self, name: str, timeout: float = 60.0) -> int:
        self.timeouts.append(timeout)
        return 1

    def forget_coordinator(self, name: str) -> None:
        """It never moves."""

    def close(self) -> None:
        """It has no connections."""

    async def send(self, request: Any, node: int | None = None, timeout: float = 30.0) -> Any:
        self.timeouts.append(timeout)
        self.now += timeout
        raise OutcomeUnknown


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Any:
    return SilentWire(monkeypatch)


def test_partitions_are_added_within_the_deadline(wire: Any) -> None:
    with pytest.raises(CoordinatorError):
        Loop().run(lambda: add_partitions(wire, _PRODUCER, [("t", 0)], 20.0))
    assert wire.now < 22


class NewTopicWire(SilentWire):
    """A coordinator that knows a partition some requests later than the client, or never does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, unknown: int) -> None:
        super().__init__(monkeypatch)
        self._unknown = unknown

    async def send(self, request: Any, node: int | None = None, timeout: float = 30.0) -> Any:
        self._unknown -= 1
        code = Code.NONE if self._unknown < 0 else Code.UNKNOWN_TOPIC_OR_PARTITION
        result = SimpleNamespace(partition_index=0, partition_error_code=code)
        topic = SimpleNamespace(name="t", results_by_partition=[result])
        return SimpleNamespace(results_by_topic_v3_and_below=[topic])


def test_a_partition_that_the_coordinator_does_not_know_yet_is_added_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire: Any = NewTopicWire(monkeypatch, 3)
    assert Loop().run(lambda: add_partitions(wire, _PRODUCER, [("t", 0)])) == {}
    assert 0 < wire.now < 1


@pytest.mark.parametrize(("deadline", "waited"), [(60.0, 5.0), (0.0, 0.0)])
def test_a_partition_that_does_not_exist_is_refused(
    monkeypatch: pytest.MonkeyPatch, deadline: float, waited: float
) -> None:
    wire: Any = NewTopicWire(monkeypatch, 1_000_000)
    refused = Loop().run(lambda: add_partitions(wire, _PRODUCER, [("t", 0)], deadline))
    assert refused == {("t", 0): Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert waited <= wire.now < waited + 0.1


@pytest.mark.parametrize(("deadline", "longest"), [(20.0, 20.0), (60.0, 30.0)])
def test_a_commit_without_a_response_is_unknown_and_not_repeated(
    wire: Any, deadline: float, longest: float
) -> None:
    with pytest.raises(OutcomeUnknown):
        Loop().run(lambda: end_transaction(wire, _PRODUCER, commit=True, deadline=deadline))
    assert wire.timeouts == [deadline, longest]


class BrokenWire(SilentWire):
    """A coordinator that no request reaches: each fails in a moment, always with this error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        super().__init__(monkeypatch)
        self._error = error

    async def send(self, request: Any, node: int | None = None, timeout: float = 30.0) -> Any:
        self.timeouts.append(timeout)
        self.now += 0.01
        raise self._error


@pytest.mark.parametrize("error", [None, NotSent(), OutcomeUnknown()])
def test_a_transactional_id_is_checked_within_ten_seconds(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire: Any = BrokenWire(monkeypatch, error) if error else SilentWire(monkeypatch)
    monkeypatch.setattr(cluster, "Wire", lambda *_: wire)
    asking = Probe({"bootstrap_servers": ["127.0.0.1:1"]}, "target")
    with asking, pytest.raises(NotDisclosed, match=Code.COORDINATOR_NOT_AVAILABLE.name):
        asking.may_use_transactional_id("id")
    assert max(wire.timeouts) <= 10
    assert wire.now < 12
    assert len(wire.timeouts) < 500, "a request that fails at once is not repeated at once"


def test_the_check_of_a_transactional_id_ends_no_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Brokers compare the producer id first, and allocate none as large as this one."""
    wire: Any = SilentWire(monkeypatch)
    sent: list[Any] = []

    async def send(request: Any, *_: object) -> Any:
        sent.append(request)
        return SimpleNamespace(error_code=Code.INVALID_PRODUCER_ID_MAPPING)

    wire.send = send
    monkeypatch.setattr(cluster, "Wire", lambda *_: wire)
    with Probe({"bootstrap_servers": ["127.0.0.1:1"]}, "target") as asking:
        assert asking.may_use_transactional_id("id") == ""
    (request,) = sent
    assert isinstance(request, EndTxnRequest) and request.transactional_id == "id"
    assert request.producer_id > 1 << 62 and not request.committed
