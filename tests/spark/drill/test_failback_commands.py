"""There and back with the commands of docs/drills.md; plain clients write, read and compare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.jobs import local_jobs
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S, eventually
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.failback import Workload
from tests.support.jobs.jobs import all_ended

PAGE = Path(__file__).parents[3] / "docs" / "drills.md"
LONG = 400.0


@pytest.fixture
def lost(tmp_path: Path, target: KafkaNode) -> Iterator[Workload]:
    node = KafkaNode("lost", tmp_path / "lost").start(START_S)
    made = Workload(tmp_path, node, target)
    with all_ended():
        yield made
    made.close()
    node.close()


def await_copied(work: Workload, file: Path) -> None:
    def copied() -> bool:
        rows = k2ktui_json("status", "-f", file, code=None, timeout=LONG)["partitions"]
        return bool(rows) and {row["lag_records"] for row in rows} == {0}

    eventually(copied, f"{file.name} has copied everything", LONG)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_documented_commands_lead_there_and_back(lost: Workload) -> None:
    """Rehearse, fail over, work there, kill the old source, bring it back, fail back."""
    for command in ("rehearse", "planned", "failback"):
        assert f"k2ktui drill {command} -f" in PAGE.read_text()
    work, options = lost, ("--frozen", "2", "--watch", "5", "--yes-to", "all")
    work.write(work.a, 100)
    k2ktui("jobs", "start", "-f", work.file)
    await_copied(work, work.file)
    work.consume(work.a, work.groups[0], 20)
    work.consume(work.a, work.groups[1], 5)
    rehearsed = k2ktui("drill", "rehearse", "-f", work.file, code=None, timeout=LONG)
    assert "0 records read again, 0 skipped" in rehearsed.stdout
    drill = ("drill", "planned", "-f", work.file, *options)
    moved = k2ktui(*drill, code=None, timeout=LONG)
    assert re.search(r"The planned drill of \S+ (succeeded|ended: )", moved.stdout), moved
    assert "0 records read again, 0 skipped" in moved.stdout
    work.write(work.b, 40)
    work.consume(work.b, work.groups[0])
    work.consume(work.b, work.groups[1], 50)
    work.a.kill()
    work.write(work.b, 20)
    work.a.start(START_S)
    wrong = k2ktui("drill", "failback", "-f", work.file, code=2)
    assert f"Run k2ktui drill failback -f {work.back}" in wrong.stderr
    k2ktui("jobs", "start", "-f", work.back)
    await_copied(work, work.back)
    drill = ("drill", "failback", "-f", work.back, *options)
    returned = k2ktui(*drill, code=None, timeout=LONG)
    assert re.search(r"The failback drill of \S+ (succeeded|ended: )", returned.stdout)
    assert "0 records read again, 0 skipped" in returned.stdout
    running = {job.record.pipeline for job in local_jobs.list_jobs() if job.alive}
    assert running == {work.forward.name}, "the forward pipeline copies on, the other one stopped"
    work.write(work.a, 30)
    for group in work.groups:
        work.consume(work.a, group)
        assert Counter(work.read[group]) == work.content(work.a), "each record once"
    eventually(lambda: work.content(work.a) == work.content(work.b), "both are the same", LONG)
