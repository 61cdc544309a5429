"""docs/internals/record-formats.md has the fields of each kind of record, as the code has them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.moves import journal_format
from k2ktui.engine.moves.journal import (
    CommitSnapshot,
    JournalHeader,
    Runner,
    StateRecord,
    record_key,
)
from k2ktui.engine.moves.journal_format import state_key, state_value
from k2ktui.engine.moves.pipeline_summary import PipelineSummary
from k2ktui.engine.moves.written import WrittenCommits
from k2ktui.engine.ownership.assignment_records import (
    Member,
    member_key,
    member_value,
    owners_key,
    owners_value,
)
from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.records.cleared import Cleared
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.hold import Hold
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.engine.records.parity_record import ParityRecord
from k2ktui.engine.records.producer_registration import ProducerRegistration
from k2ktui.engine.records.run_record import Run
from k2ktui.engine.records.state import Position, run_key, run_value
from tests.support.documents.markdown import check_section
from tests.support.documents.record_tables import Format, field_names, section
from tests.unit.fuzz.parsers import EDITION, MEMBER, MOVING, OWNERS

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "record-formats.md"
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "written.json").read_text())


def _golden(*names: str) -> list[tuple[bytes, bytes]]:
    return [(GOLDEN[name][0].encode(), GOLDEN[name][1].encode()) for name in names]


def _state(record: StateRecord) -> list[tuple[bytes, bytes]]:
    return [(state_key("g", record_key(record)), state_value(record))]


FORMATS = {
    "position": Format(Position, _golden("position, copied"), "_POSITION"),
    "run": Format(
        Run,
        [(run_key("g"), run_value(MOVING))],
        "_WIRE",
        further=Format(ClusterPair, [], "_WIRE"),
    ),
    "producer": Format(ProducerRegistration, _golden("producer"), "_WIRE"),
    "deleted log": Format(DeletedLog, _golden("deleted log"), "_WIRE"),
    "moved topic": Format(MovedTopic, _golden("moved topic"), "_WIRE"),
    "owners": Format(
        SlotOwners,
        [(owners_key("g"), owners_value(OWNERS))],
        names={name: name for name in SlotOwners.__slots__},
    ),
    "member": Format(
        Member,
        [(member_key("g", "a-1"), member_value(replace(MEMBER, edition=EDITION, pipeline="p")))],
        names={name: name for name in ("beat", "generation", "holds", "outdated", "pid", "birth")}
        | {"pid_space": "pidSpace", "edition": "digest`, `edition", "pipeline": "name"},
    ),
    "runner": Format(Runner, _golden("state: Runner"), "_RUNNER", journal_format),
    "commits": Format(
        CommitSnapshot, _golden("state: CommitSnapshot 1"), "_SNAPSHOT", journal_format
    ),
    "journal": Format(JournalHeader, _golden("state: JournalHeader"), "_HEADER", journal_format),
    "written": Format(WrittenCommits, _golden("state: WrittenCommits"), "_WRITTEN", journal_format),
    "summary": Format(PipelineSummary, _golden("state: PipelineSummary"), "SUMMARY_WIRE"),
    "parity": Format(
        ParityRecord,
        _state(ParityRecord("topicConfig", "orders", {"retention.ms": "1"}, {"segment.ms": None})),
        "PARITY_WIRE",
    ),
    "hold": Format(Hold, _golden("state: Hold", "state: Hold 1"), "HOLD_WIRE"),
    "cleared": Format(Cleared, _golden("state: Cleared", "state: Cleared 1"), "CLEARED_WIRE"),
    "rehearsal": Format(
        Rehearsal,
        _state(Rehearsal("20260101-000000-ab", 1000, 0, 1, 7, 2500, 61300)),
        names={
            "at_ms": "at",
            "findings": "findings",
            "missed": "missed",
            "rpo_records": "rpoRecords",
            "rpo_ms": "rpoMs",
            "rto_ms": "rtoMs",
        },
    ),
    "comparison": Format(ComparisonRecord, _golden("state: ComparisonRecord 1"), "COMPARISON_WIRE"),
}


def test_the_page_has_each_table() -> None:
    assert re.findall(r"<!-- generated: (.+) -->", PAGE.read_text()) == [*FORMATS]
    for name, of in FORMATS.items():
        check_section(PAGE, name, section(of))


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_has_every_field_that_is_written(name: str) -> None:
    of = FORMATS[name]
    written = {key for _, value in of.examples for key in json.loads(value)}
    assert written - {"v"} <= field_names(of)
