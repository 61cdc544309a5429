"""Expressions that choose topics and partitions on real clusters: copies and groups.

Of kills, see ``test_transforms_killed.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_transform_faults import origin_of, place_of
from tests.support.clusters.kafka import (
    Got,
    Out,
    create_topic,
    end_offsets,
    grow_topic,
    produce,
    read_all,
)
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import Expected, Proof, prove
from tests.support.pipelines.cases import COMPARE_TIMEOUT, Case, Cases
from tests.support.pipelines.fixtures import MakePipeline

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

_STEP = "__k2k.error.step"
REGION = "get_json_object(CAST(value AS STRING), '$.region')"


def order(number: int) -> Out:
    region = ("eu", "us", "asia")[number % 3]
    value = json.dumps({"id": number, "region": region}).encode()
    return Out(value, b"k%d" % (number % 7), number % 2, (("site", region.encode()),))


def region_of(sent: Got) -> str:
    return str(json.loads(sent.value or b"")["region"])


@dataclass(frozen=True)
class Copied:
    """Topics whose records are routed, copied by one run.

    Attributes:
        cases: ``moved``, of which a group has read a part; ``one`` and ``two``, which meet on two
            topics; ``letters``, of which some have no route.
        explained: rows of ``k2ktui explain`` before the run, by case.
        checked: checks before it, by name.
        proof: of all topics.
    """

    cases: Cases
    explained: Mapping[str, Any]
    checked: Mapping[str, Any]
    proof: Proof

    def targets(self, stem: str) -> list[str]:
        return targets_of(self.cases, stem)


CASES = {
    "moved": Case([order(n) for n in range(600)]),
    "one": Case([order(n) for n in range(90)]),
    "two": Case([order(n) for n in range(90)]),
    "letters": Case([order(n) for n in range(60)], {"onError": "deadLetter"}),
}
#: Offsets of ``letters`` whose topic or partition does not exist.
NO_ROUTE = frozenset({1, 2, 3, 6, 7, 8, 9, 10})


def targets_of(cases: Cases, stem: str) -> list[str]:
    """Return the names of the topics to which a case's records go."""
    names = {"moved": ("eu", "us", "asia"), "letters": ("letters-eu", "letters-us")}
    return [f"{cases.pipeline.name}-{name}" for name in names.get(stem, ("even", "odd"))]


def sink_of(cases: Cases) -> dict[str, Any]:
    """Choose topics by a field of the value, or by the key; some partitions by a header."""
    name, topics = cases.pipeline.name, cases.topics
    even, odd = targets_of(cases, "one")
    header = "CAST(filter(headers, h -> h.key = 'site')[0].value AS STRING)"
    return {
        "replication.sink.topic": {
            "expression": f"""
                CASE topic
                WHEN '{topics["moved"]}' THEN concat('{name}-', {REGION})
                WHEN '{topics["letters"]}' THEN
                    CASE offset WHEN 1 THEN NULL WHEN 2 THEN '../' || chr(27)
                    WHEN 3 THEN array('a')[offset] ELSE concat('{name}-letters-', {REGION}) END
                ELSE IF(ascii(substr(CAST(key AS STRING), 2)) % 2 = 0, '{even}', '{odd}') END
            """,
            "topics": [
                target for stem in ("moved", "one", "letters") for target in targets_of(cases, stem)
            ],
        },
        "replication.sink.partition": {
            "expression": f"""
                CASE topic
                WHEN '{topics["moved"]}' THEN partition
                WHEN '{topics["letters"]}' THEN
                    CASE offset WHEN 6 THEN -1 WHEN 7 THEN 2 WHEN 8 THEN 4294967296
                    WHEN 9 THEN 1 div (offset - 9) WHEN 10 THEN NULL ELSE partition END
                ELSE IF({header} = 'eu', 2, partition) END
            """
        },
    }


def is_routed(got: Got) -> bool:
    """Return whether a record of ``letters`` has a topic and a partition."""
    return region_of(got) != "asia" and got.offset not in NO_ROUTE


def expected(cases: Cases) -> list[Expected]:
    name, topics = cases.pipeline.name, cases.topics
    even, odd = targets_of(cases, "one")
    shared = [
        Expected(
            topics[stem],
            targets=(even, odd),
            routed=lambda got: odd if (got.key or b"")[1] % 2 else even,
            partition=lambda got: 2 if region_of(got) == "eu" else got.partition,
        )
        for stem in ("one", "two")
    ]
    return [
        *shared,
        Expected(
            topics["moved"],
            targets=tuple(targets_of(cases, "moved")),
            routed=lambda got: f"{name}-{region_of(got)}",
        ),
        Expected(
            topics["letters"],
            targets=tuple(targets_of(cases, "letters")),
            routed=lambda got: f"{name}-letters-{region_of(got)}",
            copied=is_routed,
        ),
    ]


