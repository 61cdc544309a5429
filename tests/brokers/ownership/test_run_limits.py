"""Run records that others wrote never lead to one that no run can read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.run_record import (
    LARGEST_SHARED_SLOTS,
    LARGEST_SLOTS,
    LARGEST_TERM,
    read_run,
)
from k2ktui.engine.records.state import (
    Run,
    SourcePartition,
    position_key,
    read_commit_record,
    run_key,
)
from k2ktui.errors import Refused
from k2ktui.kafka.control.reader import ControlRecord
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.commit_state import CommitStateFold, CommitTopic
from k2ktui.replication.ownership.ownership import Claim, Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.ownership.record_store import RecordStore
from k2ktui.runtime.node import KafkaNode
from tests.brokers.ownership.test_commit_state import BODY
from tests.support.clusters.kafka import Out, await_stable, produce, read_all
from tests.support.pipelines.copied import Copied
from tests.unit.replication.test_client_settings import pipeline

AT = SourcePartition("t", 0)
near = st.sampled_from([LARGEST_TERM, LARGEST_SLOTS, LARGEST_SHARED_SLOTS, (1 << 53) - 1, 0])
numbers = st.builds(lambda limit, more: max(0, limit + more), near, st.integers(-2, 2))


@pytest.fixture(scope="module")
def ownership() -> Iterator[Ownership]:
    target: Any = None
    claim = Claim(
        name="p",
        topic=CommitTopic("c", 1, "g"),
        transactional=True,
        timeout_ms=1000,
        sync_timeout=1.0,
    )
    made = Ownership(target, {"bootstrap_servers": "localhost:1"}, claim)
    yield made
    made.close(fence=False)


@given(
    st.fixed_dictionaries({"term": numbers, "slots": numbers, "mostShared": numbers}),
    numbers,
    numbers,
    st.integers(0, LARGEST_SLOTS + 2),
)
def test_what_a_new_term_writes_can_be_read(
    ownership: Ownership, run: dict[str, int], term: int, since: int, slots: int
) -> None:
    fold = CommitStateFold("g")
    position = BODY | {"term": term, "since": since}
    for key, value in (
        (run_key("g"), {"v": 1, **run}),
        (run_key("g"), {"v": 1, "term": 1, "slots": 1}),
        (position_key("g", AT), position),
    ):
        fold.take(ControlRecord(0, 0, key, json.dumps(value).encode()))
    all_written = list[tuple[bytes, bytes | None]]()

    def write(_: RecordStore, entries: Sequence[tuple[bytes, bytes | None]], **__: bool) -> None:
        all_written.extend(entries)

    ownership.run = before = fold.state().run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordStore, "write", write)
        try:
            ownership.begin_term(slots)
            ownership.add_id()
        except Refused:
            assert max(before.term, ownership.run.slots, slots) >= LARGEST_SLOTS
    for key, written in all_written:
        group, _, run_read = read_commit_record(key, written)
        assert isinstance(run_read, Run)
        assert read_run(key, written) == (group, run_read)
        assert run_read.term == before.term + 1


def test_no_driver_begins_a_term_that_no_run_can_read(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Others have used the terms up; a larger one is no run's, and does not count."""
    copied = Copied(tmp_path, source, target)

    def take_over() -> int:
        ownership = make_ownership(
            copied.config, copied.cluster, wire(copied.config.target, "producer"), 1
        )
        try:
            ownership.take_over(1)
            return ownership.run.term
        finally:
            ownership.close()

    def put(term: int) -> None:
        value = json.dumps({"v": 1, "term": term, "slots": 1, "mostShared": 0}).encode()
        produce(target, copied.commits, [Out(value, run_key(copied.name))])

    before = take_over()
    put((1 << 53) - 1)
    put(LARGEST_TERM + 1)
    assert take_over() == before + 1
    put(LARGEST_TERM)
    await_stable(target, copied.commits)
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
