"""A new name: mappings of the former name are no conflict, those of a second pipeline are."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.engine.moves.journal_format import state_key, state_value
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce, read_all
from tests.support.commands.acting import repeatedly
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied, committed

pytestmark = pytest.mark.slow

PRIOR, HALF, COUNT = 7, 50, 100


@pytest.fixture
def former(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    copied = Copied(tmp_path, source, target, prior=PRIOR)
    copied.put_run()
    return copied


@pytest.fixture
def renamed(former: Copied, tmp_path: Path) -> Copied:
    """The same pipeline under a new name, started once."""
    copied = Copied(tmp_path, former.source, former.target)
    copied.mappings, copied.commits, copied.state = former.mappings, former.commits, former.state
    create_topic(copied.target, copied.state, 1, {"cleanup.policy": "compact"})
    copied.put_run()
    return copied


@pytest.fixture
def topic(former: Copied) -> str:
    """A topic of which the former name has copied the first half, 7 offsets further on."""
    name = create_topic(former.source)
    produce(former.source, name, [b"%d" % n for n in range(HALF)])
    former.copy(name)
    produce(former.source, name, [b"%d" % n for n in range(HALF, COUNT)])
    return name


def copy_from(copied: Copied, topic: str, first: int) -> int:
    """Copy a topic from a source offset on; return the target offset of the first record."""
    values = [got.value or b"" for got in read_all(copied.source, topic)][first:]
    landed = produce(copied.target, topic, values)
    copied.record(topic, 0, dict(enumerate(landed, first)), COUNT, first)
    return landed[0]


def running(copied: Copied) -> AbstractContextManager[None]:
    """A pipeline that runs: its heartbeat counts for 15 s, and a command may take longer."""
    return repeatedly(partial(beat, copied), 2.0)


def beat(copied: Copied) -> None:
    """Write a heartbeat of a pipeline."""
    now = int(time.time() * 1000)
    runner = Runner("r", "host", "ann", 1, now, now, RunnerState.RUNNING, term=1)
    entry = Out(state_value(runner), state_key(copied.name, runner.key))
    produce(copied.target, copied.state, [entry])


def test_a_new_name_that_continues(former: Copied, renamed: Copied, topic: str) -> None:
    """Both names' commands work: no record has two mappings, even while the former name runs."""
    assert copy_from(renamed, topic, HALF) == PRIOR + HALF
    group, before, where = renamed.group("g"), renamed.group("before"), (topic, 0)
    commit_offsets(renamed.source, group, {where: HALF + 10})
    commit_offsets(renamed.source, before, {where: 10})
    with running(former):
        assert "1 committed" in k2ktui("sync", "-f", renamed.file, "--once").stdout
        assert committed(renamed.target, group, [where]) == {where: PRIOR + HALF + 10}
        assert committed(renamed.target, before, [where]) == {where: None}
        commit_offsets(former.source, former.group("g"), {where: 10})
        k2ktui("sync", "-f", former.file, "--once")
    assert committed(former.target, former.group("g"), [where]) == {where: PRIOR + 10}


def test_a_new_name_with_the_former_commit_group(former: Copied, topic: str) -> None:
    """It is the same pipeline."""
    group, where = former.group("g"), (topic, 0)
    commit_offsets(former.source, group, {where: 10})
    former.settings = {
        "name": "renamed",
        "coordination": {
            "commit": {"topic": former.commits, "group": former.name},
            "state": {"topic": former.state},
        },
    }
    assert "1 committed" in k2ktui("sync", "-f", former.file, "--once").stdout
    assert committed(former.target, group, [where]) == {where: PRIOR + 10}


def test_a_new_name_that_copies_everything_again(
    former: Copied, renamed: Copied, topic: str
) -> None:
    """The newer copy is complete; it counts, unless the former name still runs."""
    again = copy_from(renamed, topic, 0)
    assert again == PRIOR + HALF
    group, where = renamed.group("g"), (topic, 0)
    commit_offsets(renamed.source, group, {where: 10})
    (row,) = k2ktui_json("plan", "-f", renamed.file)["rows"]
    assert (row["action"], row["proposed"], row["basis"]) == ("create", again + 10, "exact")
    with running(former):
        printed = k2ktui("sync", "-f", renamed.file, "--once", code=1).stderr
    assert former.name in printed and "mapped by several pipelines" in printed
    assert committed(renamed.target, group, [where]) == {where: None}


def test_the_former_name_copies_on(former: Copied, renamed: Copied, topic: str) -> None:
    """Records that land after the newer copy's first one are of a second pipeline."""
    copy_from(renamed, topic, 0)
    commit_offsets(renamed.source, renamed.group("g"), {(topic, 0): 10})
    k2ktui("plan", "-f", renamed.file)
    values = [got.value or b"" for got in read_all(former.source, topic)][HALF:]
    landed = dict(enumerate(produce(former.target, topic, values), HALF))
    former.record(topic, 0, landed, COUNT, 0, HALF)
    printed = k2ktui("sync", "-f", renamed.file, "--once", code=1).stderr
    assert former.name in printed and "mapped by several pipelines" in printed


def test_another_route_is_no_former_name(former: Copied, renamed: Copied, topic: str) -> None:
    """One source topic on two target topics: each record has two mappings."""
    other = create_topic(former.target)
    values = [got.value or b"" for got in read_all(former.source, topic)]
    landed = dict(enumerate(produce(former.target, other, values)))
    renamed.record(topic, 0, landed, COUNT, 0, target_topic=other)
    commit_offsets(renamed.source, renamed.group("g"), {(topic, 0): 10})
    printed = k2ktui("sync", "-f", renamed.file, "--once", code=1).stderr
    assert former.name in printed and "mapped by several pipelines" in printed