@pytest.fixture(scope="module")
def copied(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Copied]:
    cases = Cases(tmp_path_factory.mktemp("routed"), *clusters, CASES, {"spark.slots": 1})
    cases.settings |= sink_of(cases)
    file = cases.write_rules({"letters": CASES["letters"].rule})
    for target in targets_of(cases, "one"):
        create_topic(cases.target, target, partitions=3)
    stems = {topic: stem for stem, topic in cases.topics.items()}
    rows = k2ktui_json("explain", "-f", file)["topics"]
    explained = {stems[row["topic"]]: row for row in rows}
    checked = {check["name"]: check for check in k2ktui_json("check", "-f", file)["checks"]}
    try:
        print(cases.copy().tail())
        name = cases.pipeline.name
        proof = prove(cases.source, cases.target, name, *expected(cases))
        yield Copied(cases, explained, checked, proof)
    finally:
        cases.pipeline.close()


def test_several_topics_fan_in_and_out_by_key_and_header(copied: Copied) -> None:
    """Two source topics meet on two target topics; an expression chooses the partition."""
    sent = copied.cases.sent("letters")
    routed, failed = (sum(is_routed(got) is wanted for got in sent) for wanted in (True, False))
    assert copied.proof.records == 600 + 2 * 90 + routed
    report = k2ktui_json("compare", "-f", copied.cases.file, timeout=COMPARE_TIMEOUT)
    assert (report["counts"], report["ignored"]) == (
        {"equal": copied.proof.records, "never copied": failed},
        {},
    )


def test_groups_move_to_several_topics_exactly(copied: Copied) -> None:
    """By a field of the value; then a group reads on the target what it has not on the source."""
    cases, names = copied.cases, copied.targets("moved")
    topic, group = cases.topics["moved"], cases.group("moved")
    row = copied.explained["moved"]
    assert set(names) < set(row["target"].split(", ")) and row["path"] == "record"
    assert "replication.sink chooses the topic and the partition by expression" in row["reason"]
    assert all(f"{name}: the target will be created with 2" in row["reason"] for name in names)
    position = copied.proof.position(topic)
    first, *further = [
        target for stem in ("moved", "one", "letters") for target in copied.targets(stem)
    ]
    assert (position["targetTopic"], position["targetPartition"]) == (first, None)
    assert [name for name, _ in position["furtherTargets"]] == further
    assert all(end_offsets(cases.target, name) for name in names)

    at = {(topic, 0): 101, (topic, 1): 250}
    commit_offsets(cases.source, group, at)
    cases.move_groups()
    moved = committed(cases.target, group)
    sent = cases.sent("moved")
    unread = [got.value or b"" for got in sent if got.offset >= at[topic, got.partition]]
    read = [
        got.value or b""
        for name in names
        for got in read_all(cases.target, name)
        if got.offset >= moved[name, got.partition]
    ]
    # Each record once: 0 re-read, 0 skipped.
    assert sorted(read) == sorted(unread)
    rows = k2ktui_json("groups", "-f", cases.file)["groups"]
    assert {row["basis"] for row in rows} <= {"exact", "end"}
    verified = k2ktui_json("verify", "-f", cases.file, "--sample", "5")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["positions"]["same"] >= 6


def test_records_without_a_route_are_dead_letters(copied: Copied) -> None:
    """Null, an error, a topic that is not declared or not legal, and a missing partition."""
    cases, dead = copied.cases, f"{copied.targets('moved')[0]}.dead-letter"
    check = copied.checked[f"dead-letter topic {dead}"]
    assert check["detail"] == "to be created with 2 partitions"
    check = copied.checked["target topics"]
    assert check["detail"] == "7 topics as required, 5 of them to be created"
    failed = [got for got in cases.sent("letters") if not is_routed(got)]
    letters = read_all(cases.target, dead)
    assert sorted(map(origin_of, letters)) == sorted(map(place_of, failed))
    steps = {origin_of(letter): dict(letter.headers)[_STEP] for letter in letters}
    # Where both are wrong, the topic is named.
    assert steps == {
        place_of(got): b"sink.topic"
        if region_of(got) == "asia" or got.offset in {1, 2, 3}
        else b"sink.partition"
        for got in failed
    }


