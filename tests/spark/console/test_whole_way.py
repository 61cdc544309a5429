"""The whole way in a real tmux, by keyboard alone: from no job to no job, and a group in between.

Start the job, restart it, see it copy, find the group that diverges, plan, confirm, apply, verify
by content, undo, stop the job.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import JobState
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, eventually, produce, unique_name
from tests.support.console.tmux import TMUX, Tmux
from tests.support.jobs.jobs import all_ended
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed
from tests.support.pipelines.pipeline import Pipeline

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(TMUX is None, reason="there is no tmux"),
]
PATIENCE = 150.0
NAME, PRIOR = "orders", 7  # records on the target that were there before the copy
READ, AHEAD = 500, 900


@pytest.fixture
def group() -> str:
    return unique_name("g")  # a long one would be cut in the table


@pytest.fixture
def pipe(
    source: KafkaNode,
    target: KafkaNode,
    tmp_path: Path,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pipeline]:
    """A pipeline that never ran, with a group that would skip records on the target."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    topic = create_topic(source)
    create_topic(target, topic)
    produce(source, topic, [Out(b"v%d" % n) for n in range(1000)])
    produce(target, topic, [Out(b"native")] * PRIOR)
    commit_offsets(source, group, {(topic, 0): READ})
    commit_offsets(target, group, {(topic, 0): AHEAD})
    settings = {"groups.consumerGroups": group}
    made = Pipeline(tmp_path, source, target, [topic], settings, name=NAME)
    with all_ended():
        yield made


@pytest.fixture
def traffic(source: KafkaNode, pipe: Pipeline) -> Iterator[None]:
    """Records that come for as long as the test looks."""
    over = threading.Event()

    def produces() -> None:
        while not over.wait(0.05):
            produce(source, pipe.topics[0], [Out(b"more")] * 200)

    thread = threading.Thread(target=produces)
    thread.start()
    yield
    over.set()
    thread.join()


def agree(tmux: Tmux) -> None:
    """Type the pipeline's name into the dialog, as it asks for."""
    tmux.sees(f"type {NAME} to", timeout=PATIENCE)
    tmux.type(NAME)
    tmux.press("Tab", "Space")


def lag(tmux: Tmux) -> str:
    """The lag in records as the overview shows it, empty while it is not known."""
    match = re.search(r"Lag[^\n]*\n\W*([\d,]+) records", tmux.screen)
    return match[1] if match else ""


def await_moving_lag(tmux: Tmux) -> None:
    """Wait until three different lags were shown."""
    seen = {""}

    def moved() -> bool:
        seen.add(lag(tmux))
        return len(seen) > 3

    eventually(moved, "the lag moves", PATIENCE)


def test_from_the_start_of_the_job_to_its_end(
    pipe: Pipeline, traffic: None, group: str, target: KafkaNode, tmp_path: Path
) -> None:
    where = (pipe.topics[0], 0)
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "k2ktui", "-f", str(pipe.write()), "--interval", "2"]
    with Tmux(command, env, (100, 30)) as tmux:
        tmux.sees("Overview", "READ-WRITE")
        tmux.press("5")
        tmux.sees("no run is alive")
        tmux.press("J")
        agree(tmux)
        tmux.sees("running on this host", timeout=PATIENCE)
        (first,) = local_jobs.list_jobs()
        tmux.press("R")
        agree(tmux)
        eventually(lambda: local_jobs.list_jobs()[0].record.term == 2, "started again", PATIENCE)
        (second,) = local_jobs.list_jobs()
        assert second.record.pid != first.record.pid and not first.record.identity.alive
        tmux.sees(f"pid {second.record.pid}", "running on this host", timeout=PATIENCE)

        tmux.press("1")
        await_moving_lag(tmux)

        tmux.press("3")
        tmux.sees(group, "1 group: 1 skips", timeout=PATIENCE)
        tmux.press("Enter")
        tmux.sees(f"+{AHEAD - READ - PRIOR}")  # as many records would be skipped
        tmux.press("q", "T")
        tmux.sees("rewind: never")
        tmux.press("w")
        tmux.sees("1 rewind", "rewind: follow")
        tmux.press("A")
        agree(tmux)
        tmux.sees("1 row applied", "journal entry")
        assert committed(target, group, [where]) == {where: READ + PRIOR}
        tmux.press("v")
        tmux.sees("1 same, 0 re-read, 0 different")
        tmux.press("U")
        agree(tmux)
        tmux.sees("1 row undone.")
        assert committed(target, group, [where]) == {where: AHEAD}

        tmux.press("q", "5")
        tmux.sees("running on this host")
        tmux.press("X")
        agree(tmux)
        tmux.sees("no run is alive")
        (job,) = local_jobs.list_jobs()
        assert (job.state, job.code) == (JobState.STOPPED, 0)
        tmux.press("q")
        tmux.sees("ENDED 0")
