"""Let one contender copy one data set, and measure it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import KafkaException

from bench.child import Child
from bench.clusters import Clusters
from bench.meter import Meter, own_usage
from bench.model import Contender, CopyResult, DataSet, Job
from bench.orders import Registries
from bench.verify import Found, count
from bench.watch import Sight, Watcher

_LOOK_SECONDS = 0.1
_END_SECONDS = 60.0
_WARM_UP_SECONDS = 90.0


class RunFailed(RuntimeError):
    """A run does not count; the text says why."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds.

    Attributes:
        quiet: no change on the target for this long means that the copy is complete.
        run: for a whole run.
    """

    quiet: float = 2.0
    run: float = 600.0


def copy(
    clusters: Clusters,
    contender: Contender,
    data: DataSet,
    run: str,
    directory: Path,
    patience: Patience,
    registries: Registries | None = None,
) -> tuple[CopyResult, str]:
    """Run ``contender`` over ``data``; return what was measured, and its configuration."""
    directory.mkdir(parents=True)
    addresses = (clusters.source.bootstrap, clusters.target.bootstrap)
    job = Job(run, *addresses, data.topic, directory, data.codec, registries=registries)
    launch = contender.prepare(job)
    kept = data.kept if data.values == "json" else None
    blank = CopyResult(contender.key, data.name, data.records, data.bytes, kept=kept)
    watcher = Watcher(job.target, launch.target_topic, data.partitions)
    watcher.start()
    brokers = [Meter(node.pid, measure=own_usage) for node in clusters.both]
    for broker in brokers:
        broker.start()
    try:
        with Child(launch, directory) as child:
            try:
                counted = _await_all(child, watcher, data, job, launch.target_topic, patience)
                result = _measured(blank, child, brokers, watcher.changes, counted)
                return _with_end(result, child, launch.ends), launch.config
            except (RunFailed, KafkaException) as failure:
                return replace(blank, error=f"{failure}\n{child.tail()}"), launch.config
    finally:
        watcher.stop()
        for broker in brokers:
            broker.stop()


def warm_up(clusters: Clusters, contender: Contender, data: DataSet, directory: Path) -> None:
    """Let a contender that ends by itself copy ``data``, and measure nothing."""
    directory.mkdir(parents=True)
    addresses = (clusters.source.bootstrap, clusters.target.bootstrap)
    launch = contender.prepare(Job(directory.name, *addresses, data.topic, directory))
    with Child(launch, directory) as child:
        child.wait(_WARM_UP_SECONDS)


def _await_all(
    child: Child,
    watcher: Watcher,
    data: DataSet,
    job: Job,
    topic: str,
    patience: Patience,
) -> Found:
    """Wait until all records are visible and nothing more comes; return what is there."""
    deadline = child.started + patience.run
    counted = Sight(0.0, ())
    while True:
        time.sleep(_LOOK_SECONDS)
        last = watcher.last_change
        ended = child.exit_code is not None
        silent = time.monotonic() - max(last.at, child.started) > patience.quiet
        # Markers of transactions count as offsets too, so only a count of the records is proof.
        if last.total >= data.kept and silent and last != counted:
            schema_id = job.registries.target_id(topic) if job.registries else 0
            marks = watcher.changes[0].ends
            result = count(job.target, topic, marks, values=data.values, schema_id=schema_id)
            if result.distinct >= data.kept:
                return result
            counted = last
        elif ended and silent:
            raise RunFailed(f"It ended (exit {child.exit_code}) at offset {last.total}.")
        if time.monotonic() > deadline:
            raise RunFailed(f"Not done within {patience.run:g} s; at offset {last.total}.")


def _measured(
    blank: CopyResult,
    child: Child,
    brokers: Sequence[Meter],
    changes: Sequence[Sight],
    counted: Found,
) -> CopyResult:
    first, last = changes[0].at, changes[-1].at
    source_s, target_s = (broker.cpu_at(last) - broker.cpu_at(first) for broker in brokers)
    return replace(
        blank,
        visible=counted.records,
        distinct=counted.distinct,
        before_first=counted.below,
        first_record_s=first - child.started,
        all_records_s=last - child.started,
        cpu_start_s=child.meter.cpu_at(first),
        cpu_s=child.meter.cpu_at(last),
        source_cpu_s=source_s,
        target_cpu_s=target_s,
        rss_peak=child.meter.peak(last),
    )


def _with_end(result: CopyResult, child: Child, ends: bool) -> CopyResult:
    if not ends:
        return result
    code = child.wait(_END_SECONDS)
    ended = time.monotonic() - child.started
    return replace(result, exit_code=code, ended_s=None if code is None else ended)
