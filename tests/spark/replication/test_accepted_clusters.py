"""A cluster that was restored from a backup is accepted under its new id, partition by partition.

Before, a restored cluster could only be started anew: everything was copied again, or a new commit
group left out what was copied before, and records of the other direction came back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers, make_node
from tests.support.clusters.kafka import (
    START_S,
    Out,
    await_stable,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.restored import Backup, restore
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import prove
from tests.support.pipelines.both_ways import BothWays
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.records.numbered import PARTITIONS, write_numbered

pytestmark = pytest.mark.slow


@pytest.fixture
def node(tmp_path: Path) -> Iterator[KafkaNode]:
    made = make_node("4-tv2", unique_name("restored"), tmp_path / "node")
    yield made.start(START_S)
    made.kill()
    made.close()


def _records(name: str, partition: int, count: int) -> list[Out]:
    return [Out(f"{name}-{n}".encode(), b"k%d" % n, partition) for n in range(count)]


def _start(pipeline: Pipeline, cluster: str, code: int = 0) -> Run:
    with pipeline.start("--until-caught-up", f"--accept-cluster={cluster}", "--yes") as run:
        assert run.wait() == code, f"exit code {run.code}:\n{run.tail(60)}"
    return run


def _stopped(run: Run) -> dict[int, dict[str, str]]:
    faults = [event["fault"] for event in run.events("stopped")]
    return {fault["source"]["partition"]: fault for fault in faults}


def _values(node: KafkaNode, topic: str, partition: int) -> list[bytes | None]:
    return [got.value for got in read_all(node, topic) if got.partition == partition]


def _accept_entry(pipeline: Pipeline) -> dict[str, object]:
    entries = k2ktui_json("journal", "-f", pipeline.write())["journal"]
    (entry,) = [entry for entry in entries if entry["operation"] == "accept cluster"]
    return dict(entry)


def test_a_restored_source_goes_on_where_it_is_the_same(
    node: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Partition 1 was restored short, 2 was written on since; 3 is empty."""
    topic = create_topic(node, partitions=4)
    for number in range(3):
        produce(node, topic, _records("before", number, 50))
    backup = Backup(node)
    backup.take((topic, 1), (topic, 2))
    for number in range(3):
        produce(node, topic, _records("after", number, 50))
    group = unique_name("group")
    commit_offsets(node, group, {(topic, 0): 70, (topic, 1): 80})
    pipeline = Pipeline(tmp_path, node, target, [topic])
    pipeline.catch_up()

    former = node.cluster_id
    restored = restore(node, backup.bring_back)
    for number, count in ((0, 10), (2, 80), (3, 5)):
        produce(node, topic, _records("new", number, count))
    file = pipeline.write()
    said = pipeline.catch_up(ExitCode.REFUSED).tail(60)
    assert f"k2ktui start -f FILE --accept-cluster {restored}" in said
    checks = k2ktui_json("check", "-f", file, code=None)["checks"]
    (cluster_ids,) = [check for check in checks if check["name"] == "cluster ids"]
    assert (
        cluster_ids["outcome"] == "fail" and f"--accept-cluster {restored}" in cluster_ids["hint"]
    )

    accept = "start", "-f", file, "--until-caught-up", "--accept-cluster"
    refused = k2ktui(*accept, former, "--yes", code=ExitCode.REFUSED).stderr
    assert f"no cluster of this pipeline answers with id {former}" in refused
    refused = k2ktui(*accept, target.cluster_id, "--yes", code=ExitCode.REFUSED).stderr
    assert "there is nothing to accept" in refused
    refused = k2ktui(*accept, restored, code=ExitCode.REFUSED).stderr
    assert "confirmation is required" in refused and "ends at offset 50" in refused
    k2ktui("start", "-f", file, "--yes", code=ExitCode.USAGE)
    assert len(read_all(target, topic)) == 300, "nothing was changed"

    run = _start(pipeline, restored, ExitCode.FINDINGS)
    expected = [f"{name}-{n}".encode() for name in ("before", "after") for n in range(50)]
    assert _values(target, topic, 0) == [*expected, *(f"new-{n}".encode() for n in range(10))]
    assert _values(target, topic, 1) == _values(target, topic, 2) == expected
    assert _values(target, topic, 3) == [f"new-{n}".encode() for n in range(5)]
    stopped = _stopped(run)
    assert set(stopped) == {1, 2} and {e["kind"] for e in stopped.values()} == {"restored"}
    assert "ends at offset 50 on the source" in stopped[1]["message"]
    assert "is not the same on both clusters" in stopped[2]["message"]
    entry = _accept_entry(pipeline)
    assert entry["counts"] == {"accept": 2, "stop": 2}
    assert entry["plan"] == f"source {former} to {restored}"
    k2ktui("undo", "-f", file, str(entry["id"]), "--yes", code=ExitCode.REFUSED)

    rows = k2ktui_json("plan", "-f", file, code=None)["rows"]
    planned_rows = {row["partition"]: row for row in rows if row["group"] == group}
    assert (planned_rows[0]["basis"], planned_rows[0]["proposed"]) == ("exact", 70)
    assert (
        planned_rows[1]["basis"] == "unmapped" and "was not restored" in planned_rows[1]["reason"]
    )

    # When an operator has chosen, nothing stands in the way.
    k2ktui("offsets", "set", "-f", file, f"{topic}:1:50", f"{topic}:2:50", "--yes")
    produce(node, topic, _records("late", 1, 5))
    pipeline.catch_up()
    assert _values(target, topic, 1) == [*expected, *(f"late-{n}".encode() for n in range(5))]
    new = [f"new-{n}".encode() for n in range(80)]
    assert _values(target, topic, 2) == [*expected, *new]
    k2ktui("start", "-f", file, f"--accept-cluster={restored}", "--yes", code=ExitCode.REFUSED)


