"""``copier``: which program copies, and what cannot be combined with another one than k2ktui."""

from __future__ import annotations

import pytest

from k2ktui.config.load import load
from k2ktui.errors import ConfigError
from k2ktui.sync.flow import FlowKind, flow_of
from tests.unit.config.files import Files

FILE = """\
name: link
copier: equalOffsets
source: {kafka: {common: {bootstrap.servers: "s:1"}}}
target: {kafka: {common: {bootstrap.servers: "t:1"}}}
"""
REPLICATION = """\
replication:
  - source: {topic: "orders-.*"}
"""


def test_another_program_copies(files: Files) -> None:
    loaded = load(files.write({"a.yaml": FILE + REPLICATION}), need_replication=False)
    flow = flow_of(loaded.config)
    assert flow.kind is FlowKind.EQUAL_OFFSETS and flow.pipeline is None
    assert not loaded.notes


def test_what_needs_a_pipeline_of_k2ktui_is_refused(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml:2: copier: expected k2ktui for this command"):
        load(files.write({"a.yaml": FILE + REPLICATION}))


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("  - sink: {topic: {static: all}, partition: source}\n", "several topics into one"),
        ("  - sink: {topic: source, partition: producer}\n", "replication.sink.partition"),
        ("  - headers: [{topics: '.*', drop: [a]}]\n  - sink: {topic: source}\n", "headers"),
        ("features: {headerReplication: disabled}\n", "headerReplication"),
        ("features: {schemaMapping: enabled}\n", "schemaMapping"),
        ("features: {bidirectionalReplication: enabled}\n", "bidirectionalReplication"),
    ],
)
def test_what_changes_records_is_refused(files: Files, more: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(files.write({"a.yaml": FILE + REPLICATION + more}), need_replication=False)
    assert f"expected k2ktui with {named}" in str(caught.value) or named in str(caught.value)
    assert "equal copies are of the same records" in str(caught.value)


def test_it_needs_topics(files: Files) -> None:
    with pytest.raises(ConfigError, match=r"copier: expected replication\.source\.topic beside it"):
        load(files.write({"a.yaml": FILE}), need_replication=False)


@pytest.mark.parametrize("section", ["spark: {slots: 2}", "onSourceDataLoss: continue"])
def test_sections_of_copying_are_noted(files: Files, section: str) -> None:
    text = FILE + section + "\n" + REPLICATION
    loaded = load(files.write({"a.yaml": text}), need_replication=False)
    assert any("another program copies" in note for note in loaded.notes), loaded.notes
