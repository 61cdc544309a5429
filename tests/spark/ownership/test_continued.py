"""A pipeline of an earlier commit goes on with this code: records in topics keep their formats.

A fleet is upgraded host by host, so runs of both share a pipeline, or wait for each other.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.commands.cli import k2ktui_json
from tests.support.commands.earlier_code import BEFORE, path_of, unpack
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import tell_all
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.pipelines.shared_pipelines import SHARED, await_all_copying, expect_owning
from tests.support.records.traffic import Traffic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the earlier commit."""
    return unpack(BEFORE, tmp_path_factory.mktemp("earlier"))


def start_earlier(pipeline: Pipeline, earlier: Path) -> Run:
    """Start a run of the earlier commit, with its Spark workers, and wait until it copies."""
    run = pipeline.start(env=path_of(earlier))
    run.expect("firstrecord")
    for module in ("runs", "replication/copying/worker"):
        at = earlier / "k2ktui" / module
        assert list((at.parent / "__pycache__").glob(f"{at.name}.*.pyc")), "of another commit"
    return run


def test_an_old_one_is_stopped_and_goes_on(
    make_pipeline: MakePipeline, topics: dict[str, int], tmp_path: Path
) -> None:
    """Of 675e1d1f: its runs are stopped before the first of this release starts."""
    pipeline = make_pipeline(list(topics), SHARED | {"coordination.mode": "shared"})
    with Traffic(pipeline.source, topics, 1):
        old = start_earlier(pipeline, unpack("675e1d1f", tmp_path))
        await_all_copying(pipeline, topics)
        assert old.stop() == 0
        last = pipeline.start()
        last.expect("firstrecord")
        await_all_copying(pipeline, topics)
    pipeline.end(last)
    pipeline.prove()


@pytest.mark.rotate("mode", ["exclusive", "standby", "shared"])
def test_runs_of_both_continue_wait_for_each_other_or_share(
    make_pipeline: MakePipeline, topics: dict[str, int], earlier: Path, mode: str
) -> None:
    """Up and down and up again, as when an upgrade is taken back; each of the runs is killed.

    The first one ends in a transaction with its first records, the others with positions, mapping
    ranges and terms behind them. Exclusive runs are stopped before the next one starts.
    """
    pipeline = make_pipeline(list(topics), SHARED | {"coordination.mode": mode})

    def go_on(works: Run, env: Mapping[str, str]) -> Run:
        """Start another run; once both take part, kill the first one."""
        if mode == "exclusive":
            assert works.stop() == 0
        joins = pipeline.start(env=env)
        if mode == "shared":
            expect_owning([works, joins])
        elif mode == "standby":
            joins.expect("waiting", lambda event: " pid " in event["runs"])
        await_all_copying(pipeline, topics)
        tell_all(works, signal.SIGKILL)
        joins.expect("firstrecord")
        await_all_copying(pipeline, topics)
        return joins

    with Traffic(pipeline.source, topics, 1):
        first = start_earlier(pipeline, earlier)
        pipeline.suspend_at("sent", first)
        tell_all(first, signal.SIGKILL)
        first.await_gone()
        now = pipeline.start()
        now.expect("firstrecord")
        await_all_copying(pipeline, topics)
        again = go_on(now, path_of(earlier))
        checks = k2ktui_json("check", "-f", pipeline.write(), code=None)["checks"]
        (releases,) = [check for check in checks if check["name"] == "releases"]
        assert releases["outcome"] == "pass"
        assert ", k2ktui 0.1.0, heartbeat" in releases["detail"]
        last = go_on(again, {})
    pipeline.end(last)
    pipeline.prove()
