"""Runs that share a pipeline on real clusters, and whose files or names differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from k2ktui.config.copying import copy_digest
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import Runner
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.control.topics import ensure_control_topics
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.runs import PipelineRun
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.other_files import check_file, read_last_run, refuse_other_name
from k2ktui.sync.store import StateStore
from tests.support.clusters.kafka import TIMEOUT, create_topic, eventually, unique_name
from tests.support.model.shared_threads import PARTITIONS, SLOTS, Copied, Runs, ThreadRun, heartbeat
from tests.support.pipelines.modes import in_mode
from tests.support.pipelines.preflight import pipeline

MakeFile = Callable[..., PipelineConfig]


@pytest.fixture
def topics(source: KafkaNode) -> list[str]:
    return [create_topic(source, unique_name("file"), PARTITIONS) for _ in range(2)]


@pytest.fixture
def make_file(source: KafkaNode, target: KafkaNode) -> MakeFile:
    """Return what makes files of one pipeline: they have the same control topics and group."""
    name = unique_name("shared")
    target_section = {
        "kafka": {
            "common": {"bootstrap.servers": target.bootstrap},
            "producer": {"transaction.timeout.ms": 5000},
        }
    }
    coordination = {
        "mode": "shared",
        "commit": {"topic": unique_name("commit"), "group": name},
        "assignment": {"graceWindow": "3 seconds", "topic": unique_name("assignment")},
        "state": {"topic": unique_name("state")},
    }
    mapping = unique_name("mapping")

    def make(*topics: str, **changed: Any) -> PipelineConfig:
        sections: dict[str, Any] = {
            "name": name,
            "coordination": coordination,
            "offsetMapping": {"topic": mapping},
            "spark": {"slots": SLOTS, "lap": "1 second"},
            "topicCreation": {"control": {"common": {"replication": 1}}},
        }
        return pipeline(source, target_section, *topics, **(sections | changed))

    return make


@pytest.fixture
def runs(make_file: MakeFile, topics: list[str]) -> Iterator[Runs]:
    with ExitStack() as closing:
        yield Runs(make_file(topics[0]), closing)


def start(runs: Runs, config: PipelineConfig, **options: bool) -> ThreadRun:
    runs.config = config
    return runs.start(**options)


def said(run: ThreadRun, text: str) -> bool:
    return any(text in line for line in run.texts)


def error_of(config: PipelineConfig, run: ThreadRun) -> Runner:
    """What Jobs show of a run."""
    store = StateStore(config, target_cluster(config))
    try:
        runners = store.read().runners
    finally:
        store.close()
    (own,) = (runner for runner in runners if runner.runner == run.heartbeat.runner)
    return own


@pytest.mark.slow
def test_a_file_that_is_rolled_out_copies_what_only_it_selects(
    runs: Runs, make_file: MakeFile, topics: list[str], source: KafkaNode, target: KafkaNode
) -> None:
    """Before, the partitions of the second topic whose slots the older file had were never copied.

    The run with the older file waits, and nothing is lost or doubled when it takes over and gives
    back.
    """
    old, new = make_file(topics[0]), make_file(*topics)
    one, other = (Copied(new, topic, source, target) for topic in topics)
    for run in (one, other):
        run.write()
    first = start(runs, old)
    runs.expect_owning(first)
    one.prove()
    second = start(runs, new)
    runs.expect_owning(second)
    for run in (one, other):
        run.write()
        run.prove()
    assert first.owns == 0 and said(first, "and is older: this run waits (edition 1, they have 2)")
    eventually(lambda: "this run waits" in error_of(old, first).last_error, "Jobs say it")
    assert not error_of(old, first).error_ms, "no record is kept from being copied"

    stale = start(runs, old)  # a host that was left out, started again
    eventually(lambda: said(stale, "this run waits"), lambda: "\n".join(stale.texts))
    assert second.owns == SLOTS
    result = check_file(old)
    assert result.outcome is CheckOutcome.WARN and "a start waits for the runs" in result.detail

    second.stop()
    runs.expect_owning(first, stale)
    assert said(first, "no run with a newer one lives") and said(stale, "copies by the older file")
    for run in (one, other):
        run.write()
    one.prove()

    third = start(runs, new)
    runs.expect_owning(third)
    for run in (one, other):
        run.write()
        run.prove()
    back = start(runs, old, take_over=True)
    runs.expect_owning(first, stale, back)
    one.write()
    one.prove()
    assert third.owns == 0 and not third.ended.done()
    last = start(runs, new)
    eventually(lambda: said(last, "this run waits"), lambda: "\n".join(last.texts))
    assert last.owns == 0


@pytest.mark.slow
def test_another_pipeline_with_the_same_commit_group_is_refused_while_a_run_lives(
    runs: Runs, make_file: MakeFile, topics: list[str], source: KafkaNode, target: KafkaNode
) -> None:
    """Later it is the same pipeline under a new name, and continues with its positions."""
    orders = make_file(topics[0])
    renamed = make_file(topics[0], name="renamed")
    copied = Copied(orders, topics[0], source, target)
    copied.write()
    run = start(runs, orders)
    runs.expect_owning(run)
    copied.prove()
    refused = start(runs, renamed)
    with pytest.raises(Refused, match=f"pipeline {orders.name} is running .*same coordination"):
        refused.ended.result(TIMEOUT)
    assert run.owns == SLOTS, "it was not interrupted"
    result = check_file(renamed)
    assert result.outcome is CheckOutcome.FAIL and result.fatal and orders.name in result.detail
    assert check_file(in_mode(renamed, "exclusive")).outcome is CheckOutcome.WARN
    run.stop()
    refused.heartbeat.stop()
    run.heartbeat.stop()
    assert "the pipeline was called" in check_file(renamed).detail
    now = start(runs, renamed)
    runs.expect_owning(now)
    assert said(now, f"pipeline {orders.name} is now called renamed")
    copied.write()
    copied.prove()
    assert now.stop().records < 2 * 200, "what was copied is not copied again"
    assert not any("now called" in text for text in start(runs, renamed).texts)


def _copy_alone(config: PipelineConfig) -> None:
    """Let a run copy alone for a moment."""
    target = target_cluster(config)
    control = ensure_control_topics(config, target, {})
    options = wire(config.target, "producer")
    digest = copy_digest(config)
    ownership = make_ownership(config, target, options, control.commit_partitions, digest=digest)
    try:
        ownership.take_over(0)
    finally:
        ownership.close()


def checked(config: PipelineConfig) -> tuple[CheckOutcome, str]:
    result: Check = check_file(config)
    return result.outcome, result.detail


@pytest.mark.slow
def test_what_check_says_of_a_file(make_file: MakeFile, topics: list[str]) -> None:
    old, new = make_file(topics[0]), make_file(*topics)
    outcome, detail = checked(old)
    assert outcome is CheckOutcome.PASS and "no run has copied yet" in detail
    _copy_alone(old)
    outcome, detail = checked(old)
    assert (
        outcome is CheckOutcome.PASS and "the newest one" in detail and copy_digest(old) in detail
    )
    outcome, detail = checked(new)
    assert outcome is CheckOutcome.PASS and "another one than that of the last run" in detail
    with heartbeat(old) as beating:
        target = target_cluster(old)
        eventually(lambda: beating.runner in _runners(old), "a heartbeat")
        outcome, detail = checked(new)
        assert outcome is CheckOutcome.WARN and "a start takes over from the runs" in detail
        _copy_alone(new)
        outcome, detail = checked(new)
        assert outcome is CheckOutcome.WARN and "runs with an older file live" in detail
    outcome, detail = checked(old)
    assert outcome is CheckOutcome.WARN and "edition 1 of 2" in detail
    assert "no run with a newer one lives, so a start copies by it" in detail
    with heartbeat(new) as beating:
        eventually(lambda: beating.runner in _runners(new), "a heartbeat")
        assert "a start waits for the runs with a newer one" in checked(old)[1]
        with pytest.raises(Refused, match="with the same coordination"):
            other = make_file(topics[0], name="other")
            refuse_other_name(other, target, read_last_run(other, target))
    other = make_file(topics[0], name="other")
    assert "is now called other" in refuse_other_name(other, target, read_last_run(other, target))
    assert refuse_other_name(old, target, read_last_run(old, target)) == ""


def _runners(config: PipelineConfig) -> set[str]:
    store = StateStore(config, target_cluster(config))
    try:
        return {runner.runner for runner in store.read().runners}
    finally:
        store.close()


@pytest.mark.slow
def test_a_standby_of_another_name_is_refused(make_file: MakeFile, topics: list[str]) -> None:
    """It would wait for the other pipeline, and then copy with its positions."""
    orders = in_mode(make_file(topics[0]), "standby")
    other = in_mode(make_file(topics[0], name="other"), "standby")
    _copy_alone(orders)
    with heartbeat(orders) as beating:
        eventually(lambda: beating.runner in _runners(orders), "a heartbeat")
        with pytest.raises(Refused, match=f"pipeline {orders.name} is running"):
            PipelineRun(other, lambda report: None, lambda check: None).run()
