"""Exit codes of a run with a stopped partition that a signal ends: the signal decides."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, produce, unique_name
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow


def test_with_a_stopped_partition(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    topic, missing = create_topic(source), unique_name("missing")
    produce(source, topic, [b"v"])
    pipeline = Pipeline(tmp_path, source, target, [topic, missing])
    codes = {signal.SIGTERM: ExitCode.OK, signal.SIGINT: ExitCode.INTERRUPTED}
    for number, code in codes.items():
        with pipeline.start() as run:
            run.expect("stopped", lambda event: event["fault"]["source"]["topic"] == missing)
            run.expect("progress")
            run.signal(number)
            assert run.wait() == code, run.tail()
