"""``python -m bench.engine --keep``: the mapping store with millions of ranges, into RESULTS.md.

One broker holds the mapping topic; each measurement is a process of its own, that reads it as
``k2ktui groups`` does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import psutil
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.machine import describe
from bench.sections import put_section
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.mapping.store import MappingStore

_RESULTS = Path(__file__).parent / "RESULTS.md"
_PIPELINE, _TOPIC = "bench", "mappings"
_STEP = 10  # source offsets a range: eight records, a gap of two
_BULK = 1_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """What is in the mapping topic: ``ranges`` over ``sources``, ``each`` in a record."""

    name: str
    ranges: int
    sources: int
    each: int
    held: int

    @property
    def per_source(self) -> int:
        """Ranges of one source partition."""
        return self.ranges // self.sources


SHAPES = (
    Shape("100 ranges a record", 10_000_000, 50, 100, 10_000_000),
    Shape("the same, 1,000 a partition held", 10_000_000, 50, 100, 1_000),
    Shape("1 range a record", 1_000_000, 50, 1, 10_000_000),
)


def main() -> int:
    """Run the measurements and write them down."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keep", action="store_true", help="put the section into RESULTS.md")
    options.add_argument("--measure", nargs=2, metavar=("BOOTSTRAP", "SHAPE"))
    options.add_argument("--repeat", type=int, default=2)
    options.add_argument("--scale", type=int, default=1, help="divide the number of ranges")
    chosen = options.parse_args()
    if chosen.measure:
        bootstrap, shape = chosen.measure
        print(json.dumps(measure(bootstrap, Shape(**json.loads(shape)))))
        return 0
    measured = []
    with tempfile.TemporaryDirectory(prefix="k2ktui-bench-") as directory:
        node = KafkaNode("target", Path(directory) / "target", heap="1g")
        node.start()
        try:
            for shape in SHAPES:
                scaled = Shape(**{**asdict(shape), "ranges": shape.ranges // chosen.scale})
                load(node.bootstrap, scaled)
                runs = [in_a_process(node.bootstrap, scaled) for _ in range(chosen.repeat)]
                measured.append((scaled, min(runs, key=lambda figures: figures["load"])))
                print(scaled.name, measured[-1][1], file=sys.stderr)
        finally:
            node.close()
    text = report(measured)
    if chosen.keep:
        put_section(_RESULTS, "engine", text)
    else:
        print(text)
    return 0


def topic_of(shape: Shape) -> str:
    """Return the mapping topic of a shape; those that hold the same share one."""
    return f"{_TOPIC}-{shape.ranges}-{shape.each}"


def load(bootstrap: str, shape: Shape) -> None:
    """Write the mapping topic of a shape, unless it is there."""
    admin, topic = AdminClient({"bootstrap.servers": bootstrap}), topic_of(shape)
    if topic in admin.list_topics(timeout=30).topics:
        return
    admin.create_topics([NewTopic(topic, 6, 1)])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50}
    )
    for at in range(0, shape.per_source, shape.each):
        for number in range(shape.sources):
            key = f'{{"partition":{number},"pipeline":"{_PIPELINE}","topic":"payments"}}'
            while True:
                try:
                    producer.produce(topic, value_of(shape, number, at), key, number % 6)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def value_of(shape: Shape, number: int, at: int) -> str:
    """Return a mapping record as a run writes it."""
    ranges = ",".join(
        f"[{1_000_000 + row * _STEP},{2_000_000 + row * (_STEP - 1)},{_STEP - 2}]"
        for row in range(at, at + shape.each)
    )
    first, end = 1_000_000 + at * _STEP, 1_000_000 + (at + shape.each) * _STEP
    return (
        f'{{"covers":[{first},{end},0,1],"ranges":[{ranges}],"targetPartition":{number},'
        '"targetTopic":"payments","term":1,"v":1}'
    )


