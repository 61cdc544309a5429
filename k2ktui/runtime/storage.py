"""Format the storage of a one-node cluster without starting Java each time.

`kafka-storage format` writes a small properties file with two random ids, and a bootstrap
checkpoint that depends only on the Kafka version. Kafka's own tool creates the checkpoint once for
the cache; each node gets a copy and its own ids.
"""

from __future__ import annotations

import base64
import subprocess
import tempfile
import uuid
from pathlib import Path

from k2ktui.errors import Refused
from k2ktui.runtime.artifacts import KAFKA_VERSION, Classpath
from k2ktui.runtime.java import Java
from k2ktui.runtime.paths import cache_dir, locked, write_atomically

_CHECKPOINT = "bootstrap.checkpoint"
_META = "meta.properties"
_FORMAT_SECONDS = 60.0


def new_id() -> str:
    """Return a random Kafka UUID: 16 bytes in URL-safe base64 without padding."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # like Kafka: command lines would parse it as an option
            return text


def cluster_id(log_dir: Path) -> str | None:
    """Return the cluster id of a formatted ``log_dir``, or None if it is not formatted."""
    try:
        lines = (log_dir / _META).read_text().splitlines()
    except FileNotFoundError:
        return None
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    return values.get("cluster.id")


def format_storage(log_dir: Path, node_id: int, java: Java, jars: Classpath) -> str:
    """Format ``log_dir`` if it is not formatted yet; return its cluster id.

    Raises:
        Refused: Kafka's storage tool failed (runs only if no checkpoint is cached).
    """
    known = cluster_id(log_dir)
    if known:
        return known
    checkpoint = _checkpoint(java, jars)
    cluster = new_id()
    write_atomically(log_dir / _CHECKPOINT, checkpoint)
    meta = {
        "version": "1",
        "cluster.id": cluster,
        "node.id": str(node_id),
        "directory.id": new_id(),
    }
    # Written last, because this file marks the directory as formatted.
    write_atomically(log_dir / _META, properties_text(meta).encode())
    return cluster


def properties_text(properties: dict[str, str]) -> str:
    """Return ``properties`` as the text of a Java properties file."""
    return "".join(f"{key}={_escape(value)}\n" for key, value in properties.items())


def _escape(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    if text.startswith(" "):
        text = "\\" + text
    # Java reads properties files as Latin-1 with UTF-16 escapes.
    return "".join(char if char.isascii() else _utf16(char) for char in text)


def _utf16(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def _checkpoint(java: Java, jars: Classpath) -> bytes:
    kept = cache_dir("kafka", KAFKA_VERSION) / _CHECKPOINT
    with locked(kept.with_name(".lock")):
        if not kept.is_file():
            write_atomically(kept, make_checkpoint(java, jars))
        return kept.read_bytes()


def make_checkpoint(java: Java, jars: Classpath) -> bytes:
    """Format a log directory with Kafka's own tool; return the bootstrap checkpoint it writes."""
    with tempfile.TemporaryDirectory(prefix="k2ktui-format-") as directory:
        log_dir = Path(directory, "logs")
        config = Path(directory, "server.properties")
        # The ports are only parsed; formatting opens no listener.
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:19093",
            "log.dirs": str(log_dir),
        }
        config.write_text(properties_text(settings))
        command = [
            str(java.executable),
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            *("-cp", jars.argument),
            *("kafka.tools.StorageTool", "format", "-t", new_id(), "-c", str(config)),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False
        )
        if done.returncode != 0:
            raise Refused(
                f"Kafka's storage tool failed: {(done.stderr or done.stdout).strip()}",
                unchanged="No node was started.",
            )
        return (log_dir / _CHECKPOINT).read_bytes()
