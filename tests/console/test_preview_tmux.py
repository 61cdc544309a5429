"""The preview of a transform in a real tmux, by keyboard alone, with Spark and real clusters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.kafka import Out, create_topic, end_offsets, eventually, produce
from tests.support.pipeline import START_TIMEOUT, Pipeline
from tests.support.tmux import TMUX, Tmux

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3 * START_TIMEOUT),
    pytest.mark.skipif(TMUX is None, reason="there is no tmux"),
]
pytest.importorskip("pyarrow")  # of the extra ``transform``

CARD = "4000-1234"
RULE: dict[str, Any] = {
    "decode": {"value": {"json": {"schema": "id BIGINT, card STRING"}}},
    "filter": "value.id < 3",
    "set": {"value.card": "sha2(value.card, 256)"},
}


@pytest.fixture
def pipeline(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline of one topic, which filters records and masks cards."""
    settings = {"replication.transform": [RULE]}
    made = Pipeline(tmp_path, source, target, [create_topic(source)], settings)
    yield made
    made.close()


def console(pipeline: Pipeline, state: Path) -> Tmux:
    """Open the console of a pipeline in a terminal of 100 by 30."""
    env = {"XDG_CONFIG_HOME": str(state), "XDG_STATE_HOME": str(state), "LANG": "C.UTF-8"}
    program = [sys.executable, "-m", "k2ktui", "-f", str(pipeline.write()), "--interval", "2"]
    tmux = Tmux(program, env, (100, 30))
    tmux.sees("Overview", "READ-WRITE", timeout=START_TIMEOUT)
    return tmux


def test_records_are_masked_shown_and_forgotten(pipeline: Pipeline, tmp_path: Path) -> None:
    topic, state = pipeline.topics[0], tmp_path / "state"
    state.mkdir()
    values = [json.dumps({"id": n, "card": CARD}).encode() for n in range(5)]
    produce(pipeline.source, topic, [Out(value, b"user-%d" % n) for n, value in enumerate(values)])
    pipeline.catch_up(timeout=2 * START_TIMEOUT)
    before = end_offsets(pipeline.target, topic)
    with console(pipeline, state) as tmux:
        tmux.press("2")
        tmux.sees(topic)
        tmux.press("x")
        tmux.sees("Records are read and Spark starts on this host", "Esc cancels")
        tmux.sees("5 records: 3 copied, 2 left out", "masked; m shows them", timeout=START_TIMEOUT)
        assert CARD not in tmux.screen and "user-" not in tmux.screen
        tmux.press("m")
        tmux.sees(CARD, "user-", "m masks them")
        tmux.press("Escape")
        eventually(lambda: CARD not in tmux.screen, "the preview was left")
        tmux.sees("Replication", topic)
        tmux.press("x")
        tmux.sees("Records are read and Spark starts on this host")
        tmux.press("Escape")
        eventually(lambda: "Esc cancels" not in tmux.screen, "the preview was canceled")
        tmux.sees("Replication", topic)
    kept = [path for path in state.rglob("*") if path.is_file()]
    assert not [path for path in kept if CARD.encode() in path.read_bytes()]
    assert end_offsets(pipeline.target, topic) == before, "a preview writes nothing"
