"""An apply that is killed between rows: the journal and the next console tell what was written."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupCommit
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    eventually,
    produce,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.console.driver import ConsoleDriver, copied_session, drive_session
from tests.support.pipelines.copied import Copied

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]
GROUPS, WRITTEN = 110, 100  # a hundred groups are written at once
# Killed as it learns what became of the first row: nothing is reported any more.
KILLED = """
import os, signal, sys
from pathlib import Path
from k2ktui.engine.access import access
from k2ktui.engine.moves.plan import load_plan
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.sync import operations

plan, file = Path(sys.argv[1]), sys.argv[2]
die = lambda _: os.kill(os.getpid(), signal.SIGKILL)
loaded = load_plan(plan.read_text(), 0)
operations.apply_plan(load_checked((file,)).config, loaded, (file,), access(), die)
"""


@pytest.fixture
def copied(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Copied:
    """A pipeline, and groups that have read five records of twenty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Copied(tmp_path, source, target, name=unique_name("c"))
    topic = create_topic(source, unique_name("t"))
    produce(source, topic, [Out(b"%d" % n) for n in range(20)])
    made.copy(topic)
    commits = {made.group(f"{n:03}"): {(topic, 0): GroupCommit(5, "", -1)} for n in range(GROUPS)}
    with ConsumerGroupClient(
        wire(made.config.source, "admin"), "target"
    ) as groups:  # only a target is written
        groups.open(TIMEOUT)
        assert not any(why for errors in groups.commit(commits).values() for why in errors.values())
    return made


def offsets(copied: Copied) -> Counter[int | None]:
    """How many groups are where on the target."""
    rows = k2ktui_json("groups", "-f", copied.file)["groups"]
    return Counter(row["target_offset"] for row in rows)


def test_what_was_written_is_reported_and_undone(copied: Copied, tmp_path: Path) -> None:
    eventually(lambda: offsets(copied) == {None: GROUPS}, "all groups are seen")
    plan = tmp_path / "plan.json"
    k2ktui("plan", "-f", copied.file, "-o", plan)
    command = [sys.executable, "-c", KILLED, str(plan), str(copied.file)]
    assert subprocess.run(command, timeout=200, check=False).returncode == -signal.SIGKILL

    assert offsets(copied) == {12: WRITTEN, None: GROUPS - WRITTEN}
    (entry,) = k2ktui_json("journal", "-f", copied.file)["journal"]
    assert entry["counts"] == {"begun": GROUPS}
    parts = k2ktui_json("journal", entry["id"], "-f", copied.file)["groups"]
    words = Counter(row["result"].partition(":")[0] for part in parts for row in part["rows"])
    assert words == {"applied": WRITTEN, "not written": GROUPS - WRITTEN}

    async def steps(console: ConsoleDriver) -> None:
        await console.press("7")
        await console.sees("not ended")
        await console.press("enter")
        await console.sees(f"found now: {WRITTEN} applied, {GROUPS - WRITTEN} not written")
        await console.press("U")
        await console.confirm(copied.name)
        await console.sees("undone")

    drive_session(copied_session(copied), steps, (120, 30))
    assert offsets(copied) == {None: GROUPS}
