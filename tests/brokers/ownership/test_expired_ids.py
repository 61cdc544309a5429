"""The coordinator forgets transactional ids that were not used (transactional.id.expiration.ms)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.transaction_state import describe_transaction
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, TIMEOUT, eventually
from tests.support.pipelines.copied import Copied

_EXPIRING = {
    # Longer than a busy machine takes from one use to the next.
    "transactional.id.expiration.ms": "15000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture(scope="module")
def expiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    directory = tmp_path_factory.mktemp("expiring")
    with KafkaNode("expiring", directory / "node", _EXPIRING) as node:
        yield node.start(START_S)


class Runs:
    """The runs of a test, closed at its end."""

    def __init__(self, copied: Copied, closing: ExitStack) -> None:
        self._copied, self._closing = copied, closing

    def start(self) -> Ownership:
        """A run that copies the pipeline alone, with two slots."""
        copied = self._copied
        pair = ClusterPair("cluster-a", copied.target.cluster_id, "m")
        options = wire(copied.config.target, "producer")
        ownership = make_ownership(copied.config, copied.cluster, options, 1, pair)
        self._closing.callback(ownership.close, fence=False)
        ownership.take_over(2)
        return ownership

    def await_expiry(self) -> None:
        """Wait until the coordinator has forgotten the lock and the slots."""
        copied = self._copied
        with Probe(wire(copied.config.target, "producer"), "target") as probe:
            probe.open(TIMEOUT)
            for part in ("driver", "state", "0", "1"):
                name = f"{copied.name}.{part}"

                def has_expired(name: str = name) -> bool:
                    return probe.run(lambda wire: describe_transaction(wire, name, TIMEOUT)) is None

                eventually(has_expired, f"{name} is forgotten")


@pytest.fixture
def runs(expiring: KafkaNode, tmp_path: Path) -> Iterator[Runs]:
    with ExitStack() as closing:
        yield Runs(Copied(tmp_path, expiring, expiring), closing)


def test_a_run_whose_ids_have_expired_goes_on(runs: Runs) -> None:
    """No other run has raised the epoch: this one does not end, whatever asks first and next."""
    run = runs.start()
    run.renew(0)
    term = run.run.term
    runs.await_expiry()
    with pytest.raises(OwnershipLost, match=r"forgotten .* transactional\.id\.expiration\.ms"):
        run.renew(0)
    with pytest.raises(OwnershipLost, match=r"transactional\.id\.expiration\.ms"):
        run.renew(1)  # of the driver's next slot
    with pytest.raises(OwnershipLost, match=r"transactional\.id\.expiration\.ms"):
        run.confirm()  # as where no lap runs: it has had the run end as fenced by another one
    assert run.must_take_over
    run.take_over(2)
    assert run.run.term == term + 1 and not run.must_take_over
    for slot in range(2):
        run.renew(slot)


def test_a_run_whose_expired_ids_another_run_has_taken_ends(runs: Runs) -> None:
    run = runs.start()
    runs.await_expiry()
    other = runs.start()
    with pytest.raises(Superseded):
        run.renew(0)
    other.renew(0)


def test_a_former_owner_that_asks_first_after_both_have_expired_ends(runs: Runs) -> None:
    """Its bump creates the lock again; the other run's record says who owns the pipeline."""
    run = runs.start()
    runs.start()
    runs.await_expiry()
    with pytest.raises(Superseded):
        run.confirm()
