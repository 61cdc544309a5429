"""A real MirrorMaker 2 beside the demo's pipeline: the same topics under its own source alias."""

from __future__ import annotations

import contextlib
from pathlib import Path

from k2ktui.demo.screen import Screen
from k2ktui.demo.topics import TOPICS
from k2ktui.progress import Progress
from k2ktui.runtime import artifacts, child_process
from k2ktui.runtime.java import find_java
from k2ktui.runtime.paths import write_atomically

FILE = "mm2.properties"
SOURCE, TARGET = "mirror", "target"
_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_JVM = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_GRACE_SECONDS = 5.0
_STOP_SECONDS = 7.0

# MirrorMaker 2's defaults, except for one broker per cluster and shorter intervals.
_PROPERTIES = """\
# Written by `k2ktui demo --with-mirrormaker`. While the demo runs, for example:
# k2ktui mm2 audit -f {path}
clusters = {source_alias}, {target_alias}
{source_alias}.bootstrap.servers = {source}
{target_alias}.bootstrap.servers = {target}
{source_alias}->{target_alias}.enabled = true
{source_alias}->{target_alias}.topics = {topics}
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 10
emit.checkpoints.interval.seconds = 10
refresh.groups.interval.seconds = 10
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
"""


def jars(progress: Progress | None = None) -> artifacts.Classpath:
    """Return the jars of MirrorMaker 2, downloading missing ones.

    Raises:
        ConnectionFailed: a jar cannot be downloaded.
    """
    wanted = (artifacts.CONNECT_MIRROR, artifacts.CONNECT_RUNTIME, artifacts.LOGGING)
    return artifacts.classpath(*wanted, progress=progress)


def write_properties(path: Path, source: str, target: str) -> Path:
    """Write ``mm2.properties`` for a flow between two bootstrap addresses."""
    text = _PROPERTIES.format(
        path=path,
        source_alias=SOURCE,
        target_alias=TARGET,
        source=source,
        target=target,
        topics=",".join(topic.name for topic in TOPICS),
    )
    write_atomically(path, text.encode())
    return path


class MirrorMakerProcess:
    """A running MirrorMaker 2, a child process that cannot outlive this one.

    Args:
        file: its ``mm2.properties``; its output goes to ``mm2.log`` in the same directory.
    """

    def __init__(self, file: Path) -> None:
        self.log_path = file.with_suffix(".log")
        java = str(find_java().executable)
        command = [java, *_JVM, "-cp", jars().argument, _MAIN, str(file)]
        self._child = child_process.spawn(command, log_path=self.log_path, grace=_GRACE_SECONDS)

    def fault(self) -> str:
        """Return why it ended on its own; empty while it runs."""
        code = self._child.poll()
        return "" if code is None else f"MirrorMaker 2 ended with {code}, see {self.log_path}"

    def stop(self, timeout: float) -> None:
        """Stop it within ``timeout`` seconds."""
        self._child.stop(timeout)


def start_peer(
    file: Path, addresses: tuple[str, str], screen: Screen, stack: contextlib.ExitStack
) -> MirrorMakerProcess:
    """Start MirrorMaker 2 beside the pipeline."""
    with screen.busy("Looking for MirrorMaker 2") as step:
        jars(step)
    peer = MirrorMakerProcess(write_properties(file, *addresses))
    stack.callback(peer.stop, _STOP_SECONDS)
    screen.say(f"MirrorMaker 2 copies the same topics to {SOURCE}.*: {file}")
    screen.say(f"MirrorMaker 2 alone: k2ktui -f {file}, or k2ktui mm2 audit -f {file}.")
    return peer
