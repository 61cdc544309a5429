"""A cluster that accepts connections and stays silent: one exit code, one text, one fix."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.kafka.unreachable import no_answer
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic
from tests.support.commands.cli import k2ktui
from tests.support.jobs.jobs import silent_port, write_pipeline
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow

COMMANDS = (
    "check",
    "drill check --only D01",
    "drill list",
    "drill rehearse",
    "explain",
    "groups",
    "jobs start",
    "jobs start --sync",
    "journal",
    "offsets show",
    "plan",
    "start",
    "status",
    "status --groups",
    "sync",
    "sync --once",
    "translate t:0:1",
    "verify",
    "watch --once",
)


HANGING = ("status", "groups", "check")


def ends_in_time(command: str, file: Path) -> None:
    """A port of both clusters that accepts connections, and never answers."""
    first, *rest = command.split()
    done = k2ktui(first, *rest, "-f", file, code=None, timeout=300)
    said = f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode == ExitCode.TIMEOUT, said
    text = done.stdout + done.stderr
    target, source = no_answer("target"), no_answer("source")
    assert target.message in text or source.message in text, said
    # A view has no fixes.
    assert "Fix: Check bootstrap.servers and security.protocol" in text or first == "watch"


def ends_in_time_too(command: str, file: Path) -> None:
    """A target that has answered until its broker hung."""
    done = k2ktui(command, "-f", file, code=ExitCode.TIMEOUT, timeout=300)
    assert no_answer("target").message in done.stdout + done.stderr, command


def test_of_every_command_and_of_a_broker_that_hangs(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    hanging = Copied(tmp_path, source, target).file
    target.suspend()
    try:
        # They wait, all at once.
        with silent_port() as port, ThreadPoolExecutor(len(COMMANDS) + len(HANGING)) as pool:
            silent = write_pipeline(tmp_path / "p.yaml", port)
            ended = [pool.submit(ends_in_time, command, silent) for command in COMMANDS]
            ended += [pool.submit(ends_in_time_too, command, hanging) for command in HANGING]
            for each in ended:
                each.result()
    finally:
        target.resume()
        create_topic(target)  # waits until the broker is no longer fenced
