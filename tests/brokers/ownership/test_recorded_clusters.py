"""A run compares its clusters again once it owns the pipeline, and adopts their aliases.

Before, only the preflight compared them: a run that had passed it went on, although another one had
recorded another cluster in between, and wrote its own ids over the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.run_record import Run, run_key, run_value
from k2ktui.engine.records.state import Position, SourcePartition, position_key, position_value
from k2ktui.errors import Refused
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.fencing_errors import LayoutChanged
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, produce
from tests.support.pipelines.copied import Copied


class Runs:
    """Drivers of one pipeline, closed at the test's end."""

    def __init__(self, copied: Copied) -> None:
        self.copied, self._made = copied, list[Ownership]()

    def pair(self, source: str, *aliases: str) -> ClusterPair:
        # The target's id is its own: the driver's connections compare it.
        return ClusterPair(source, self.copied.target.cluster_id, "m", aliases)

    def make(self, pair: ClusterPair | None) -> Ownership:
        options = wire(self.copied.config.target, "producer")
        made = make_ownership(self.copied.config, self.copied.cluster, options, 1, pair)
        self._made.append(made)
        return made

    def recorded(self) -> ClusterPair:
        return self.copied.commit_state().run.pair

    def put_position(self) -> None:
        position = Position(5, 0, -1, "", 1, 0, "t", 0)
        key = position_key(self.copied.name, SourcePartition("t", 0))
        produce(self.copied.target, self.copied.commits, [Out(position_value(position), key)])

    def close(self) -> None:
        for driver in self._made:
            driver.close(fence=False)


@pytest.fixture
def runs(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[Runs]:
    made = Runs(Copied(tmp_path, source, target))
    yield made
    made.close()


def test_positions_of_another_cluster_are_refused_after_the_take_over(runs: Runs) -> None:
    runs.make(runs.pair("A")).take_over(1)
    runs.put_position()
    late = runs.make(runs.pair("B"))
    with pytest.raises(Refused, match="id B, and the positions belong to A"):
        late.take_over(1)
    assert runs.recorded() == runs.pair("A")
    again = runs.make(runs.pair("A"))
    again.take_over(1)
    assert again.renew(0).producer_id >= 0, "nothing is left of the one that was refused"


def test_a_run_adopts_the_aliases_on_record_and_keeps_them(runs: Runs) -> None:
    first = runs.make(runs.pair("A"))
    first.take_over(1)
    own = first.renew(0).producer_id
    runs.put_position()
    accepted = runs.pair("A").accept(runs.pair("B"))
    run = Run(first.run.term + 1, 1, runs.copied.name, pair=accepted, registers=True)
    produce(runs.copied.target, runs.copied.commits, [Out(run_value(run), run_key(run.name))])

    later = runs.make(runs.pair("B"))
    state = later.take_over(1)
    assert later.pair == runs.recorded() == runs.pair("B", "A")
    assert later.renew(0).producer_id == own and not later.retired, "it is its own id still"
    assert state.registrations.keys() == later.read().registrations.keys()
    # What moves positions or fences the pipeline copies nothing, and keeps the record.
    runs.make(None).take_over(0)
    assert runs.recorded() == runs.pair("B", "A")
    with pytest.raises(Refused, match="id A, and the positions belong to B"):
        runs.make(runs.pair("A")).take_over(1)


def test_a_new_start_on_another_cluster_keeps_no_alias(runs: Runs) -> None:
    runs.make(runs.pair("A")).take_over(1)
    runs.make(runs.pair("B")).take_over(1)
    assert runs.recorded() == runs.pair("B")


def test_runs_that_share_a_pipeline_do_not_fight(runs: Runs) -> None:
    """One that has the former id divides nothing, takes no slot, and leaves the record."""
    whole = runs.make(runs.pair("A"))
    whole.divide(2)
    layout = whole.publish_layout()
    runs.put_position()
    accepting = runs.make(None)
    accepting.take_over(0)
    pair = runs.pair("A").accept(runs.pair("B"))
    accepting.accept_pair(pair, {})
    assert runs.recorded() == pair

    with pytest.raises(LayoutChanged):
        runs.make(runs.pair("A")).of_slot(0, layout.id).take_over(1)
    late = runs.make(runs.pair("A"))
    with pytest.raises(Refused, match="id A, and the positions belong to B"):
        late.divide(2)
    assert runs.recorded() == pair

    new = runs.make(runs.pair("B"))
    new.divide(2)
    layout = new.publish_layout()
    assert runs.recorded() == pair
    slot = runs.make(runs.pair("B")).of_slot(1, layout.id)
    slot.take_over(1)
    assert slot.pair == pair
    slot.close(fence=False)
    other = runs.make(runs.pair("A")).of_slot(0, layout.id)
    with pytest.raises(Refused, match="id A, and the positions belong to B"):
        other.take_over(1)
    other.close(fence=False)
