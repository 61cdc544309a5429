"""``replication.headers``: what is read, what is refused and where."""

from __future__ import annotations

import pytest

from k2ktui.config.editor_schema import editor_schema
from k2ktui.config.reverse import reverse_file
from k2ktui.config.show import to_yaml
from tests.unit.config.files import MINIMAL, Files

START = 'replication: [{source: {topic: ".*"}}, '
RULE = '{topics: "a.*", keep: "t-.*", drop: [x], rename: {"t-(.*)": "u-$1"}, add: {a: 1.10}}'


def with_rules(rules: str) -> str:
    return f"{START}{{headers: {rules}}}, {{sink: {{topic: source}}}}]\n"


def test_rules_are_read_and_shown(files: Files) -> None:
    loaded = files.over_minimal(with_rules(f"[{RULE}, {{tracing: {{offset: at}}}}]"))
    first, second = loaded.config.replication.headers
    assert (first.topics, second.topics, first.add) == ("a.*", ".*", {"a": "1.10"})
    assert loaded.config.replication.header_rule("abc") is first
    assert loaded.config.replication.header_rule("xyz") is second
    shown = to_yaml(loaded, with_sources=True)
    assert files.load(shown).config.replication == loaded.config.replication
    line = next(line for line in shown.splitlines() if '"u-$1"' in line)
    assert line.endswith("b.yaml:1")
    assert (
        "headers" not in to_yaml(files.over_minimal()).partition("replication:")[2].split("sink")[0]
    )
    assert "HeaderRule" in editor_schema()["$defs"]


def test_a_later_file_replaces_the_rules(files: Files) -> None:
    loaded = files.over_minimal(with_rules(f"[{RULE}]"), "replication: [{headers: [{drop: y}]}]\n")
    (rule,) = loaded.config.replication.headers
    assert (rule.drop, rule.keep) == ("y", None)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ("{topics: a}", "replication[1].headers: expected a list"),
        ("[{topic: a}]", "replication[1].headers[0].topic: unknown key; did you mean"),
        ('[{keep: "["}]', "replication[1].headers[0].keep: expected a valid regular expression"),
        ('[{rename: {a: "$1"}}]', "headers[0].rename: expected $1 only where the pattern has"),
        ('[{rename: {a: ""}}]', "headers[0].rename: expected a new name that is not empty"),
        ('[{add: {"": a}}]', 'headers[0].add."": expected a non-empty string'),
        ('[{tracing: {offset: ""}}]', "headers[0].tracing.offset: expected a non-empty string"),
        ("[{}], headers: []", "duplicate key"),
    ],
)
def test_what_is_refused(files: Files, rules: str, error: str) -> None:
    (problem, *_) = files.errors(MINIMAL, with_rules(rules))
    assert problem.startswith("b.yaml:1: ") and error in problem


def test_rules_of_headers_that_are_dropped_anyway_are_refused(files: Files) -> None:
    disabled = "features: {headerReplication: disabled}\n"
    errors = files.errors(MINIMAL, with_rules(f"[{RULE}]"), disabled)
    keys = [f"replication[1].headers[0].{key}" for key in ("keep", "drop", "rename")]
    assert [line.split(": ")[1] for line in errors] == keys
    assert all("has no effect: features.headerReplication: disabled" in line for line in errors)
    assert files.over_minimal(with_rules("[{add: {a: b}}]"), disabled).config.replication.headers


def test_the_opposite_pipeline_has_no_such_rules(files: Files) -> None:
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": with_rules(f"[{RULE}]")})
    reversal = reverse_file(paths)
    assert "headers" not in reversal.text
    assert any("replication.headers was left out" in note for note in reversal.notes)
