"""The sync application over several polls: groups in use on the target, and its metrics."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from k2ktui.engine.moves.lags import GroupLag
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.loop.metrics import CATALOG, SyncMetrics
from k2ktui.sync.loop.poll import SyncLoop, SyncPoll
from tests.brokers.sync.test_races import member
from tests.support.clusters.kafka import TIMEOUT, end_offsets, eventually, produce
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

slow = pytest.mark.slow


def test_what_a_group_reads_again_is_reported(
    copied: Copied, topic: str, source: KafkaNode
) -> None:
    """Of two groups one is exact, the other has read what is not copied yet."""
    where = (topic, 0)
    produce(source, topic, [b"not copied"] * 5)
    exact, ahead = copied.group("exact"), copied.group("ahead")
    commit_offsets(source, exact, {where: 20})
    commit_offsets(source, ahead, {where: 53})
    done = k2ktui("sync", "-f", copied.file, "--once")
    assert "; 1 ahead, 1 exact\n" in done.stdout
    assert done.stdout.endswith(f"\n  {ahead} re-reads at most 3 records\n")


@slow
@pytest.mark.parametrize("policy", ["skip", "ignore"])
def test_a_group_in_use_on_the_target_stops_no_other_group(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode, policy: str
) -> None:
    copied.settings = {"errorHandling": {"onActiveConsumerGroupCommit": policy}}
    used, idle, where = copied.group("used"), copied.group("idle"), (topic, 0)
    for group in (used, idle):
        commit_offsets(source, group, {where: 20})
    commit_offsets(target, used, {where: 7})
    loop = SyncLoop(Flow(copied.config))
    with contextlib.closing(loop):
        with member(target, used, topic, "classic"):
            turn = loop.turn()
            done = k2ktui("sync", "-f", copied.file, "--once", code=1 if policy == "skip" else 0)
        assert turn.applied == 1
        assert committed(target, idle, [where]) == {where: 27}
        assert committed(target, used, [where]) == {where: 7}
        (note,) = [note for note in turn.notes if used in note]
        assert ("STOPPED" in note) == (policy == "skip")
        assert ("STOPPED" in done.stderr) == (policy == "skip")
        # Its member has gone.
        after = loop.turn()
        assert set(after.stopped) == ({used} if policy == "skip" else set())
    expected = 7 if policy == "skip" else 27
    assert committed(target, used, [where]) == {where: expected}


@slow
def test_a_dead_source_is_reported_once_and_the_loop_continues(
    copied: Copied, topic: str, source: KafkaNode, target: KafkaNode
) -> None:
    group, where = copied.group("g"), (topic, 0)
    commit_offsets(source, group, {where: 20})
    loop = SyncLoop(Flow(copied.config))
    with contextlib.closing(loop):
        loop.turn()
        commit_offsets(target, group, {where: 8}, "k2k_1.1;")
        source.kill()
        try:
            down, still = loop.turn(), loop.turn()
        finally:
            source.restart()
        # It leads its partitions and coordinates the group again.
        end_offsets(source, topic)
        assert committed(source, group, [where]) == {where: 20}
        back = loop.turn()
    assert committed(target, group, [where]) == {where: 27}
    assert any("on the target" in note for note in down.notes)
    assert not still.notes, "reported once"
    assert down.commits_at == still.commits_at < down.taken_at
    assert back.commits_at > down.taken_at
    assert back.notes == ("the source responds again",)


def test_metrics_of_the_application() -> None:
    figures = SyncMetrics("p")
    assert read(figures)["groups"] == {}
    figures.feed(
        SyncPoll(10.0, 9.0, 3, {"advance": 2, "skip": 1}, 2, ("g t-0: refused",), {"g": "used"})
    )
    lags = {"a": GroupLag(5, 60.0), "b": GroupLag(7, 1.0, 1), "c": GroupLag()}
    figures.feed(SyncPoll(20.0, 19.0, 4, {"keep": 4}, 0, (), duration_s=1.5, lags=lags))
    values = read(figures)
    assert (values["groups"][()], values["groups.stopped"][()], values["poll.time"][()]) == (
        4,
        0,
        1.5,
    )
    assert values["group.lag"] == {("a",): 5, ("b",): 7}
    assert values["group.lag.time"] == {("a",): 60}, "that of b is not known of every partition"
    assert values["rows"] == {("keep",): 4}, "of the last poll"
    assert (values["polls"][()], values["committed"][()], values["refused"][()]) == (2, 2, 1)
    assert values["commits.age"][()] > 1_000_000


def read(figures: SyncMetrics) -> dict[str, dict[tuple[object, ...], float]]:
    return {
        metric.name: {
            tuple(text for key, text in labels.items() if key != "pipeline"): value
            for value, labels in metric.read(figures)
        }
        for metric in CATALOG
    }


@slow
def test_probes_of_the_application(
    copied: Copied, topic: str, source: KafkaNode, tmp_path: Path
) -> None:
    group = copied.group("probed")
    commit_offsets(source, group, {(topic, 0): 20})
    copied.settings = {"metrics": {"groups": f"{group}|nothing"}}
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "k2ktui", "sync", "-f", str(copied.file), "--http", "0"],
            stdout=out,
            stderr=out,
        )
    try:
        match = eventually(lambda: re.search(r"at (http://\S+)", log.read_text()), "it listens")
        url = match[1]
        eventually(lambda: read_page(f"{url}/readyz") == "running: 1 group\n", "it has polled")
        assert read_page(f"{url}/livez") == "alive\n"
        page = read_page(f"{url}/metrics")
        assert "k2k_offsetmapping_polls_total" in page
        assert re.search(rf'k2k_offsetmapping_group_lag{{.*group="{group}".*}} 30\.0', page)
        assert re.search(r"k2k_offsetmapping_group_lag_time_seconds{.*} [1-9]", page)
        process.terminate()
        assert process.wait(TIMEOUT) == 0
    finally:
        process.kill()
        process.wait()


def read_page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.HTTPError as error:
        return str(error.code)
