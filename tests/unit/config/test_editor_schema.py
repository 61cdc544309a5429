"""``config schema`` accepts what ``config validate`` does, and refuses what an editor can see."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from k2ktui.config.editor_schema import editor_schema
from k2ktui.config.key_aliases import IGNORED, SPELLINGS
from k2ktui.config.validate import known_paths
from tests.unit.config.editor import editor_errors, value_errors
from tests.unit.config.files import MINIMAL, Files

ROOT = Path(__file__).parents[3]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for number, block in enumerate(
        re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]
MORE = """\
features: {tracingHeaders: Enabled, applyMappingsGuards: "yes", optimizeCommitPartition: off}
groups:
replication:
offsetMapping: {retention: {time: topic, schedule: 5 MINUTES}}
configuration: {partitionParallelism: "2", pipelineParallelism: null}
coordination:
  commit: {charset: UTF-8}
  assignement: {graceWindow: "${env:string:GRACE}"}
  kafka: {common: {client.id: 1}, consumer: , commit: {batchSize: 1_000}}
  admin: {request.timeout.ms: 1000}
source: {kafka: {connection: {servers: [a:1, b:2]}}}
license: {anything: [1]}
mm2: {evenSo: yes}
start: {from: timestamp, timestamp: 2025-03-01}
environment: 2025
"""


def test_every_file_of_the_tests() -> None:
    for path in sorted((ROOT / "tests" / "unit" / "config").glob("*.yaml")):
        assert editor_errors(path.read_text(encoding="utf-8")) == [], path


@pytest.mark.parametrize("block", BLOCKS)
def test_every_pipeline_of_the_documents(block: str, files: Files) -> None:
    files.env = {"SOURCE_JAAS": "x"}
    keys = yaml.safe_load(block)
    if isinstance(keys, dict) and keys.keys() <= editor_schema()["properties"].keys():
        assert editor_errors(block) == []


def test_spellings_empty_sections_and_templates(files: Files) -> None:
    text = MORE
    base = MINIMAL.replace('source: {kafka: {common: {bootstrap.servers: "s:1"}}}\n', "")
    files.env = {"GRACE": "1 minute"}
    assert files.load(base, text).config.name == "p"
    assert editor_errors(text) == [] == editor_errors(base)


@pytest.mark.parametrize("old", [*(old for old, _ in SPELLINGS), *IGNORED], ids=".".join)
def test_every_spelling_is_known(old: tuple[str, ...]) -> None:
    assert value_errors(_under(old, None if old not in IGNORED else "x")) == []
    assert value_errors(_under((*old[:-1], "unknown"), None)) != []


@pytest.mark.parametrize(
    "text",
    [
        "unknown: 1",
        "features: {exactlyOnse: }",
        "features: {exactlyOnce: perhaps}",
        "groups: {pollInterval: 5}",
        "groups: {pollInterval: 5 fortnights}",
        "spark: {slots: 0}",
        "spark: {slots: many}",
        "coordination: {mode: shred}",
        "replication: {source: {topic: a}}",
        "replication: [{sink: {topic: {prefx: a}}}]",
        "replication: [{sink: {topic: sauce}}]",
        "replication: [{sink: {partition: 1}}]",
        "offsetMapping: {retention: {time: 7}}",
        "schemaMapping: {topics: [{key: enabled}]}",
        "source: {kafka: {common: {a: {b: c}}}}",
        "name: [a]",
    ],
)
def test_an_editor_sees_it(text: str, files: Files) -> None:
    assert editor_errors(text) != []
    assert files.errors(MINIMAL, text) != []


def test_a_default_is_one_of_its_values() -> None:
    schema = editor_schema()
    for path in known_paths():
        table = schema
        for step in path:
            options = (table, *table.get("anyOf", ()))
            names = [o["$ref"].rpartition("/")[2] for o in options if "$ref" in o]
            table = schema["$defs"][names[0]] if names else table
            if "properties" not in table:
                break
            table = table["properties"][step]
        alone = path[:2] != ("drill", "redirect")  # its name is required
        if "default" in table and path[0] != "replication" and alone:
            assert value_errors(_under(path, table["default"])) == [], path


def test_an_alternative_has_no_default() -> None:
    alternatives = editor_schema()["$defs"]
    for name in ("Affix", "OneTopic", "ByPattern", "TopicExpression", "PartitionExpression"):
        for key in alternatives[name]["properties"].values():
            assert not {"default", "title"} & key.keys()


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 20_000),
    st.sampled_from(["", "topic", "source", "producer", "Enabled", " off ", "No", "5 s", "7 DAYS"]),
    st.sampled_from([" 10 ", "+7", "1_000", "10.0", "fail", "latest", "a.*", "1.5", "0x10", "010"]),
    st.sampled_from(["avro", "string", "json", "shared", "skip", "2025-03-01", "${env:V}", "a-b"]),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=4),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["a", "prefix", "static", "expression", "topic"]), SCALARS),
    st.lists(st.dictionaries(st.sampled_from(["pattern", "topics", "key"]), SCALARS), max_size=2),
)
EXAMPLES = 60
PATHS = [path for path in known_paths() if path[0] != "replication" or len(path) > 1]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from(PATHS), VALUES, st.booleans())
@example(("offsetMapping", "retention", "time"), "topic", False)
@example(("source", "kafka", "common"), {"a": [1, [True]]}, False)
def test_an_editor_refuses_nothing_that_is_accepted(
    path: tuple[str, ...], value: Any, quoted: bool
) -> None:
    tree = _under(path, str(value) if quoted and value is not None else value)
    text = json.dumps(tree)
    with TemporaryDirectory() as directory:
        files = Files(Path(directory))
        files.env = {"V": "5 seconds"}
        refused = files.errors(MINIMAL, text)
    assert refused or value_errors(tree) == [], text


def _under(path: tuple[str | int, ...], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value}
    if path[0] == "replication":
        value["replication"] = [value["replication"]]
    return value
