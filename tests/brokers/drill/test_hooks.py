"""Hooks of drills on real clusters: what they run, what holds a phase, and what an abort undoes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import psutil
import pytest

from k2ktui.drill.operations import abort_drill, resume_drill, verify_drill
from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import HookRecord, HookStatus
from k2ktui.engine.drill.model import ChangeStatus, Drill, DrillStatus, PhaseStatus
from k2ktui.errors import PartlyApplied, Refused
from k2ktui.runtime.node import KafkaNode
from k2ktui.site.operations import read_site
from tests.brokers.drill.test_resume import QUICKLY
from tests.support.clusters.kafka import eventually
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.hooks import hook, sh
from tests.support.drill.runs import MAY, QUICK, Pair, Yes, kill_at, settled
from tests.support.drill.sites import Site, SiteYes
from tests.support.http.server import Handler, http_server

SECRET = "hunter2-of-the-registry"
SWITCH = 'sed -i "s/^bootstrap.servers=.*/bootstrap.servers=$%s/" clients.properties'
TO_TARGET, TO_SOURCE = (SWITCH % f"K2KTUI_DRILL_{side}" for side in ("TARGET", "SOURCE"))


@dataclass
class Answers(Yes):
    """An operator who confirms everything, and gives these answers as a person."""

    answers: list[bool] = field(default_factory=list)

    def ask(self, question: Question) -> bool:
        """Return the next answer of a person; False after the last one."""
        agreed = super().ask(question)
        if question.kind is not QuestionKind.UNPROVEN:
            return agreed
        return self.answers.pop(0) if self.answers else False


@pytest.fixture
def nodes(source: KafkaNode, target: KafkaNode) -> Iterator[tuple[KafkaNode, KafkaNode]]:
    yield source, target


def pair_with(
    directory: Path,
    nodes: tuple[KafkaNode, KafkaNode],
    *hooks: Mapping[str, object],
    more: Mapping[str, object] = MappingProxyType({}),
) -> Pair:
    """Return a copied pair whose file has these hooks."""
    return Pair(directory, *nodes, {"drill": {"hooks": list(hooks)}, **more})


def records(drill: Drill) -> dict[str, HookRecord]:
    """Return what a drill has recorded of its hooks, by what is typed."""
    return {record.step: record for record in drill.hooks}


def resume(pair: Pair, operator: Yes) -> Drill:
    (drill,) = pair.drills()
    return resume_drill(Actor(pair.flow, [str(pair.file)], MAY, operator), drill.id)


class WebHook(Handler):
    """A web hook that remembers what was posted."""

    posted: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        self.posted.append(json.loads(self.read_body()))
        self.reply(204, b"")


def test_hooks_point_clients_at_the_target_and_call_a_web_hook(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    clients = tmp_path / "clients.properties"
    clients.write_text(f"# read by clients\nbootstrap.servers={nodes[0].bootstrap}\n")
    WebHook.posted.clear()
    body = (
        '{\\"drill\\": \\"$K2KTUI_DRILL_ID\\", \\"attempt\\": $K2KTUI_DRILL_ATTEMPT, '
        '\\"phase\\": \\"$K2KTUI_DRILL_WHEN $K2KTUI_DRILL_PHASE\\"}'
    )
    with http_server(WebHook) as url:
        pair = pair_with(
            tmp_path,
            nodes,
            hook(
                "before",
                "open-target",
                sh(f"{TO_TARGET} && env"),
                abort=sh(TO_SOURCE),
            ),
            hook("after", "open-target", sh(f'curl -sS --data "{body}" {url}')),
            hook("after", "verify", sh(f"printf '{SECRET}\\033[31m'")),
            more={"spark": {"config": {"spark.ssl.keyPassword": SECRET}}},
        )
        operator = Yes()
        drill = pair.start(DrillKind.PLANNED, operator=operator)
    assert drill.status is DrillStatus.DONE, drill
    assert clients.read_text() == f"# read by clients\nbootstrap.servers={nodes[1].bootstrap}\n"
    assert WebHook.posted == [{"drill": drill.id, "attempt": 1, "phase": "after open-target"}]
    asked = [step for step, _ in operator.asked]
    assert asked == [
        "apply", "after-verify", "fence-replicator", "before-open-target", "open-target",
        "after-open-target",
    ]  # fmt: skip
    text = dict(operator.asked)["before-open-target"]
    assert "before open-target. It runs: /bin/sh -c" in text and "An abort runs" in text
    assert {record.status for record in drill.hooks} == {HookStatus.DONE}
    switched = records(drill)["before-open-target"]
    names = {line.partition("=")[0] for line in switched.output.splitlines()}
    allowed = {"PATH", "HOME", "LANG", "PWD", "SHLVL", "_"}
    assert {name for name in names if not name.startswith("K2KTUI_DRILL_")} <= allowed
    assert f"K2KTUI_DRILL_PIPELINE={pair.flow.config.name}" in switched.output
    assert f"K2KTUI_DRILL_TARGET_CLUSTER={drill.target_cluster}" in switched.output
    assert records(drill)["after-verify"].output == "<redacted>\\x1b[31m"
    report = k2ktui("drill", "report", drill.id, "-f", pair.file).stdout
    assert "## Hooks" in report and "exit code 0" in report and SECRET not in report
    assert "about to run the hook before open-target, attempt 1" in report
    assert f"3 hooks of the file, sha256 {drill.hooks_digest}" in report
    assert verify_drill(settled(pair.flow), drill.id)[1] == []


@pytest.mark.slow
def test_an_exit_code_holds_the_phase_until_it_is_resumed(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    ready = tmp_path / "ready"
    pair = pair_with(
        tmp_path,
        nodes,
        hook("before", "apply", sh("echo not ready; test -e ready")),
        hook("after", "apply", sh("test -e done || { touch done; exit 3; }")),
    )
    drill = pair.start(DrillKind.PLANNED)
    record = drill.record(DrillPhase.APPLY)
    assert (drill.status, record.status) == (DrillStatus.OPEN, PhaseStatus.FAILED)
    assert record.live == "hook before apply has failed: exit code 1"
    assert record.findings == ("hook before apply has failed: exit code 1: not ready",)
    assert set(pair.target_offsets(pair.groups[0]).values()) == {None}, "the phase has not begun"
    refused = k2ktui("drill", "resume", drill.id, "-f", pair.file, code=5).stderr
    assert "before-apply must be confirmed" in refused and "--yes-to before-apply" in refused
    ready.touch()
    drill = resume(pair, Yes())
    record = drill.record(DrillPhase.APPLY)
    assert record.status is PhaseStatus.FAILED and "hook after apply has failed" in record.live
    assert records(drill)["before-apply"].attempts == 2
    assert pair.target_offsets(pair.groups[0]) == pair.expected_offsets(0)
    # The operator has done by hand what the hook is for: it is not run again.
    operator = Answers(is_person=True, answers=[True])
    drill = resume(pair, operator)
    assert drill.status is DrillStatus.DONE
    assert "The hook after apply has failed (exit code 3)" in operator.shown_lines[0][0]
    after = records(drill)["after-apply"]
    assert (after.attempts, after.status) == (1, HookStatus.DONE)
    assert "says that its work is done" in after.result
    assert verify_drill(settled(pair.flow), drill.id)[1] == []


@pytest.mark.slow
def test_a_hook_of_which_the_end_is_not_known_is_asked_about(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    """The operator's process is killed in the middle of a hook."""
    runs = tmp_path / "runs"
    script = "echo $$ >> runs; test $(wc -l < runs) -gt 1 || sleep 600"
    pair = pair_with(tmp_path, nodes, hook("after", "verify", sh(script), timeout="10 minutes"))
    command = ["drill", "planned", "-f", str(pair.file), *QUICKLY, "--yes-to", "all"]
    process = subprocess.Popen(
        [sys.executable, "-m", "k2ktui", *command], stdin=subprocess.DEVNULL, env=os.environ
    )
    try:
        pid = eventually(lambda: runs.exists() and runs.read_text().strip(), "the hook runs")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    eventually(lambda: not psutil.pid_exists(int(pid)), "nothing runs on without an operator")
    (drill,) = pair.drills()
    refused = k2ktui("drill", "resume", drill.id, "-f", pair.file, "--yes-to", "all", code=5)
    assert "running the hook after verify again was not confirmed" in refused.stderr
    assert len(runs.read_text().split()) == 1, "it is not repeated by itself"
    operator = Answers(answers=[False, True], is_person=True)
    drill = resume(pair, operator)
    assert "it is not known whether the hook after verify has ended" in operator.shown_lines[0][0]
    assert "Hooks must be repeatable" in operator.shown_lines[1][1]
    assert drill.status is DrillStatus.DONE
    assert records(drill)["after-verify"].attempts == len(runs.read_text().split()) == 2


