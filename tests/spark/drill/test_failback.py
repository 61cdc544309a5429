"""Failback on real clusters with real pipelines; a plain consumer says what each group has read."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.operations import abort_drill, verify_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill, DrillStatus, PhaseStatus
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import refuse_fenced
from tests.support.clusters.kafka import START_S, eventually
from tests.support.commands.acting import acting
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.failback import Workload
from tests.support.drill.hooks import hook, sh
from tests.support.drill.runs import MAY, Yes, keep_commits, kill_at
from tests.support.records.numbered import Identity

NOTHING_LEFT = "every record of the old source is on the new primary"
TAIL = {(b"a", b"%d" % n) for n in range(100, 130)}  # never copied when groups move
# An application or a pipeline starts, and copies, on a busy machine.
PATIENCE_S = 900.0
STEPS = (
    "source-back-begun",
    "tail-begun",
    "tail-intended",
    "tail-intended",
    "tail-made",
    "tail-ended",
    "apply-intended",
    "fence-replicator-made",
    "open-target-ended",
    "reverse-intended",
    "reverse-made",
    "report-begun",
)


@pytest.fixture
def work(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Workload]:
    made = Workload(tmp_path, source, target)
    yield made
    made.close()


@pytest.fixture
def work_on_lost(tmp_path: Path, lost: KafkaNode, target: KafkaNode) -> Iterator[Workload]:
    """A workload whose source the test may kill."""
    made = Workload(tmp_path, lost, target)
    yield made
    made.close()


def begin(work: Workload) -> None:
    """Let both groups read something on the source."""
    work.write(work.a, 100)
    work.forward.catch_up()
    work.consume(work.a, work.groups[0], 20)
    work.consume(work.a, work.groups[1], 5)


def work_on_the_other_side(work: Workload) -> None:
    """Write on the target; one group reads everything, the other one a part."""
    work.write(work.b, 40)
    work.consume(work.b, work.groups[0])
    work.consume(work.b, work.groups[1], 50)


def pair_state(file: Path) -> tuple[str, str, bool]:
    """Return what a pipeline says of its pair: where the workload is, and which drill says so."""
    shown = k2ktui_json("status", "-f", file)["pair_state"]
    return shown["phase"], shown["drill"], shown["moved"]


def waits_for_the_tail(work: Workload) -> bool:
    """Whether an open failback waits until the forward pipeline has copied the tail."""
    with suppress(K2kError):  # a busy cluster may not answer in time; it is asked again
        return any(
            "not copied yet" in failback.record(DrillPhase.TAIL).live
            for failback in work.failbacks()
            if not failback.is_over
        )
    return False


def read_on(
    work: Workload,
    left_out: frozenset[Identity] | set[Identity] = frozenset(),
    copy: Callable[[], object] | None = None,
) -> None:
    """Work on the old source again: every group has read each record once, but those left out.

    Args:
        work: the workload.
        left_out: what no group reads.
        copy: waits until the forward pipeline has caught up; by default it is started for this.
    """
    work.write(work.a, 30)
    for group in work.groups:
        work.consume(work.a, group)
        expected = Counter(
            {
                identity: n
                for identity, n in work.content(work.a).items()
                if identity not in left_out
            }
        )
        assert Counter(work.read[group]) == expected, group
    (copy or work.forward.catch_up)()
    assert set(work.content(work.a).values()) == {1}
    assert work.content(work.b) == Counter(
        {identity: n for identity, n in work.content(work.a).items() if identity not in left_out}
    )


def clusters(work: Workload) -> tuple[Cluster, Cluster]:
    return source_cluster(work.flow.config), target_cluster(work.flow.config)


@pytest.mark.slow
def test_the_way_back_is_aborted_twice_and_then_leads_back_exactly(work: Workload) -> None:
    """A discarded tail is taken back, a copied one stays; then each record was read once."""
    begin(work)
    away = work.fail_over()
    work.write(work.a, 30)  # by producers that were forgotten
    work_on_the_other_side(work)
    work.copy_back()
    assert pair_state(work.file) == ("failed over", away.id, True)
    assert pair_state(work.back) == ("replicating", away.id, False)
    reverse = k2ktui_json("status", "-f", work.back, "--groups")["failover"]
    assert reverse["rpo_records"] == 0, reverse
    with pytest.raises(Refused, match="was fenced by drill"):
        refuse_fenced(work.flow.config, target_cluster(work.flow.config))
    wrong = k2ktui("drill", "failback", "-f", work.file, code=2)
    assert f"Run k2ktui drill failback -f {work.back}" in wrong.stderr
    abort_a_discarded_tail(work)
    abort_after_a_replay(work)
    drill = return_with_hooks(work)
    assert pair_state(work.file) == ("replicating", drill.id, False)
    assert pair_state(work.back) == ("failed over", drill.id, True)
    refuse_fenced(work.flow.config, target_cluster(work.flow.config))
    read_on(work)
    assert verify_drill(work.reverse_flow, drill.id)[1] == []
    with pytest.raises(Refused, match="has already moved the groups back"):
        work.fail_back()


def abort_a_discarded_tail(work: Workload) -> None:
    """The positions move past the tail, and an abort moves them back."""
    before = work.flow.read_copier(*clusters(work)).positions
    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with pytest.raises(Refused, match="apply was not confirmed"):
        work.fail_back(refuses, tail=TailChoice.DISCARD)
    assert "0 read again, 0 skipped" in dict(refuses.asked)[DrillPhase.APPLY]
    (drill,) = work.failbacks()
    assert "they stay on the old source" in drill.record(DrillPhase.TAIL).live
    after = work.flow.read_copier(*clusters(work)).positions
    assert {at.offset for at in after.values()} == {65}
    aborted = abort_drill(Actor(work.reverse_flow, [str(work.back)], MAY, Yes()), drill.id)
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
    now = work.flow.read_copier(*clusters(work)).positions
    assert {at: (p.offset, p.gaps) for at, p in now.items()} == {
        at: (p.offset, p.gaps) for at, p in before.items()
    }
    with pytest.raises(Refused, match="was fenced by drill"):
        refuse_fenced(work.flow.config, target_cluster(work.flow.config))


def abort_after_a_replay(work: Workload) -> None:
    """What was copied stays on the new primary, which the abort says."""

    def act() -> None:
        """What applications and an operator do while the drill waits."""
        eventually(lambda: waits_for_the_tail(work), "the drill waits for the pipeline")
        work.forward.catch_up()
        for group in work.groups:
            work.consume(work.b, group)
        work.copy_back()

    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with acting(act), pytest.raises(Refused, match="apply was not confirmed"):
        work.fail_back(refuses, tail=TailChoice.REPLAY, wait_s=PATIENCE_S)
    drill = work.failbacks()[0]
    assert "30 records on 2 partitions" in dict(refuses.asked)[DrillPhase.TAIL]
    assert [(span.records, span.first) for span in drill.tail] == [(15, 50), (15, 50)]
    aborted = abort_drill(Actor(work.reverse_flow, [str(work.back)], MAY, Yes()), drill.id)
    assert aborted.status is DrillStatus.ABORTED
    kept = [change.kind for change in aborted.changes if change.status is ChangeStatus.KEPT]
    assert kept == [ChangeKind.TAIL]
    (problem,) = [blocker for blocker in aborted.blockers if "what was copied" in blocker]
    assert problem.endswith("stays on the new primary") and f"{work.topic}-0" in problem
    with pytest.raises(Refused, match="was fenced by drill"):
        refuse_fenced(work.flow.config, target_cluster(work.flow.config))
    assert set(work.content(work.b)) >= TAIL


def return_with_hooks(work: Workload) -> Drill:
    """Fail back; the reverse pipeline's file has hooks of its own."""
    operator = Yes()
    reverse = yaml.safe_load(work.back.read_text())
    assert "hooks" not in reverse.get("drill", {}), "those of the forward one are not copied"
    switch = 'echo "$K2KTUI_DRILL_KIND to $K2KTUI_DRILL_TARGET" >> clients'
    hooks = [hook("before", "open-target", sh(switch))]
    work.back.write_text(yaml.safe_dump({**reverse, "drill": {"hooks": hooks}}))
    drill = work.fail_back(operator)
    assert drill.status is DrillStatus.DONE, drill
    assert drill.record(DrillPhase.TAIL).live == NOTHING_LEFT
    assert [step for step, _ in operator.asked] == [
        DrillPhase.APPLY,
        DrillPhase.FENCE_REPLICATOR,
        "before-open-target",
        DrillPhase.OPEN_TARGET,
    ]
    told = [f"failback to {work.a.bootstrap}"]
    assert (work.back.parent / "clients").read_text().splitlines() == told
    assert "0 read again, 0 skipped" in operator.asked[0][1]
    assert {phase.status for phase in drill.phases} == {PhaseStatus.DONE}
    return drill


