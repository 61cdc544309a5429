"""Run records that others wrote never lead to one that no run can read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.run_record import LARGEST_SHARED_SLOTS, LARGEST_SLOTS, LARGEST_TERM, read_run
from k2ktui.engine.state import Run, SourcePartition, position_key, read_commit_record, run_key
from k2ktui.errors import Refused
from k2ktui.kafka.control_reader import ControlRecord
from k2ktui.kafka.properties import wire
from k2ktui.replication.commit_state import CommitStateFold, CommitTopic
from k2ktui.replication.fencing import TransactionFencer
from k2ktui.replication.pipeline_fencing import make_fencer
from k2ktui.runtime.node import KafkaNode
from tests.replication.test_client_settings import pipeline
from tests.replication.test_commit_state import BODY
from tests.support.copied import Copied
from tests.support.kafka import Out, produce, read_all

AT = SourcePartition("t", 0)
near = st.sampled_from([LARGEST_TERM, LARGEST_SLOTS, LARGEST_SHARED_SLOTS, (1 << 53) - 1, 0])
numbers = st.builds(lambda limit, more: max(0, limit + more), near, st.integers(-2, 2))


class Recording(TransactionFencer):
    """Notes what it would write."""

    def __init__(self) -> None:
        target: Any = None
        super().__init__(
            target,
            {"bootstrap_servers": "localhost:1"},
            name="p",
            topic=CommitTopic("c", 1, "g"),
            transactional=True,
            timeout_ms=1000,
            sync_timeout=1.0,
        )
        self.written: list[tuple[bytes, bytes | None]] = []

    def _write(
        self,
        entries: Sequence[tuple[bytes, bytes | None]],
        partitions: Sequence[int] = (),
        *,
        register: bool = False,
    ) -> None:
        self.written += entries


@pytest.fixture(scope="module")
def fencer() -> Iterator[Recording]:
    made = Recording()
    yield made
    made.close(fence=False)


@given(
    st.fixed_dictionaries({"term": numbers, "slots": numbers, "mostShared": numbers}),
    numbers,
    numbers,
    st.integers(0, LARGEST_SLOTS + 2),
)
def test_what_a_new_term_writes_can_be_read(
    fencer: Recording, run: dict[str, int], term: int, since: int, slots: int
) -> None:
    fold = CommitStateFold("g")
    position = BODY | {"term": term, "since": since}
    for key, value in (
        (run_key("g"), {"v": 1, **run}),
        (run_key("g"), {"v": 1, "term": 1, "slots": 1}),
        (position_key("g", AT), position),
    ):
        fold.take(ControlRecord(0, 0, key, json.dumps(value).encode()))
    fencer.run, fencer.written = fold.state().run, []
    before = fencer.run
    try:
        fencer.begin_term(slots)
        fencer.add_id()
    except Refused:
        assert max(before.term, fencer.run.slots, slots) >= LARGEST_SLOTS
    for key, written in fencer.written:
        group, _, found = read_commit_record(key, written)
        assert isinstance(found, Run)
        assert read_run(key, written) == (group, found)
        assert found.term == before.term + 1


def test_no_driver_begins_a_term_that_no_run_can_read(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Others have used the terms up; a larger one is no run's, and does not count."""
    copied = Copied(tmp_path, source, target)

    def take_over() -> int:
        fencer = make_fencer(
            copied.config, copied.cluster, wire(copied.config.target, "producer"), 1
        )
        try:
            fencer.take_over(1)
            return fencer.run.term
        finally:
            fencer.close()

    def put(term: int) -> None:
        value = json.dumps({"v": 1, "term": term, "slots": 1, "mostShared": 0}).encode()
        produce(target, copied.commits, [Out(value, run_key(copied.name))])

    before = take_over()
    put((1 << 53) - 1)
    put(LARGEST_TERM + 1)
    assert take_over() == before + 1
    put(LARGEST_TERM)
    records = len(read_all(target, copied.commits))
    with pytest.raises(Refused, match=f"would have term {LARGEST_TERM + 1}") as raised:
        take_over()
    assert "nothing was copied" in raised.value.unchanged
    assert len(read_all(target, copied.commits)) == records


def test_runs_share_no_more_slots_than_a_run_record_may_have() -> None:
    with pytest.raises(ValueError, match="up to 1000 with coordination"):
        pipeline(coordination={"mode": "shared"}, spark={"slots": LARGEST_SHARED_SLOTS + 1})
    many = {"pipelineParallelism": 100_000}
    assert pipeline(coordination={"mode": "shared"}, configuration=many).slots == 1000
    alone = {"mode": "exclusive"}
    assert pipeline(coordination=alone, spark={"slots": LARGEST_SHARED_SLOTS + 1}).slots == 1001
