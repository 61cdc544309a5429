"""Our pipeline takes over from a real MirrorMaker 2 that copied under traffic and was killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    admin,
    client,
    create_topic,
    end_offsets,
    eventually,
    produce,
    produce_transaction,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import EXACTLY_ONCE, MirrorMaker
from tests.support.commands import verbs
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.pipeline import Run

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

    def aborted(self, count: int) -> None:
        """Records that no consumer sees, in the middle of the others."""
        for partition in range(PARTITIONS):
            values = [Out(b"aborted", b"key", partition) for _ in range(count)]
            produce_transaction(self._node, self._topic, values, commit=False)

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

    def __init__(
        self, source: KafkaNode, target: KafkaNode, directory: Path, **properties: str
    ) -> None:
        self.source, self.target, self.directory = source, target, directory
        self.exactly_once = bool(properties)
        self.topic = create_topic(source, unique_name("taken"), PARTITIONS)
        self.maker = MirrorMaker(source, target, directory, self.topic, properties=properties)
        self.copy = f"{self.maker.source}.{self.topic}"
        self.file = directory / "pipeline.yaml"
        k2ktui("mm2", "import", self.maker.file, "-o", self.file)
        self.args = ("-f", self.file, "--from", self.maker.file, "--span", str(SPAN))
        self.runs = 0

    def start(self) -> None:
        self.runs += 1
        with Run(self.file, self.directory / f"run-{self.runs}", ("--until-caught-up",), {}) as run:
            assert run.wait() == 0, run.tail()

    def copied(self) -> dict[int, list[Got]]:
        return _by_partition(read_all(self.target, self.copy))

    def original(self) -> dict[int, list[Got]]:
        return _by_partition(read_all(self.source, self.topic))


def _by_partition(records: list[Got]) -> dict[int, list[Got]]:
    by_partition: dict[int, list[Got]] = {number: [] for number in range(PARTITIONS)}
    for got in records:
        by_partition[got.partition].append(got)
    return by_partition


@pytest.fixture(
    scope="module",
    params=[
        pytest.param({}, id="plain"),
        pytest.param(
            {**EXACTLY_ONCE, "{target}.producer.transaction.timeout.ms": "150000"},
            id="exactly-once",
        ),
    ],
)
def taking(
    request: pytest.FixtureRequest,
    clusters: tuple[KafkaNode, KafkaNode],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Taking]:
    made = Taking(*clusters, tmp_path_factory.mktemp("taking"), **request.param)
    try:
        yield made
    finally:
        made.maker.stop()


def test_nothing_is_copied_twice_nothing_is_left_out(taking: Taking) -> None:
    traffic = Traffic(taking.source, taking.topic)
    traffic.produce(FIRST // 2)
    traffic.aborted(20)
    traffic.produce(FIRST // 2)
    with traffic:
        taking.maker.start()

        def copies() -> bool:
            if taking.copy not in admin(taking.target).list_topics(timeout=TIMEOUT).topics:
                return False
            return min(end_offsets(taking.target, taking.copy).values()) > FIRST

        eventually(copies, "MirrorMaker 2 copies what comes", 300)
        eventually(lambda: len(stored_positions(taking)) == PARTITIONS, "positions are stored")
        refused = k2ktui("mm2", "takeover", *taking.args, "--yes", code=5)
        assert "MirrorMaker 2 still copies" in refused.stderr
        if taking.exactly_once:
            kill_in_a_transaction(taking)
        else:
            taking.maker.kill()
        code = 5 if taking.exactly_once else 0
        dry = eventually(lambda: _planned(taking, code), "its session has ended")
        if taking.exactly_once:
            assert any("transaction is open" in row["doubt"] for row in dry["partitions"])
            still = k2ktui("mm2", "takeover", *taking.args, "--yes", code=5)
            assert "is not proven" in still.stderr
            abort_transaction(taking)
            eventually(lambda: not in_transaction(taking), "it is aborted")
            dry = _planned(taking)
        original, copied = taking.original(), taking.copied()
        for row in dry["partitions"]:
            where = {got.value: got.offset for got in original[row["partition"]]}
            own = copied[row["partition"]]
            spanned = [got for got in own if got.offset >= row["target_end"] - SPAN]
            assert row["position"] == where[own[-1].value] + 1
            assert row["stored"] <= row["position"]
            assert row["mapped"] == len(spanned)
            assert row["exact_from"] == where[spanned[0].value]
            assert (row["missing"], row["twice"], row["strange"], row["doubt"]) == (0, 0, 0, "")
        done = k2ktui_json("mm2", "takeover", *taking.args, "--yes")
        assert done["applied"] and done["partitions"] == dry["partitions"]
        again = k2ktui("mm2", "takeover", *taking.args, "--yes", code=5)
        assert "already has 2 positions" in again.stderr
        taking.start()
    taking.start()
    original, copied = taking.original(), taking.copied()
    for number in range(PARTITIONS):
        # One that does not copy exactly once copies what was aborted, too.
        values = [got.value for got in copied[number]]
        known = [value for value in values if value != b"aborted" or taking.exactly_once]
        assert known == [got.value for got in original[number]]
        assert len(original[number]) > FIRST


def stored_positions(taking: Taking) -> dict[int, int]:
    """By partition, the position that MirrorMaker 2 has stored."""
    shown = k2ktui_json("mm2", "offsets", "show", "-f", taking.maker.file)
    rows = [row for row in shown["partitions"] if row["topic"] == taking.topic]
    return {row["partition"]: row["position"] for row in rows if row["position"] is not None}


def in_transaction(taking: Taking) -> bool:
    """Whether a transaction is open on the copies."""
    ends = end_offsets(taking.target, taking.copy)
    return end_offsets(taking.target, taking.copy, "read_committed") != ends


def kill_in_a_transaction(taking: Taking) -> None:
    """Kill it with records of a transaction on the target that it has not committed."""

    def inside() -> bool:
        taking.maker.pause()
        # One that it has asked to commit already is over within moments.
        until = time.monotonic() + 10
        while in_transaction(taking):
            if time.monotonic() > until:
                return True
        taking.maker.pause(resume=True)
        return False

    eventually(inside, "it has a transaction open")
    taking.maker.kill()


def abort_transaction(taking: Taking) -> None:
    """Abort the transaction of its only task, as its next start does; the time-out is minutes."""
    task = f"{taking.maker.source}-mm2-MirrorSourceConnector-0"
    Producer(client(taking.target, transactional_id=task)).init_transactions(TIMEOUT)


def _planned(taking: Taking, code: int = 0) -> Any:
    """What a dry run shows, nothing while MirrorMaker 2 seems to live."""
    try:
        return k2ktui_json("mm2", "takeover", *taking.args, "--dry-run", code=code)
    except (AssertionError, ValueError):
        return None


def test_groups_translate_exactly_in_the_span_and_are_bounded_before_it(taking: Taking) -> None:
    copied = {got.value: got for got in taking.copied()[0]}
    original = {got.offset: got.value for got in taking.original()[0]}
    journal = k2ktui_json("journal", "-f", taking.file)
    assert any(entry["operation"] == "mm2 takeover" for entry in journal["journal"])
    end = max(original) + 1
    exact_from = next(
        row["start"]
        for row in k2ktui_json("offsets", "show", "-f", taking.file)["partitions"]
        if row["topic"] == taking.topic and row["partition"] == 0
    )
    wanted = [5, exact_from // 2, exact_from - 1, exact_from, exact_from + 500, end - 1, end]
    words = [f"{taking.topic}:0:{offset}" for offset in wanted]
    for offset, word in zip(wanted, words, strict=True):
        row = _translated(taking, word)
        unread = [value for at, value in original.items() if at >= offset]
        right = copied[unread[0]].offset if unread else None
        if offset >= exact_from:
            assert row["basis"] == ("exact" if right is not None else "end")
            assert right is None or row["translated_offset"] == right
            assert (row["reread"], row["skipped"]) == (0, 0)
        else:
            assert row["basis"] in ("bounded", "exact")
            assert right is not None and row["translated_offset"] <= right
            again = [
                got for got in copied.values() if row["translated_offset"] <= got.offset < right
            ]
            assert row["skipped"] == 0 and row["reread"] >= len(again)


def _translated(taking: Taking, word: str) -> dict[str, Any]:
    (translation,) = verbs.k2ktui("translate", "-f", taking.file, word, "--json").json["positions"]
    return dict(translation)
