"""Format the storage of a one-node cluster without starting Java each time.

`kafka-storage format` writes a small properties file with two random ids, and a bootstrap
checkpoint that depends only on the Kafka version: `bootstrap.checkpoint` up to 4.3, a snapshot in
`__cluster_metadata-0` from 4.4 on. Kafka's own tool writes it once for the cache, wherever that
version puts it; each node gets a copy and its own ids.
"""

from __future__ import annotations

import base64
import io
import subprocess
import tempfile
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path

from k2ktui.errors import Refused
from k2ktui.runtime.artifacts import KAFKA_VERSION, Classpath
from k2ktui.runtime.java import Java
from k2ktui.runtime.paths import cache_dir, locked, write_atomically

_KEPT = "storage.zip"
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
        Refused: Kafka's storage tool failed (runs only if its files are not cached).
    """
    known = cluster_id(log_dir)
    if known:
        return known
    files = _kept_files(java, jars)
    cluster = new_id()
    for path, content in files.items():
        write_atomically(log_dir / path, content)
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


def _kept_files(java: Java, jars: Classpath) -> Mapping[str, bytes]:
    kept = cache_dir("kafka", KAFKA_VERSION) / _KEPT
    with locked(kept.with_name(".lock")):
        if not kept.is_file():
            # One file, so that a start that is killed leaves all of them or none.
            write_atomically(kept, _zipped(make_files(java, jars)))
        with zipfile.ZipFile(kept) as archive:
            return {path: archive.read(path) for path in archive.namelist()}


def _zipped(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return packed.getvalue()


def make_files(java: Java, jars: Classpath) -> Mapping[str, bytes]:
    """Format a log directory with Kafka's own tool; return what is the same for every node.

    Returns:
        The content of each file but ``meta.properties``, by its path in the log directory.

    Raises:
        Refused: the tool failed.
    """
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
        paths = sorted(path for path in log_dir.rglob("*") if path.is_file())
        return {
            path.relative_to(log_dir).as_posix(): path.read_bytes()
            for path in paths
            if path.name != _META
        }
