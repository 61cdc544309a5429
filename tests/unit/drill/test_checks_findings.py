"""Decisions of drill checks on their own figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.drill.checks.copy_samples import (
    CopySample,
    add_writers,
    decide_aborted,
    decide_checksums,
    decide_counts,
    decide_order,
)
from k2ktui.drill.checks.findings import (
    GroupLag,
    OutOfRange,
    Route,
    find_loops,
    find_not_catching_up,
    find_out_of_range,
    find_short_retention,
    find_unlisted,
    find_without_offset,
)
from k2ktui.engine.acl import Acl
from k2ktui.engine.drill.checks import DrillCheckOutcome
from k2ktui.engine.mapping.strange_records import OtherWriters, StrangeRecords
from k2ktui.engine.parity.acls import AclMapping, compare_acls, map_acls
from k2ktui.engine.records.state import SourcePartition

PASS, FAIL, UNKNOWN = DrillCheckOutcome


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        (9, OutOfRange.DELETED),
        (10, None),
        (12, OutOfRange.IN_GAP),
        (14, None),
        (20, None),
        (21, OutOfRange.BEYOND),
    ],
)
def test_offsets_out_of_range(offset: int, reason: OutOfRange | None) -> None:
    assert find_out_of_range(offset, 10, 20, [(11, 14)]) is reason
    assert find_out_of_range(offset, None, None) is None


def test_partitions_without_an_offset() -> None:
    reads = {("a", "t"), ("b", "t"), ("b", "u")}
    placed = {("a", "t", 0): True, ("a", "t", 1): False, ("b", "t", 0): True, ("b", "u", 0): True}
    sizes = {("t", 0): 5, ("t", 1): 5, ("t", 2): 0, ("u", 0): None}

    without = find_without_offset(reads, placed, sizes)

    assert without == [("a", "t", 1), ("b", "t", 1)], "an empty partition needs no offset"
    assert find_without_offset({("c", "u")}, {}, sizes) == [("c", "u", 0)], "unknown sizes count"


def test_retention_that_is_too_short() -> None:
    hour, day = {"retention.ms": "3600000"}, {"retention.ms": "86400000"}
    assert find_short_retention(day, hour, 86_400) == 3600
    assert find_short_retention(hour, hour, 86_400) is None, "as long as the source"
    assert find_short_retention({}, hour, 86_400) == 3600
    assert find_short_retention(day, {"retention.ms": "-1"}, 86_400) is None
    assert find_short_retention(day, {**hour, "cleanup.policy": "compact"}, 86_400) is None


def test_groups_that_do_not_catch_up() -> None:
    before = {"idle": GroupLag(5, 10), "moving": GroupLag(5, 10), "losing": GroupLag(5, 10)}
    after = {
        "idle": GroupLag(5, 10),
        "moving": GroupLag(5, 12),
        "losing": GroupLag(9, 12),
        "done": GroupLag(0, 12),
        "new": GroupLag(1, 12),
    }
    assert find_not_catching_up(before, after) == {"idle": 5, "losing": 9, "new": 1}


def route(pattern: set[str], prefix: str = "", guard: str = "") -> Route:
    return Route(pattern.__contains__, lambda topic: (prefix + topic,), guard)


def test_loops() -> None:
    forward = route({"a", "b"})
    assert find_loops(["b", "a"], forward, route({"a"})) == [("a", "a")]
    assert find_loops(["a", "b"], forward, route({"a", "b"}, "x.")) == []
    assert find_loops(["a"], route({"a", "x.a"}), route({"a"}, "x.")) == [("a", "x.a")]
    guarded = route({"a"}, guard="provenance")
    assert find_loops(["a"], guarded, guarded) == []
    assert find_loops(["a"], guarded, route({"a"}, guard="cluster")) == [("a", "a")]


def test_offsets_that_are_not_listed() -> None:
    missing = {("t", 0): (5, 10), ("t", 1): (5, 10), ("t", 2): (5, 10)}
    assert find_unlisted(missing, {("t", 0): (5, 10), ("t", 1): (0, 8)}) == {
        ("t", 1): 2,
        ("t", 2): 5,
    }


READ = Acl("TOPIC", "t", "LITERAL", "User:ann", "*", "READ", "ALLOW")


def compare(source: list[Acl], target: list[Acl], **topics: str) -> tuple[list[str], list[str]]:
    names = {name: (to,) for name, to in (topics or {"t": "t"}).items()}
    copies = [name for to in names.values() for name in to]
    mapping = AclMapping(names, copies, lambda group: group == "g")
    difference = compare_acls(map_acls(source, mapping), target, mapping)
    missing = [str(wanted.acl) for wanted in difference.missing]
    return missing, [str(acl) for acl in difference.denied]


def test_acls_that_the_target_lacks() -> None:
    assert compare([READ], [READ]) == ([], [])
    assert compare([READ], []) == (["ALLOW User:ann READ on TOPIC t"], [])
    assert compare([READ], [READ], t="b.t") == (["ALLOW User:ann READ on TOPIC b.t"], [])
    wider = [
        replace(READ, name="*"),
        replace(READ, name="b.", pattern="PREFIXED"),
        replace(READ, name="b.t", operation="ALL"),
    ]
    for acl in wider:
        assert compare([READ], [acl], t="b.t") == ([], [])
    assert compare([replace(READ, name="other")], []) == ([], [])
    narrower = replace(READ, host="10.0.0.1")
    assert compare([READ], [narrower])[0] and not compare([narrower], [READ])[0]


def test_acls_of_groups_transactions_and_prefixes() -> None:
    group = replace(READ, kind="GROUP", name="g")
    other = replace(group, name="h")
    transaction = replace(
        READ, kind="TRANSACTIONAL_ID", name="tx-", pattern="PREFIXED", operation="WRITE"
    )
    missing, _ = compare([group, other, transaction], [])
    assert missing == [
        "ALLOW User:ann READ on GROUP g",
        "ALLOW User:ann WRITE on TRANSACTIONAL_ID tx- prefixed",
    ]
    prefixed = replace(READ, name="t", pattern="PREFIXED")
    assert compare([prefixed], [prefixed]) == ([], [])
    assert compare([prefixed], [], t="b.t", tt="tt")[0] == [
        "ALLOW User:ann READ on TOPIC b.t",
        "ALLOW User:ann READ on TOPIC tt",
    ]


def test_denials_only_on_the_target() -> None:
    deny = replace(READ, permission="DENY", principal="User:*", operation="WRITE")
    assert compare([READ], [READ, deny]) == ([], ["DENY User:* WRITE on TOPIC t"])
    assert compare([READ, deny], [READ, deny]) == ([], [])
    assert str(replace(deny, name="t\x1b")) == r"DENY User:* WRITE on TOPIC t\x1b"


SAMPLE = CopySample(
    SourcePartition("t", 0),
    ("t", 0),
    pairs={1: 11, 2: 12, 4: 13},
    source_digests={1: "a", 2: "b", 4: "c"},
    target_digests={11: "a", 12: "b", 13: "c"},
)


def test_equal_samples_pass() -> None:
    for decide in (decide_counts, decide_checksums, decide_aborted):
        assert decide([SAMPLE]).outcome is PASS
        assert decide([]).outcome is UNKNOWN
    assert decide_order([SAMPLE], others_write=False).outcome is PASS


def test_a_missing_copy_and_another_content() -> None:
    short = replace(SAMPLE, target_digests={11: "a", 12: "b"})
    assert decide_counts([SAMPLE, short]).outcome is FAIL
    assert "t-0: 3 on the source, 2 on the target" in decide_counts([short]).evidence
    assert decide_checksums([short]).outcome is PASS, "only what both sides hold"
    other = replace(SAMPLE, target_digests={**SAMPLE.target_digests, 12: "x"})
    assert "first difference at 2 and 12" in decide_checksums([other]).evidence


def test_compaction_leaves_counts_open() -> None:
    compacted = replace(SAMPLE, target_digests={11: "a"}, compacted=True)
    assert decide_counts([compacted]).outcome is UNKNOWN
    assert "1 compacted partition left out" in decide_counts([compacted, SAMPLE]).evidence
    assert decide_counts([compacted, SAMPLE]).outcome is PASS
    assert decide_checksums([compacted]).outcome is PASS


def test_order_duplicates_and_others() -> None:
    swapped = replace(SAMPLE, pairs={1: 12, 2: 11})
    assert "not in source order" in decide_order([swapped], others_write=True).evidence
    native = replace(SAMPLE, foreign=(14,), target_digests={**SAMPLE.target_digests, 14: "n"})
    assert decide_order([native], others_write=False).outcome is FAIL
    assert decide_order([native], others_write=True).outcome is PASS
    twice = replace(SAMPLE, foreign=(14,), target_digests={**SAMPLE.target_digests, 14: "a"})
    assert "1 duplicate of copied records" in decide_order([twice], others_write=True).evidence


def test_who_else_has_written_to_any_copy_counts() -> None:
    sampled = decide_order([SAMPLE], others_write=False)
    strange = OtherWriters((StrangeRecords("t", 3, 5, 12, 7, (4,)),))
    found = add_writers(sampled, strange)
    assert found.outcome is FAIL and "t-3: 7 records at offsets 5 to 11" in found.evidence
    expected = add_writers(sampled, replace(strange, expected="target.writers: shared"))
    assert expected.outcome is PASS and "are expected (target.writers: shared)" in expected.evidence
    untold = add_writers(sampled, OtherWriters(unread={"the principal may not read it": 1}))
    assert untold.outcome is PASS and "cannot be told from all copies" in untold.evidence
    none = add_writers(sampled, OtherWriters())
    assert none.evidence.endswith("no record of another writer in any copy")
    assert add_writers(sampled, None) is sampled
    failed = decide_order([replace(SAMPLE, pairs={1: 12, 2: 11})], others_write=True)
    assert add_writers(failed, strange) is failed


def test_aborted_records_and_what_could_not_be_read() -> None:
    mapped = replace(SAMPLE, aborted=frozenset({2, 3}))
    assert "1 aborted record mapped, the first at 2" in decide_aborted([mapped]).evidence
    unread = replace(SAMPLE, unread=("no route", ""))
    assert decide_aborted([unread]).outcome is UNKNOWN
    assert decide_order([unread], others_write=False).outcome is PASS, "needs the target only"
    assert decide_counts([unread, replace(SAMPLE, target_digests={})]).outcome is FAIL
