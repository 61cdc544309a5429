"""Storage is formatted once, with ids of its own; properties files are read back by Java."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from k2ktui.runtime import artifacts, storage
from k2ktui.runtime.java import find_java
from k2ktui.runtime.storage import cluster_id, format_storage, new_id, properties_text

# Key (version 0, type 3), length and version of the value of KIP-630's SnapshotHeaderRecord.
_SNAPSHOT_HEADER = b"\x08\x00\x00\x00\x03\x16\x00\x00"


def test_ids_are_kafkas() -> None:
    ids = {new_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", text) for text in ids)


def test_properties_keep_odd_characters() -> None:
    text = properties_text({"a": " x\\y", "b": "é😀\nz"})
    assert text == "a=\\ x\\\\y\nb=\\u00e9\\ud83d\\ude00\\nz\n"


def test_formatted_once(tmp_path: Path) -> None:
    java, jars = find_java(), artifacts.classpath(artifacts.SERVER, artifacts.LOGGING)
    assert cluster_id(tmp_path / "logs") is None
    first = format_storage(tmp_path / "logs", 1, java, jars)
    assert (
        format_storage(tmp_path / "logs", 1, java, jars) == first == cluster_id(tmp_path / "logs")
    )
    assert format_storage(tmp_path / "other", 1, java, jars) != first


def test_kept_files_are_what_the_storage_tool_writes(tmp_path: Path) -> None:
    java, jars = find_java(), artifacts.classpath(artifacts.SERVER, artifacts.LOGGING)
    logs = tmp_path / "logs"
    format_storage(logs, 1, java, jars)
    kept = {
        path.relative_to(logs).as_posix(): path.read_bytes()
        for path in logs.rglob("*")
        if path.is_file() and path.name != "meta.properties"
    }
    fresh = storage.make_files(java, jars)
    assert kept != fresh
    assert _all_without_times(kept) == _all_without_times(fresh)
    assert b"transaction.version" in b"".join(kept.values())


def _all_without_times(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: _without_times(content) for path, content in files.items()}


def _without_times(checkpoint: bytes) -> bytes:
    """Blank each batch's checksum and time stamps, and the time in a snapshot's header record."""
    data = bytearray(checkpoint)
    header = data.find(_SNAPSHOT_HEADER)
    if header >= 0:
        time_at = header + len(_SNAPSHOT_HEADER)
        data[time_at : time_at + 8] = bytes(8)
    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12])
        data[at + 17 : at + 21] = bytes(4)
        data[at + 27 : at + 43] = bytes(16)
        at += size
    return bytes(data)
