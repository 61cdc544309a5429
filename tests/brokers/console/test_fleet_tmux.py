"""A directory of pipelines in a real terminal of 80 by 24, with real clusters."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, eventually, produce
from tests.support.console.tmux import TMUX, Tmux
from tests.support.pipelines.copied import Copied

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None, reason="there is no tmux"),
]
PATIENCE = 180.0


def test_a_pipeline_is_opened_and_left_by_keyboard(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    directory = tmp_path / "k2ktui" / "pipelines"
    directory.mkdir(parents=True)
    names = []
    for _ in range(2):
        topic = create_topic(source)
        produce(source, topic, [Out(b"x")] * 5)
        sink = {"topic": "source", "partition": "source"}
        replication = {"replication": [{"source": {"topic": topic}}, {"sink": sink}]}
        copied = Copied(directory, source, target, replication)
        copied.copy(topic)
        assert copied.file.exists()
        names.append(copied.name)
    (directory / "typo.yaml").write_text("name: typo\nsorce: {}\n")
    place = str(tmp_path)
    env = {"XDG_CONFIG_HOME": place, "XDG_STATE_HOME": place, "LANG": "C.UTF-8", "TMPDIR": place}
    program = ["env", "-u", "COLORTERM", "TERM=screen-256color", sys.executable, "-m", "k2ktui"]
    with Tmux(program, env, (80, 24)) as tmux:
        tmux.sees("0 Fleet", "3 pipelines: 1 bad, 2 with warnings", *names, timeout=PATIENCE)
        # The worst is first, and its errors are one key away.
        tmux.press("g", "Enter")
        tmux.sees("sorce: unknown key")
        tmux.press("Escape")
        # A colon right behind it would be Alt with a colon.
        eventually(lambda: "sorce" not in tmux.screen, "the dialog is closed")
        for name in names:
            tmux.type(f":pipeline {name}")
            tmux.press("Enter")
            tmux.sees("1 Overview", name, "caught-up", timeout=PATIENCE)
            tmux.press("0")
            tmux.sees("3 pipelines", timeout=PATIENCE)
        tmux.press("G", "Enter")
        tmux.sees("1 Overview", timeout=PATIENCE)
        tmux.press("3", "q")
        tmux.sees("3 pipelines", timeout=PATIENCE)
        tmux.press("q")
        tmux.sees("ENDED 0")
