"""Checks that need what only a drill knows: they pass, or fail, inside a drill."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from k2ktui.drill.files import reverse_path
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.steps import find_change
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, client, delete_before
from tests.support.drill.checks import member
from tests.support.drill.runs import QUICK, Pair, Yes, check_of
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow
Act = Callable[[], object]


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Pair:
    return Pair(tmp_path, source, target)


@dataclass
class Actor(Yes):
    """An operator who does something once when a phase runs, or when the pipeline was fenced."""

    in_phase: dict[DrillPhase, Act] = field(default_factory=dict)
    when_fenced: Act | None = None

    def show(self, drill: Drill) -> None:
        for phase, act in list(self.in_phase.items()):
            if drill.record(phase).status is PhaseStatus.RUNNING:
                del self.in_phase[phase]
                act()
        change = find_change(drill, ChangeKind.EPOCHS)
        if self.when_fenced and change is not None and change.status is ChangeStatus.MADE:
            act, self.when_fenced = self.when_fenced, None
            act()


@contextmanager
def reading(pair: Pair, node: KafkaNode, group: str) -> Iterator[None]:
    """A member of a group that reads until the end, and commits what it has read."""
    ended = threading.Event()
    settings = client(
        node,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=True,
        auto_commit_interval_ms=100,
    )

    def read() -> None:
        consumer = Consumer(settings)
        consumer.subscribe(pair.topics)
        while not ended.is_set():
            consumer.poll(0.1)
        consumer.close()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(TIMEOUT)


def write_reverse(pair: Pair, sink: object) -> Copied:
    """Write the file of a reverse pipeline where the drill expects it."""
    replication = [
        {"source": {"topic": pair.topics}},
        {"sink": {"topic": sink, "partition": "source"}},
    ]
    back = Copied(pair.directory, pair.target, pair.source, {"replication": replication})
    reverse_path([str(pair.file)]).write_text(back.file.read_text())
    return back


def switch_over(pair: Pair, operator: Actor, before_opening: Act = lambda: None) -> Drill:
    """Switch over while a group is active that reads on at once on the target."""
    (group, _), stack = pair.groups, ExitStack()
    on_source = ExitStack()
    on_source.enter_context(member(pair.source, group, pair.topics[0]))

    def start_clients() -> None:
        before_opening()
        stack.enter_context(reading(pair, pair.target, group))

    operator.in_phase = {
        DrillPhase.STOP_CONSUMERS: on_source.close,
        DrillPhase.WATCH_CLIENTS: start_clients,
    }
    with stack, on_source:
        return pair.start(DrillKind.PLANNED, replace(QUICK, watch_s=TIMEOUT), operator)


def test_a_whole_switchover_passes_them(pair: Pair) -> None:
    back = write_reverse(pair, {"prefix": "back."})
    for topic in pair.topics:
        for partition in range(2):
            back.put_position(topic, partition, 7, 7)

    drill = switch_over(pair, Actor())

    assert drill.status is DrillStatus.DONE
    for check_id in ("D42", "D43", "D44", "D45", "D47"):
        result = check_of(drill, check_id)
        assert result.outcome is DrillCheckOutcome.PASS, result
    assert "1 group in 4 partitions" in check_of(drill, "D44").evidence
    assert check_of(drill, "D42").evidence.startswith("0 runs alive; 3 of 3 transactional ids")
    assert check_of(drill, "D45").evidence.startswith("1 group not active before; 1 group: lag")
    assert "RPO 0 records, 0 bytes" in check_of(drill, "D46").evidence


def test_each_fails_in_a_switchover_that_goes_wrong(pair: Pair) -> None:
    """Another driver takes over, the way back loops, and records are deleted before they are read.

    The reverse pipeline was not started either.
    """
    write_reverse(pair, "source")
    config, topic = pair.flow.config, pair.topics[0]
    other = make_ownership(config, target_cluster(config), wire(config.target, "producer"), 1)

    def delete_unread() -> None:
        first = pair.expected_offsets(0)[topic, 0]
        assert first is not None
        delete_before(pair.target, topic, first + 2)

    try:
        drill = switch_over(pair, Actor(when_fenced=lambda: other.take_over(2)), delete_unread)
    finally:
        other.close()

    assert drill.status is DrillStatus.DONE
    expected = {
        "D42": "Stop the driver that has taken pipeline",
        "D43": "features.bidirectionalReplication",
        "D44": "Stop these groups",
        "D47": "Start the reverse pipeline",
    }
    for check_id, hint in expected.items():
        result = check_of(drill, check_id)
        assert result.outcome is DrillCheckOutcome.FAIL and hint in result.hint, result
    assert f"{pair.groups[0]} {topic}-0: record 1 differs" in check_of(drill, "D44").evidence
    assert "2 of 2 topics would come back" in check_of(drill, "D43").evidence
