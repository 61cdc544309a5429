"""Probes of real runs, from outside: what Kubernetes would restart, and what it would wait for."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, create_topic, eventually, produce
from tests.support.clusters.proxy import ProxiedNode, proxied_node
from tests.support.pipelines.pipeline import Pipeline, Run
from tests.support.records.traffic import mixture

pytestmark = pytest.mark.slow
NO_CHECK = {"features.checkKafkaConnectionOnStartup": "disabled"}


@pytest.fixture
def shaky(tmp_path: Path) -> Iterator[ProxiedNode]:
    """A target behind a proxy."""
    with proxied_node("shaky", tmp_path / "shaky") as node:
        yield node


def address_of(run: Run) -> str:
    note = run.expect("note", lambda event: "serving /livez" in event["text"])
    return str(note["text"].rpartition(" ")[2])


def get(url: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url + path, timeout=TIMEOUT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def await_answer(url: str, status: int, text: str) -> None:
    seen: list[object] = []

    def answers() -> bool:
        seen[:] = get(url, "/readyz")
        return seen[0] == status and text in str(seen[1])

    eventually(answers, lambda: f"{status} {text!r}, and not {seen}")


def test_a_run_that_starts_during_an_outage_waits(source: KafkaNode, tmp_path: Path) -> None:
    closed = {**NO_CHECK, "target.kafka.common": {"bootstrap.servers": "127.0.0.1:1"}}
    pipe = Pipeline(tmp_path, source, source, [create_topic(source)], closed)
    with pipe.start("--http", "0") as run:
        url = address_of(run)
        await_answer(url, 503, "starting\nlast note: waiting for the target cluster")
        assert get(url, "/livez") == (200, "alive\n")
        assert get(url, "/metrics")[0] == 404
        assert run.stop() == 0


@pytest.mark.rotate("mode", ["shared", "standby"])
def test_an_outage_makes_a_run_unready_and_restarts_nothing(
    source: KafkaNode, shaky: ProxiedNode, tmp_path: Path, mode: str
) -> None:
    topic = create_topic(source)
    produce(source, topic, mixture(1, 100, 1))
    settings = {
        "target.kafka.common": {"bootstrap.servers": shaky.proxy.address},
        "spark.slots": 1,
    }
    pipe = Pipeline(tmp_path, source, shaky, [topic], settings)
    pipe.mode, pipe.waits_briefly = mode, True
    with pipe.start("--http", "0") as run:
        url = address_of(run)
        await_answer(url, 200, "running: 1 slot, term ")
        with pipe.start("--http", "0") as second:  # ready, although it copies nothing
            await_answer(address_of(second), 200, "standby")
            assert second.stop() == 0
        assert get(url, "/metrics")[0] == 200
        shaky.proxy.cut()
        await_answer(url, 503, "the target has taken no heartbeat for")
        assert get(url, "/livez") == (200, "alive\n")
        shaky.proxy.restore()
        await_answer(url, 200, "running: 1 slot, term ")
        assert run.stop() == 0
