"""A pipeline of an earlier commit goes on with this code: records in topics keep their formats.

A fleet is upgraded host by host, so runs of both share a pipeline, or wait for each other.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.proof.test_faults_fencing import tell_all
from tests.support.commands.earlier_code import unpack
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED, await_all_copying, expect_owning
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.slow
# The last one before each feature got a folder of its own.
EARLIER = "7decdb98"
MODES = ("exclusive", "standby", "shared")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the earlier commit."""
    return unpack(EARLIER, tmp_path_factory.mktemp("earlier"))


def start_earlier(pipeline: Pipeline, earlier: Path) -> Run:
    """Start a run of the earlier commit, with its Spark workers, and wait until it copies."""
    path = {"PYTHONPATH": str(earlier), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": ""}
    run = pipeline.start(env=path)
    run.expect("firstrecord")
    for module in ("runs", "replication/copying/worker"):
        at = earlier / "k2ktui" / module
        assert list((at.parent / "__pycache__").glob(f"{at.name}.*.pyc")), "of another commit"
    return run


def make(make_pipeline: MakePipeline, topics: dict[str, int], mode: str) -> Pipeline:
    return make_pipeline(list(topics), SHARED | {"coordination.mode": mode})


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_was_killed_in_a_transaction_is_continued(
    make_pipeline: MakePipeline, topics: dict[str, int], earlier: Path, mode: str
) -> None:
    """Twice: at its first records, and with positions, mapping ranges and terms behind it."""
    pipeline = make(make_pipeline, topics, mode)
    with Traffic(pipeline.source, topics, MODES.index(mode)):
        for _ in range(2):
            before = start_earlier(pipeline, earlier)
            pipeline.suspend_at("sent", before)
            tell_all(before, signal.SIGKILL)
            before.await_gone()
            now = pipeline.start()
            now.expect("firstrecord")
            await_all_copying(pipeline, topics)
            assert now.stop() == 0, now.tail()
    pipeline.catch_up()
    pipeline.prove()


@pytest.mark.parametrize("mode", ["standby", "shared"])
def test_runs_of_both_wait_for_each_other_or_share(
    make_pipeline: MakePipeline, topics: dict[str, int], earlier: Path, mode: str
) -> None:
    """Also the other way round, as when an upgrade is taken back."""
    pipeline = make(make_pipeline, topics, mode)

    def expect_both(works: Run, joins: Run) -> None:
        if mode == "shared":
            expect_owning([works, joins])
        else:
            joins.expect("waiting", lambda event: " pid " in event["runs"])
        await_all_copying(pipeline, topics)

    with Traffic(pipeline.source, topics, 1):
        before = start_earlier(pipeline, earlier)
        now = pipeline.start()
        expect_both(before, now)
        tell_all(before, signal.SIGKILL)
        now.expect("firstrecord")
        await_all_copying(pipeline, topics)
        path = {"PYTHONPATH": str(earlier), "PYTHONSAFEPATH": "1"}
        again = pipeline.start(env=path)
        expect_both(now, again)
        tell_all(now, signal.SIGKILL)
        again.expect("firstrecord")
        await_all_copying(pipeline, topics)
        assert again.stop() == 0, again.tail()
    pipeline.catch_up()
    pipeline.prove()
