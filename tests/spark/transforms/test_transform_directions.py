"""Pipelines in both directions with a transform: nothing comes back, and groups move both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Got,
    Out,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.both_ways import BothWays, from_here, header, natives, with_mark
from tests.support.pipelines.pipeline import START_TIMEOUT
from tests.support.records.traffic import NUMBER, ORIGIN

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``

#: A third of the records is left out, a third becomes two.
RULE: dict[str, Any] = {
    "decode": {"value": "string"},
    "filter": "CAST(value AS INT) % 3 <> 0",
    "explode": {
        "value": "slice(array(concat(value, '!'), concat(value, '?')), 1, CAST(value AS INT) % 3)"
    },
    "onError": "deadLetter",
}


def number_of(got: Got) -> int:
    return int(header(got, NUMBER))


def made(got: Got) -> list[bytes]:
    value = got.value or b""
    return [value + b"!", value + b"?"][: number_of(got) % 3]


def sent(origin: str) -> list[Out]:
    return [
        Out(b"%d" % n, b"k", headers=((ORIGIN, origin.encode()), (NUMBER, b"%d" % n)))
        for n in range(60)
    ]


@pytest.fixture
def name() -> str:
    return unique_name("both")


@pytest.fixture
def make(source: KafkaNode, target: KafkaNode, tmp_path: Path, name: str) -> Iterator[Any]:
    built: list[BothWays] = []

    def both(topic: str, settings: dict[str, Any]) -> BothWays:
        shared = {
            "replication.transform": [RULE],
            "groups.consumerGroups": f"{name}-.*",
            "spark.slots": 1,
        }
        built.append(BothWays(tmp_path, source, target, [topic], {**shared, **settings}))
        return built[-1]

    yield both
    for pipeline in built:
        pipeline.close()


@pytest.mark.parametrize("mark", ["", "came-from"], ids=["provenance", "cluster"])
def test_transformed_records_do_not_come_back(
    make: Any, source: KafkaNode, target: KafkaNode, name: str, mark: str
) -> None:
    topic = unique_name("both")
    for node in (source, target):
        create_topic(node, topic)
    modes = {"bidirectional.mode": "cluster", "bidirectional.headers.bidirectional": mark}
    both = make(topic, modes if mark else {})
    produce(source, topic, sent("a"))
    runs = both.start()
    eventually(lambda: both.there.is_caught_up(topic), "all is copied", START_TIMEOUT)
    produce(target, topic, sent("b"))
    both.end(runs, [topic])
    for pipeline, own, other in ((both.there, b"a", b"b"), (both.back, b"b", b"a")):
        copied = from_here(own)
        expected = Expected(
            topic,
            values=made,
            copied=copied,
            headers=with_mark(mark, pipeline.source) if mark else None,
        )
        native = {topic: natives(pipeline.target, topic, other)}
        prove(pipeline.source, pipeline.target, pipeline.name, expected, native=native)
    if not mark:
        check_groups(both, name, topic)


def check_groups(both: BothWays, name: str, topic: str) -> None:
    """Groups that read on the source continue on the target with what they have not read."""
    log = sorted(read_all(both.a, topic), key=lambda got: got.offset)
    # The copies of the target's records are behind the source's own.
    stops = {f"{name}-{at}": at for at in (0, 1, 4, 5, 57)}
    first = log[60].offset
    stops |= {f"{name}-{at}": at for at in (first, first + 1, first + 2, log[-1].offset + 1)}
    for group, at in stops.items():
        commit_offsets(both.a, group, {(topic, 0): at})
    file = both.there.write()
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    copies = sorted(read_all(both.b, topic), key=lambda got: got.offset)
    for group, at in stops.items():
        moved = committed(both.b, group)[topic, 0]
        gots = [got for got in copies if got.offset >= moved]
        own = [value for got in log if got.offset >= at and is_a(got) for value in made(got)]
        assert [got.value for got in gots if is_a(got)] == own, group
        unread = {number_of(got) for got in log if got.offset >= at and not is_a(got)}
        ahead = [number_of(got) for got in gots if not is_a(got) and number_of(got) % 3]
        assert unread <= {*ahead} and len(ahead) == len({*ahead})
        if at < first:
            assert unread == {*ahead}, group
        # A record of the target with two copies, of which the group has read one, is read again.
        assert len({*ahead} - unread) == 0, group


def is_a(got: Got) -> bool:
    return header(got, ORIGIN) == b"a"
