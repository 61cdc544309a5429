"""``python -m bench.group_lags_live``: what groups in time cost a feed of a real pair.

Two local clusters, a copied topic, and groups that all commit between two polls. A feed, as the
console has one, is a process of its own. Its CPU time over a minute is printed with groups in time
and without, in turns; of a busy machine, where it polls less often, what its threads take for one
reading of the groups tells more: as a share of a core at the default interval.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from bench.clusters import Clusters, create_topic, running, wait_for
from bench.groups import TOPIC, command, write_pipeline
from k2ktui.engine.moves.groups import Snapshot
from k2ktui.engine.moves.lags import NO_LOGS, ReadLogs
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupCommit
from k2ktui.mm2.flow_files import read_flow
from k2ktui.sync.group_lags import GroupLagReader
from k2ktui.watch.assemble import Assembler
from k2ktui.watch.feed import DEFAULT_INTERVAL_S
from k2ktui.watch.model import View
from k2ktui.watch.poller import open_poller

_COMES, _READS = 20, 25


class Applications:
    """A producer, and groups that read a backlog of some partitions each.

    Args:
        source: its bootstrap servers.
        groups, partitions, each: how many, and of how many partitions each group reads.
    """

    def __init__(self, source: str, groups: int, partitions: int, each: int) -> None:
        self._source, self._groups = source, groups
        self._partitions, self._each = partitions, each
        self._rounds, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def produce(self, records: int) -> None:
        """Write so many records to each partition."""
        settings = {"queue.buffering.max.messages": 2 * records * self._partitions}
        producer = Producer({"bootstrap.servers": self._source, "linger.ms": 100, **settings})
        for partition in range(self._partitions):
            for number in range(records):
                producer.produce(TOPIC, value=b"%d" % number, partition=partition)
            producer.poll(0)
        if producer.flush(300):
            raise RuntimeError("records were not written in time")

    def commit(self) -> None:
        """Let each group go on a little on each of its partitions."""
        self._rounds += 1
        wanted = {
            f"group-{group:04}": {
                (TOPIC, (group * self._each + part) % self._partitions): GroupCommit(
                    self._rounds * _READS + group % 7
                )
                for part in range(self._each)
            }
            for group in range(self._groups)
        }
        with ConsumerGroupClient({"bootstrap_servers": [self._source]}, "target") as connection:
            connection.open(30)
            connection.commit(wanted)

    def __enter__(self) -> Applications:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(DEFAULT_INTERVAL_S):
            self.produce(_COMES)
            self.commit()


@dataclass
class Spent:
    """CPU seconds of the threads that read and follow groups in time, and how often they did."""

    reading: float = 0.0
    following: float = 0.0
    readings: int = 0

    def time(self) -> None:
        """Measure what this process reads and follows from now on."""
        read, follow = GroupLagReader.read, Assembler._follow  # noqa: SLF001

        def timed_read(reader: GroupLagReader, snapshot: Snapshot) -> ReadLogs:
            began = time.thread_time()
            logs = read(reader, snapshot)
            self.reading += time.thread_time() - began
            self.readings += 1
            return logs

        def timed_follow(assembler: Assembler, *given: Any, **named: Any) -> Any:
            began = time.thread_time()
            followed = follow(assembler, *given, **named)
            self.following += time.thread_time() - began
            return followed

        GroupLagReader.read = timed_read  # type: ignore[method-assign, assignment]
        Assembler._follow = timed_follow  # type: ignore[method-assign, assignment]  # noqa: SLF001


def feed(file: str, seconds: float, *, with_times: bool) -> None:
    """Follow a pipeline as the console does; print what it took."""
    spent = Spent()
    if not with_times:
        _leave_out_times()
    spent.time()
    views: list[View] = []
    flow, _ = read_flow([file])
    with closing(open_poller(flow)) as poller:
        poller.start(lambda view: views.append(view) if view.groups else None)
        wait_for(lambda: bool(views), "groups are read", 120)
        time.sleep(4 * DEFAULT_INTERVAL_S)
        began, before = time.process_time(), replace(spent)
        time.sleep(seconds)
        cpu = time.process_time() - began
    rows = views[-1].groups
    readings = max(1, spent.readings - before.readings)
    figures = {
        "cpu_s": round(cpu, 2),
        "readings": spent.readings - before.readings,
        "reading_ms": round(1000 * (spent.reading - before.reading) / readings),
        "following_ms": round(1000 * (spent.following - before.following) / readings),
        "rows": len(rows),
        "untimed": sum(row.lag_s is None for row in rows),
    }
    print(json.dumps(figures))


def _leave_out_times() -> None:
    def read(reader: GroupLagReader, snapshot: Snapshot) -> ReadLogs:
        return NO_LOGS

    def follow(assembler: Any, now: float, groups: Any, audit: Any, *, is_old: bool) -> Any:
        return assembler._summarize(groups, audit), groups.rows  # noqa: SLF001

    GroupLagReader.read = read  # type: ignore[method-assign, assignment]
    Assembler._follow = follow  # type: ignore[method-assign, assignment]  # noqa: SLF001


def measure(options: argparse.Namespace) -> None:
    """Measure in turns, and print CPU seconds and shares of a core."""
    with (
        tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as name,
        running(Path(name), "1g") as clusters,
    ):
        file = _copy(Path(name), clusters, options.partitions)
        applications = Applications(
            clusters.source.bootstrap, options.groups, options.partitions, options.each
        )
        applications.produce(options.backlog)
        command("start", "-f", file, "--until-caught-up")
        applications.commit()
        with applications:
            for _ in range(options.repeat):
                for with_times in (False, True):
                    _say(file, options, with_times=with_times)


def _copy(directory: Path, clusters: Clusters, partitions: int) -> Path:
    create_topic(clusters.source.bootstrap, TOPIC, partitions)
    return write_pipeline(directory, clusters)


def _say(file: Path, options: argparse.Namespace, *, with_times: bool) -> None:
    arguments = ["--feed", str(file), "--seconds", str(options.seconds)]
    arguments += ["--untimed"] * (not with_times)
    done = subprocess.run(
        [sys.executable, "-m", "bench.group_lags_live", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    busy = psutil.getloadavg()[0]
    ms = figures["reading_ms"] + figures["following_ms"]
    share = 0.1 * ms / DEFAULT_INTERVAL_S
    print(f"groups in time: {with_times}; {figures}; {share:.1f} % of a core; load {busy:.1f}")
    sys.stdout.flush()


def main() -> None:
    """Measure, or be the feed that is measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.group_lags_live", description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--each", type=int, default=5, help="partitions of a group")
    parser.add_argument("--backlog", type=int, default=2_000, help="records a partition")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--feed", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--untimed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.feed:
        feed(options.feed, options.seconds, with_times=not options.untimed)
    else:
        measure(options)


if __name__ == "__main__":
    main()
