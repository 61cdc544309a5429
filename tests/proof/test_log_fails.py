"""A run whose log cannot be written copies everything, and says later what its log lacks."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, eventually, produce, read_all
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import RUN_TIMEOUT
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.proof
FULL = "/dev/full"
LACKS = "of this log could not be written"
# Longer than a lap, which reports once.
_LOST_S = 4.0


def run_full(*arguments: str | Path) -> int:
    """Run a command whose output and errors lead to a full disk; return its exit code."""
    with Path(FULL).open("wb") as full:
        command = [sys.executable, "-m", "k2ktui", *map(str, arguments)]
        return subprocess.run(
            command, check=False, stdout=full, stderr=full, timeout=RUN_TIMEOUT
        ).returncode


def test_start_copies_everything(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """With a log of text; a test below has JSON."""
    topic = create_topic(source)
    produce(source, topic, mixture(1, 200, 1))
    file = make_pipeline([topic]).write()
    assert run_full("start", "-f", file, "--until-caught-up", "--log-format", "text") == 0
    assert len(read_all(target, topic)) == 200


def test_sync_commits(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied = Copied(tmp_path, source, target)
    topic = create_topic(source)
    produce(source, topic, [Out(b"%d" % number) for number in range(20)])
    copied.copy(topic)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 5})
    assert run_full("sync", "-f", copied.file, "--once") == 0
    assert committed(target, group) == {(topic, 0): copied.prior + 5}


def test_a_log_that_can_be_written_again_says_what_it_lacks(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    topic = create_topic(source)
    produce(source, topic, mixture(1, 200, 1))
    run = make_pipeline([topic]).start()
    run.expect("firstrecord")
    _, most = resource.prlimit(run.pid, resource.RLIMIT_FSIZE)

    def has_said() -> bool:
        """Let lines be lost for a while, as often as it takes that one is."""
        resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (1, most))
        time.sleep(_LOST_S)
        resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (most, most))
        time.sleep(_LOST_S)
        return any(f"{LACKS}: File too large" in event["text"] for event in run.events("note"))

    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (1, most))
    produce(source, topic, mixture(2, 100, 1))
    eventually(lambda: len(read_all(target, topic)) == 300, "copied without a log")
    eventually(has_said, "what the log lacks")
    assert run.stop() == 0
