"""Drills on the flow of a real MirrorMaker 2, which k2ktui cannot fence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.drill.operations import abort_drill, list_drills, resume_drill, start_drill
from k2ktui.drill.operator import Question
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillOptions, DrillStatus, PhaseStatus
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.mm2.mirror_flow import load_mirror
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from tests.support.clusters.kafka import (
    create_topic,
    end_offsets,
    eventually,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import MirrorMaker, values_from, write_with_marker
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import MAY, NOBODY_COMES, Leaves, Left, Yes, settled
from tests.support.oracle.group_offsets import commit_offsets, committed

pytestmark = pytest.mark.slow
PATIENCE = 200.0
RECORDS = 400
# Of the checks, none that fails is accepted.
STRICT = replace(NOBODY_COMES, accepted=())
COPIES = "MirrorMaker 2 still copies"


@dataclass
class MirrorSite:
    """A flow that has copied everything, and groups at some lags on the source.

    Each partition ends with the marker of a transaction, which is never copied.
    """

    source: KafkaNode
    target: KafkaNode
    directory: Path
    stem: str = field(default_factory=lambda: unique_name("app"))

    def __post_init__(self) -> None:
        self.topic = create_topic(self.source, partitions=2)
        self.mirror = MirrorMaker(
            self.source, self.target, self.directory, self.topic, f"{self.stem}.*"
        )
        self.copy = f"{self.mirror.source}.{self.topic}"
        self.write(RECORDS)
        self.offsets: dict[str, dict[int, int]] = {}
        for back in (0, 37, RECORDS // 2):
            group = f"{self.stem}-{back}"
            ends = end_offsets(self.source, self.topic)
            self.offsets[group] = {number: end - back for number, end in ends.items()}
            commit_offsets(
                self.source, group, {(self.topic, n): o for n, o in self.offsets[group].items()}
            )
        self.start_mirror()

    def start_mirror(self) -> None:
        """Start MirrorMaker 2, and wait until it has copied, and drills see that it runs."""
        started_at = time.time()
        self.mirror.start()
        eventually(self.is_copied, f"everything is copied; {self.mirror.log()}", PATIENCE)
        eventually(self.flow_runs, f"its workers have a group; {self.mirror.log()}", PATIENCE)

        def beats() -> bool:
            view = k2ktui_json("watch", "-f", self.mirror.file, "--once", code=None)
            return (view["heartbeat_at"] or 0.0) > started_at

        eventually(beats, "a heartbeat is found", PATIENCE)

    def write(self, count: int) -> None:
        """Write records to each partition, half of them in a transaction at the end."""
        for number in (0, 1):
            write_with_marker(self.source, self.topic, number, count)

    def is_copied(self) -> bool:
        """Whether every record is on the target, and its position is stored."""
        try:
            copied = len(read_all(self.target, self.copy))
        except AssertionError:
            return False
        stored = k2ktui_json("status", "-f", self.mirror.file, code=None)["partitions"]
        lags = [row["lag_records"] for row in stored]
        return copied == len(read_all(self.source, self.topic)) and lags == [0, 0]

    @property
    def flow(self) -> Flow:
        """The flow, as the commands read it."""
        return load_mirror(str(self.mirror.file))[0]

    def unread(self, group: str, number: int) -> list[bytes | None]:
        """Values that a group has not read on the source."""
        return values_from(self.source, self.topic, number, self.offsets[group][number])

    def next_on_target(self, number: int, offset: int) -> list[bytes | None]:
        """Values on the target from an offset on."""
        return values_from(self.target, self.copy, number, offset)

    def assert_moved(self, unread: dict[tuple[str, int], list[bytes | None]]) -> None:
        """Every group reads on the target exactly what it had not read on the source."""
        for (group, number), values in unread.items():
            at = committed(self.target, group)[self.copy, number]
            assert self.next_on_target(number, at) == values, (group, number)

    def all_unread(self) -> dict[tuple[str, int], list[bytes | None]]:
        """The values that each group has not read on the source."""
        return {(g, n): self.unread(g, n) for g in self.offsets for n in (0, 1)}

    def flow_runs(self) -> bool:
        """Whether MirrorMaker 2 leaves traces."""
        seen = self.flow.observe_copier(target_cluster(self.flow.config))
        return seen is not None and bool(seen.signs)

    def start(self, kind: DrillKind, options: DrillOptions, operator: Yes | None = None) -> Drill:
        """Run a drill in this process."""
        files = [str(self.mirror.file)]
        return start_drill(Actor(self.flow, files, MAY, operator or Yes()), kind, options)

    def resume(self, drill_id: str, operator: Yes | None = None) -> Drill:
        """Continue a drill in this process."""
        return resume_drill(
            Actor(self.flow, [str(self.mirror.file)], MAY, operator or Yes()), drill_id
        )


@pytest.fixture(scope="module")
def site(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorSite]:
    """It is rehearsed first, then switched over."""
    made = MirrorSite(*clusters, tmp_path_factory.mktemp("mirror"))
    try:
        yield made
    finally:
        made.mirror.stop()


def test_a_rehearsal_compares_its_checkpoints_with_exact_positions(site: MirrorSite) -> None:
    """Per group: the records that a consumer would read again, counted by reading them."""

    def audit() -> list[dict[str, Any]]:
        done = k2ktui("mm2", "audit", "-f", site.mirror.file, "--json", code=None)
        rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
        have = [row for row in rows if row["checkpoint_offset"] is not None]
        return have if len(have) == len(rows) == 2 * len(site.offsets) else []

    def checkpoints(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
        return {(row["group"], row["partition"]): row["checkpoint_offset"] for row in rows}

    def rehearse() -> tuple[list[dict[str, Any]], Any] | None:
        """A report, and the checkpoints that it read: MirrorMaker 2 had no others meanwhile.

        It writes better ones for a while, as it gets to know where later records landed.
        """
        before = eventually(audit, "every group has checkpoints", PATIENCE)
        report = k2ktui_json("drill", "rehearse", "-f", site.mirror.file)
        return (before, report) if checkpoints(before) == checkpoints(audit()) else None

    rows, report = eventually(rehearse, "a rehearsal without new checkpoints", PATIENCE)
    assert report["summary"][0] == "A failover now would move every group to its exact position."
    assert report["figures"]["rpo_records"] == 0
    again = dict.fromkeys(site.offsets, 0)
    for row in rows:
        group, number = row["group"], row["partition"]
        resumed = site.next_on_target(number, row["checkpoint_offset"])
        unread = site.unread(group, number)
        assert resumed[len(resumed) - len(unread) :] == unread, row
        again[group] += len(resumed) - len(unread)
    assert sum(again.values()) > 0
    by_group = {group_result["group"]: group_result for group_result in report["groups"]}
    for group, expected in again.items():
        assert by_group[group]["checkpoints"] == {
            "reread": expected,
            "skipped": 0,
            "unknown": 0,
            "without": 0,
        }
        assert (by_group[group]["reread"], by_group[group]["skipped"]) == (0, 0)
        assert by_group[group]["different"] == 0
    said = f"With MirrorMaker 2's checkpoints instead: {sum(again.values()):,} records read again"
    assert any(said in line for line in report["summary"])
    text = k2ktui("drill", "report", report["id"], "-f", site.mirror.file).stdout
    group = f"{site.stem}-37"
    assert f"| {group} | {again[group]} | 0 | 0 | 0 | 0 | 0 |" in text
    k2ktui("drill", "report", report["id"], "-f", site.mirror.file, "--verify")


class Stops(Yes):
    """An operator who stops MirrorMaker 2 when asked."""

    def __init__(self, mirror: MirrorMaker) -> None:
        super().__init__()
        self._mirror = mirror

    def ask(self, question: Question) -> bool:
        if question.step == DrillPhase.FENCE_REPLICATOR:
            self._mirror.stop()
        return super().ask(question)


def test_a_planned_switchover_waits_until_it_is_stopped(site: MirrorSite) -> None:
    unread = site.all_unread()
    with pytest.raises(Left):
        site.start(
            DrillKind.PLANNED, STRICT, Leaves(phase=DrillPhase.FENCE_REPLICATOR, text=COPIES)
        )
    (drill,) = (
        drill for drill in list_drills(settled(site.flow)) if drill.kind is DrillKind.PLANNED
    )
    assert drill.record(DrillPhase.VERIFY).status is PhaseStatus.DONE
    drill = site.resume(drill.id, Stops(site.mirror))
    assert drill.status is DrillStatus.DONE
    fenced = drill.record(DrillPhase.FENCE_REPLICATOR)
    assert "MirrorMaker 2 is stopped" in fenced.live and fenced.findings == ()
    (check,) = [check for check in drill.checks if check.id == "D42"]
    assert check.outcome is DrillCheckOutcome.PASS
    reverse = drill.record(DrillPhase.REVERSE)
    assert reverse.status is PhaseStatus.SKIPPED and "k2ktui mm2 import" in reverse.live
    assert drill.figures.rpo_records == 0
    site.assert_moved(unread)


def test_groups_move_exactly_when_the_source_is_lost(
    tmp_path: Path, lost: KafkaNode, target: KafkaNode
) -> None:
    """``sync`` has kept its offset-syncs and the commits on the target.

    An abort names what only a person can undo; the next drill begins anew.
    """
    site = MirrorSite(lost, target, tmp_path)
    try:
        k2ktui("sync", "-f", site.mirror.file, "--once")
        unread = site.all_unread()
        lost.kill()
        waits = Leaves(phase=DrillPhase.FENCE_REPLICATOR, text=COPIES)
        with pytest.raises(Left):
            site.start(DrillKind.DISASTER, STRICT, waits)
        (drill,) = list_drills(settled(site.flow))
        site.mirror.kill()
        # Its workers' group loses a member that was killed after a session time-out.
        eventually(lambda: not site.flow_runs(), "its workers' group is empty", PATIENCE)
        with pytest.raises(Refused, match="not confirmed"):
            site.resume(drill.id, Yes(frozenset({DrillPhase.OPEN_TARGET})))
        aborted = abort_drill(Actor(site.flow, [str(site.mirror.file)], MAY, Yes()), drill.id)
        assert "MirrorMaker 2 was stopped by hand: start it again" in aborted.blockers
        drill = site.start(DrillKind.DISASTER, STRICT)
    finally:
        site.mirror.stop()
    assert drill.status is DrillStatus.DONE
    lost_phase = drill.record(DrillPhase.SOURCE_LOST)
    assert "MirrorMaker 2 is stopped" in drill.record(DrillPhase.FENCE_REPLICATOR).live
    # Of two partitions, the markers at their ends.
    assert drill.figures.rpo_at_least is None
    assert "at most 2 records lost that groups had read" in lost_phase.live
    site.assert_moved(unread)
