"""A cluster that is restored from a backup: the same logs under another cluster id."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from k2ktui.runtime import storage
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import START_S


def restore(node: KafkaNode, change: Callable[[Path], None] = lambda logs: None) -> str:
    """Stop a node of KRaft mode and start it with another cluster id; return the id.

    Args:
        node: the node.
        change: called with its log directory while it is stopped.
    """
    node.stop()
    logs = node.data_dir / "logs"
    change(logs)
    meta = logs / "meta.properties"
    new = storage.new_id()
    meta.write_text(re.sub(r"(?m)^cluster\.id=.*$", f"cluster.id={new}", meta.read_text()))
    node.start(START_S)
    assert node.cluster_id == new
    return new


class Backup:
    """Copies of single partitions of a node, which a restore may bring back."""

    def __init__(self, node: KafkaNode) -> None:
        self._node, self._kept = node, node.data_dir / "backup"

    def take(self, *partitions: tuple[str, int]) -> None:
        """Copy partitions while the node is stopped, then start it again."""
        self._node.stop()
        for topic, number in partitions:
            name = f"{topic}-{number}"
            shutil.copytree(self._node.data_dir / "logs" / name, self._kept / name)
        self._node.start(START_S)

    def bring_back(self, logs: Path) -> None:
        """Replace the partitions in a log directory by their copies."""
        for kept in self._kept.iterdir():
            shutil.rmtree(logs / kept.name)
            shutil.copytree(kept, logs / kept.name)
