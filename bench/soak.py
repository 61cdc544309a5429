"""``python -m bench.soak``: traffic for a long time, with a fault a minute, and proofs.

Every few minutes the traffic pauses, and the oracle of the tests compares what was copied since the
last time: every committed record once and in order, every mapping range and position true. Then new
topics are created, which the run has to find. At the end, nothing may have grown.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import psutil

from bench.clusters import make_class_archives
from bench.load import perf_test
from bench.model import MB
from bench.soak_faults import EXCLUSIVE_FAULTS, FAULTS, SLOTS, UNPROVEN_FAULTS, Scene, draw
from bench.soak_meter import SoakMeter
from bench.soak_writers import CLEANER, WritersWatch, compacted_traffic, write_strays
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, end_offsets, eventually
from tests.support.clusters.proxy import ProxiedNode
from tests.support.oracle.judge import prove
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.traffic import Traffic

_PARTITIONS = {"a": 1, "b": 2, "c": 3}
# What is written beside the traffic that is proven: records of 1,000 B by Kafka's own tool. Their
# topic keeps what 80 s bring at 50 MB/s, longer than a fault takes.
_LOAD, _LOAD_PARTITIONS, _LOAD_BYTES = "soak-load", 4, 1000
_ENDLESS = (1 << 31) - 1  # records: half a day at 50 MB/s
_LOAD_CONFIG = {
    "retention.bytes": str(1 << 30),
    "segment.bytes": str(64 << 20),
    "file.delete.delay.ms": "1000",
}
_RETENTION_CHECK = {"log.retention.check.interval.ms": "5000"}
_CAUGHT_UP_S, _CONTINUES_S, _START_S = 300.0, 240.0, 180.0


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0; 1 when a proof failed or something grew; 130 when interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.mode == "exclusive" and not set(options.fault or ()) <= set(EXCLUSIVE_FAULTS):
        parser.error("another run can join only with --mode shared")
    if not options.writers and set(options.fault or ()) & set(UNPROVEN_FAULTS):
        parser.error("what is copied again or elsewhere is not proven: only with --writers")
    directory = Path(tempfile.mkdtemp(prefix="k2ktui-soak-", dir=options.data))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return Soak(options, directory).run()
    except AssertionError as wrong:
        _say(event="failed", reason=str(wrong))
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if options.keep:
            _say(event="kept", directory=str(directory))
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=60.0, help="how long")
    add("--fault-every", type=float, default=60.0, metavar="SECONDS", help="between two faults")
    add("--prove-every", type=float, default=10.0, metavar="MINUTES", help="between two proofs")
    add("--pause", type=float, default=0.2, metavar="SECONDS", help="between bursts of traffic")
    add("--load", type=int, default=0, metavar="MB/S", help="of a topic that is not proven")
    add(
        "--writers",
        action="store_true",
        help="copy a compacted topic, too, that is not proven; expect that nobody else is said to "
        "have written to any copy, until somebody has",
    )
    add(
        "--strays-within",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="with --writers: until the watch says that somebody has",
    )
    add("--seed", type=int, default=1, help="decides faults and traffic; when, decides the clock")
    add("--mode", choices=("shared", "exclusive"), default="shared", help="coordination.mode")
    add("--fault", action="append", choices=FAULTS, help="only this one; can be repeated")
    add("--data", type=Path, help="where its files are, instead of the directory for such files")
    add("--keep", action="store_true", help="keep its files")
    return parser


class Soak:
    """One soak.

    Args:
        options: of the command line.
        directory: for all its files.
    """

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self._options, self._directory = options, directory
        self._dice = random.Random(options.seed)
        every = FAULTS if options.mode == "shared" else EXCLUSIVE_FAULTS
        left = () if options.writers else UNPROVEN_FAULTS
        self._faults: list[str] = options.fault or [name for name in every if name not in left]
        self._records = self._proofs = self._count = 0

    def run(self) -> int:
        """Return the exit code."""
        make_class_archives()
        temporary, state = self._directory / "tmp", self._directory / "state"
        for path in (temporary, state):
            path.mkdir()
        os.environ |= {"TMPDIR": str(temporary), "XDG_STATE_HOME": str(state)}
        properties = _RETENTION_CHECK | CLEANER
        source = KafkaNode("source", self._directory / "source", properties)
        target = ProxiedNode("target", self._directory / "target", properties=properties)
        with contextlib.ExitStack() as stack:
            for node in (source, target):
                stack.callback(node.close)
                node.start(_START_S)
            settings = {
                "target.kafka.common": {"bootstrap.servers": target.proxy.address},
                "coordination.mode": self._options.mode,
                "spark.slots": SLOTS,
            }
            pipeline = Pipeline(self._directory, source, target, "soak-.*", settings, "soak")
            stack.callback(pipeline.close)
            topics = self._make_topics(source, 0)
            if self._options.load:
                stack.enter_context(_loading(source, self._options.load))
            scene = Scene(pipeline, target, pipeline.start(), self._dice)
            out = self._directory / "watch.out"
            watch = stack.enter_context(_watching(pipeline.write(), out))

            def processes() -> Iterator[tuple[str, psutil.Process]]:
                yield "k2ktui watch", psutil.Process(watch.pid)
                for process in scene.run.processes():
                    with contextlib.suppress(psutil.Error):
                        yield _kind(process, scene.run.pid), process

            directories = {"temporary files": temporary, "state files": state}
            meter = SoakMeter(processes, directories, min(15.0, self._options.minutes * 1.5))
            began = time.monotonic()
            with meter:
                if self._options.writers:
                    with WritersWatch(pipeline.write(), out) as writers:
                        self._soak_beside_compacted(scene, topics, writers)
                else:
                    self._soak(scene, topics)
            if self._options.load:
                _say_load(scene, time.monotonic() - began)
            code = scene.run.stop()
            return self._report(meter, code, scene.run.tail())

    def _soak_beside_compacted(
        self, scene: Scene, topics: dict[str, int], writers: WritersWatch
    ) -> None:
        source, pause = scene.pipeline.source, self._options.pause
        with compacted_traffic(source, self._dice.randrange(1 << 30), pause) as scene.unproven:
            self._soak(scene, topics)
            living, fresh = writers.living, writers.fresh
            within_s = self._options.strays_within
            what = "it is known of all target partitions who wrote to them"
            eventually(lambda: living.told, lambda: f"{what}: {living.reasons}", within_s)
            _say(event="writers", living=asdict(living), fresh=asdict(fresh), said=writers.said)
            if writers.said:
                raise AssertionError(f"{len(writers.said)} views had strange records")
            _say(event="strays", seen_after_s=write_strays(scene, writers, within_s))

    def _soak(self, scene: Scene, topics: dict[str, int]) -> None:
        every_s, end, period = self._options.fault_every, math.inf, 0
        while time.monotonic() + every_s < end:
            seed = self._dice.randrange(1 << 30)
            with Traffic(scene.pipeline.source, topics, seed, pause=self._options.pause) as traffic:
                self._await_growth(scene, topics)
                now = time.monotonic()
                end = min(end, now + 60 * self._options.minutes)
                until = min(end, now + 60 * self._options.prove_every)
                while time.monotonic() + every_s < until:
                    self._pass_a_fault(scene, topics)
            self._prove(scene, topics, traffic.sent)
            period += 1
            topics = self._make_topics(scene.pipeline.source, period)

    def _make_topics(self, source: KafkaNode, period: int) -> dict[str, int]:
        topics = {f"soak-{period}-{name}": count for name, count in _PARTITIONS.items()}
        for name, partitions in topics.items():
            create_topic(source, name, partitions=partitions)
        return topics

    def _pass_a_fault(self, scene: Scene, topics: dict[str, int]) -> None:
        began = time.monotonic()
        name = draw(self._dice, self._faults)
        FAULTS[name][0](scene)
        over = time.monotonic()
        self._await_growth(scene, topics)
        self._count += 1
        now = time.monotonic()
        _say(event="fault", name=name, took_s=over - began, continued_s=now - over)
        time.sleep(max(0.0, self._options.fault_every - (now - began)))

    def _await_growth(self, scene: Scene, topics: dict[str, int]) -> None:
        """Wait until every topic of the traffic has grown on the target."""
        for topic in topics:
            _await_growth(scene, topic)

    def _prove(self, scene: Scene, topics: dict[str, int], sent: int) -> None:
        pipeline = scene.pipeline
        for topic in topics:
            _await_end(scene, topic)
        proof = prove(pipeline.source, pipeline.target, pipeline.name, *topics)
        if proof.records * 4 < sent:
            raise AssertionError(f"{proof.records} records were compared, {sent} were sent")
        self._records += proof.records
        self._proofs += 1
        _say(event="proof", records=proof.records, ranges=proof.ranges)

    def _report(self, meter: SoakMeter, code: int, tail: str) -> int:
        growths = meter.growths()
        for growth in growths:
            _say(event="growth", **asdict(growth))
        flat = all(growth.is_flat for growth in growths)
        _say(
            event="end",
            faults=self._count,
            proofs=self._proofs,
            records=self._records,
            exit_code=code,
            flat=flat,
        )
        if code:
            print(tail, file=sys.stderr)
        return 0 if flat and not code else 1


def _await_growth(scene: Scene, topic: str) -> None:
    eventually(lambda: _ends(scene, topic), f"{topic} is on the target", _CONTINUES_S)
    before = _ends(scene, topic)
    eventually(
        lambda: _ends(scene, topic) > before,
        lambda: f"{topic} grows on the target; the run:\n{scene.run.tail()}",
        _CONTINUES_S,
    )


def _await_end(scene: Scene, topic: str) -> None:
    eventually(
        lambda: scene.pipeline.is_caught_up(topic),
        lambda: f"{topic} is copied; the run:\n{scene.run.tail()}",
        _CAUGHT_UP_S,
    )


def _ends(scene: Scene, topic: str) -> int:
    """Return the sum of a topic's last stable offsets on the target, 0 while it is not there."""
    with contextlib.suppress(Exception):  # whatever a client says of a broker that restarts
        return sum(end_offsets(scene.target, topic, "read_committed").values())
    return 0


