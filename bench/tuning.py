"""Candidates for the tuned configuration of MirrorMaker 2, tried one against the other.

``python -m bench --tune`` copies one data set with each and writes TUNING.md, so that the choice in
:mod:`bench.peer` can be checked on any machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from bench.peer import G1, PARALLEL, MirrorMaker, mirror_makers

_PRODUCER = "{target}.producer."
_CONSUMER = "{source}.consumer."
_PAIR = "{source}->{target}."

# Each changes the tuned configuration in one respect.
_CHANGES: Mapping[str, Mapping[str, str]] = {
    "as chosen": {},
    "one task": {"tasks.max": "1"},
    "four tasks": {"tasks.max": "4"},
    "producer batches 64 KiB": {_PRODUCER + "batch.size": str(64 << 10)},
    "producer batches 1 MB": {_PRODUCER + "batch.size": "1000000"},
    "linger 0 ms": {_PRODUCER + "linger.ms": "0"},
    "linger 5 ms": {_PRODUCER + "linger.ms": "5"},
    "linger 50 ms": {_PRODUCER + "linger.ms": "50"},
    "500 records a poll": {_CONSUMER + "max.poll.records": "500"},
    "2,000 records a poll": {_CONSUMER + "max.poll.records": "2000"},
    "50,000 records a poll": {_CONSUMER + "max.poll.records": "50000"},
    "fetch.min.bytes 1 MiB": {_CONSUMER + "fetch.min.bytes": str(1 << 20)},
    "not idempotent, acks=1": {
        _PRODUCER + "enable.idempotence": "false",
        _PRODUCER + "acks": "1",
    },
    "requests up to 1 MiB": {_PRODUCER + "max.request.size": str(1 << 20)},
    "checksums checked": {_CONSUMER + "check.crcs": "true"},
    "Connect's topic creation on": {"{target}.topic.creation.enable": "true"},
    "lz4 to the target": {_PRODUCER + "compression.type": "lz4"},
    "topic tracking on": {"{target}.topic.tracking.enable": "true"},
    "offset syncs on": {
        "emit.offset-syncs.enabled": "true",
        "offset-syncs.topic.replication.factor": "1",
    },
}
_EXACTLY_ONCE_CHANGES: Mapping[str, Mapping[str, str]] = {
    "as chosen": {},
    "10,000 records a poll": {_CONSUMER + "max.poll.records": "10000"},
    "100,000 records a poll": {_CONSUMER + "max.poll.records": "100000"},
    "a transaction each 0.5 s": {
        _PAIR + "transaction.boundary": "interval",
        _PAIR + "transaction.boundary.interval.ms": "500",
    },
    "a transaction each 2 s": {
        _PAIR + "transaction.boundary": "interval",
        _PAIR + "transaction.boundary.interval.ms": "2000",
    },
}
_HEAPS: Mapping[str, tuple[str, ...]] = {
    "G1 collector": ("-Xms2g", "-Xmx2g", *G1),
    "4 GB of heap": ("-Xms4g", "-Xmx4g", *PARALLEL),
}


def candidates() -> tuple[MirrorMaker, ...]:
    """Return every configuration to try."""
    chosen = {one.key: one for one in mirror_makers()}
    plain, exact = chosen["mm2-tuned"], chosen["mm2-eos-tuned"]
    heaps = (
        dataclasses.replace(plain, key=_key("plain", name), label=name, jvm=jvm)
        for name, jvm in _HEAPS.items()
    )
    return (
        *_changed("plain", plain, _CHANGES),
        *heaps,
        *_changed("exactly-once", exact, _EXACTLY_ONCE_CHANGES),
    )


def _changed(
    kind: str, base: MirrorMaker, changes: Mapping[str, Mapping[str, str]]
) -> Iterable[MirrorMaker]:
    for name, change in changes.items():
        properties = {**base.properties, **change}
        yield dataclasses.replace(base, key=_key(kind, name), label=name, properties=properties)


def _key(kind: str, name: str) -> str:
    return f"{kind}: {name}"