@pytest.mark.slow
def test_killed_beside_a_hook_it_is_asked_about_and_not_repeated(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    """Before a hook begins, and after another one has ended."""
    first, second = tmp_path / "first", tmp_path / "second"
    hooks = (
        hook("before", "drain", sh("echo >> first")),
        hook("after", "apply", sh("echo >> second")),
    )
    pair = pair_with(tmp_path, nodes, *hooks)
    arguments = "-f", pair.file, "--yes-to", "all"
    begin = "drill", "planned", *QUICKLY
    kill_at("drill-hook-begun", tmp_path / "crash", *begin, *arguments)
    assert not first.exists()
    refuses = frozenset({DrillPhase.APPLY})
    with pytest.raises(Refused, match="apply was not confirmed"):
        resume(pair, Answers(refuses, answers=[True], is_person=True))
    assert not first.exists(), "the operator has said that its work is done"
    (drill,) = pair.drills()
    kill_at("drill-hook-ended", tmp_path / "crash", "drill", "resume", drill.id, *arguments)
    assert second.read_text() == "\n"
    drill = resume(pair, Answers(answers=[True], is_person=True))
    assert drill.status is DrillStatus.DONE
    assert second.read_text() == "\n" and not first.exists()


@pytest.mark.slow
def test_hooks_of_a_file_that_others_may_write_are_refused(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    pair = pair_with(tmp_path, nodes, hook("before", "drain", sh("touch ran")))
    pair.file.chmod(0o666)
    name = str(pair.file)
    refused = k2ktui("drill", "planned", "-f", name, *QUICKLY, "--yes-to", "all", code=5).stderr
    assert "the hooks of the drill are not run" in refused and "written by everybody" in refused
    assert "No drill was begun" in refused and pair.drills() == []
    rehearsal = k2ktui_json("drill", "rehearse", "-f", name, code=1)
    assert any("would not run its hooks" in finding for finding in rehearsal["blockers"])
    assert [row["status"] for row in rehearsal["hooks"]] == ["waiting"]
    pair.file.chmod(0o600)
    tmp_path.chmod(0o777)
    try:
        refused = k2ktui("drill", "planned", "-f", name, *QUICKLY, code=5).stderr
        assert "its folder can be written by everybody" in refused
    finally:
        tmp_path.chmod(0o700)
    rehearsal = k2ktui_json("drill", "rehearse", "-f", name, code=None)
    assert not any("hooks" in finding for finding in rehearsal["blockers"])
    assert not (tmp_path / "ran").exists()
    for kind in ("rehearse", "planned"):
        shown = k2ktui("drill", kind, "-f", name, "--dry-run").stdout
        assert "hook before drain, before drain. It runs: /bin/sh -c 'touch ran'" in shown
        listed = k2ktui_json("drill", kind, "-f", name, "--dry-run")["hooks"]
        assert [row["command"] for row in listed] == [sh("touch ran")]
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_another_hosts_hooks_count_only_after_a_person_has_agreed(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    script = "touch first; sleep 600 & echo $! > child; wait"
    pair = pair_with(tmp_path, nodes, hook("before", "apply", sh(script), timeout="5 seconds"))
    drill = pair.start(DrillKind.PLANNED)
    result = records(drill)["before-apply"].result
    assert result == "killed with its process group after 5 s, its time limit"
    assert result in drill.record(DrillPhase.APPLY).live
    pid = int((tmp_path / "child").read_text())
    eventually(lambda: not psutil.pid_exists(pid), "what it started has ended, too")
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    file = other / "pipeline.yaml"
    file.write_text(pair.file.read_text().replace(script, "touch second"))
    named = ["-f", str(file)]
    refused = k2ktui("drill", "resume", drill.id, *named, "--yes-to", "all", code=5).stderr
    assert "a person must agree to the hooks of this file" in refused
    assert "touch second" in refused and "touch first" in refused
    assert not (other / "second").exists()
    operator = Yes(is_person=True)
    drill = resume_drill(Actor(pair.flow_of(file), [str(file)], MAY, operator), drill.id)
    assert drill.status is DrillStatus.DONE and (other / "second").exists()
    assert any("new: hook before apply" in line for line in operator.shown_lines[0])
    (event,) = [event for event in drill.events if "agreed to; before: sha256" in event.text]
    assert event.who == drill.owner
    kept = {record.command: record.status for record in drill.hooks}
    assert list(kept.values()) == [HookStatus.DONE, HookStatus.FAILED]


@pytest.mark.slow
def test_an_abort_undoes_hooks_in_reverse_order_each_confirmed(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    note = 'echo "$K2KTUI_DRILL_ACTION $K2KTUI_DRILL_WHEN $K2KTUI_DRILL_PHASE" >> log'
    undo = f"{note}; test -e allowed"
    pair = pair_with(
        tmp_path,
        nodes,
        hook("after", "preflight", sh(note)),
        hook("after", "apply", sh(note), abort=sh(undo)),
        hook("before", "apply", sh(note), abort=sh(note)),
        hook("before", "open-target", sh("exit 4"), abort=sh(note)),
        hook("after", "open-target", sh(note)),
    )
    drill = pair.start(DrillKind.PLANNED, replace(QUICK))
    assert records(drill)["before-open-target"].status is HookStatus.FAILED
    refused = k2ktui("drill", "abort", drill.id, "-f", pair.file, code=5).stderr
    assert "before-open-target must be confirmed" in refused
    assert f"k2ktui drill abort {drill.id} -f FILE --yes-to before-open-target" in refused
    operator = Yes()
    with pytest.raises(PartlyApplied, match="abort of the hook after apply has failed"):
        abort_drill(Actor(pair.flow, [str(pair.file)], MAY, operator), drill.id)
    assert [step for step, _ in operator.asked] == [
        "before-open-target",
        "after-apply",
        "before-apply",
    ]
    (tmp_path / "allowed").touch()
    arguments = ("drill", "abort", drill.id, "-f", pair.file, "--yes-to", "after-apply")
    k2ktui(*arguments, code=1)
    (drill,) = pair.drills()
    assert drill.status is DrillStatus.ABORTED
    assert {change.status for change in drill.changes} == {ChangeStatus.UNDONE}
    assert {step: record.status for step, record in records(drill).items()} == {
        "after-preflight": HookStatus.KEPT,
        "before-apply": HookStatus.UNDONE,
        "after-apply": HookStatus.UNDONE,
        "before-open-target": HookStatus.UNDONE,
        "after-open-target": HookStatus.WAITING,
    }
    assert any("undo by hand what it did" in finding for finding in drill.blockers)
    assert (tmp_path / "log").read_text().splitlines() == [
        "run after preflight",
        "run before apply",
        "run after apply",
        "abort before open-target",
        "abort after apply",
        "abort before apply",
        "abort after apply",
    ]
    assert set(pair.target_offsets(pair.groups[0]).values()) == {None}
    undone = [
        event.text
        for event in drill.events
        if event.text.startswith(("undone: commit", "abort of the hook before"))
    ]
    assert len(undone) == 3, "the offsets were restored between the hooks after and before apply"
    assert undone[1].startswith("undone: commit")


def test_a_hook_that_is_not_confirmed_does_not_run(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    pair = pair_with(tmp_path, nodes, hook("before", "drain", sh("touch ran")))
    operator = Yes(refuses=frozenset({"before-drain"}))
    with pytest.raises(Refused, match="before-drain was not confirmed"):
        pair.start(DrillKind.PLANNED, operator=operator)
    assert not (tmp_path / "ran").exists()
    shown = k2ktui("drill", "show", pair.drills()[0].id, "-f", pair.file).stdout
    assert "hook before drain, before drain: waiting" in shown
    assert shlex.join(sh("touch ran")) in operator.asked[0][1]


@pytest.mark.slow
def test_hooks_of_a_site_drill_are_confirmed_for_all_and_undone_for_each(
    tmp_path: Path, nodes: tuple[KafkaNode, KafkaNode]
) -> None:
    site = Site(tmp_path / "pipelines")
    note = 'echo "$K2KTUI_DRILL_PIPELINE $K2KTUI_DRILL_ACTION" >> log'
    gate = hook("before", "open-target", sh(f"{note}; test -e open"), abort=sh(note))
    pairs = [site.add(*nodes, drill={"hooks": [gate]}) for _ in range(2)]
    names = sorted(pair.copied.name for pair in pairs)
    cluster = nodes[0].cluster_id
    shown = k2ktui("drill", "planned", "-d", site.directory, "--from", cluster, "--dry-run").stderr
    assert shown.count("hook before open-target, before open-target. It runs:") == 2
    operator = SiteYes()
    drilled = site.start(DrillKind.PLANNED, cluster, operator)
    assert operator.phases == ["apply", "fence-replicator", "before-open-target"]
    question = operator.questions[-1]
    assert [name for name in names if any(name in line for line in question.lines)] == names
    log = site.directory / "log"
    assert sorted(log.read_text().splitlines()) == [f"{name} run" for name in names]
    assert not drilled.is_over, "both hold the phase"
    refused = k2ktui("drill", "abort", drilled.id, "-d", site.directory, code=None)
    assert "before-open-target of 1 pipeline" in refused.stderr and refused.returncode == 6
    hint = f"k2ktui drill abort {drilled.id} -d DIR --yes-to before-open-target"
    assert hint in refused.stderr
    k2ktui("drill", "abort", drilled.id, "-d", site.directory, "--yes-to", "before-open-target")
    lines = sorted(log.read_text().splitlines())
    assert lines == sorted(f"{name} {action}" for name in names for action in ("run", "abort"))
    assert read_site(site.files, drilled.id).status is DrillStatus.ABORTED
