"""A failback of MirrorMaker 2's flow is refused, with the reason."""

from __future__ import annotations

from pathlib import Path

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, unique_name
from tests.support.clusters.mirrormaker import MirrorMaker
from tests.support.commands.cli import k2ktui


def test_it_is_refused_because_copies_are_not_copied_back(
    tmp_path: Path, source: KafkaNode, target: KafkaNode
) -> None:
    mirror = MirrorMaker(source, target, tmp_path, create_topic(source), f"{unique_name('app')}.*")
    done = k2ktui("drill", "failback", "-f", mirror.file, code=5)
    assert "MirrorMaker 2 does not copy the records of a copy back" in done.stderr
    assert "No drill was begun." in done.stderr and "k2ktui mm2 import" in done.stderr
