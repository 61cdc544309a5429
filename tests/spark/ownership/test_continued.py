"""A pipeline of an earlier commit goes on with this code: records in topics keep their formats.

A fleet is upgraded host by host, so runs of both share a pipeline, or wait for each other.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.commands.earlier_code import unpack
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import tell_all
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED, await_all_copying, expect_owning
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.slow
# The last one before each feature got a folder of its own.
EARLIER = "7decdb98"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the earlier commit."""
    return unpack(EARLIER, tmp_path_factory.mktemp("earlier"))


def path_of(earlier: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(earlier), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": ""}


def start_earlier(pipeline: Pipeline, earlier: Path) -> Run:
    """Start a run of the earlier commit, with its Spark workers, and wait until it copies."""
    run = pipeline.start(env=path_of(earlier))
    run.expect("firstrecord")
    for module in ("runs", "replication/copying/worker"):
        at = earlier / "k2ktui" / module
        assert list((at.parent / "__pycache__").glob(f"{at.name}.*.pyc")), "of another commit"
    return run


@pytest.mark.rotate("mode", ["standby", "shared"])
def test_runs_of_both_continue_wait_for_each_other_or_share(
    make_pipeline: MakePipeline, topics: dict[str, int], earlier: Path, mode: str
) -> None:
    """Up and down and up again, as when an upgrade is taken back; each of the runs is killed.

    The first one ends in a transaction with its first records, the others with positions, mapping
    ranges and terms behind them. A standby copies as an exclusive run does.
    """
    pipeline = make_pipeline(list(topics), SHARED | {"coordination.mode": mode})

    def join(works: Run, joins: Run) -> None:
        """Wait until both take part, then kill the first one."""
        if mode == "shared":
            expect_owning([works, joins])
        else:
            joins.expect("waiting", lambda event: " pid " in event["runs"])
        await_all_copying(pipeline, topics)
        tell_all(works, signal.SIGKILL)
        joins.expect("firstrecord")
        await_all_copying(pipeline, topics)

    with Traffic(pipeline.source, topics, 1):
        first = start_earlier(pipeline, earlier)
        pipeline.suspend_at("sent", first)
        tell_all(first, signal.SIGKILL)
        first.await_gone()
        now = pipeline.start()
        now.expect("firstrecord")
        await_all_copying(pipeline, topics)
        again = pipeline.start(env=path_of(earlier))
        join(now, again)
        last = pipeline.start()
        join(again, last)
    pipeline.end(last)
    pipeline.prove()
