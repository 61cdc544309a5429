"""MirrorMaker 2 in dedicated mode: four configurations, and two that filter and mask payments."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import payments
from bench.model import Job, Launch
from k2ktui.runtime import artifacts
from k2ktui.runtime.java import find_java

_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
TARGET_ALIAS = "target"

_LOGS = (
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
G1 = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    *_LOGS,
)
PARALLEL = ("-server", "-XX:+UseParallelGC", *_LOGS)
# What connect-mirror-maker.sh gives it.
_DEFAULT_JVM = ("-Xms256m", "-Xmx2g", *G1)
_TUNED_JVM = ("-Xms2g", "-Xmx2g", *PARALLEL)

# One broker each, one topic, one direction, no service topics beyond what copying needs.
_COMMON = {
    "clusters": "{source}, {target}",
    "{source}.bootstrap.servers": "{source_address}",
    "{target}.bootstrap.servers": "{target_address}",
    "{source}->{target}.enabled": "true",
    "{source}->{target}.topics": "{topic}",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.acls.enabled": "false",
}
_OFFSET_SYNCS = {"offset-syncs.topic.replication.factor": "1"}
_EXACTLY_ONCE = {
    "{target}.exactly.once.source.support": "enabled",
    "{source}.consumer.isolation.level": "read_committed",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}
_TUNED = {
    "tasks.max": str(os.cpu_count() or 1),
    "{source}.consumer.max.poll.records": "10000",
    "{source}.consumer.fetch.max.bytes": str(64 << 20),
    "{source}.consumer.max.partition.fetch.bytes": str(4 << 20),
    "{source}.consumer.receive.buffer.bytes": str(4 << 20),
    "{source}.consumer.check.crcs": "false",
    "{target}.producer.enable.idempotence": "true",
    "{target}.producer.max.in.flight.requests.per.connection": "5",
    "{target}.producer.acks": "all",
    "{target}.producer.batch.size": str(512 << 10),
    "{target}.producer.linger.ms": "20",
    "{target}.producer.max.request.size": str(8 << 20),
    "{target}.producer.buffer.memory": str(256 << 20),
    "{target}.producer.send.buffer.bytes": str(4 << 20),
    "{target}.producer.compression.type": "none",
    "{target}.topic.tracking.enable": "false",
    "{target}.topic.creation.enable": "false",
    # Its record of offsets; without it consumer groups cannot be translated, but it is faster.
    "emit.offset-syncs.enabled": "false",
}
# It copies faster what it writes uncompressed; k2ktui keeps the codec that producers have chosen.
_SAME_CODEC = {"{target}.producer.compression.type": "{codec}"}
# Its values are bytes. None of Kafka Connect's own transformations reads JSON from bytes, and no
# predicate sees values, so bench/smt has one of each, as small as possible: the converter, the
# filter and the mask are Kafka Connect's.
_FLOW = "{source}->{target}."
_FILTER_AND_MASK = {
    _FLOW + "transforms": "parse,filter,mask",
    _FLOW + "transforms.parse.type": "bench.smt.FromJson",
    _FLOW + "transforms.filter.type": "org.apache.kafka.connect.transforms.Filter",
    _FLOW + "transforms.filter.predicate": "small",
    _FLOW + "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    _FLOW + "transforms.mask.fields": payments.FIELD,
    _FLOW + "transforms.mask.replacement": payments.MASK,
    _FLOW + "predicates": "small",
    _FLOW + "predicates.small.type": "bench.smt.FieldBelow",
    _FLOW + "predicates.small.field": "amount",
    _FLOW + "predicates.small.bound": str(payments.LEAST_AMOUNT),
    _FLOW + "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    _FLOW + "value.converter.schemas.enable": "false",
}
_SMT = Path(__file__).with_name("smt")
# It commits a transaction a poll.
_FEW_TRANSACTIONS = {"{source}.consumer.max.poll.records": "50000"}


@dataclass(frozen=True, slots=True)
class MirrorMaker:
    """One configuration; ``properties`` are laid over what all of them share.

    In names and values ``{source}`` and ``{target}`` stand for the aliases of the run, and
    ``{codec}`` for the codec of the batches on the source.
    """

    key: str
    label: str
    properties: Mapping[str, str] = field(default_factory=dict)
    exactly_once: bool = False
    transforms: bool = False
    jvm: tuple[str, ...] = _DEFAULT_JVM
    mode: str = ""

    def prepare(self, job: Job) -> Launch:
        """Write the properties file; the run's name is the source's alias, hence the prefix."""
        words = {
            "source": job.run,
            "target": TARGET_ALIAS,
            "source_address": job.source,
            "target_address": job.target,
            "topic": job.topic,
            "codec": job.codec,
        }
        more = _FILTER_AND_MASK if self.transforms else {}
        filled = {
            name.format(**words): value.format(**words)
            for name, value in {**_COMMON, **self.properties, **more}.items()
        }
        text = "".join(f"{name} = {value}\n" for name, value in filled.items())
        file = job.directory / "mm2.properties"
        file.write_text(text)
        jars = artifacts.classpath(
            artifacts.CONNECT_MIRROR, artifacts.CONNECT_RUNTIME, artifacts.LOGGING
        )
        java = str(find_java().executable)
        path = jars.argument
        if self.transforms:
            compile_transformations(path, job.directory)
            path = f"{job.directory}{os.pathsep}{path}"
        command = (java, *self.jvm, "-cp", path, _MAIN, str(file))
        options = " ".join(self.jvm)
        return Launch(command, f"{job.run}.{job.topic}", f"# java {options}\n{text}")


def compile_transformations(class_path: str, directory: Path) -> None:
    """Compile bench/smt into a directory.

    Raises:
        RuntimeError: there is no Java compiler.
    """
    compiler = shutil.which("javac")
    if compiler is None:
        raise RuntimeError("Payments are transformed by MirrorMaker 2 only if javac is on PATH.")
    sources = [str(source) for source in sorted(_SMT.glob("*.java"))]
    options = ("--release", "11", "-cp", class_path, "-d", str(directory))
    subprocess.run([compiler, *options, *sources], check=True)


def mirror_makers() -> tuple[MirrorMaker, ...]:
    """Return the four configurations that copy, and two that transform payments."""
    tuned = MirrorMaker("mm2-tuned", "MirrorMaker 2, tuned", _TUNED, jvm=_TUNED_JVM)
    same = replace(
        tuned,
        key="mm2-tuned-codec",
        label="MirrorMaker 2, tuned, in the source's codec",
        properties={**_TUNED, **_SAME_CODEC},
    )
    exact = MirrorMaker(
        "mm2-eos",
        "MirrorMaker 2 exactly-once, default",
        {**_OFFSET_SYNCS, **_EXACTLY_ONCE},
        exactly_once=True,
    )
    exact_tuned = MirrorMaker(
        "mm2-eos-tuned",
        "MirrorMaker 2 exactly-once, tuned",
        {**_TUNED, **_EXACTLY_ONCE, **_FEW_TRANSACTIONS},
        exactly_once=True,
        jvm=_TUNED_JVM,
    )
    return (tuned, same, exact, exact_tuned, _transforming(exact), _transforming(exact_tuned))


def _transforming(one: MirrorMaker) -> MirrorMaker:
    label = f"{one.label}, filter and mask"
    return replace(one, key=f"{one.key}-transform", label=label, transforms=True)