def in_a_process(bootstrap: str, shape: Shape) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "bench.engine", "--measure", bootstrap]
    done = subprocess.run(
        [*command, json.dumps(asdict(shape))], check=True, capture_output=True, text=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(bootstrap: str, shape: Shape) -> dict[str, float]:
    """Load the ranges and look offsets up; seconds, bytes and translations a second."""
    config = _config(bootstrap, shape)
    end = 1_000_000 + shape.per_source * _STEP
    sources = [SourcePartition("payments", number) for number in range(shape.sources)]
    positions = {
        at: Position(end, 1_000_000, -1, "", 1, 0, "payments", at.partition) for at in sources
    }
    process = psutil.Process()
    store = MappingStore(config, Cluster(config.target, "target"))
    before, began, cpu = process.memory_info().rss, perf_counter(), process_time()
    report = store.refresh(600, positions)
    loaded, used = perf_counter() - began, process_time() - cpu
    grown = process.memory_info().rss - before
    assert not report.behind and not report.malformed_count
    began = perf_counter()
    store.reach({sources[0]: 1_000_000})
    reached = perf_counter() - began
    assert not store.replica(sources[0]).holes
    ranges = store.replica(sources[0]).target_ranges["payments", 0]
    asked = np.random.default_rng(1).integers(1_000_000, end - _STEP, _BULK)
    began = perf_counter()
    landed = ranges.translate(asked)
    there = perf_counter() - began
    began = perf_counter()
    ranges.back(landed)
    back = perf_counter() - began
    one = asked[:1]
    began = perf_counter()
    for _ in range(1_000):
        ranges.translate(one)
    single = perf_counter() - began
    store.close()
    return {
        "load": loaded,
        "cpu": used,
        "memory": grown,
        "reach": reached,
        "translate": _BULK / there,
        "back": _BULK / back,
        "one": single / 1_000,
    }


def _config(bootstrap: str, shape: Shape) -> PipelineConfig:
    brokers = {"kafka": {"common": {"bootstrap.servers": bootstrap}}}
    tree = {
        "name": _PIPELINE,
        "source": brokers,
        "target": brokers,
        "offsetMapping": {"topic": topic_of(shape), "retention": {"count": shape.held}},
        "coordination": {"commit": {"group": _PIPELINE}},
        "replication": [{"source": {"topic": "payments"}}, {"sink": {"topic": "source"}}],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(yaml.safe_dump(tree))
        file.flush()
        return load_checked((file.name,)).config


def report(measured: list[tuple[Shape, dict[str, float]]]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "## Mapping store",
        "",
        f"`python -m bench.engine --keep`, {describe()['Date']}, k2ktui {describe()['k2ktui']}. "
        "Needed: 10,000,000 ranges in ≤ 5 s and ≤ 400 MB, ≥ 1,000,000 translations/s in bulk.",
        "",
        "Loading is reading the mapping topic from the broker until the store can answer; memory "
        "is what the process grew by. Look-ups are random offsets of a source partition; where not "
        "all is held, `reach` is reading back to the first of them.",
        "",
        "| mapping topic | ranges | partitions | loaded, s | CPU s | ranges/s | memory, MB | "
        "reach, s | translations/s | back/s | one, µs |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for shape, figures in measured:
        lines.append(
            f"| {shape.name} | {shape.ranges:,} | {shape.sources} | {figures['load']:.1f} | "
            f"{figures['cpu']:.1f} | {shape.ranges / figures['load']:,.0f} | "
            f"{figures['memory'] / 1e6:,.0f} | "
            f"{figures['reach']:.2f} | {figures['translate']:,.0f} | {figures['back']:,.0f} | "
            f"{figures['one'] * 1e6:.0f} |"
        )
    busy = psutil.getloadavg()[2]
    lines.append(
        f"\nThe best of the runs. Load average of the last 15 minutes {busy:.1f}: of a busy "
        "machine only CPU seconds can be compared; they include the client library's threads."
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
