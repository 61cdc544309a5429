"""The preview of a transform in a real tmux of 80 by 24, with real clusters and Spark."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, end_offsets, eventually, produce
from tests.support.console.tmux import TMUX, Tmux
from tests.support.pipelines.copied import Copied

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(TMUX is None, reason="there is no tmux"),
]
pytest.importorskip("pyarrow")  # of the extra ``transform``
PATIENCE = 150.0
RULE = {
    "decode": {"value": {"json": {"schema": "id BIGINT, card STRING"}}},
    "filter": "value.id > 1",
    "set": {"value.card": "sha2(value.card, 256)"},
}


def console(copied: Copied) -> Tmux:
    state = str(copied.directory / "state")
    env = {"XDG_CONFIG_HOME": state, "XDG_STATE_HOME": state, "LANG": "C.UTF-8"}
    env["TMPDIR"] = str(copied.directory)
    program = ["env", "-u", "COLORTERM", "TERM=screen-256color", sys.executable, "-m", "k2ktui"]
    tmux = Tmux([*program, "-f", str(copied.file), "--interval", "2"], env, (80, 24))
    tmux.sees("Overview", "READ-WRITE", timeout=PATIENCE)
    return tmux


def test_a_preview_is_masked_shown_and_canceled(source: KafkaNode, target: KafkaNode) -> None:
    with tempfile.TemporaryDirectory() as name:
        copied = Copied(Path(name), source, target)
        topic = create_topic(source)
        payments = [{"id": n, "card": f"4000-123{n}"} for n in range(3)]
        produce(source, topic, [Out(json.dumps(payment).encode(), b"k") for payment in payments])
        copied.copy(topic)
        rules = {"transform": [{**RULE, "topics": topic}]}
        copied.settings = {
            "replication": [
                {"source": {"topic": topic}},
                rules,
                {"sink": {"topic": "source", "partition": "source"}},
            ]
        }
        before = end_offsets(target, topic)
        with console(copied) as tmux:
            tmux.press("2")
            tmux.sees(topic[:20], "Open  space Mark")
            tmux.press("x")
            tmux.sees("Spark starts on this host", "Esc cancels")
            # The console answers while Spark starts.
            tmux.press("?")
            tmux.sees("Preview of a transform")
            tmux.press("Escape")
            tmux.sees("Spark starts on this host")
            started = left_over(copied)
            assert started
            tmux.press("Escape")
            tmux.sees(topic[:20], "Open  space Mark")
            eventually(lambda: not left_over(copied), "the preview's processes are gone")

            tmux.press("x")
            tmux.sees("2 left out, 1 copied", "step or target", "filter", timeout=PATIENCE)
            assert "4000" not in tmux.screen
            tmux.press("Down", "Down", "m")
            tmux.sees("4000-1232", "contents are shown; m masks them")
            tmux.press("1", "2")
            tmux.sees("masked; m shows them")
            assert "4000" not in tmux.screen
        assert end_offsets(target, topic) == before


def left_over(copied: Copied) -> list[Path]:
    """The directories of a preview and of its Spark."""
    return [p for p in copied.directory.glob("k2ktui-*") if p.is_dir()]
