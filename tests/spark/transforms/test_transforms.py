"""Transforms on real clusters: what the target gets, its mapping, and what stops or is skipped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from k2ktui.runtime.node import KafkaNode
from tests.spark.transforms import test_explode, test_transform_avro
from tests.support.clusters.group_members import Where, consume
from tests.support.clusters.kafka import TIMEOUT, Got, Out, admin, create_topic, read_all
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.cases import Case, Cases
from tests.support.pipelines.pipeline import Run

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

SCHEMA = "id BIGINT, amount BIGINT, card STRING"
JSON = {"value": {"json": {"schema": SCHEMA}}}
RULE: dict[str, Any] = {
    "decode": JSON,
    "filter": "value.amount > 2",
    "set": {"value.card": "sha2(value.card, 256)"},
}
#: JSON after a schema's id; what is decoded is what ``transform schema`` infers.
FORMATS: dict[str, Any] = {
    "decode": {
        "key": "string",
        "value": {"json": {"schema": "amount BIGINT,card STRING,id BIGINT", "schemaId": "enabled"}},
    },
    "set": {
        "key": "upper(key)",
        "headers.h": "filter(headers, h -> h.key = 'h')[0].value || X'2B'",
        "headers.at": "concat_ws(':', topic, partition, offset)",
        "headers.gone": "CAST(NULL AS STRING)",
        "value.id": "value.id + 1",
    },
    "drop": ["value.card"],
    "encode": {"key": "string", "value": "json"},
    "onError": "skip",
}
LETTERS: dict[str, Any] = {
    "decode": JSON,
    "set": {"value.id": "20 div value.amount"},
    "onError": "deadLetter",
}
DIVIDED: dict[str, Any] = {"decode": JSON, "set": {"value.id": "10 / value.id"}}


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "amount": number % 5, "card": f"4000-{number}"}


def payments(count: int, partitions: int = 2) -> list[Out]:
    return [
        Out(json.dumps(payment(n)).encode(), b"k%d" % n, n % partitions, (("h", b"%d" % n),))
        for n in range(count)
    ]


def masked(sent: Got) -> bytes:
    order = json.loads(sent.value or b"")
    order["card"] = hashlib.sha256(order["card"].encode()).hexdigest()
    return json.dumps(order, separators=(",", ":")).encode()


def is_large(sent: Got) -> bool:
    return bool(json.loads(sent.value or b"")["amount"] > 2)


def formatted() -> list[Out]:
    headers = (("h", b"1"), ("gone", b"2"), ("kept", None), ("h", b"3"))
    value = b"\0\0\0\1\xff" + json.dumps(payment(7)).encode()
    return [Out(value, b'{"k": 7}', 0, headers), Out(b"\0\0", None, 0)]


def lettered() -> list[Out]:
    records = payments(60)
    records[21] = Out(b"{", b"k21", 1, (("h", None), ("h", b"\xff")))
    return records


def divided() -> list[Out]:
    records = payments(20)[2:]
    records[10] = Out(b'{"id": ', b"k12", 0)
    records[11] = Out(json.dumps({"id": 0}).encode(), b"k13", 1)
    return [*records, Out(None, b"tombstone", 0)]


_ORDERS = 40
CASES = {
    "masked": Case(payments(500), RULE),
    "plain": Case(payments(500)),
    "formats": Case(formatted(), FORMATS, partitions=1),
    "letters": Case(lettered(), LETTERS, config={"cleanup.policy": "compact"}),
    # The last record of partition 0 has three copies: a group at the end must not read them again.
    "exploded": Case(
        [
            Out(test_explode.order(n + first), b"k%d" % n, partition)
            for partition, first in ((0, 4), (1, 0))
            for n in range(_ORDERS)
        ],
        test_explode.RULE,
    ),
}


@dataclass(frozen=True)
class Copied:
    """All cases, copied by one run, and their groups, moved.

    Attributes:
        run: the run that copied them.
        explained: rows of ``k2ktui explain`` before it, by case.
        previewed: the preview of ``letters`` before it.
        stops: where the group ``app`` stopped on the source, which it had read as a member.
        read: what it had read.
        verified: the groups on the target, by ``k2ktui verify``.
    """

    cases: Cases
    run: Run
    explained: Mapping[str, Any]
    previewed: Any
    stops: Mapping[Where, int]
    read: Mapping[Where, list[Got]]
    verified: Any


@pytest.fixture(scope="module")
def copied(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Copied]:
    directory = tmp_path_factory.mktemp("transforms")
    cases = Cases(directory, *clusters, CASES, {"spark.slots": 1}, suffix=".copy")
    file, topics = cases.file, cases.topics
    stems = {topic: stem for stem, topic in topics.items()}
    explained = {stems[row["topic"]]: row for row in k2ktui_json("explain", "-f", file)["topics"]}
    letters = ("-f", file, "--topic", topics["letters"], "--limit", "60")
    previewed = k2ktui_json("transform", "preview", *letters)
    on_target = set(admin(cases.target).list_topics(timeout=TIMEOUT).topics)
    assert not [topic for topic in on_target if topic.startswith(tuple(topics.values()))]
    try:
        run = cases.copy()
        print(run.tail())
        commit_offsets(
            cases.source,
            cases.group("letters"),
            {(topics["letters"], 0): 0, (topics["letters"], 1): 2},
        )
        for offset in range(_ORDERS + 1):
            commit_offsets(
                cases.source,
                cases.group(f"exploded-{offset}"),
                {(topics["exploded"], partition): offset for partition in (0, 1)},
            )
        first, second = topics["masked"], topics["plain"]
        stops = {(first, 0): 100, (first, 1): 101, (second, 0): 7, (second, 1): 0}
        read = consume(cases.source, cases.group("app"), [first, second], until=stops)
        cases.move_groups()
        verified = k2ktui_json("verify", "-f", file, "--sample", "20")
        yield Copied(cases, run, explained, previewed, stops, read, verified)
    finally:
        cases.pipeline.close()


def test_groups_of_a_filtered_and_masked_topic_move_exactly(copied: Copied) -> None:
    """Copy, mapping, translation and consuming, with a plain topic beside it."""
    cases = copied.cases
    cases.prove("masked", value=masked, copied=is_large)
    cases.prove("plain")
    paths = {stem: row["path"] for stem, row in copied.explained.items()}
    assert (paths["masked"], paths["plain"]) == ("record", "verbatim")
    reason = copied.explained["masked"]["reason"]
    assert "replication.transform decodes value (json), filters" in reason

    # The group reads on as a member of the target: each record once, in order.
    stems = ("masked", "plain")
    after = consume(cases.target, cases.group("app"), [cases.copy_of(stem) for stem in stems])
    for stem in stems:
        sent = cases.sent(stem)
        for partition in (0, 1):
            where = cases.topics[stem], partition
            own, offset = [got for got in sent if got.partition == partition], copied.stops[where]
            assert copied.read[where] == own[:offset]
            rest = [got.key for got in own[offset:] if stem == "plain" or is_large(got)]
            copies = after[cases.copy_of(stem), partition]
            assert [got.key for got in copies] == rest and rest


def test_groups_of_an_exploded_topic_move_exactly(copied: Copied) -> None:
    """Every offset of a partition is translated: what is read there follows what was consumed."""
    cases = copied.cases
    cases.prove("exploded", values=test_explode.items_of)
    sent = cases.sent("exploded")
    for offset in range(_ORDERS + 1):
        copies = cases.unread("exploded", cases.group(f"exploded-{offset}"))
        for partition in (0, 1):
            unread = [
                value
                for got in sent
                if got.partition == partition and got.offset >= offset
                for value in test_explode.items_of(got)
            ]
            read = [got.value for got in copies if got.partition == partition]
            assert read == unread, (offset, partition)


def test_moved_groups_verify(copied: Copied) -> None:
    verified = copied.verified
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    # Of three groups, and of those of the exploded topic.
    assert verified["positions"]["same"] > 3 + 2 + _ORDERS and verified["records"]["same"] > 0


def test_dead_letters_have_the_record_its_origin_and_the_cause(copied: Copied) -> None:
    cases, topic = copied.cases, copied.cases.topics["letters"]
    dead = f"{cases.copy_of('letters')}.dead-letter"
    reason = copied.explained["letters"]["reason"]
    assert f"sets value.id, writes records that fail to {dead}" in reason
    outcomes = [record["outcome"] for record in copied.previewed["records"]]
    assert outcomes.count("dead letter") == 13

    notes = [event["text"] for event in copied.run.events("note")]
    notes = [note for note in notes if "onError: deadLetter" in note]
    assert notes and all(f"written to {dead} (onError: deadLetter)" in note for note in notes)
    cases.prove("letters", value=changed, copied=is_changed)
    failed = [got for got in cases.sent("letters") if not is_changed(got)]
    assert [as_sent(got) for got in cases.letters("letters")] == [
        (*as_sent(got)[:4], (*got.headers, *described(got, topic, cases.pipeline.name)))
        for got in failed
    ]
    unread = [got.key for got in cases.unread("letters", cases.group("letters"))]
    assert unread == [
        got.key
        for got in cases.sent("letters")
        if is_changed(got) and got.offset >= 2 * got.partition
    ]


def is_changed(sent: Got) -> bool:
    """Return whether LETTERS can change a record."""
    try:
        order = json.loads(sent.value or b"")
    except ValueError:
        return False
    return bool(order["amount"])


def changed(sent: Got) -> bytes:
    order = json.loads(sent.value or b"")
    order["id"] = 20 // order["amount"]
    return json.dumps(order, separators=(",", ":")).encode()


def as_sent(got: Got) -> tuple[Any, ...]:
    return got.partition, got.key, got.value, got.timestamp, got.headers


def described(got: Got, topic: str, pipeline: str) -> list[tuple[str, bytes]]:
    is_json = got.value != b"{"
    cause = (
        "Spark SQL cannot evaluate 20 div value.amount"
        if is_json
        else "the value is not JSON of the schema id BIGINT, amount BIGINT, card STRING"
    )
    return [
        ("__k2k.error.step", b"set value.id" if is_json else b"decode.value"),
        ("__k2k.error.cause", cause.encode()),
        ("__k2k.error.pipeline", pipeline.encode()),
        ("__k2k.error.topic", topic.encode()),
        ("__k2k.error.partition", b"%d" % got.partition),
        ("__k2k.error.offset", b"%d" % got.offset),
    ]


def test_keys_headers_and_formats(copied: Copied) -> None:
    """The preview is what is copied; previews and inferred schemas are of the JSON after ids."""
    cases, topic = copied.cases, copied.cases.topics["formats"]
    options = ("-f", cases.file, "--topic", topic)
    previewed, failed = k2ktui_json("transform", "preview", *options)["records"]
    (got,) = cases.copies("formats")
    assert (got.key, got.value) == (b'{"K": 7}', b'{"amount":2,"id":8}')
    assert got.headers == (("kept", None), ("h", b"1+"), ("at", f"{topic}:0:0".encode()))
    assert previewed["outcome"] == "copied" and previewed["before"]["key"] == '{"k": 7}'
    assert json.loads(previewed["before"]["value"]) == payment(7)
    assert previewed["after"]["value"] == '{"amount":2,"id":8}'
    assert [tuple(header) for header in previewed["after"]["headers"]] == [
        (name, value and value.decode()) for name, value in got.headers
    ]
    assert failed["step"] == "decode.value" and failed["after"] is None

    inferred = k2ktui("transform", "schema", *options, "--mask")
    assert yaml.safe_load(inferred.stdout)["decode"]["value"] == FORMATS["decode"]["value"]
    assert f"note: sample: {topic}-0 offset 0: {{" in inferred.stderr
    assert "inferred from 1 value" in inferred.stderr and "4000" not in inferred.stderr


STOPPING = {
    "divided": Case(divided(), DIVIDED),
    "avro": Case(test_transform_avro.with_garbage(), test_transform_avro.RULE),
    # All of them fail, and are dead letters on the topic that "named" has on the target.
    "failed": Case([Out(b"{", b"k%d" % n, n % 3) for n in range(30)], partitions=3),
    "named": Case(partitions=1),
}


def test_what_stops_and_what_is_skipped(
    source: KafkaNode, target: KafkaNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Records that fail; a dead-letter topic, which is no target and must exist."""
    directory = tmp_path_factory.mktemp("stopping")
    test_transform_avro.write_schema(directory)
    settings = {"features.autoCreateTopics": "disabled"}
    cases = Cases(directory, source, target, STOPPING, settings)
    topics = cases.topics
    rules = {stem: case.rule for stem, case in STOPPING.items() if case.rule}
    file = cases.write_rules(
        {**rules, "failed": {**LETTERS, "deadLetter": {"topic": topics["named"]}}}
    )
    for stem in ("divided", "avro", "failed"):
        create_topic(target, topics[stem], partitions=STOPPING[stem].partitions)
    row = explain(file)[topics["failed"]]
    assert "its dead-letter topic" in row["reason"] and row["path"] is None
    assert "does not exist, and features.autoCreateTopics" in row["reason"]
    create_topic(target, topics["named"], partitions=2)
    row = explain(file)[topics["named"]]
    assert "is a dead-letter topic of this pipeline" in row["reason"]

    run = cases.copy(code=1)
    faults = [event["fault"] for event in run.events("stopped")]
    stopped = {(fault["source"]["topic"], fault["source"]["partition"]): fault for fault in faults}
    assert len(stopped) == len(faults) == 4
    first, second = (stopped.pop((topics["divided"], partition))["message"] for partition in (0, 1))
    assert "decode.value" in first and "offset 5 " in first
    assert "set value.id" in second and "offset 5 " in second
    garbage = stopped.pop((topics["avro"], 1))
    assert garbage["offset"] == 5
    assert "fails at the record at offset 5 (decode.value)" in garbage["message"]
    assert {topic for topic, _ in stopped} == {topics["named"]}
    assert len(cases.copies("divided")) == 10
    assert sorted((got.partition, got.key) for got in cases.copies("named")) == sorted(
        (n % 3 % 2, b"k%d" % n) for n in range(30)
    )
    assert cases.copies("failed") == []

    cases.pipeline.topics = [topics["divided"]]
    cases.write_rules({"divided": {**DIVIDED, "onError": "skip"}})
    run = cases.copy()
    notes = [event["text"] for event in run.events("note") if "skipped" in event["text"]]
    assert notes and all("onError: skip" in note and "failed" in note for note in notes)
    copies = {got.key: got.value for got in read_all(target, topics["divided"])}
    assert copies.keys() == {out.key for out in divided()} - {b"k12", b"k13"}
    assert copies[b"tombstone"] is None


def explain(file: Any) -> dict[str, Any]:
    """Return the rows of ``k2ktui explain``, by source topic."""
    return {row["topic"]: row for row in k2ktui_json("explain", "-f", file)["topics"]}
