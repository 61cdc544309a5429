"""Records that consumer groups read again after a failover: MirrorMaker 2's groups and ours.

``python -m bench.failover``: both copy the same source side by side while it is written; groups
stop at their lags; the source is killed; every group then really consumes on the target from what
was committed there: by MirrorMaker 2, by ``k2ktui sync`` on its flow, and by ``k2ktui sync`` on a
pipeline of ours. Values are source offsets, so what comes again, and what never comes, is counted
record by record.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.child import Child
from bench.clusters import Clusters, create_topic, end_offsets, running, wait_for
from bench.machine import describe
from bench.model import Job, Launch
from bench.ours import K2ktui
from bench.peer import MirrorMaker
from bench.sections import put_section
from k2ktui.cli.main import cli

TOPIC = "failover"
THEIRS, PUT_RIGHT, OURS = "MirrorMaker 2", "MirrorMaker 2 with k2ktui sync", "k2ktui"
LAGS = (0, 1_000, 10_000, 100_000)
PARTITIONS = 4
_RESULTS = Path(__file__).with_name("RESULTS.md")
_WAIT_S = 300.0
_CONSUME_S = 120.0
# More eager than its defaults of 60 seconds, in its favour.
EAGER = {
    "offset-syncs.topic.replication.factor": "1",
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": "5",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "5",
    "refresh.groups.interval.seconds": "5",
    "{target}.offset.flush.interval.ms": "5000",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What one group read on one copy: unread records, read again, never seen."""

    lag: int
    copier: str
    unread: int
    again: int
    missing: int


def group_of(lag: int) -> str:
    """Return the group that stopped at a lag."""
    return f"lag-{lag}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and write its report."""
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--heap", default="512m")
    parser.add_argument("--keep", action="store_true", help="put the section into RESULTS.md")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="k2k-failover-") as directory,
        running(Path(directory) / "clusters", options.heap) as clusters,
    ):
        results = measure(clusters, Path(directory), options.records)
    text = report(results, options.records)
    print(text)
    if options.keep:
        put_section(_RESULTS, "bench.failover", text)


