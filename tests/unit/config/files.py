"""Pipeline files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from k2ktui.config import Loaded, load
from k2ktui.errors import ConfigError
from tests.unit.config.editor import editor_errors

MINIMAL = """\
name: p
source: {kafka: {common: {bootstrap.servers: "s:1"}}}
target: {kafka: {common: {bootstrap.servers: "t:1"}}}
replication: [{source: {topic: ".*"}}, {sink: {topic: source}}]
"""


class Files:
    """Writes texts as YAML files of one directory, and loads them as layers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env: dict[str, str] = {}

    def write(self, texts: Mapping[str, str]) -> list[str]:
        for name, text in texts.items():
            (self.directory / name).write_text(text, encoding="utf-8")
        return [str(self.directory / name) for name in texts]

    def load(self, *texts: str) -> Loaded:
        """Load the texts as a.yaml, b.yaml, …; an editor accepts what is loaded."""
        names = [f"{chr(ord('a') + index)}.yaml" for index in range(len(texts))]
        loaded = load(self.write(dict(zip(names, texts, strict=True))), env=self.env)
        assert [error for text in texts for error in editor_errors(text)] == []
        return loaded

    def over_minimal(self, *texts: str) -> Loaded:
        """Load the texts over ``MINIMAL``, which is a.yaml."""
        return self.load(MINIMAL, *texts)

    def errors(self, *texts: str) -> list[str]:
        """Return the error lines of the texts, without the directory."""
        try:
            self.load(*texts)
        except ConfigError as error:
            lines = error.message.replace(f"{self.directory}/", "").splitlines()[1:]
            return [line.strip() for line in lines]
        return []
