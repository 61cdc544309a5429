"""What --debug writes of a run: the driver, its Spark workers, the libraries, and no record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k2ktui.diagnostics import VARIABLE
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.commands.verbs import k2ktui
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow
RECORD = b"the content of a record"


@pytest.fixture
def pipe(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Pipeline:
    topic = create_topic(source)
    produce(source, topic, [Out(RECORD) for _ in range(20)])
    return Pipeline(tmp_path, source, target, [topic])


def test_a_run(pipe: Pipeline, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with pipe.start("--until-caught-up", "--debug", "-v", env=env) as run:
        assert run.wait() == 0
        said, printed = run.err.read_text(), run.out.read_text()
    (path,) = (tmp_path / "state" / "k2ktui" / "log").glob("*.log")
    text = path.read_text()
    topic, writer = pipe.topics[0], "DEBUG k2ktui.replication.copying.transaction_writer: slot 0"
    for expected in (
        r"INFO k2ktui.cli.main: .* start .*--debug",
        r"INFO k2ktui.config.load: reading .*\.yaml",
        r"INFO k2ktui.replication.spark.session: Spark \S+ started",
        r"INFO k2ktui.replication.ownership.epochs: owner of ",
        r"INFO k2ktui.replication.ownership.ownership: term \d+ of ",
        rf"{writer}: transaction begun",
        rf"{writer}: transaction committed: {topic}-0 0\.\.20",
        r"DEBUG k2ktui.kafka.wire.cluster: ",
        r"INFO k2ktui.cli.main: exit code 0",
    ):
        assert re.search(expected, text), expected
    pids = set(re.findall(r"^\S+Z (\d+) ", text, re.M))
    assert len(pids) >= 2, "the driver and a worker of Spark"
    assert RECORD.decode() not in text and "Traceback" not in text
    assert str(path) in said and "ownership.ownership: term" in said
    assert "INFO" not in printed, "results are on standard output"


def test_a_job_that_a_command_starts(pipe: Pipeline, tmp_path: Path) -> None:
    env, file = {"XDG_STATE_HOME": str(tmp_path / "state")}, pipe.write()
    started = k2ktui("jobs", "start", "-f", file, "--wait", "300", "--debug", env=env)
    assert started.code == 0, started
    try:
        (path,) = (tmp_path / "state" / "k2ktui" / "log").glob("*.log")
        assert VARIABLE not in path.read_text()
        assert "transaction committed" in path.read_text() or "owner of" in path.read_text()
        log = k2ktui("jobs", "log", "-f", file, env=env)
        assert "the log is" not in log.out, "the job's own log has events only"
    finally:
        stop = ("jobs", "stop", "-f", file, "--now", "--timeout", "300")
        assert k2ktui(*stop, env=env).code == 0
