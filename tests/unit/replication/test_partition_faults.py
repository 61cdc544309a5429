"""The table of faults: each fault is given the details that its texts name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from string import Formatter

import pytest

import k2ktui.replication
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.wire.codes import Code
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.batch_sender import BatchRefused
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_faults import (
    FaultRow,
    refused_fault,
    refused_state_fault,
    slot_faults,
    undecided_fault,
)
from k2ktui.replication.copying.registration_reader import RegistrationsUnavailable
from k2ktui.replication.copying.slot_task import Fault, FaultKind

ROWS = {name: row for name, row in vars(partition_faults).items() if isinstance(row, FaultRow)}
# Their calls do not name them: each is made below.
INDIRECT = {
    "UNREAD_REGISTRATIONS",
    "NEWER_REGISTRATIONS",
    "_REFUSED",
    "_REFUSED_STATE",
    "_REFUSED_SLOT",
}
SOURCE = SourcePartition("t", 3)
OF_EACH_FAULT = {"source", "topic", "partition", "offset"}


def details(row: FaultRow) -> set[str]:
    """The names in both texts, but for those that each fault has."""
    names = {name for _, name, _, _ in Formatter().parse(row.message + row.fix) if name}
    return {name.partition("[")[0] for name in names} - OF_EACH_FAULT


def given() -> dict[str, list[set[str]]]:
    """The details of each call of a row by its name, wherever a run makes it."""
    calls = defaultdict(list)
    for file in Path(k2ktui.replication.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                row = ast.unparse(node.func.value).rpartition(".")[2]
                if node.func.attr == "at" and row in ROWS:
                    calls[row].append({keyword.arg or "**" for keyword in node.keywords})
    return calls


def test_each_fault_is_given_the_details_that_its_texts_name() -> None:
    calls = given()
    assert calls.keys() == ROWS.keys() - INDIRECT
    for name, of_row in calls.items():
        assert all(names == details(ROWS[name]) for names in of_row), name


def test_a_detail_is_not_read_as_a_text_with_names() -> None:
    fault = partition_faults.UNREADABLE.at(SOURCE, 7, reason="{offset} {x}")
    assert fault.message == "the source broker refuses to read t-3 at 7: {offset} {x}"


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize(
    "make", [refused_fault, partial(refused_state_fault, what="mapping", offset=7)]
)
def test_a_refusal_of_the_target_is_told_whatever_its_code(
    make: Callable[..., Fault], code: int
) -> None:
    outgoing = OutgoingBatch(("dr.t", 0), memoryview(bytes(99)), 1, 7)
    fault = make(BatchRefused(outgoing, code, "why"), source=SOURCE)
    assert (fault.source, fault.offset) == (SOURCE, 7)
    assert fault.message.startswith("dr.t-0 on the target rejected ") and "t-3" in fault.message
    assert fault.hint and "{" not in fault.message + fault.hint


@pytest.mark.parametrize("is_newer", [False, True])
@pytest.mark.parametrize("unauthorized", [False, True])
def test_registrations_that_cannot_be_read_are_told(is_newer: bool, unauthorized: bool) -> None:
    why = RegistrationsUnavailable("why", unauthorized=unauthorized, is_newer=is_newer)
    fault = undecided_fault(SOURCE, why, 7)
    assert fault.kind is (FaultKind.UNAUTHORIZED if unauthorized else FaultKind.UNAVAILABLE)
    assert "cannot be read: why; whether t-3 at offset 7 came" in fault.message
    assert ("Run this pipeline with the release" in fault.hint) == is_newer


def test_what_a_cluster_refuses_a_slot_is_told_of_each_partition() -> None:
    other = SourcePartition("t", 4)
    positions = {SOURCE: Position(7, 0, -1, "", 1, 0, "t", 3)}
    refused = slot_faults([SOURCE, other], Refused("why", hint="Fix it."), positions)
    assert [(fault.source, fault.offset) for fault in refused] == [(SOURCE, 7), (other, -1)]
    assert refused[0].message == "why; t-3 is not copied"
    assert refused[0].hint == "Fix it. The copy is retried automatically."