def test_what_has_no_route_stops_or_is_skipped(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """A topic that is not declared; a partition that the target gets later."""
    grown = [Out(b"%d" % n, b"k", 0) for n in (0, 0, 2, 0)]
    orders = [order(n) for n in range(30)]
    cases = Cases(
        tmp_path, source, target, {"orders": Case(orders), "grown": Case(grown, partitions=1)}
    )
    grown_topic, pipeline = cases.topics["grown"], cases.pipeline
    known = [f"{pipeline.name}-{name}" for name in ("eu", "us")]
    own = f"topic = '{grown_topic}'"
    cases.settings |= {
        "replication.sink.topic": {
            "expression": f"IF({own}, topic, concat('{pipeline.name}-', {REGION}))",
            "topics": [*known, grown_topic],
        },
        "replication.sink.partition": {
            "expression": f"IF({own}, CAST(CAST(value AS STRING) AS INT), "
            "IF(offset = 4, 7, partition))"
        },
    }
    cases.write_rules({})
    create_topic(target, grown_topic)
    for name in known:
        create_topic(target, name, partitions=2)
    try:
        run = cases.copy(code=1)
        faults = [event["fault"] for event in run.events("stopped")]
        messages = {
            topic: [fault["message"] for fault in faults if fault["source"]["topic"] == topic]
            for topic in pipeline.topics
        }
        assert len(messages[cases.topics["orders"]]) == 2
        assert all("sink.topic" in message for message in messages[cases.topics["orders"]])
        (message,) = messages[grown_topic]
        assert "fails at the record at offset 2 (sink.partition)" in message
        assert [got.value for got in cases.copies("grown")] == [b"0", b"0"]

        grow_topic(target, grown_topic, 3)
        cases.write_rules({"orders": {"onError": "skip"}})
        run = cases.copy()
    finally:
        pipeline.close()
    notes = " ".join(event["text"] for event in run.events("note"))
    assert "sink.topic" in notes or "sink.partition" in notes

    def is_copied(got: Got) -> bool:
        return region_of(got) != "asia" and got.offset != 4

    proof = prove(
        source,
        target,
        pipeline.name,
        Expected(grown_topic, partition=lambda got: int(got.value or b"")),
        Expected(
            cases.topics["orders"],
            targets=tuple(known),
            routed=lambda got: f"{pipeline.name}-{region_of(got)}",
            copied=is_copied,
        ),
    )
    copied = sum(map(is_copied, cases.sent("orders")))
    assert proof.records == len(grown) + copied


def test_expressions_see_fields_of_avro_and_protobuf(
    make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    """As the steps before left them; dead letters of every step are the bytes of the source."""
    from tests.spark.transforms.test_transform_avro import PAYMENT, payment, read
    from tests.spark.transforms.test_transform_protobuf import SOURCE, Order, order_file
    from tests.spark.transforms.test_transform_protobuf import order as message
    from tests.unit.transforms.test_avro_codec import written
    from tests.unit.transforms.test_protobuf_codec import schema

    (tmp_path / "payment.avsc").write_text(json.dumps(PAYMENT))
    (tmp_path / "order.desc").write_bytes(schema(file=order_file()).descriptors)
    pipeline = make_pipeline([])
    topic = create_topic(pipeline.source, partitions=2)
    pipeline.topics = [topic]
    new, done = names = [f"{pipeline.name}-{name}" for name in ("new", "done")]
    changed = {
        "value.state": "IF(value.id = 11, 'OLD', value.state)",
        "value.id": "value.id + 1",
    }
    pipeline.settings = {
        "replication.transform": [
            {
                "decode": {
                    "key": {"protobuf": SOURCE},
                    "value": {"avro": {"schemaFile": "payment.avsc"}},
                },
                "set": changed,
                "onError": "deadLetter",
            }
        ],
        "replication.sink.topic": {
            "expression": f"CASE WHEN value.id = 8 THEN 'x' WHEN value.state = 'NEW' THEN '{new}' "
            f"ELSE '{done}' END",
            "topics": names,
        },
        "replication.sink.partition": {
            "expression": "IF(value.id = 21, 9, IF(key.count IS NULL, 0, value.id % 2 + 1))"
        },
        "topicCreation.replication.common": {"partitions": 3},
    }
    sent = [
        Out(written(PAYMENT, payment(n)), message(n // 2).SerializeToString(), n % 2)
        for n in range(60)
    ]
    sent[4] = Out(b"\x02", sent[4].key, 0)
    produce(pipeline.source, topic, sent)
    options = ("-f", pipeline.write(), "--topic", topic, "--limit", "60")
    shown = k2ktui_json("transform", "preview", *options)["records"]
    copied = [row for row in shown if row["outcome"] == "copied"]
    assert {row["target"].rpartition("-")[0] for row in copied} == set(names)
    for row in copied:
        after = json.loads(row["after"]["value"])
        # The target does not exist yet: any partition may.
        numbers = {9} if after["id"] == 21 else {0, after["id"] % 2 + 1}
        topic_name = new if after["state"] == "NEW" else done
        assert row["target"] in {f"{topic_name}-{number}" for number in numbers}
    pipeline.catch_up()

    failed = {4: b"decode.value", 7: b"sink.topic", 11: b"encode.value", 20: b"sink.partition"}

    def number_of(got: Got) -> int:
        return 2 * got.offset + got.partition

    def value(got: Got) -> bytes:
        payment = read(got.value)
        return written(PAYMENT, payment | {"id": payment["id"] + 1})

    def partition(got: Got) -> int:
        counted = Order.FromString(got.key).HasField("count")
        return (number_of(got) + 1) % 2 + 1 if counted else 0

    expected = Expected(
        topic,
        targets=tuple(names),
        value=value,
        routed=lambda got: new if number_of(got) % 2 else done,
        partition=partition,
        copied=lambda got: number_of(got) not in failed,
    )
    assert prove(pipeline.source, pipeline.target, pipeline.name, expected).records == 56
    letters = read_all(pipeline.target, f"{new}.dead-letter")
    steps = {origin_of(letter): (letter.key, dict(letter.headers)[_STEP]) for letter in letters}
    assert steps == {
        (n % 2, n // 2, sent[n].value): (sent[n].key, step) for n, step in failed.items()
    }