@pytest.mark.slow
def test_after_a_disaster_it_is_killed_at_every_step_and_continues(work_on_lost: Workload) -> None:
    """The tail is listed first, then exported: it stays on the old source."""
    work = work_on_lost
    begin(work)
    keep_commits(work.flow.config)
    work.write(work.a, 30)
    work.a.kill()
    work.fail_over(DrillKind.DISASTER)
    work_on_the_other_side(work)
    work.a.start(START_S)
    work.write_reverse()
    work.copy_back()
    drill_id = list_the_tail(work)
    for step in STEPS[1:]:
        resume_until(work, step, drill_id)
    k2ktui("drill", "resume", drill_id, "-f", work.back, "--yes-to", "all", code=None)
    drill, problems = verify_drill(work.reverse_flow, drill_id)
    assert drill.status is DrillStatus.DONE and problems == []
    assert exported(work, drill_id) == TAIL
    read_on(work, TAIL)
    keep_commits(work.flow.config)
    work.a.kill()
    rows = k2ktui_json("plan", "-f", work.file, code=None)["rows"]
    assert {(row["basis"], row["reread"], row["skipped"]) for row in rows} == {("end", 0, 0)}


def list_the_tail(work: Workload) -> str:
    """Begin a failback without saying what happens to the tail; return its id."""
    options = ("--frozen", "1", "--wait", "300", "--watch", "10", "--accept", ",".join(CATALOG))
    begun = ("failback", "--show-keys", *options)
    yes = ("-f", work.back, "--yes-to", "all")
    kill_at(f"drill-{STEPS[0]}", work.directory / "crash-drill", "drill", *begun, *yes)
    listed = work.resume(work.failbacks()[0])
    assert not listed.is_over
    tail_phase = listed.record(DrillPhase.TAIL)
    assert tail_phase.status is PhaseStatus.FAILED
    assert tail_phase.live.startswith("30 records on 2 partitions, of ")
    assert f"{work.topic}-0: 15 records, offsets 50 to 64, of " in tail_phase.findings[0]
    assert "first keys: 100, 102, 104" in tail_phase.findings[0]
    assert "--tail CHOICE" in tail_phase.findings[-1]
    return listed.id


def resume_until(work: Workload, step: str, drill_id: str) -> None:
    """Resume a drill, which exports the tail, until it is killed at a step."""
    yes = ("-f", work.back, "--yes-to", "all")
    begun = ("drill", "resume", drill_id, "--tail", "export")
    kill_at(f"drill-{step}", work.directory / "crash-drill", *begun, *yes)


def exported(work: Workload, drill_id: str) -> set[Identity]:
    """Return the records of the files that a drill has exported, for this user alone."""
    directory = work.directory / f"{work.back.stem}-tail-{drill_id}"
    assert directory.stat().st_mode & 0o777 == 0o700
    files = sorted(directory.iterdir())
    assert [file.name for file in files] == [f"{work.topic}-{n}.jsonl" for n in range(2)]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [row["offset"] for row in rows] == [*range(50, 65)] * 2
    identities = set()
    for row in rows:
        assert base64.b64decode(row["key"]) == base64.b64decode(row["value"])
        headers = {name: base64.b64decode(value) for name, value in row["headers"]}
        identities.add((headers["origin"], headers["number"]))
    return identities