def _kind(process: psutil.Process, driver: int) -> str:
    if process.pid == driver:
        return "driver"
    if "java" in process.name():
        return "Java"
    return "Python worker" if "worker" in " ".join(process.cmdline()) else process.name()


@contextlib.contextmanager
def _watching(file: Path, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``k2ktui watch`` beside it."""
    command: Sequence[str] = (sys.executable, "-m", "k2ktui", "watch", "-f", str(file), "--json")
    with out.open("wb") as into:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=into, stderr=into)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _loading(source: KafkaNode, megabytes: int) -> Iterator[None]:
    """Write so many MB a second with the defaults of Kafka's producer, until the soak ends."""
    create_topic(source, _LOAD, partitions=_LOAD_PARTITIONS, config=_LOAD_CONFIG)
    rate = int(megabytes * MB / _LOAD_BYTES)
    command = perf_test(source.bootstrap, _LOAD, _ENDLESS, _LOAD_BYTES, rate=rate)
    out = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=out, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _say_load(scene: Scene, seconds: float) -> None:
    """Say how much of the load was written, and how much of it is on the target."""
    written = sum(end_offsets(scene.pipeline.source, _LOAD).values()) * _LOAD_BYTES / MB
    copied = _ends(scene, _LOAD) * _LOAD_BYTES / MB
    _say(event="load", written_mb_s=written / seconds, copied_mb_s=copied / seconds)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(**what: object) -> None:
    rounded = {key: round(v, 1) if isinstance(v, float) else v for key, v in what.items()}
    print(json.dumps({"at": time.strftime("%H:%M:%S"), **rounded}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
