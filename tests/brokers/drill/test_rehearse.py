"""A rehearsal on real clusters: touches no production group, and says what a failover would do."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeStatus, DrillStatus
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, Headers, Out, admin, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import QUICK, Pair, Yes, check_of, kill_at
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.records.sent_batches import OddName, make_batch, send_batches


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Pair:
    return Pair(tmp_path, source, target)


def groups_on(node: KafkaNode, stem: str) -> set[str]:
    with_admin = admin(node)
    listed = with_admin.list_consumer_groups().result(TIMEOUT).valid
    return {listed_group.group_id for listed_group in listed if stem in listed_group.group_id}


def test_a_rehearsal_tries_every_group_and_leaves_nothing(
    pair: Pair, source: KafkaNode, target: KafkaNode
) -> None:
    on_source = groups_on(source, pair.copied.name)
    drill = pair.start(DrillKind.REHEARSE)
    assert drill.status is DrillStatus.DONE
    results = {group.group: group for group in drill.groups}
    assert set(results) == set(pair.groups)
    for result in results.values():
        assert (result.partitions, result.unmapped, result.reread, result.skipped) == (4, 0, 0, 0)
        # 10 records of each partition, as far as there are so many.
        assert result.compared >= 4 * 9 and result.different == 0, result
    read = check_of(drill, "D44")
    assert read.outcome is DrillCheckOutcome.PASS and "all equal" in read.evidence, read
    assert drill.figures.rpo_records == 0 and drill.figures.rpo_bytes == 0
    assert drill.figures.content_compared >= 8 and drill.figures.content_different == 0
    assert [change.status for change in drill.changes] == [ChangeStatus.UNDONE]
    assert groups_on(target, pair.copied.name) == set()
    assert groups_on(source, pair.copied.name) == on_source
    for group in pair.groups:
        assert set(pair.target_offsets(group).values()) == {None}
    assert pair.drills() == [drill]


@pytest.mark.slow
def test_rows_that_operators_chose_are_findings(pair: Pair) -> None:
    """One holds, the source commit of the other has moved: a rehearsal asks nobody, and says so."""
    group, (first, second) = pair.groups[0], pair.topics[:2]
    path = pair.file.parent / "chosen.json"
    words = [f"{group} {first}:0=earliest", f"{group} {second}:0=leave-out"]
    options = [part for word in words for part in ("--set", word)]
    k2ktui("plan", "-f", pair.file, "--group", group, "-o", path, *options)
    k2ktui("apply", path, "--yes")
    commit_offsets(pair.source, group, {(second, 0): 5})
    before = pair.target_offsets(group)
    operator = Yes(is_person=True)
    drill = pair.start(DrillKind.REHEARSE, operator=operator)
    assert drill.status is DrillStatus.DONE and not operator.shown_lines
    findings = drill.record(DrillPhase.PLAN).findings
    held = next(one for one in findings if one.startswith(f"{group} {first}-0: "))
    moved = next(one for one in findings if one.startswith(f"{group} {second}-0: "))
    assert "chosen by" in held and "before its source commit moved" in moved
    shown = {f"plan: {finding}" for finding in findings}
    assert shown <= set(drill.blockers), "a rehearsal with findings exits with 1"
    assert pair.target_offsets(group) == before


@pytest.mark.slow
def test_a_wrong_copy_is_found(pair: Pair, target: KafkaNode) -> None:
    """A mapping that leads to other records: the shadow groups read unexpected records."""
    topic = pair.topics[0]
    offsets = produce(target, topic, [Out(b"other", b"k", 0)] * 20)
    pairs = {source: offsets[0] + source for source in range(20)}
    pair.copied.term = 2
    pair.copied.put_run(term=2)
    pair.copied.record(topic, 0, pairs, 20, 0)
    drill = pair.start(DrillKind.REHEARSE)
    assert drill.status is DrillStatus.DONE
    assert any(topic in text and "differs" in text for text in drill.blockers), drill.blockers
    assert drill.figures.content_different > 0
    assert any(group.different for group in drill.groups)
    read = check_of(drill, "D44")
    assert (
        read.outcome is DrillCheckOutcome.FAIL and f"{topic}-0: record 1 differs" in read.evidence
    )


@pytest.mark.slow
def test_what_is_not_copied_is_the_rpo(pair: Pair, source: KafkaNode) -> None:
    produce(source, pair.topics[1], [Out(b"late", b"k", 1)] * 5)
    drill = pair.start(DrillKind.REHEARSE)
    assert drill.figures.rpo_records == 5 and drill.figures.rpo_bytes == 5 * len(b"late" + b"k")
    assert "RPO 5 records, 25 bytes" in check_of(drill, "D46").evidence
    assert drill.figures.rpo_s is not None and drill.figures.rpo_s < 600


@pytest.mark.slow
def test_a_killed_rehearsal_is_cleaned_up_by_the_next(
    pair: Pair, tmp_path: Path, target: KafkaNode
) -> None:
    kill_at("drill-shadow-groups-undone", tmp_path / "crash", "drill", "rehearse", "-f", pair.file)
    kill_at(
        "drill-shadow-groups-committed", tmp_path / "crash", "drill", "rehearse", "-f", pair.file
    )
    (killed, first) = pair.drills()
    assert groups_on(target, pair.copied.name) != set()
    reply = k2ktui_json("drill", "rehearse", "-f", pair.file, code=None)
    assert reply["id"] not in (killed.id, first.id)
    assert groups_on(target, pair.copied.name) == set()
    statuses = {drill.id: drill.status for drill in pair.drills()}
    assert statuses[killed.id] is DrillStatus.ABORTED


@pytest.mark.slow
def test_the_report_is_printed_and_verified(pair: Pair) -> None:
    drill = pair.start(DrillKind.REHEARSE)
    text = k2ktui("drill", "report", drill.id, "-f", pair.file).stdout
    assert text.startswith(f"# Drill {drill.id}: rehearse of")
    assert "RPO: 0 records" in "\n".join(text.splitlines()[:10])
    k2ktui("drill", "report", drill.id, "-f", pair.file, "--verify")
    listed = k2ktui("drill", "list", "-f", pair.file).stdout
    assert drill.id in listed
    shown = k2ktui_json("drill", "show", drill.id, "-f", pair.file)
    assert shown["status"] == "done"


@pytest.mark.slow
def test_a_dry_run_begins_no_drill(pair: Pair) -> None:
    said = k2ktui("drill", "planned", "-f", pair.file, "--fence", "acl", "--dry-run").stdout
    assert "fence-producers: Denies Write" in said and "Must be confirmed" in said
    assert pair.drills() == []


def odd_batch(now: int) -> bytes:
    """Return a batch whose records have header names that are not UTF-8, the last ones have not."""
    odd = OddName("odd")
    headers: list[Headers] = [
        ((odd, b"h"),),
        (("a", b"1"), (odd, None), (odd, b"h")),
        ((odd, b"h"), ("b", b"2")),
        *[(("z", b"9"),)] * 5,
    ]
    values = [b"odd%d" % n for n in range(len(headers))]
    return make_batch(values, timestamp=now, keys=[b"k"] * len(headers), headers=headers)


@pytest.mark.slow
def test_header_names_that_are_not_utf_8_are_compared_as_bytes(
    pair: Pair, source: KafkaNode, target: KafkaNode
) -> None:
    topic, prior = pair.topics[0], pair.copied.prior
    batch = odd_batch(int(time.time() * 1000))
    assert send_batches(source, topic, [batch]) == [20]
    assert send_batches(target, topic, [batch]) == [20 + prior]
    pair.copied.record(topic, 0, {n: n + prior for n in range(28)}, 28, 0)
    drill = pair.start(DrillKind.REHEARSE, replace(QUICK, shadow_records=100))
    assert drill.status is DrillStatus.DONE
    assert drill.record(DrillPhase.SHADOW).findings == ()
    compared = sum(20 - at[1] for at in pair.source_offsets(0).items())
    compared += sum(20 - at[1] for at in pair.source_offsets(1).items())
    assert sum(group.compared for group in drill.groups) == compared + 2 * 8
    # The other commands that read records show and compare them, too.
    at = f"{topic}:0@20"
    shown = k2ktui_json("records", "-f", pair.file, at, "--count", "8", "--show")
    assert [row["outcome"] for row in shown["records"]] == ["same"] * 8
    assert shown["records"][0]["source"]["headers"][0]["name"] == r"\xff\xfe"
    k2ktui_json("verify", "-f", pair.file, "--translated")
    report = k2ktui_json("compare", "-f", pair.file, "--topics", topic, code=1)
    assert report["counts"] == {"equal": 48, "native to the target": 2 * prior}
