"""Our pipeline takes over from a real MirrorMaker 2 that copied under traffic and was killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support import verbs
from tests.support.cli import k2ktui, k2ktui_json
from tests.support.kafka import (
    Got,
    Out,
    admin,
    create_topic,
    end_offsets,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.mirrormaker import MirrorMaker
from tests.support.pipeline import Run

pytestmark = pytest.mark.slow

PARTITIONS = 2
FIRST = 3000
SPAN = 1000


class Traffic:
    """Unique records to every partition of a topic, until it is stopped."""

    def __init__(self, node: KafkaNode, topic: str) -> None:
        self._node, self._topic = node, topic
        self._number = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def produce(self, count: int) -> None:
        for partition in range(PARTITIONS):
            numbers = range(self._number, self._number + count)
            values = [Out(b"%d" % n, b"key", partition) for n in numbers]
            produce(self._node, self._topic, values)
        self._number += count

    def _work(self) -> None:
        while not self._done.wait(0.1):
            self.produce(20)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


class Taking:
    """A topic that MirrorMaker 2 copies, and a pipeline of ours made from its file."""

    def __init__(self, source: KafkaNode, target: KafkaNode, directory: Path) -> None:
        self.source, self.target, self.directory = source, target, directory
        self.topic = create_topic(source, unique_name("taken"), PARTITIONS)
        self.maker = MirrorMaker(source, target, directory, self.topic)
        self.copy = f"{self.maker.source}.{self.topic}"
        self.file = directory / "pipeline.yaml"
        k2ktui("mm2", "import", self.maker.file, "-o", self.file)
        self.args = ("-f", self.file, "--from", self.maker.file, "--span", str(SPAN))
        self.runs = 0

    def start(self) -> None:
        self.runs += 1
        with Run(self.file, self.directory / f"run-{self.runs}", ("--until-caught-up",), {}) as run:
            assert run.wait(180) == 0, run.tail()

    def copied(self) -> dict[int, list[Got]]:
        return _by_partition(read_all(self.target, self.copy))

    def original(self) -> dict[int, list[Got]]:
        return _by_partition(read_all(self.source, self.topic))


def _by_partition(records: list[Got]) -> dict[int, list[Got]]:
    found: dict[int, list[Got]] = {number: [] for number in range(PARTITIONS)}
    for got in records:
        found[got.partition].append(got)
    return found


@pytest.fixture(scope="module")
def taking(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Taking]:
    yield Taking(*clusters, tmp_path_factory.mktemp("taking"))


def test_nothing_is_copied_twice_nothing_is_left_out(taking: Taking) -> None:
    traffic = Traffic(taking.source, taking.topic)
    traffic.produce(FIRST)
    with traffic:
        taking.maker.start()

        def copies() -> bool:
            if taking.copy not in admin(taking.target).list_topics(timeout=10).topics:
                return False
            return min(end_offsets(taking.target, taking.copy).values()) > FIRST

        eventually(copies, "MirrorMaker 2 copies what comes", 120)
        refused = k2ktui("mm2", "takeover", *taking.args, "--yes", code=5)
        assert "MirrorMaker 2 still copies" in refused.stderr
        taking.maker.kill()
        dry = eventually(lambda: _planned(taking), "its session has ended", 60)
        copied = taking.copied()
        for row in dry["partitions"]:
            own = copied[row["partition"]]
            assert row["position"] == len(own)  # the source has no gaps
            assert row["stored"] <= row["position"]
            assert row["mapped"] == SPAN and row["exact_from"] == len(own) - SPAN
            assert (row["missing"], row["twice"], row["strange"], row["doubt"]) == (0, 0, 0, "")
        done = k2ktui_json("mm2", "takeover", *taking.args, "--yes")
        assert done["applied"] and done["partitions"] == dry["partitions"]
        again = k2ktui("mm2", "takeover", *taking.args, "--yes", code=5)
        assert "has 2 positions already" in again.stderr
        taking.start()
    taking.start()
    original, copied = taking.original(), taking.copied()
    for number in range(PARTITIONS):
        assert [got.value for got in copied[number]] == [got.value for got in original[number]]
        assert len(original[number]) > FIRST


def _planned(taking: Taking) -> object:
    try:
        return k2ktui_json("mm2", "takeover", *taking.args, "--dry-run")
    except AssertionError:
        return None


def test_groups_translate_exactly_in_the_span_and_are_bounded_before_it(taking: Taking) -> None:
    copied = {got.value: got for got in taking.copied()[0]}
    original = taking.original()[0]
    journal = k2ktui_json("journal", "-f", taking.file)
    assert any(entry["what"] == "mm2 takeover" for entry in journal["journal"])
    end = len(original)
    exact_from = next(
        row["start"]
        for row in k2ktui_json("offsets", "show", "-f", taking.file)["partitions"]
        if row["topic"] == taking.topic and row["partition"] == 0
    )
    wanted = [5, exact_from // 2, exact_from - 1, exact_from, exact_from + 500, end - 1, end]
    words = [f"{taking.topic}:0:{offset}" for offset in wanted]
    for offset, word in zip(wanted, words, strict=True):
        row = _translated(taking, word)
        right = copied[original[offset].value].offset if offset < end else None
        if offset >= exact_from:
            assert row["basis"] == ("exact" if right is not None else "end")
            assert right is None or row["translated_offset"] == right
            assert (row["reread"], row["skipped"]) == (0, 0)
        else:
            assert row["basis"] in ("bounded", "exact")
            assert right is not None and row["translated_offset"] <= right
            assert row["skipped"] == 0 and row["reread"] >= right - row["translated_offset"]


def _translated(taking: Taking, word: str) -> dict[str, Any]:
    (found,) = verbs.k2ktui("translate", "-f", taking.file, word, "--json").json["positions"]
    return dict(found)
