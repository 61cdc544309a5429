"""Records of this host and heartbeats of all hosts, put together to a row a run."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.engine.moves.journal_format import read_state_value, state_value
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase
from k2ktui.jobs.local_jobs import Job, JobState, this_host
from k2ktui.jobs.run_rows import SHOWN_PAST, current_run, make_run_rows, recent_runs
from k2ktui.jobs.runners import alive_elsewhere
from k2ktui.runtime.host import birth_of, pid_space
from k2ktui.sync.liveness import find_ended

NOW = 1_795_262_400.0
HERE = this_host()
NO_PROCESS = 2**22 + 1  # above the largest pid of Linux


def job(pid: int = 7, began: float = NOW - 600, **values: object) -> Job:
    record = JobRecord(
        start=f"start-{pid}-{began}",
        pipeline="orders",
        group="orders",
        files=("/etc/orders.yaml",),
        cwd="/",
        telemetry=False,
        environment="",
        read_only=False,
        pid=pid,
        birth="b/1",
        host=HERE,
        user="ann",
        version="1",
        started_at=began,
        phase=Phase.RUNNING,
    )
    state = JobState(str(values.pop("state", "running")))
    return Job(JobDirectory(Path("orders-1")), replace(record, **values), state)  # type: ignore[arg-type]


def runner(name: str = "r", **values: object) -> Runner:
    now = int(NOW * 1000)
    made = Runner(name, HERE, "ann", 7, now - 599_000, now - 1000, RunnerState.RUNNING, 5, 2, 9)
    return replace(made, **{"pid_space": pid_space(), **values})  # type: ignore[arg-type]


def test_the_lag_is_the_one_that_was_read_just_now_and_only_of_what_runs() -> None:
    ended = job(8, NOW - 9000, state="stopped")
    others = job(9, state="running", pipeline="payments")
    run_rows = make_run_rows([job(), ended, others], [runner()], "orders", NOW, lag_records=20)
    assert {row.pid: row.lag_records for row in run_rows} == {7: 20, 8: None, 9: None}
    (row,) = make_run_rows([], [runner(state=RunnerState.STOPPED, host="elsewhere")], "orders", NOW)
    assert row.lag_records is None


def test_the_slots_of_a_job_are_those_of_its_heartbeat_if_it_has_one() -> None:
    """A run that shares its pipeline has released some since it began."""
    begun = job(slots=4)
    for heartbeats, slots in ([runner(slots=2)], 2), ([runner(slots=0)], 4), ([], 4):
        (row,) = make_run_rows([begun], heartbeats, "orders", NOW)
        assert row.slots == slots


def test_what_a_run_that_shares_its_pipeline_owns_is_shown_while_it_is_alive() -> None:
    sharing = runner(slots=2, generation=7, owned=(0, 2))
    (row,) = make_run_rows([job()], [sharing], "orders", NOW)
    assert (row.generation, row.owned) == (7, (0, 2))
    ended = replace(sharing, host="elsewhere", state=RunnerState.STOPPED)
    (row,) = make_run_rows([], [ended], "orders", NOW)
    assert (row.generation, row.owned) == (7, ())


def test_a_standby_has_no_slots() -> None:
    """Runs that an exclusive one has fenced owned some; their heartbeats may still name them."""
    fenced = runner(state=RunnerState.STANDBY, slots=0, generation=7, owned=(0, 2, 4, 6))
    copying = runner("copying", host="b")
    rows = [
        *make_run_rows([job(slots=4)], [copying, fenced], "orders", NOW)[1:],
        *make_run_rows([job(slots=4, phase=Phase.STANDBY, state="standby")], [], "orders", NOW),
        *make_run_rows([], [copying, replace(fenced, host="c", slots=4)], "orders", NOW)[1:],
    ]
    assert [(row.state, row.slots, row.owned) for row in rows] == [("standby", 0, ())] * 3


def test_the_only_run_is_no_standby_but_starts() -> None:
    """A run that shares its pipeline has no slots in its first seconds."""
    waits = runner(state=RunnerState.STANDBY, slots=0)
    ended = runner("before", host="b", started_ms=0, state=RunnerState.STOPPED)
    other = runner("sync", host="b", kind=RunKind.SYNC)
    run_rows = make_run_rows([job()], [waits, ended, other], "orders", NOW)
    assert [row.state for row in run_rows if row.here] == ["starting"]
    may_copy = runner("silent", host="b", at_ms=0)
    (row, *_) = make_run_rows([job()], [waits, may_copy], "orders", NOW)
    assert row.state == "standby"


def test_a_job_and_its_heartbeat_are_one_row() -> None:
    (row,) = make_run_rows([job()], [runner(term=4, commit_ms=3.5)], "orders", NOW)
    assert (row.here, row.alive, row.state, row.lap, row.lag_records) == (
        True,
        True,
        "running",
        5,
        9,
    )
    assert row.commit_ms == 3.5
    # The cursor of a table stays on the job when its next run replaces this one.
    assert (row.key, row.runner) == (row.job.place.id if row.job else None, "r")


def test_a_heartbeat_of_an_earlier_process_with_the_same_id_is_another_run() -> None:
    earlier = runner("old", started_ms=int((NOW - 7200) * 1000), state=RunnerState.STOPPED)
    later = runner("new", started_ms=int(NOW * 1000))
    ended = job(ended_at=NOW - 300, state="stopped")
    run_rows = make_run_rows([ended], [earlier, later], "orders", NOW)
    assert {row.runner: row.here for row in run_rows} == {"": True, "old": False, "new": False}


def test_a_job_that_was_asked_to_stop_is_stopping() -> None:
    (row,) = make_run_rows([job()], [runner(state=RunnerState.STOPPING)], "orders", NOW)
    assert row.state == "stopping"


def test_a_silent_run_on_this_host_has_died_and_one_elsewhere_is_silent() -> None:
    at = int((NOW - 60) * 1000)
    here = runner("a", at_ms=at, pid=NO_PROCESS)
    there = runner("b", at_ms=at, pid=NO_PROCESS, host="elsewhere")
    container = runner("c", at_ms=at, pid=NO_PROCESS, pid_space="another")
    hung = runner("d", at_ms=at, pid=os.getpid())
    run_rows = make_run_rows([], [here, there, container, hung], "orders", NOW)
    states = {row.runner: row.state for row in run_rows}
    assert states == {"a": "died", "b": "silent", "c": "silent", "d": "silent"}


def test_only_the_last_few_of_the_past_are_shown() -> None:
    past = [
        runner(f"r{n}", host="there", started_ms=n, state=RunnerState.STOPPED) for n in range(20)
    ]
    alive = runner("alive", host="there", started_ms=0)
    shown = recent_runs(make_run_rows([job(state="stopped")], [*past, alive], "orders", NOW))
    assert [row.runner for row in shown] == ["alive", "", *(f"r{n}" for n in range(19, 14, -1))]
    assert SHOWN_PAST == 5


def test_who_else_runs() -> None:
    own, gone = runner("own", pid=os.getpid()), runner("gone", pid=NO_PROCESS)
    there, silent = runner("there", host="b"), runner("silent", host="b", at_ms=0)
    stopped = runner("stopped", host="b", state=RunnerState.STOPPED)
    alive = alive_elsewhere([own, gone, there, silent, stopped], job(pid=os.getpid()), NOW)
    assert [run.runner for run in alive] == ["there"]
    assert own in alive_elsewhere([own], None, NOW), "it runs in a terminal of this host"


def test_a_pid_of_another_namespace_says_nothing_about_a_process_here() -> None:
    """Containers may have the same host name; their pids are small, and alike."""
    container = runner("container", pid=NO_PROCESS, pid_space="another")
    same_pid = runner("same pid", pid=os.getpid(), pid_space="another")
    older = runner("older version", pid=NO_PROCESS, pid_space="")
    alive = alive_elsewhere([container, same_pid, older], job(pid=os.getpid()), NOW)
    assert alive == [container, same_pid, older]
    mine, other = job(pid=os.getpid()), runner(pid=os.getpid(), pid_space="another")
    rows = make_run_rows([mine], [other], "orders", NOW)
    assert {row.runner: row.here for row in rows} == {"": True, "r": False}


def test_a_run_whose_pid_another_process_has_now_has_died() -> None:
    """A container that is started again may have the same namespace and pid as before."""
    at, births = int((NOW - 60) * 1000), (birth_of(os.getpid()), "another/1", "")
    runners = [runner(f"r{n}", pid=os.getpid(), at_ms=at, birth=b) for n, b in enumerate(births)]
    assert find_ended(runners) == {"r1"}
    rows = make_run_rows([], runners, "orders", NOW)
    assert {row.runner: row.state for row in rows} == {"r0": "silent", "r1": "died", "r2": "silent"}


@pytest.mark.parametrize("key", ["pid_space", "birth"])
def test_heartbeats_carry_what_distinguishes_their_process(key: str) -> None:
    """Those of earlier releases lack it."""
    beat = replace(runner(), **{key: "5f0c2a7d91be4403"})  # type: ignore[arg-type]
    assert read_state_value(beat.key, state_value(beat)) == beat
    old = json.loads(state_value(beat))
    del old[{"pid_space": "pidSpace"}.get(key, key)]
    changed = replace(beat, **{key: ""})  # type: ignore[arg-type]
    assert read_state_value(beat.key, json.dumps(old).encode()) == changed


def test_a_container_has_a_namespace_of_its_own() -> None:
    say = "from k2ktui.runtime.host import pid_space; print(pid_space())"
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("this system makes no PID namespaces")
    inside, outside = (
        subprocess.check_output([*prefix, sys.executable, "-c", say], text=True).strip()
        for prefix in (unshare, [])
    )
    assert inside != outside == pid_space()


_RUNS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([HERE, "there"]), st.sampled_from(RunnerState)),
    max_size=8,
)


@given(_RUNS, st.lists(st.integers(1, 4), max_size=3, unique=True))
def test_every_run_is_in_one_row(runs: list[tuple[int, str, RunnerState]], pids: list[int]) -> None:
    states = [state for state in RunnerState if state is not RunnerState.SILENT]
    names = itertools.count()
    runners = [
        runner(f"r{next(names)}", pid=pid, host=host, state=state)
        for pid, host, state in runs
        if state in states
    ]
    jobs = [job(pid=pid) for pid in pids]
    run_rows = make_run_rows(jobs, runners, "orders", NOW)
    assert sorted(row.runner for row in run_rows if row.runner) == sorted(r.runner for r in runners)
    assert [row.job for row in run_rows if row.job] != [] or not jobs
    assert len([row for row in run_rows if row.job]) == len(jobs)
    alive = [row.alive for row in run_rows]
    assert alive == sorted(alive, reverse=True)


def test_runs_of_sync_are_rows_of_their_own() -> None:
    """Even of one process id: the pipeline and its sync application have a job each."""
    copying, syncing = job(), job(kind=RunKind.SYNC)
    beats = [runner("c"), runner("s", kind=RunKind.SYNC)]
    rows = make_run_rows([copying, syncing], beats, "orders", NOW, lag_records=20)
    assert {(row.kind, row.runner, row.lap, row.lag_records) for row in rows} == {
        (RunKind.COPY, "c", 5, 20),
        (RunKind.SYNC, "s", None, 9),
    }
    for kind in RunKind:
        current = current_run([copying, syncing], beats, "orders", NOW, kind)
        assert current is not None and current.kind is kind
    away = [replace(beat, host="elsewhere") for beat in beats]
    assert [run.runner for run in alive_elsewhere(away, None, NOW, RunKind.SYNC)] == ["s"]
    assert [run.runner for run in alive_elsewhere(away, None, NOW)] == ["c"]


def test_a_standby_comes_after_the_run_that_works() -> None:
    """Although it was started later; a job's own record does not have the state."""
    works = runner("w", host="elsewhere", started_ms=int((NOW - 9000) * 1000), term=3)
    waits = runner("s", state=RunnerState.STANDBY)
    assert read_state_value(waits.key, state_value(waits)) == waits
    mine = job(phase=Phase.STARTING, state="starting")
    rows = make_run_rows([mine], [waits, works], "orders", NOW)
    assert [(row.runner, row.state, row.alive) for row in rows] == [
        ("w", "running", True),
        ("s", "standby", True),
    ]
    run = current_run([mine], [waits, works], "orders", NOW)
    assert run is not None and run.runner == "w"
