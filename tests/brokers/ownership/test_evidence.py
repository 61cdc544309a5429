"""What earlier runs left on the target is read, and bounds the next term."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.engine.records.cleared import Cleared
from k2ktui.engine.records.evidence import Trace
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.evidence_reader import read_evidence
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import (
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    produce,
    unique_name,
)
from tests.support.pipelines.copied import Copied


def _lose_positions(copied: Copied) -> None:
    """Delete the commit topic, and make it again as brokers would."""
    delete_topic(copied.target, copied.commits)
    create_topic(copied.target, copied.commits, 1, {"cleanup.policy": "compact"})


def _runner(term: int) -> Runner:
    return Runner("h-1", "h", "ops", 1, 1, 1, RunnerState.STOPPED, term=term, source="c1")


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


def test_a_pipeline_that_never_ran_left_nothing(copied: Copied) -> None:
    evidence = read_evidence(copied.config, copied.cluster)
    assert not evidence.terms and not evidence.mapped and evidence.lost_term() == 0


def test_each_kind_is_read(copied: Copied) -> None:
    copied.term = 3
    topic = unique_name()
    create_topic(copied.source, topic, 1)
    produce(copied.source, topic, [b"a", b"b", b"c"])
    copied.copy(topic)
    at = SourcePartition(topic, 0)
    store = StateStore(copied.config, copied.cluster)
    store.put([_runner(4), Cleared(topic, "ann", 1, partitions={1: 5})])
    store.close()
    evidence = read_evidence(copied.config, copied.cluster)
    assert evidence.mapped[at].term == 3 and evidence.mapped[at].end == 3
    assert evidence.terms == {Trace.MAPPINGS: 3, Trace.HEARTBEATS: 4}
    assert evidence.sources == {4: "c1"} and evidence.term == 5
    assert evidence.find_lost({at: True}, 4).keys() == {at}


@pytest.mark.parametrize("transactional", ["enabled", "disabled"])
def test_the_next_term_is_above_all_that_is_left(copied: Copied, transactional: str) -> None:
    """Planted: the term begins at 1, and mappings of term 7 count before those of the next run."""
    copied.settings = {
        "features": {"exactlyOnce": transactional, "autoCreateControlTopics": "enabled"}
    }
    store = StateStore(copied.config, copied.cluster)
    store.put([_runner(7)])
    store.close()
    _lose_positions(copied)
    for lost, term in ((7, 8), (7, 9)):
        ownership = make_ownership(
            copied.config, copied.cluster, wire(copied.config.target, "producer"), 1
        )
        try:
            ownership.take_over(1)
            assert (ownership.run.term, ownership.lost_term) == (term, lost)
        finally:
            ownership.close()


def test_records_deleted_at_the_start_are_a_loss(copied: Copied) -> None:
    def take_over() -> tuple[int, int]:
        options = wire(copied.config.target, "producer")
        ownership = make_ownership(copied.config, copied.cluster, options, 1)
        try:
            ownership.take_over(1)
            return ownership.run.term, ownership.lost_term
        finally:
            ownership.close()

    assert take_over() == (2, 0)
    delete_before(copied.target, copied.commits, 1)  # the run record of term 1, and a position
    assert take_over() == (3, 2)
    assert take_over() == (4, 2)  # it stays so until the positions are rebuilt or cleared
    delete_before(copied.target, copied.commits, end_offsets(copied.target, copied.commits)[0])
    # Nothing else is left of that pipeline but its transactional ids.
    assert take_over()[1] == 1