def test_a_restored_target_stops_what_lacks_records(
    node: KafkaNode, source: KafkaNode, tmp_path: Path
) -> None:
    topic = create_topic(source, partitions=2)
    for number in range(2):
        produce(source, topic, _records("before", number, 50))
    pipeline = Pipeline(tmp_path, source, node, [topic])
    with pipeline.start() as run:
        eventually(lambda: pipeline.is_caught_up(topic), "all is copied")
        # The marker of the last transaction is in the backup, too.
        await_stable(node, topic)
        backup = Backup(node)
        backup.take((topic, 1))
        for number in range(2):
            produce(source, topic, _records("after", number, 50))
        pipeline.end(run)

    restored = restore(node, backup.bring_back)
    for number in range(2):
        produce(source, topic, _records("new", number, 10))
    pipeline.catch_up(ExitCode.REFUSED)
    run = _start(pipeline, restored, ExitCode.FINDINGS)
    expected = [f"{name}-{n}".encode() for name in ("before", "after") for n in range(50)]
    assert _values(node, topic, 0) == [*expected, *(f"new-{n}".encode() for n in range(10))]
    assert _values(node, topic, 1) == expected[:50]
    stopped = _stopped(run)
    assert set(stopped) == {1} and "were not restored" in stopped[1]["message"]

    # A second restore of the same backup: the ids form a chain. What has stopped stays so.
    again = restore(node)
    assert set(_stopped(_start(pipeline, again, ExitCode.FINDINGS))) == {1}
    k2ktui("offsets", "set", "-f", pipeline.write(), f"{topic}:1:50", "--yes")
    pipeline.catch_up()
    assert _values(node, topic, 1) == [*expected, *(f"new-{n}".encode() for n in range(10))]


# For one of the directions it is the source, for the other one the target.
@pytest.mark.rotate("mode,side", [("provenance", "source"), ("cluster", "target")])
def test_nothing_comes_back_after_a_restore(
    node: KafkaNode, target: KafkaNode, tmp_path: Path, mode: str, side: str
) -> None:
    """What one direction copied before the restore is read by the other one after it.

    An opposite pipeline that is new knows the restore from the other one.
    """
    ends = (node, target) if side == "source" else (target, node)
    both = _both_ways(tmp_path / "both", *ends, {"bidirectional.mode": mode})
    write_numbered(both.b, both.topics[0], "b", range(40))
    both.back.catch_up()  # and there has not seen what it wrote
    new = _both_ways(tmp_path / "new", *ends, {})
    _write_both(40, both, new)

    restored = restore(node)
    for pipeline in (both.there, both.back, new.there):
        _start(pipeline, restored)
    _write_both(50, both, new)
    for made in (both, new):
        made.catch_up()
        made.prove_content(made.topics)
        made.close()


