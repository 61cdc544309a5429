"""Storage is formatted once, with ids of its own; properties files are read back by Java."""

from __future__ import annotations

import re
from pathlib import Path

from k2ktui.runtime import artifacts, storage
from k2ktui.runtime.java import find_java
from k2ktui.runtime.storage import cluster_id, format_storage, new_id, properties_text


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


def test_kept_checkpoint_is_what_the_storage_tool_writes(tmp_path: Path) -> None:
    java, jars = find_java(), artifacts.classpath(artifacts.SERVER, artifacts.LOGGING)
    format_storage(tmp_path / "logs", 1, java, jars)
    kept = (tmp_path / "logs" / "bootstrap.checkpoint").read_bytes()
    fresh = storage.make_checkpoint(java, jars)
    assert kept != fresh
    assert _without_times(kept) == _without_times(fresh)
    assert b"transaction.version" in kept


def _without_times(checkpoint: bytes) -> bytes:
    """Blank each batch's checksum and time stamps."""
    data = bytearray(checkpoint)
    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12])
        data[at + 17 : at + 21] = bytes(4)
        data[at + 27 : at + 43] = bytes(16)
        at += size
    return bytes(data)
