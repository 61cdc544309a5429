"""``k2ktui records``: records beside their copies, as a user asks for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.records.pairs import list_group_records
from tests.support.clusters.kafka import (
    Got,
    Out,
    create_topic,
    delete_before,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.clusters.registry_stand_in import two_stand_ins
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.copied import Copied
from tests.support.records.kinds import KINDS
from tests.support.records.traffic import CODECS

pytestmark = pytest.mark.slow

SECRET = b"card 4111-1111"
HOSTILE = b"\x1b]0;gotcha\x07 \xe2\x80\xae \xff\xfe \\x41"


def listed(copied: Copied, place: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
    reported = k2ktui_json("records", "-f", copied.file, place, *options, code=code)
    records: list[dict[str, Any]] = reported["records"]
    return records


def states(records: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    sides = [pair["source"] or pair["target"] for pair in records]
    return [(side["first_offset"], side["last_offset"], side["state"]) for side in sides]


def outcomes(records: list[dict[str, Any]]) -> list[tuple[str | None, str]]:
    return [(pair["outcome"], pair["reason"]) for pair in records]


def test_records_and_their_copies_masked(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    headers = (("trace", b"abc"), ("trace", None))
    produce(source, topic, [Out(SECRET, b"k%d" % n, headers=headers) for n in range(20)])
    copied.copy(topic)
    done = k2ktui("records", "-f", copied.file, f"{topic}:0@4", "--count", "3")
    assert "4111" not in done.stdout and "trace" not in done.stdout and "k4" not in done.stdout
    assert done.stdout.count("equal") == 3 and f"{topic}-0@11" in done.stdout
    assert "14 B" in done.stdout and "2 of 13 B" in done.stdout
    first, *_ = records = listed(copied, f"{topic}:0@4", "--count", "3")
    assert [pair["outcome"] for pair in records] == ["same"] * 3
    assert (first["source"]["key_size"], first["source"]["value_size"]) == (2, len(SECRET))
    assert (first["source"]["header_count"], first["source"]["headers_size"]) == (2, 13)
    assert (first["target"]["topic"], first["target"]["first_offset"]) == (topic, 11)
    assert "key" not in first["source"] and "value" not in first["target"]
    earlier = listed(copied, f"{topic}:0@4", "--count", "1", "--before", "2")
    assert [pair["source"]["first_offset"] for pair in earlier] == [2, 3, 4]
    # One side alone; on the target, the place is one there.
    (one,) = listed(copied, f"{topic}:0@4", "--count", "1", "--side", "source")
    assert one["target"] is None and one["outcome"] is None
    native, copy = listed(copied, f"{topic}:0@6", "--count", "2", "--side", "target")
    assert native["source"] is None and native["target"]["value_size"] == len(b"native")
    assert copy["target"]["value_size"] == len(SECRET)


def test_contents_are_shown_if_asked_for(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    headers = (("trace", b"abc"), ("none", None))
    produce(
        source,
        topic,
        [
            Out(b'{"a": [1.10, "x"]}', b"k1", headers=headers),
            Out("grün".encode(), None),
            Out(b"\x00\x01\xff", b"k3"),
            Out(None, b"k4"),
        ],
    )
    copied.copy(topic)
    records = listed(copied, f"{topic}:0@0", "--count", "4", "--show")
    contents = [pair["source"]["value"] for pair in records]
    assert [(content["format"], content["text"]) for content in contents] == [
        ("json", '{"a": [1.10, "x"]}'),
        ("text", "grün"),
        ("hex", "0001ff"),
        (None, None),
    ]
    assert [h["text"] for h in records[0]["source"]["headers"]] == ["abc", None]
    assert records[1]["source"]["key"]["text"] is None
    shown = k2ktui("records", "-f", copied.file, f"{topic}:0@0", "--count", "4", "--show").stdout
    for line in ("key (text): k1", "header trace: abc", "value (text): grün", "value: null"):
        assert f"    {line}\n" in shown
    assert shown.count(", equal\n") == 4
    as_hex = listed(copied, f"{topic}:0@1", "--count", "1", "--show", "--format", "hex")
    assert as_hex[0]["source"]["value"]["text"] == "6772c3bc 6e"
    not_json = listed(copied, f"{topic}:0@1", "--count", "1", "--show", "--format", "json")
    assert not_json[0]["source"]["value"]["note"] == "not JSON"


def test_hostile_bytes_cannot_reach_the_terminal(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [Out(HOSTILE, HOSTILE, headers=(("\x1b[2J", HOSTILE),))])
    copied.copy(topic)
    for wanted in ("auto", "text", "json", "hex"):
        done = k2ktui(
            *("records", "-f", copied.file, f"{topic}:0@0", "--count", "1"),
            *("--show", "--format", wanted),
        )
        assert all(char.isprintable() or char == "\n" for char in done.stdout)
        assert "gotcha" in done.stdout or wanted != "text"
    (pair,) = listed(copied, f"{topic}:0@0", "--count", "1", "--show", "--format", "text")
    assert pair["source"]["value"]["text"] == (r"\x1b]0;gotcha\x07 \u202e \xff\xfe \x5cx41")
    assert pair["source"]["headers"][0]["name"] == r"\x1b[2J"


def test_compressed_records(copied: Copied, source: KafkaNode) -> None:
    """A batch of each codec, from the middle of the first one on."""
    topic = create_topic(source)
    for number in range(len(CODECS)):
        values = [b"%d" % n * 50 for n in range(40 * number, 40 * (number + 1))]
        produce(source, topic, values, compression_type=CODECS[number], linger_ms=50)
    copied.copy(topic)
    end = 40 * len(CODECS)
    records = listed(copied, f"{topic}:0@17", "--count", str(end - 17), "--show")
    assert [pair["outcome"] for pair in records] == ["same"] * (end - 17)
    assert [pair["source"]["value"]["text"] for pair in records] == [
        f"{n}" * 50 for n in range(17, end)
    ]


def test_aborted_and_markers_are_said(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce_transaction(source, topic, [b"a", b"b"])
    produce_transaction(source, topic, [b"c", b"d"], commit=False)
    produce(source, topic, [b"e"])
    copied.copy(topic)
    records = listed(copied, f"{topic}:0@0", "--count", "9")
    assert states(records) == [
        (0, 0, "record"),
        (1, 1, "record"),
        (2, 2, "commit marker"),
        (3, 4, "of an aborted transaction"),
        (5, 5, "abort marker"),
        (6, 6, "record"),
        (7, 7, "not written yet"),
    ]
    assert [pair["outcome"] for pair in records if pair["target"]] == ["same"] * 3
    done = k2ktui("records", "-f", copied.file, f"{topic}:0@0", "--count", "9")
    assert "3…4" in done.stdout and "of an aborted transaction" in done.stdout


def test_deleted_offsets_are_said_on_either_cluster(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(20)], linger_ms=50)
    copied.copy(topic)
    delete_before(source, topic, 6)
    delete_before(target, topic, 15)
    records = listed(copied, f"{topic}:0@3", "--count", "4")
    assert states(records)[:2] == [(3, 5, "deleted by retention"), (6, 6, "record")]
    at_six, at_seven, at_eight = ((pair["target"] or {}) for pair in records[1:4])
    assert at_six["state"] == at_seven["state"] == "deleted by retention"
    assert at_eight["state"] == "record" and at_eight["first_offset"] == 15


def test_what_a_group_has_read_and_reads_next(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce_transaction(source, topic, [b"%d" % n for n in range(5)])
    produce(source, topic, [b"%d" % n for n in range(5, 9)])
    copied.copy(topic)
    flow = Flow(copied.config)
    row = GroupRow(
        *("g", topic, 0, "Empty", "", 6, topic, 0, None, 12, Basis.EXACT, 0, 0, None),
    )
    records = list_group_records(flow, row, 3)
    assert records.target is None
    sides = [
        (pair.source.first, pair.target and pair.target.first, pair.result)
        for pair in records.listing.pairs
        if pair.source
    ]
    assert sides == [
        (2, 9, "equal"),
        (3, 10, "equal"),
        (4, 11, "equal"),
        (5, None, "commit marker"),
        (6, 12, "equal"),
        (7, 13, "equal"),
        (8, 14, "equal"),
    ]
    assert len(records.listing.before) == 4
    # The group's commit on the target is at another record: what it would read there.
    records = list_group_records(flow, replace(row, target_offset=9), 3)
    assert records.target is not None
    there = [pair.target.first for pair in records.target.pairs if pair.target]
    assert there == [6, 7, 8, 9, 10, 11]


def test_compaction_on_either_cluster_is_said(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    topic = unique_name("compacted")
    KINDS["compacted"](source, topic)
    copied.copy(topic)
    records = listed(copied, f"{topic}:0@0", "--count", "9")
    assert records[0]["source"]["state"] == "compacted away" and records[0]["target"] is None
    assert [pair["outcome"] for pair in records if pair["target"]] == ["same"] * 9
    # A copy that was compacted away, and one that a log without compaction lacks.
    there = unique_name("compacted")
    KINDS["compacted"](target, there)
    produce(source, create_topic(source, there), [b"a", b"b"])
    kept = {got.offset for got in read_all(target, there)}
    removed = next(offset for offset in range(max(kept)) if offset not in kept)
    copied.record(there, 0, {0: removed, 1: max(kept) + 1000}, 2, 0)
    records = listed(copied, f"{there}:0@0", "--count", "2", code=1)
    assert [pair["target"]["state"] for pair in records] == [
        "compacted away",
        "lost: the log has no record there",
    ]


def test_a_copy_that_differs_or_is_lost_is_a_finding(
    copied: Copied, source: KafkaNode, target: KafkaNode
) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(6)])
    records = list(read_all(source, topic))
    wrong = [
        Got(**{**_fields(got), "value": b"other"}) if got.offset == 2 else got for got in records
    ]
    copied.copy(topic, wrong)
    listing = listed(copied, f"{topic}:0@1", "--count", "3", code=1)
    assert outcomes(listing) == [("same", ""), ("different", "value differs"), ("same", "")]
    shown = k2ktui("records", "-f", copied.file, f"{topic}:0@2", "--count", "1", "--show", code=1)
    assert "value (text): 2\n" in shown.stdout and "value (text): other\n" in shown.stdout
    assert "  different: value differs\n" in shown.stdout


def _fields(got: Got) -> dict[str, Any]:
    return {name: getattr(got, name) for name in Got.__dataclass_fields__}


def test_records_that_have_no_copy_say_why(copied: Copied, source: KafkaNode) -> None:
    topic, other = create_topic(source), create_topic(source)
    produce(source, topic, [b"%d" % n for n in range(5)])
    produce(source, other, [b"x"])
    assert outcomes(listed(copied, f"{topic}:0@0", "--count", "1"))[0][1]  # nothing copied yet
    copied.copy(topic)
    produce(source, topic, [b"late"])
    assert outcomes(listed(copied, f"{topic}:0@4", "--count", "2")) == [
        ("same", ""),
        (None, "not replicated yet"),
    ]
    assert outcomes(listed(copied, f"{other}:0@0", "--count", "1")) == [(None, "not replicated")]


def test_a_record_of_a_mebibyte_is_cut(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source, config={"max.message.bytes": "2000000"})
    large = {"message_max_bytes": 2_000_000}
    produce(source, topic, [Out(b"x" * (1 << 20), b"k")], **large)
    copied.copy(topic, [])  # the position alone; reading and comparing it is in test_listing
    (pair,) = listed(copied, f"{topic}:0@0", "--count", "1", "--side", "source", "--show")
    value = pair["source"]["value"]
    assert (value["size"], value["cut"], len(value["text"])) == (1 << 20, True, 16 << 10)
    done = k2ktui(
        *("records", "-f", copied.file, f"{topic}:0@0", "--count", "1", "--side", "source"),
        "--show",
    )
    assert "… cut, 1,024 KiB in all" in done.stdout and len(done.stdout) < 20_000


SettingsRefusal = tuple[Mapping[str, object], tuple[str, ...], str]


def test_who_may_not_see_contents(copied: Copied, source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [SECRET])
    copied.copy(topic)
    refusals: tuple[SettingsRefusal, ...] = (
        ({"console": {"showRecords": "disabled"}}, (), "console.showRecords is disabled"),
        ({"readOnly": "enabled"}, ("--unlock",), "readOnly is enabled in the pipeline file"),
        ({"environment": "production"}, (), "the environment is production"),
    )
    for settings, options, words in refusals:
        copied.settings = settings
        shown = ("records", "-f", copied.file, f"{topic}:0@0", "--count", "1")
        done = k2ktui(*shown, "--show", *options, code=5)
        assert words in done.stderr and "4111" not in done.stdout + done.stderr
        assert "14 B" in k2ktui(*shown).stdout  # sizes are shown to all
    assert "4111" in k2ktui(*shown, "--show", "--unlock").stdout


def test_what_is_not_a_place_or_has_no_effect_is_refused(copied: Copied) -> None:
    for place in ("orders:0", "orders@3", "orders:0@x", "orders:0@-1", "@"):
        assert (
            "TOPIC:PARTITION@OFFSET" in k2ktui("records", "-f", copied.file, place, code=2).stderr
        )
    for option in (("--format", "hex"), ("--unlock",)):
        done = k2ktui("records", "-f", copied.file, "orders:0@1", *option, code=2)
        assert "--show" in done.stderr
    done = k2ktui(
        "records", "-f", copied.file, "orders:0@1", "--show", "--format", "schema", code=2
    )
    assert "registry" in done.stderr
    done = k2ktui("records", "-f", copied.file, "no-such-topic:0@1", "--side", "source")
    assert "the topic does not exist" in done.stdout


def test_schemas_of_a_registry(copied: Copied, source: KafkaNode) -> None:
    fastavro = pytest.importorskip("fastavro")
    from io import BytesIO

    schema = {
        "type": "record",
        "name": "Pay",
        "fields": [{"name": "who", "type": "string"}, {"name": "raw", "type": "bytes"}],
    }
    data = BytesIO()
    fastavro.schemaless_writer(
        data, fastavro.parse_schema(schema), {"who": "Ann\x1b", "raw": b"\xff"}
    )
    with two_stand_ins() as stand_ins:
        registry = stand_ins.source
        _, answer = registry.answer(
            "POST", "/subjects/pay-value/versions", {"schema": json.dumps(schema)}, {}
        )
        topic = create_topic(source)
        prefix = b"\0" + int(answer["id"]).to_bytes(4, "big")
        produce(source, topic, [prefix + data.getvalue(), prefix + b"\xff", b"\0\0\0\3\xe7x"])
        copied.settings = {
            "source": {
                "kafka": {"common": {"bootstrap.servers": source.bootstrap}},
                "registry": {"config": {"schema.registry.url": registry.url}},
            }
        }
        records = listed(copied, f"{topic}:0@0", "--count", "3", "--side", "source", "--show")
    first, damaged, unknown = (pair["source"]["value"] for pair in records)
    assert (first["format"], first["text"]) == ("schema", '{"who": "Ann\\u001b", "raw": "ÿ"}')
    assert damaged["format"] == "hex" and "was not written with the schema" in damaged["note"]
    assert unknown["format"] == "hex" and "schema id 999 is not in" in unknown["note"]


def test_protobuf_and_json_values_by_their_schemas(copied: Copied, source: KafkaNode) -> None:
    pytest.importorskip("grpc_tools")
    protobuf = """syntax = "proto3"; package shop;
        message Other { string x = 1; } message Pay { string who = 1; bytes raw = 2; }"""
    json_schema = json.dumps({"type": "object", "properties": {"who": {"type": "string"}}})
    with two_stand_ins() as stand_ins:
        registry = stand_ins.source

        def prefix(subject: str, kind: str, text: str) -> bytes:
            body = {"schema": text, "schemaType": kind}
            _, answer = registry.answer("POST", f"/subjects/{subject}/versions", body, {})
            return b"\0" + int(answer["id"]).to_bytes(4, "big")

        proto = prefix("pay-value", "PROTOBUF", protobuf)
        texts = prefix("note-value", "JSON", json_schema)
        topic = create_topic(source)
        pay = b"\x0a\x03Ann\x12\x01\xff"
        produce(
            source,
            topic,
            [
                proto + b"\x02\x02" + pay,  # the second message of the file
                proto + b"\x02\x02" + b"\x0a\x7f",
                texts + b'{"who": "Ann\\u001b", "n": 1.10}',
                texts + b"{",
            ],
        )
        copied.settings = {
            "source": {
                "kafka": {"common": {"bootstrap.servers": source.bootstrap}},
                "registry": {"config": {"schema.registry.url": registry.url}},
            }
        }
        place = (f"{topic}:0@0", "--count", "4", "--side", "source", "--show")
        values = [pair["source"]["value"] for pair in listed(copied, *place)]
        strict = [pair["source"]["value"] for pair in listed(copied, *place, "--format", "schema")]
    assert [value["format"] for value in values] == ["schema", "hex", "schema", "hex"]
    assert json.loads(values[0]["text"]) == {"who": "Ann", "raw": "/w=="}
    assert json.loads(values[2]["text"]) == {"who": "Ann\x1b", "n": 1.1}
    for damaged in (values[1], values[3]):
        assert "was not written with the schema" in damaged["note"]
    assert strict[0]["text"] == values[0]["text"] and "\x1b" not in values[2]["text"]
