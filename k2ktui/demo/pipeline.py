"""The demo's pipeline: an ordinary K2K file, and the process that runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from k2ktui.demo.topics import TOPICS
from k2ktui.runtime import reaper
from k2ktui.runtime.paths import write_atomically

NAME = "demo"
_GRACE_SECONDS = 5.0

_YAML = """\
# Written by `k2ktui demo`. An ordinary pipeline file: start, status, check and explain take it
# while the demo runs, for example `k2ktui status -f {path}`.
name: {name}
features:
  exactlyOnce: enabled
  offsetMapping: enabled
  autoCreateControlTopics: enabled
source:
  kafka:
    common:
      bootstrap.servers: {source}
    consumer:
      auto.offset.reset: earliest
target:
  kafka:
    common:
      bootstrap.servers: {target}
topicCreation:
  control:
    common: {{replication: 1}}
replication:
  - source:
      topic: [{topics}]
  - sink:
      topic: source
      partition: source
spark:
  master: "local[2]"
"""


def write_yaml(path: Path, source: str, target: str) -> str:
    """Write the pipeline between two bootstrap addresses to ``path``, and return its text."""
    names = ", ".join(topic.name for topic in TOPICS)
    text = _YAML.format(path=path, name=NAME, source=source, target=target, topics=names)
    write_atomically(path, text.encode())
    return text


def start(config: Path, log: Path) -> reaper.Supervised:
    """Run ``k2ktui start`` as a child that cannot outlive us; its output goes to ``log``."""
    command = [sys.executable, "-m", "k2ktui", "start", "-f", str(config)]
    return reaper.spawn(command, log_path=log, grace=_GRACE_SECONDS)
