"""The tail of an old source: what is in it, and its export."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from k2ktui.drill.forward import ForwardPipeline
from k2ktui.drill.tail import read_bounds, read_tail
from k2ktui.drill.tail_export import TailExport, export_name
from k2ktui.engine.drill.tail import TailPartition, describe_tail, list_tail
from k2ktui.engine.records.producer_registration import (
    ProducerRegistration,
    registration_key,
    registration_value,
)
from k2ktui.errors import Refused
from k2ktui.log.record import KafkaRecord
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    end_offsets,
    eventually,
    open_transaction,
    produce,
    unique_name,
)
from tests.support.pipelines.copied import Copied
from tests.support.records.batches import writers

BOTH = {"features": {"autoCreateControlTopics": "enabled", "bidirectionalReplication": "enabled"}}


def test_the_tail_is_what_applications_wrote_and_nothing_has_copied(
    tmp_path: Path, source: KafkaNode, target: KafkaNode
) -> None:
    topic = unique_name("tail")
    replication = [
        {"source": {"topic": [topic]}},
        {"sink": {"topic": "source", "partition": "source"}},
    ]
    copied = Copied(tmp_path, source, target, {**BOTH, "replication": replication})
    create_topic(source, topic, 2)
    produce(source, topic, [Out(b"copied", b"c", 0)] * 5)
    copied.copy(topic)
    produce(
        source, topic, [Out(b"late", b"key-%d" % n, 0, timestamp=1000 * n) for n in range(1, 5)]
    )
    aborted = open_transaction(source, topic, [Out(b"aborted", b"x", 0)])
    aborted.abort_transaction(TIMEOUT)
    others = writers(source, topic)
    back = open_transaction(source, topic, [Out(b"from the other side", b"y", 0)])
    back.commit_transaction(TIMEOUT)
    # A commit is answered before its marker is written.
    eventually(lambda: end_offsets(source, topic, "read_committed")[0] == 13, "markers are written")
    produce(source, topic, [Out(b"late", b"last\x1b", 0, timestamp=9000)])
    (number,) = writers(source, topic) - others
    create_topic(source, copied.commits, 1, {"cleanup.policy": "compact"})
    registration = ProducerRegistration(number, target.cluster_id, source.cluster_id, 1)
    key = registration_key("back", number)
    produce(source, copied.commits, [Out(registration_value(registration), key)])
    forward = ForwardPipeline(copied.config, [str(copied.file)])
    seen: list[bytes | None] = []
    (span,) = read_tail(
        forward,
        read_bounds(forward),
        lambda _: None,
        keys=True,
        take=lambda at, record: seen.append(record.key),
    )
    assert seen == [b"key-1", b"key-2", b"key-3", b"key-4", b"last\x1b"]
    assert (span.topic, span.partition, span.first, span.end) == (topic, 0, 5, 14)
    assert span.records == 5
    assert (span.oldest_ms, span.newest_ms) == (1000, 9000)
    assert span.keys == ("key-1", "key-2", "key-3")


def test_a_tail_is_described_with_counts_and_times() -> None:
    tail = [
        TailPartition("a", 0, 5, 9, 3, 1_000, 61_000),
        TailPartition("b\x1b", 1, 7, 8, 1, keys=("k",)),
    ]
    span = "of 1970-01-01 00:00:01 UTC to 1970-01-01 00:01:01 UTC"
    assert describe_tail(tail) == f"4 records on 2 partitions, {span}"
    assert list_tail(tail) == [
        f"a-0: 3 records, offsets 5 to 8, {span}",
        r"b\x1b-1: 1 record, offsets 7 to 7, first keys: k",
    ]
    assert list_tail(tail * 30)[-1] == "and 10 more partitions"


def record(offset: int, key: bytes | None = None) -> KafkaRecord:
    return KafkaRecord(offset, key, b"v", (("h\udcff", None), ("i", b"\x00")), 12)


def test_exported_files_have_their_names_when_all_are_complete(tmp_path: Path) -> None:
    directory = tmp_path / "tail"
    directory.mkdir()
    (directory / "a-0.jsonl.part").write_text("of a process that was killed")
    with TailExport(directory) as export:
        assert not list(directory.iterdir())
        export.add(("a", 0), record(3))
        assert [file.name for file in directory.iterdir()] == ["a-0.jsonl.part"]
        export.add(("a", 0), record(4, b"k"))
        export.complete([TailPartition("a", 0, 3, 5, 2)])
    (file,) = directory.iterdir()
    assert file.name == "a-0.jsonl" and file.stat().st_mode & 0o777 == 0o600
    first, second = map(json.loads, file.read_text().splitlines())
    assert first == {
        "topic": "a",
        "partition": 0,
        "offset": 3,
        "timestamp": 12,
        "timestampType": "create",
        "key": None,
        "value": base64.b64encode(b"v").decode(),
        "headers": [["h\udcff", None], ["i", "AA=="]],
    }
    assert second["key"] == "aw=="


def test_an_incomplete_export_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), TailExport(tmp_path / "tail") as export:
        export.add(("a", 0), record(3))
        raise KeyboardInterrupt
    assert not list((tmp_path / "tail").iterdir())


def test_many_partitions_need_few_open_files(tmp_path: Path) -> None:
    with TailExport(tmp_path / "tail") as export:
        for offset in range(2):
            for partition in range(300):
                export.add(("a", partition), record(offset))
        export.complete([TailPartition("a", n, 0, 2, 2) for n in range(300)])
    files = list((tmp_path / "tail").iterdir())
    assert len(files) == 300 and {len(f.read_text().splitlines()) for f in files} == {2}


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be written"):
        TailExport(tmp_path / "file" / "tail")


def test_names_of_files_are_escaped() -> None:
    assert export_name(("a/../b", 1)) == "a%2f..%2fb-1.jsonl"
