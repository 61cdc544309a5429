"""Reports and records of comparisons: what is written is read, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.compare import record as record_module
from k2ktui.engine.compare.key_proofs import KeyProofs
from k2ktui.engine.compare.outcomes import Finding, Outcome, PartResult
from k2ktui.engine.compare.record import (
    COMPARISON_WIRE,
    ComparedPartition,
    ComparedPartitions,
    ComparisonKey,
    sum_up_comparison,
)
from k2ktui.engine.compare.report import ComparisonReport, read_result, result_json
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.present.comparisons import finding_text, markdown, summary_lines

AT = SourcePartition("orders", 3)
offsets = st.integers(0, 1 << 53)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
findings = st.builds(
    Finding,
    st.sampled_from(Outcome),
    st.none() | offsets,
    st.none() | st.tuples(names, st.integers(0, 1000)),
    st.none() | offsets,
    names,
    names,
    names,
)
results = st.builds(
    PartResult,
    st.builds(SourcePartition, names, st.integers(0, 1000)),
    offsets,
    offsets,
    st.dictionaries(st.sampled_from(Outcome), st.integers(1, 1 << 53)),
    offsets,
    offsets,
    st.integers(0, (1 << 128) - 1),
    st.integers(0, (1 << 128) - 1),
    st.lists(findings, max_size=3).map(tuple),
    names,
    st.lists(findings, max_size=3).map(tuple),
)


def make_report(result: PartResult, **changes: Any) -> ComparisonReport:
    report = ComparisonReport(
        "orders", "lQmM", "8Qh2", 1.0, 9.5, None, 1.0, False, {result.source: result}, {}, {}, 123
    )
    return replace(report, **changes)


@given(results)
def test_results_are_read_as_they_were_written(result: PartResult) -> None:
    # A finding without a target partition has no offset there.
    if all(one.target or one.target_offset is None for one in result.findings):
        assert read_result(json.loads(json.dumps(result_json(result)))) == result


@given(results, st.booleans())
def test_the_record_is_read_as_it_was_written(result: PartResult, both_ways: bool) -> None:
    report = make_report(result, both_ways=both_ways)
    record = sum_up_comparison(report, "ann@host")
    assert read_state_key(state_key("g", record.key)) == ("g", ComparisonKey())
    assert read_state_value(record.key, state_value(record)) == record
    assert record.differences == report.different
    assert record.positions == {result.source: (result.first, result.end)}


def test_what_was_found_on_each_partition() -> None:
    of_partition = {
        SourcePartition("orders", 0): {Outcome.EQUAL: 9},
        SourcePartition("orders", 1): {Outcome.EQUAL: 5, Outcome.DIFFERS: 4},
        SourcePartition("payments", 0): {Outcome.NOT_COMPARED: 2},
    }
    results = {at: PartResult(at, 0, 9, counts) for at, counts in of_partition.items()}
    record = sum_up_comparison(make_report(PartResult(AT, 0, 9), results=results), "ann@host")
    compared = ComparedPartitions(COMPARISON_WIRE.read(COMPARISON_WIRE.write(record)))
    assert compared.get(("orders", 0)) == ComparedPartition(9500, 0, 0)
    assert compared.get(("orders", 1)) == ComparedPartition(9500, 4, 0)
    assert compared.get(("payments", 0)) == ComparedPartition(9500, 0, 2)
    assert compared.get(("orders", 2)) is None and ComparedPartitions(None).get(("a", 0)) is None
    # A record of an earlier release has the sums alone: it is unknown which partition differs.
    earlier = ComparedPartitions(replace(record, different={}))
    assert earlier.get(("orders", 0)) is None and earlier.get(("orders", 1)) is None
    well = ComparedPartitions(replace(record, different={}, differences=0, unproven=0))
    assert well.get(("orders", 0)) == ComparedPartition(9500, 0, 0)


@pytest.mark.parametrize(
    ("changes", "in_part"),
    [
        ({}, set()),
        ({"topics": "payments"}, set()),
        ({"left_out": {SourcePartition("moved", 0): "it has moved"}}, set()),
        ({"ignored": {"payments": ("headers", "timestamp")}}, set()),
        ({"ignored": {"payments": ("value",)}}, {"payments"}),
        ({"sample": 0.5}, {"payments", "orders"}),
        ({"since_ms": 5}, {"payments", "orders"}),
    ],
)
def test_what_was_compared_in_part_is_not_shown_as_whole(
    changes: dict[str, Any], in_part: set[str]
) -> None:
    keys = SourcePartition("orders", 0), SourcePartition("payments", 0)
    results = {at: PartResult(at, 0, 9, {Outcome.EQUAL: 9}) for at in keys}
    report = make_report(PartResult(AT, 0, 9), results=results, **changes)
    record = sum_up_comparison(report, "ann@host")
    read = COMPARISON_WIRE.read(json.loads(json.dumps(COMPARISON_WIRE.write(record))))
    assert read == record and read.in_part == in_part
    compared = ComparedPartitions(read)
    for at in keys:
        partition = compared.get((at.topic, at.partition))
        assert partition == ComparedPartition(9500, 0, 0, at.topic not in in_part)
    assert record.is_whole is (changes in ({}, {"ignored": {"payments": ("headers", "timestamp")}}))


def test_a_record_of_many_partitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "MOST_PARTITIONS", 5)
    monkeypatch.setattr(record_module, "MOST_DIFFERENT", 2)
    monkeypatch.setattr(record_module, "MOST_TOPICS", 2)
    differences = {("a", 0): 0, ("a", 1): 1, ("b", 0): 5, ("c", 0): 3, ("d", 0): 0, ("d", 2): 0}
    results = {
        SourcePartition(*key): PartResult(SourcePartition(*key), 0, 9, {Outcome.DIFFERS: count})
        for key, count in differences.items()
    }
    report = make_report(PartResult(AT, 0, 9), results=results)
    record = sum_up_comparison(report, "ann@host")
    assert record.positions == {} and record.topics == {"a": 2, "b": 1}
    assert record.different == {SourcePartition("b", 0): (5, 0), SourcePartition("c", 0): (3, 0)}
    read = COMPARISON_WIRE.read(COMPARISON_WIRE.write(record))
    assert read == record
    compared = ComparedPartitions(read)
    # The one that is left out may be any other partition.
    assert compared.get(("b", 0)) == ComparedPartition(9500, 5, 0)
    assert compared.get(("a", 0)) is None and compared.get(("d", 0)) is None

    monkeypatch.setattr(record_module, "MOST_DIFFERENT", 3)
    monkeypatch.setattr(record_module, "MOST_TOPICS", 9)
    record = sum_up_comparison(report, "ann@host")
    # Only topics of which every partition was compared.
    assert record.topics == {"a": 2, "b": 1, "c": 1}
    compared = ComparedPartitions(record)
    assert compared.get(("a", 0)) == ComparedPartition(9500, 0, 0)
    assert compared.get(("a", 2)) is None and compared.get(("d", 0)) is None
    left_out = replace(report, left_out={SourcePartition("a", 2): "a transform"})
    assert "a" not in sum_up_comparison(left_out, "ann@host").topics


@pytest.mark.parametrize(
    "change",
    [
        {"counts": {"never heard of": 1}},
        {"source_digest": "xyz"},
        {"source_digest": "f" * 33},
        {"findings": [{}]},
        {"unproven_findings": [{}]},
        {"first": -1},
    ],
)
def test_damaged_results_are_refused(change: dict[str, Any]) -> None:
    body = result_json(PartResult(AT, 0, 9))
    with pytest.raises(MalformedRecord):
        read_result({**body, **change})


def test_what_counts_as_a_difference() -> None:
    counts = {Outcome.EQUAL: 90, Outcome.NATIVE: 2, Outcome.DIFFERS: 1, Outcome.NEVER_COPIED: 5}
    result = PartResult(AT, 0, 100, counts, unread="from offset 90 on: x")
    report = make_report(result)
    assert report.different == 4 and not report.is_whole
    assert replace(report, both_ways=True).different == 2
    whole = make_report(replace(result, unread=""))
    assert whole.is_whole and whole.different == 3
    assert not replace(whole, sample=0.5).is_whole
    assert not replace(whole, since_ms=5).is_whole
    assert not replace(whole, left_out={AT: "x"}).is_whole
    assert replace(whole, ignored={"orders": ("headers",)}).is_whole
    assert not replace(whole, ignored={"orders": ("value",)}).is_whole
    assert sum_up_comparison(whole, "a").describe().endswith("90 equal, 3 different")
    assert "3 different, 0 unproven" in list(summary_lines(whole))[-1]


def test_the_page_names_what_must_not_be_with_its_date() -> None:
    own = Finding(Outcome.NATIVE, None, ("orders", 3), 7, "no source record", "", "cd" * 32)
    changed = Finding(Outcome.DIFFERS, 5, ("orders", 3), 9, "value differs", "ab" * 32, "cd" * 32)
    counts = {Outcome.EQUAL: 9, Outcome.NATIVE: 1, Outcome.DIFFERS: 1, Outcome.NOT_COMPARED: 2}
    result = PartResult(AT, 0, 9, counts, 12, 13, findings=(own, changed))
    report = make_report(result, began_at=1795852677.0, ended_at=1795939077.0, since_ms=1000)
    page = markdown(report)
    assert page.startswith("# Comparison of orders: 2 differences, 2 unproven\n")
    assert "From 2026-11-28 07:57:57 UTC to 2026-11-29 07:57:57 UTC" in page
    assert "Records from 1970-01-01 00:00:01 UTC on" in page
    assert "orders-3@7: native" in page and "orders-3@9: differs" in page
    # Where both directions are copied, records of the target's own are as they must be.
    both = replace(report, both_ways=True)
    page = markdown(both)
    assert page.startswith("# Comparison of orders: 1 difference, 2 unproven\n")
    assert "orders-3@7" not in page and "orders-3@9: differs" in page
    (partition,) = both.as_json()["partitions"]
    assert [one["target_offset"] for one in partition["findings"]] == [9]


def test_a_comparison_of_nothing_is_not_without_difference() -> None:
    page = markdown(make_report(PartResult(AT, 9, 9)))
    assert page.startswith("# Comparison of orders: no record was compared\n")
    unread = markdown(make_report(PartResult(AT, 9, 19, unread="from offset 9 on: x")))
    assert unread.startswith("# Comparison of orders: 1 difference\n")


def test_hostile_names_have_no_meaning_in_the_page() -> None:
    at = SourcePartition("a|b](http://x)<script>\x1b[2J", 0)
    finding = Finding(Outcome.DIFFERS, 5, ("t*_\n#", 1), 7, "value differs", "ab" * 32, "")
    unclear = replace(finding, outcome=Outcome.UNCLEAR_ON_TARGET, source_offset=6, why="")
    result = PartResult(
        at, 0, 9, {Outcome.DIFFERS: 1}, findings=(finding,), unproven_findings=(unclear,)
    )
    page = markdown(make_report(result, notes=("note <b>",), left_out={AT: "why`"}))
    for part in ("<script", "](", "\x1b", "<b>"):
        assert part not in page
    assert "SHA-256 abababababababab and none" in page
    assert "@7: compacted or lost on the target" in page.partition("## Unproven")[2]
    assert finding_text(AT, finding).startswith("orders-3@5 → t*_")


def test_keys_are_kept_up_to_a_bound() -> None:
    proofs = KeyProofs(2)
    for offset, key in enumerate((b"a", b"b", b"a", b"c", None)):
        proofs.wait(key, offset)
    assert proofs.places() == [1, 2, 3, 4]  # of each key the newest
    proofs.see(b"a")
    proofs.see(b"c")
    proofs.see(None)
    assert (proofs.proven, proofs.unproven, bool(proofs)) == (2, 3, True)
    proofs.see(b"b")
    assert (proofs.proven, proofs.unproven, bool(proofs)) == (3, 2, False)
