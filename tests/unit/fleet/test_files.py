"""Directories of pipeline files."""

from __future__ import annotations

from pathlib import Path

from k2ktui.fleet.files import read_directory
from tests.support.commands.image import config_map
from tests.support.jobs.jobs import write_pipeline


def test_a_directory_of_links_as_kubernetes_mounts_a_config_map(tmp_path: Path) -> None:
    text = write_pipeline(tmp_path / "p.yaml", 1).read_text()
    directory = config_map(tmp_path / "map", **{"a.yaml": text, "b.yml": text, "notes.txt": ""})
    files = read_directory(directory)
    assert [file.path.name for file in files] == ["a.yaml", "b.yml"]
    assert all(file.error is None for file in files)