def _write_both(first: int, *pairs: BothWays) -> None:
    """Write ten records to both clusters of each, from a number on."""
    for both in pairs:
        for end, origin in ((both.a, "a"), (both.b, "b")):
            write_numbered(end, both.topics[0], origin, range(first, first + 10))


def _both_ways(
    directory: Path, a: KafkaNode, b: KafkaNode, settings: dict[str, object]
) -> BothWays:
    """Make pipelines of a topic, of which one has copied what is there."""
    topic = unique_name("both")
    for end in (a, b):
        create_topic(end, topic, PARTITIONS)
    directory.mkdir()
    both = BothWays(directory, a, b, [topic], settings)
    write_numbered(a, topic, "a", range(40))
    both.there.catch_up()
    return both


@pytest.mark.rotate("mode", ["exclusive", "standby", "shared"])
def test_a_source_that_was_filled_again_of_a_version_without_topic_ids(
    brokers: Brokers, source: KafkaNode, target: KafkaNode, tmp_path: Path, mode: str
) -> None:
    """The new cluster has the records, and none of the groups: the kept commits are still found."""
    (filled,) = brokers("2.5")
    topic, group = create_topic(source, partitions=2), unique_name("group")
    create_topic(filled, topic, 2)
    now = int(time.time() * 1000)
    records = [Out(f"{n}".encode(), b"k", n % 2, (("h", b"v"),), now + n) for n in range(60)]
    for cluster in (source, filled):
        produce(cluster, topic, records)
    commit_offsets(source, group, {(topic, 0): 20})
    settings = {"groups.pollInterval": "1 second"}
    pipeline = Pipeline(tmp_path, source, target, [topic], settings)
    pipeline.mode = mode
    pipeline.catch_up()
    recorded = source.cluster_id

    pipeline.source = filled
    produce(filled, topic, _records("more", 0, 7))
    _start(pipeline, filled.cluster_id)
    prove(filled, target, pipeline.name, topic)
    assert _accept_entry(pipeline)["counts"] == {"accept": 2}

    filled.kill()
    file = pipeline.write()
    planned = k2ktui_json("plan", "-f", file, code=None)
    (row,) = [row for row in planned["rows"] if row["group"] == group]
    assert (row["basis"], row["proposed"]) == ("exact", 20)
    k2ktui("plan", "-f", file, "--output", tmp_path / "plan.json", code=None)
    k2ktui("apply", tmp_path / "plan.json", "--yes")
    assert committed(target, group) == {(topic, 0): 20}

    # The former cluster is another one now, although its id is known.
    pipeline.source = source
    said = pipeline.catch_up(ExitCode.REFUSED).tail(60)
    assert f"--accept-cluster {recorded}" in said


def test_a_job_is_started_the_same_way(node: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    topic = create_topic(node)
    produce(node, topic, _records("before", 0, 20))
    pipeline = Pipeline(tmp_path, node, target, [topic])
    pipeline.catch_up()
    restored = restore(node)
    produce(node, topic, _records("after", 0, 5))
    file = pipeline.write()
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    start = "jobs", "start", "-f", file
    k2ktui(*start, code=ExitCode.REFUSED, env=env)
    k2ktui(*start, "--sync", "--accept-cluster", restored, code=ExitCode.USAGE, env=env)
    try:
        k2ktui(*start, "--accept-cluster", restored, "--yes", "--wait", "300", env=env)
        eventually(lambda: pipeline.is_caught_up(topic), "all is copied")
    finally:
        k2ktui("jobs", "stop", "-f", file, "--timeout", "60", code=None, env=env)
    assert _accept_entry(pipeline)["counts"] == {"accept": 1}
    prove(node, target, pipeline.name, topic)
