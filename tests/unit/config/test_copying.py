"""The digest of a file: what decides what is copied is in it, and nothing else."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.config import load
from k2ktui.config.copying import copy_digest
from k2ktui.config.show import to_yaml
from k2ktui.config.validate import known_paths
from k2ktui.errors import ConfigError
from tests.support.schedule.examples import examples
from tests.unit.config.files import Files

FULL = Path(__file__).with_name("full.yaml").read_text(encoding="utf-8")
# Two runs that differ in one of these write other records, or leave others out.
COPIES = {
    *(
        f"features.{key}"
        for key in (
            "headerReplication",
            "schemaMapping",
            "offsetMapping",
            "bidirectionalReplication",
            "excludeProgramTopics",
            "keepRecordCreationTimestamp",
        )
    ),
    *(
        f"{key}.{what}"
        for key in ("features.tracingHeaders", "tracing.headers")
        for what in ("partition", "offset", "topic", "pipeline")
    ),
    "bidirectional.mode",
    "bidirectional.headers.bidirectional",
    *(f"bidirectional.opposite.{what}Topic" for what in ("commit", "mapping", "state", "metrics")),
    *(f"schemaMapping.topics.{what}" for what in ("pattern", "key", "value")),
    "schemaMapping.supportedTypes",
    "schemaMapping.autoRegister",
    "schemaMapping.onUnknownSchema",
    "schemaMapping.deadLetter.topic",
    # A pattern leaves out the control topics of both directions.
    *(f"coordination.{purpose}.topic" for purpose in ("commit", "assignment", "state")),
    "metrics.kafka.topic",
    "offsetMapping.topic",
    "replication.source.topic",
    *(
        f"replication.transform.{key}"
        for key in (
            "topics",
            "decode.key",
            "decode.value",
            "filter",
            "explode",
            "set",
            "drop",
            "sql",
            "encode.key",
            "encode.value",
            "onError",
            "deadLetter.topic",
        )
    ),
    *(f"replication.headers.{rule}" for rule in ("topics", "keep", "drop", "rename", "add")),
    *(
        f"replication.headers.tracing.{what}"
        for what in ("topic", "partition", "offset", "pipeline")
    ),
    "replication.sink.topic",
    "replication.sink.partition",
    "onSourceDataLoss",
    "start.from",
    "start.timestamp",
}
# Keys of drill.redirect that haproxy stands in for.
BY_COMMAND = {"command": ["/move"], "cut": ["/cut"], "restore": ["/restore"]}
BY_DNS = {
    "server": "ns1",
    "zone": "example",
    "records": [
        {"name": "kafka.example", "type": "A", "source": ["192.0.2.1"], "target": ["192.0.2.9"]}
    ],
    "ttl": "1 minute",
    "keyFile": "/key",
}
# Of keys that full.yaml cannot do without: another value.
OTHERS: dict[str, Any] = {
    "name": "other",
    **{
        f"{side}.registry.config": {"schema.registry.url": "http://other"}
        for side in ("source", "target")
    },
    "schemaMapping.topics.pattern": "b.*",
    "source.kafka.common": {"bootstrap.servers": "other-s:1", "fetch.min.bytes": 2},
    "target.kafka.common": {"bootstrap.servers": "other-t:1", "linger.ms": 7},
    "topicCreation.replication.rules.pattern": "other-.*",
    "replication.source.topic": "others-.*",
    "replication.sink.topic": {"prefix": "q-"},
    "replication.headers.keep": ["a"],
    "replication.headers.drop": ["a"],
    "replication.headers.rename": {"a": "b"},
    "start.timestamp": "2025-03-02T12:00:00Z",
    "mm2.sourceAlias": "other",
    "mm2.targetAlias": "other",
    "replication.transform.decode.value": {"json": {"schema": "id BIGINT, b STRING"}},
    "replication.transform.topics": "orders-1x.*",
    "replication.headers.topics": "orders-1x.*",
    "drill.hooks.before": "drain",
    "drill.hooks.after": "drain",
    "drill.hooks.for": "other",
    "drill.hooks.command": ["/other"],
    "drill.redirect.name": "other:1",
    "drill.sign.key": "/other",
    **{f"drill.redirect.{key}": ["/other"] for key in BY_COMMAND},
    "drill.redirect.dns.server": "other",
    "drill.redirect.dns.zone": "kafka.example",
    "drill.redirect.dns.records.name": "other.kafka.example",
    "drill.redirect.dns.records.type": "CNAME",
    "drill.redirect.dns.records.source": ["192.0.2.2"],
    "drill.redirect.dns.records.target": ["192.0.2.3"],
    "drill.redirect.dns.keyFile": "/other",
    "drill.redirect.haproxy.socket": "/other",
    "drill.redirect.haproxy.source": ["other/a"],
    "drill.redirect.haproxy.target": ["other/b"],
}


def leaves() -> list[str]:
    paths = [".".join(map(str, path)) for path in known_paths()]
    for refused in ("source.kafka.topicPropsExclusionList", "source.writers"):
        paths.remove(refused)
    return [path for path in paths if not any(o.startswith(f"{path}.") for o in paths)]


def _change(node: Any, path: list[str], change: Callable[[dict[str, Any], str], None]) -> None:
    """Apply a change at a path, in every entry of the lists on the way that has it."""
    if isinstance(node, list):
        for item in node:
            _change(item, path, change)
    elif isinstance(node, dict) and len(path) == 1:
        change(node, path[0])
    elif isinstance(node, dict) and path[0] in node:
        _change(node[path[0]], path[1:], change)


def _prepare(path: str) -> dict[str, Any]:
    """Return full.yaml, so that the key has an effect and may have another value."""
    full: dict[str, Any] = yaml.safe_load(FULL)
    if path in ("drill.hooks.before", "drill.hooks.after"):
        place = path.rpartition(".")[2]  # a hook has one of them
        full["drill"]["hooks"] = [hook for hook in full["drill"]["hooks"] if place in hook]
    if path.rpartition(".")[0] == "drill.redirect" and path.rpartition(".")[2] in BY_COMMAND:
        redirect = full["drill"]["redirect"]
        del redirect["haproxy"]
        redirect |= BY_COMMAND
    if path.startswith("drill.redirect.dns"):
        redirect = full["drill"]["redirect"]
        del redirect["haproxy"]
        redirect["dns"] = deepcopy(BY_DNS)
    if path in (
        "replication.headers.keep",
        "replication.headers.drop",
        "replication.headers.rename",
    ):
        full["features"]["headerReplication"] = "enabled"
    full["mm2"]["force"] = full["mm2"].pop("evenSo")
    if path == "replication.transform.sql":
        rule = full["replication"][1]["transform"][0]
        for step in ("filter", "explode", "set", "drop"):
            del rule[step]
        rule["sql"] = "SELECT upper(key) AS key, value AS value FROM records"
    if path in ("schemaMapping.onUnknownSchema", "replication.transform.onError"):
        full["schemaMapping"].pop("deadLetter")
        full["replication"][1]["transform"][0].pop("deadLetter")
    if path == "start.from":
        full["start"] = {"from": "latest"}
    if path == "replication.transform.encode.value":
        full["replication"][1]["transform"][0]["encode"]["value"] = "string"
    return full


def _digest(files: Files, tree: dict[str, Any]) -> str:
    (path,) = files.write({"a.yaml": yaml.safe_dump(tree, sort_keys=False)})
    return copy_digest(load([path]).config)


@pytest.mark.parametrize("path", leaves())
def test_a_key_is_in_the_digest_if_it_decides_what_is_copied(files: Files, path: str) -> None:
    """A new key has to be put into one of the two classes."""
    before, after = _prepare(path), _prepare(path)

    def change(node: dict[str, Any], key: str) -> None:
        if path in OTHERS:
            node[key] = OTHERS[path]
        else:
            node.pop(key, None)

    entries = path.split(".")
    if entries[0] == "replication":
        _change(after["replication"], entries[1:], change)
    else:
        _change(after, entries, change)
    assert after != before, "it is not in full.yaml"
    try:
        is_other = _digest(files, before) != _digest(files, after)
    except ConfigError as error:
        pytest.fail(f"{error.message}: give it another value in OTHERS")
    assert is_other == (path in COPIES)


def test_each_key_that_counts_exists() -> None:
    assert set(leaves()) >= COPIES and set(leaves()) >= OTHERS.keys()


SMALL = """\
name: p
source: {kafka: {common: {bootstrap.servers: "s:1"}}}
target: {kafka: {common: {bootstrap.servers: "t:1"}}}
replication:
  - source: {topic: [a, b, c]}
  - transform: [{topics: a, decode: {value: string}, filter: "value > 'a'"}]
  - headers: [{topics: b, keep: [x, y], add: {m: "1", n: "2"}}]
  - sink: {topic: source}
