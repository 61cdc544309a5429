"""Transforms whose copies go to the partition of their key, which may be a new key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, Headers, Out, end_offsets, eventually
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.judge import Expected, by_key, prove
from tests.support.pipelines.cases import COMPARE_TIMEOUT, Case, Cases
from tests.support.records.damage import damage_log, flip_byte
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

#: Any record, whatever its bytes.
APPENDED: dict[str, Any] = {
    "filter": "value IS NULL OR length(value) % 3 <> 0",
    "set": {"value": "concat(value, X'21')", "headers.k": "coalesce(hex(key), 'none')"},
}
_COUNT = 3000
_RECORDS = [Out(b"v%d" % n, b"k%d" % n, n % 3) for n in range(_COUNT)]
CASES = {
    "any": Case(partitions=3, rule=APPENDED),
    "values": Case(
        _RECORDS,
        {"sql": "SELECT key, explode(array(value, NULL, key)) AS value FROM records"},
        partitions=3,
    ),
    "keys": Case(
        _RECORDS,
        {"sql": "SELECT explode(array(key, value, NULL)) AS key, value FROM records"},
        partitions=3,
    ),
}
SETTINGS = {
    "spark.slots": 1,
    "replication.sink.partition": "producer",
    "topicCreation.replication.common": {"partitions": 2},
}


def appended(topic: str, target: str = "", **more: Any) -> Expected:
    """Return what APPENDED makes of a topic."""

    def headers(sent: Got) -> Headers:
        hexed = b"none" if sent.key is None else sent.key.hex().upper().encode()
        return (*((name, v) for name, v in sent.headers if name != "k"), ("k", hexed))

    return Expected(
        topic,
        target,
        headers=headers,
        value=lambda sent: None if sent.value is None else sent.value + b"!",
        copied=lambda sent: sent.value is None or len(sent.value) % 3 != 0,
        **more,
    )


@pytest.fixture(scope="module")
def copied(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cases]:
    cases = Cases(tmp_path_factory.mktemp("keys"), *clusters, CASES, SETTINGS, suffix=".copy")
    with Traffic(cases.source, {cases.topics["any"]: 3}, 5) as traffic:
        eventually(lambda: traffic.sent > 1000, "some traffic")
    try:
        print(cases.copy().tail())
        yield cases
    finally:
        cases.pipeline.close()


def test_any_records_by_key(copied: Cases) -> None:
    """Transactions, null keys and values and all kinds of headers."""
    expected = appended(copied.topics["any"], copied.copy_of("any"), partition=by_key(2))
    prove(copied.source, copied.target, copied.pipeline.name, expected)


def test_several_records_of_one_share_its_key(copied: Cases) -> None:
    copied.prove("values", partition=by_key(2), values=lambda sent: (sent.value, None, sent.key))


def test_records_made_of_one_are_compared_on_all_partitions(copied: Cases) -> None:
    """Those of one record have different keys. One of them is damaged."""
    target, copy = copied.target, copied.copy_of("keys")
    places = {got.key: got for got in copied.copies("keys") if got.value == b"v1234"}
    assert places.keys() == {b"k1234", b"v1234", None}
    place = places[b"v1234"]
    assert {got.partition for got in copied.copies("keys")} == {0, 1}
    target.stop()
    damage_log(target, copy, place.offset, flip_byte, place.partition)
    target.start()
    end_offsets(target, copy)  # it leads its partitions again
    report = k2ktui_json(
        "compare", "-f", copied.file, "--no-store", code=1, timeout=COMPARE_TIMEOUT
    )
    assert report["differences"] == 1
    assert of_keys(copied, report) == {"equal": _COUNT - 1, "differs": 1}
    ((finding,),) = (one["findings"] for one in report["partitions"] if one["findings"])
    assert (finding["target_topic"], finding["target_partition"], finding["target_offset"]) == (
        copy,
        place.partition,
        place.offset,
    )


def of_keys(copied: Cases, report: Any) -> dict[str, int]:
    """Return the outcomes of the records of ``keys``."""
    counts: dict[str, int] = {}
    for one in report["partitions"]:
        if one["topic"] == copied.topics["keys"]:
            for outcome, count in one["counts"].items():
                counts[outcome] = counts.get(outcome, 0) + count
    return counts
