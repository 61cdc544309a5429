"""Positions that are kept outside Kafka: checkpoints of Structured Streaming."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.sync.moves.spark_checkpoints import read_checkpoint


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    for number in range(4):
        offsets = json.dumps({"t": {"0": 10 * number, "1": 7}})
        text = f'v1\n{{"batchWatermarkMs":0}}\n{offsets}\n-\n'
        (tmp_path / "offsets" / str(number)).write_text(text)
        if number < 3:
            (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    return tmp_path


def test_the_last_batch_that_was_done(directory: Path) -> None:
    for path in (directory, directory / "offsets"):
        read = read_checkpoint(path)
        assert read.positions == {SourcePartition("t", 0): 20, SourcePartition("t", 1): 7}
    text = read.render(lambda source, offset: ("u", source.partition, offset + 100))
    assert text.splitlines() == [
        "v1",
        '{"batchWatermarkMs":0}',
        '{"u":{"0":120,"1":107}}',
        "-",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("v3\n{}\n", "line 1"),
        ('v1\n{}\n{"logOffset":3}\n', "has Kafka offsets"),
        ('v1\n{}\n{"t":{"0":-1}}\n', "line 3"),
        ("v1\n{}\n-\n", "has Kafka offsets"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "7"
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        read_checkpoint(path)
    with pytest.raises(ConfigError, match="not a local directory"):
        read_checkpoint(Path("s3://bucket/checkpoint"))
    with pytest.raises(ConfigError):
        read_checkpoint(tmp_path / "none")