"""


@pytest.mark.parametrize(
    "other",
    [
        SMALL.replace("[a, b, c]", "[c, b, a, b]"),
        SMALL.replace("[x, y]", "[y, x, x]"),
        SMALL.replace("filter: \"value > 'a'\"", "filter: \"  value > 'a' \""),
        SMALL.replace("{topic: source}", "{topic: {prefix: '', suffix: ''}}"),
        SMALL.replace("{topic: source}", "{topic: source, partition: source, name: there}"),
        SMALL.replace(
            "decode: {value: string}", "encode: {value: string}, decode: {value: string}"
        ),
        SMALL + "schemaMapping: {autoRegister: enabled}\n",
        SMALL + "bidirectional: {mode: cluster}\n",
        SMALL + "tracing: {headers: {topic: not-added}}\n",
        SMALL + "metrics: {kafka: {topic: not-selected}}\n",
        SMALL + "spark: {slots: 7, lap: 3 seconds, master: 'local[2]'}\n",
        SMALL + "coordination: {mode: standby, commit: {batchSize: 3}}\n",
        SMALL.replace("name: p", "name: p\nenvironment: production"),
    ],
)
def test_files_that_mean_the_same_have_one_digest(files: Files, other: str) -> None:
    same, changed = files.load(SMALL).config, files.load(other).config
    assert copy_digest(same) == copy_digest(changed)


@pytest.mark.parametrize(
    "other",
    [
        SMALL.replace("[a, b, c]", "[a, b]"),
        SMALL.replace("[a, b, c]", "'a|b|c'"),
        SMALL.replace('m: "1", n: "2"', 'n: "2", m: "1"'),
        SMALL.replace("topics: a,", "topics: 'a.*',"),
    ],
)
def test_files_that_mean_something_else_have_another_one(files: Files, other: str) -> None:
    assert copy_digest(files.load(SMALL).config) != copy_digest(files.load(other).config)


def test_of_a_schema_file_its_content_counts(files: Files) -> None:
    """Hosts may have it in different directories."""
    text = SMALL.replace("{value: string}", "{value: {avro: {schemaFile: SCHEMA}}}").replace(
        "filter: \"value > 'a'\"", "filter: \"value.a > 'a'\""
    )
    digests = []
    for name, content in (("one", "1"), ("two", "1"), ("one", "2"), ("none", None)):
        path = files.directory / name
        if content is not None:
            path.write_text(content)
        digests.append(copy_digest(files.load(text.replace("SCHEMA", str(path))).config))
    assert digests[0] == digests[1] and len(set(digests)) == 3


def _shuffled(value: Any, dice: random.Random) -> Any:
    """Return a tree with the keys of its sections in another order; the order of rules stays."""
    if isinstance(value, list):
        return [_shuffled(item, dice) for item in value]
    if isinstance(value, dict):
        ordered = {"rename", "add", "set", "staticMapping", "explode"}
        keys = list(value)
        dice.shuffle(keys)
        return {k: value[k] if k in ordered else _shuffled(value[k], dice) for k in keys}
    return value


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 30))
def test_the_order_of_keys_does_not_count(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = Files(Path(directory))
        full = yaml.safe_load(FULL)
        assert _digest(files, full) == _digest(files, _shuffled(full, random.Random(seed)))


def test_a_file_that_is_written_out_whole_has_the_same_digest(files: Files) -> None:
    """Every default is in it; and the digest does not depend on Python's hashes of strings.

    A release with another digest for the same file lets only the hosts copy that have it.
    """
    loaded = files.load(SMALL)
    assert copy_digest(files.load(to_yaml(loaded)).config) == copy_digest(loaded.config)
    assert copy_digest(loaded.config) == "d1ebbb1e2d41dd02"
    assert _digest(files, yaml.safe_load(FULL)) == "3bea3d617452e080"
