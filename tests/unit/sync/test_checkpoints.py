"""Positions outside Kafka: files of Spark's checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, K2kError
from k2ktui.sync.moves.spark_checkpoints import (
    SourceLine,
    SparkCheckpoint,
    parse_checkpoint,
    read_checkpoint,
)

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795263916036,"conf":{"spark.x":"200"}}'
KAFKA = '{"orders":{"0":120,"10":7},"audit":{"0":5}}'
RATE = '{"offset":10,"timestamp":2000}'
WHERE = Path("offsets/7")
ORDERS, ORDERS_10, AUDIT = (
    SourcePartition("orders", 0),
    SourcePartition("orders", 10),
    SourcePartition("audit", 0),
)


def file(*lines: str, version: str = "v1") -> str:
    return "\n".join([version, METADATA, *lines, ""])


def read(text: str) -> SparkCheckpoint:
    return parse_checkpoint(text, WHERE, 7)


def shifted(at: SourcePartition, offset: int) -> tuple[str, int, int]:
    return f"dr.{at.topic}", at.partition, offset + 1


def as_it_was(at: SourcePartition, offset: int) -> tuple[str, int, int]:
    return at.topic, at.partition, offset


def checkpoint(directory: Path, planned: Iterable[int], committed: Iterable[int]) -> Path:
    """Lay out a checkpoint as Spark does, with its checksums and what a crash leaves behind."""
    for log, numbers in (("offsets", planned), ("commits", committed)):
        (directory / log).mkdir(parents=True)
        for number in numbers:
            text = file(f'{{"orders":{{"0":{number * 100}}}}}') if log == "offsets" else "v1\n{}"
            (directory / log / str(number)).write_text(text)
            (directory / log / f".{number}.crc").write_bytes(b"crc\0")
        (directory / log / ".99.3f1c-4a.tmp").write_text("v1")
    return directory


def test_kafka_and_other_sources() -> None:
    text = file(KAFKA, RATE, "-", "3", "{}")
    offsets = read(text)
    assert offsets.positions == {ORDERS: 120, ORDERS_10: 7, AUDIT: 5}
    assert [line.positions is None for line in offsets.lines] == [False, True, True, True, False]
    assert offsets.render(as_it_was) == text.replace(
        KAFKA, '{"audit":{"0":5},"orders":{"0":120,"10":7}}'
    )
    moved = '{"dr.audit":{"0":6},"dr.orders":{"0":121,"10":8}}'
    assert offsets.render(shifted) == text.replace(KAFKA, moved)


def test_version_2_has_ids_in_any_order() -> None:
    text = file(f"1:{RATE}", f"0:{KAFKA}", "2:-", version="v2")
    offsets = read(text)
    assert [line.source_id for line in offsets.lines] == ["1", "0", "2"]
    assert offsets.positions == {ORDERS: 120, ORDERS_10: 7, AUDIT: 5}
    moved = '{"dr.audit":{"0":6},"dr.orders":{"0":121,"10":8}}'
    assert offsets.render(shifted) == text.replace(KAFKA, moved)


def test_two_sources_of_one_topic() -> None:
    offsets = read(file('{"orders":{"0":50}}', '{"orders":{"0":20,"10":3}}'))
    assert offsets.positions == {ORDERS: 20, ORDERS_10: 3}, "the lowest counts"


def test_the_newest_committed_batch_counts(tmp_path: Path) -> None:
    where = checkpoint(tmp_path / "q", range(8, 13), range(8, 11))
    read_back = read_checkpoint(where)
    assert (read_back.batch, read_back.unfinished) == (10, (11, 12))
    assert read_back.positions == {ORDERS: 1000}, "offsets/10 holds where batch 10 ended"
    assert read_checkpoint(str(where) + "/") == read_checkpoint(f"file://{where}") == read_back
    alone = read_checkpoint(where / "offsets" / "12")
    assert (alone.batch, alone.unfinished, alone.positions) == (12, (), {ORDERS: 1200})


def test_a_commit_whose_offsets_are_gone_does_not_count(tmp_path: Path) -> None:
    read_back = read_checkpoint(checkpoint(tmp_path / "q", [3, 4], [3, 9]))
    assert (read_back.batch, read_back.unfinished) == (3, (4,))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("missing", "no such file or directory"),
        ("s3a://bucket/checkpoints/q", "not a local directory"),
        ("hdfs:/checkpoints/q", "not a local directory"),
        (".", "not the checkpoint of a streaming query"),
        ("note.txt", "not a batch number"),
    ],
)
def test_what_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("note.txt").write_text("hello")
    with pytest.raises(ConfigError, match=words) as caught:
        read_checkpoint(where)
    assert caught.value.hint


def test_nothing_was_committed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no batch is known to be complete") as caught:
        read_checkpoint(checkpoint(tmp_path / "q", [0], []))
    assert "startingOffsets" in caught.value.hint


DAMAGED = {
    "": "line 1: an offset log begins with its version",
    "hello": "line 1: an offset log",
    "\0v1\n{}": "line 1: an offset log",
    "v3\n{}\n{}": "line 1: version 3",
    "v1": "line 1: the file ends before",
    "v1\n{}": "line 2: the file ends before",
    "v1\n{broken\n" + KAFKA: "line 2: not JSON",
    "v1\n[]\n" + KAFKA: "line 2: the batch's metadata",
    file(KAFKA[:-4]): "line 3: not JSON",
    file(RATE, KAFKA, '{"orders":{"0":"120"}}'): 'line 5: "120" is not an offset of orders-0',
    file('{"orders":{"0":-1}}'): "line 3: -1 is not an offset",
    file('{"orders":{"0":true}}'): "line 3: true is not an offset",
    file('{"orders":{"0":1.0}}'): "line 3: 1.0 is not an offset",
    file('{"orders":{"0":NaN}}'): "line 3: not JSON",
    file('{"orders":{"0":null}}'): "line 3: null is not an offset",
    file('{"orders":{"0":9223372036854775808}}'): "line 3: 9223372036854775808 is not an offset",
    file('{"orders":{"0":' + "9" * 5000 + "}}"): "line 3: not JSON",
    file('{"orders":{"00":1}}'): "line 3: '00' is not a partition of orders",
    file('{"orders":{"2147483648":1}}'): "line 3: '2147483648' is not a partition",
    file('{"orders":{"0":1,"0":2}}'): "line 3: not JSON: a key appears twice",
    file('{"orders":{"0":1},"audit":5}'): "line 3: topic audit has no JSON object",
    file('{"a b\\u001b[31m":{"0":1}}'): "line 3: 'a b",
    file(KAFKA).rstrip("\n"): None,
    file(KAFKA, "", RATE): "line 4: not JSON",
    file(RATE, "-"): "none of its 2 sources has Kafka offsets",
    file(KAFKA, version="v2"): "line 3: a line of version 2 is ID:OFFSET",
    file(f"0:{KAFKA}", f"0:{RATE}", version="v2"): "line 4: a second line of source 0",
    file("[" * 100_000): "line 3: not JSON",
}


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: repr(text[:40]))
def test_damaged_and_foreign_files(tmp_path: Path, text: str) -> None:
    words = DAMAGED[text]
    path = tmp_path / "offsets" / "7"
    path.parent.mkdir()
    path.write_text(text)
    if words is None:
        assert read_checkpoint(path).positions, "a line break at the end is no damage"
        return
    with pytest.raises(ConfigError) as caught:
        read_checkpoint(path)
    assert words in caught.value.message and str(path) in caught.value.message
    assert caught.value.message.isprintable()


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "7").write_bytes(f"v1\n{METADATA}\n".encode() + b'{"\xff":{}}')
    with pytest.raises(ConfigError, match="line 3: not UTF-8"):
        read_checkpoint(tmp_path / "7")


def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    where = checkpoint(tmp_path / "q", [1], [1])
    (where / "offsets" / "1").unlink()
    (where / "offsets" / "1").symlink_to(where / "gone")
    with pytest.raises(ConfigError, match="No such file"):
        read_checkpoint(where)


topics = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}", fullmatch=True)
targets = st.dictionaries(
    st.tuples(topics, st.integers(0, (1 << 31) - 1)), st.integers(0, (1 << 63) - 1), min_size=1
)


@given(st.lists(targets, min_size=1, max_size=4), st.sampled_from([1, 2]))
def test_what_is_written_is_read_again(
    sources: list[dict[tuple[str, int], int]], version: int
) -> None:
    positions = [{SourcePartition(*at): offset for at, offset in one.items()} for one in sources]
    texts = [SourceLine("", one).render(as_it_was) for one in positions]
    lines = [f"{n}:{text}" for n, text in enumerate(texts)] if version == 2 else texts
    text = file(*lines, version=f"v{version}")
    offsets = read(text)
    assert [line.positions for line in offsets.lines] == positions
    assert offsets.render(as_it_was) == text


@given(st.text() | st.text('v12\n{}":,-0159ab[]').map(lambda rest: "v1\n{}\n" + rest))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        offsets = read(text)
    except K2kError as error:
        assert str(WHERE) in error.message and error.hint
    else:
        assert all(offset >= 0 for offset in offsets.positions.values())