def measure(clusters: Clusters, directory: Path, records: int) -> list[Found]:
    """Copy with both, stop the groups, kill the source, consume on the target."""
    source, target = (node.bootstrap for node in clusters.both)
    create_topic(source, TOPIC, PARTITIONS)
    with contextlib.ExitStack() as stack:
        theirs = start_contender(stack, MirrorMaker("mm2", "", EAGER), source, target, directory)
        ours = start_contender(stack, K2ktui("k2ktui", ""), source, target, directory)
        copies = {THEIRS: theirs.target_topic, OURS: ours.target_topic}
        fill(source, records)
        ends = end_offsets(source, TOPIC, PARTITIONS)
        commits = {lag: [max(0, end - lag // PARTITIONS) for end in ends] for lag in LAGS}
        for lag, offsets in commits.items():
            commit(source, lag, offsets)
        for topic in copies.values():
            wait_for(partial(is_copied, target, topic, records), topic, _WAIT_S)
        wait_for(lambda: _settled(target, theirs.target_topic), "its groups are synced", _WAIT_S)
        starts_by_tool = {THEIRS: committed_on(target, theirs.target_topic)}
        _sync(directory / "mm2" / "mm2.properties")
        starts_by_tool[PUT_RIGHT] = committed_on(target, theirs.target_topic)
        _sync(directory / "k2ktui" / "pipeline.yaml")
        starts_by_tool[OURS] = committed_on(target, ours.target_topic)
        clusters.source.kill()
    copies[PUT_RIGHT] = theirs.target_topic
    return [
        consumed(target, lag, tool, copies[tool], starts[lag], commits[lag], ends)
        for lag in LAGS
        for tool, starts in starts_by_tool.items()
    ]


def start_contender(
    stack: contextlib.ExitStack,
    contender: MirrorMaker | K2ktui,
    source: str,
    target: str,
    directory: Path,
) -> Launch:
    """Start a replicator that runs until the stack ends."""
    own = directory / contender.key
    own.mkdir()
    job = Job(contender.key, source, target, TOPIC, own, steady=True)
    launch = contender.prepare(job)
    stack.enter_context(Child(launch, own))
    return launch


def fill(bootstrap: str, records: int) -> None:
    """Produce with the source offset as the value, while both copy."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 3})
    for number in range(records):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        value = b"%012d" % offset + b"." * 88
        while True:
            try:
                producer.produce(TOPIC, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(_WAIT_S):
        raise RuntimeError("not everything was acknowledged")


def commit(bootstrap: str, lag: int, offsets: Sequence[int]) -> None:
    """Commit as an application does that stops there."""
    with _consumer(bootstrap, group_of(lag)) as consumer:
        where = [TopicPartition(TOPIC, number, offset) for number, offset in enumerate(offsets)]
        consumer.commit(offsets=where, asynchronous=False)


def is_copied(target: str, topic: str, records: int) -> bool:
    """Whether a target topic has so many records."""
    try:
        return sum(end_offsets(target, topic, PARTITIONS)) >= records
    except KafkaException:
        return False


def _settled(target: str, topic: str, quiet_s: float = 20.0) -> bool:
    """Whether it has committed every group, and nothing has moved for some checkpoints."""
    before = committed_on(target, topic)
    if any(offset < 0 for offsets in before.values() for offset in offsets):
        return False
    time.sleep(quiet_s)
    return committed_on(target, topic) == before


def committed_on(target: str, topic: str) -> Mapping[int, list[int]]:
    """Return what each group has committed on the target, by its lag; -1001 for none."""
    offsets = {}
    for lag in LAGS:
        with _consumer(target, group_of(lag)) as consumer:
            asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            offsets[lag] = [at.offset for at in consumer.committed(asked, timeout=30)]
    return offsets


def _sync(pipeline: Path) -> None:
    cli(["sync", "-f", str(pipeline), "--once"], standalone_mode=False)


def consumed(
    target: str,
    lag: int,
    copier: str,
    topic: str,
    begin: Sequence[int],
    committed: Sequence[int],
    ends: Sequence[int],
) -> Found:
    """Consume as the group, from what was committed on the target to the end, and count."""
    with _consumer(target, group_of(lag)) as consumer:
        starts = [TopicPartition(topic, number, offset) for number, offset in enumerate(begin)]
        stops = end_offsets(target, topic, PARTITIONS)
        consumer.assign(starts)
        seen: list[set[int]] = [set() for _ in range(PARTITIONS)]
        again, until = 0, time.monotonic() + _CONSUME_S
        left = {at.partition for at in starts if at.offset < stops[at.partition]}
        while left:
            if time.monotonic() > until:
                raise TimeoutError(f"{copier}, lag {lag}: partitions {left} were not read")
            for message in consumer.consume(5000, 0.5):
                if message.error():
                    left.discard(message.partition() or 0)
                    continue
                number, offset = message.partition() or 0, int((message.value() or b"")[:12])
                if offset < committed[number] or offset in seen[number]:
                    again += 1
                else:
                    seen[number].add(offset)
    unread = sum(end - offset for end, offset in zip(ends, committed, strict=True))
    return Found(lag, copier, unread, again, unread - sum(map(len, seen)))


@contextlib.contextmanager
def _consumer(bootstrap: str, group: str) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 3,
        }
    )
    try:
        yield made
    finally:
        made.close()


def report(results: Sequence[Found], records: int) -> str:
    """Return the report."""
    machine = describe()
    lines = [
        "## Failover: records that groups read again",
        "",
        f"`python -m bench.failover --records {records}`: {records:,} records of 100 bytes in "
        f"{PARTITIONS} partitions, copied by both at the same time. MirrorMaker 2 writes "
        "checkpoints and commits groups every 5 seconds instead of every 60; the source is killed "
        "when nothing of it has moved for 20 seconds. Every group then really consumes on the "
        "target from what was committed there: by MirrorMaker 2 itself, by `k2ktui sync` on its "
        "flow, and by `k2ktui sync` on a pipeline of ours.",
        "",
        "| lag of the group | copied and committed by | unread | read again | never read |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {one.lag:,} | {one.copier} | {one.unread:,} | {one.again:,} | {one.missing:,} |"
        for one in results
    ]
    lines += ["", f"{machine['Date']}, {machine['CPU']}, {machine['k2ktui']}"]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
