"""Producers by name: what is known of each kind, and how much it has written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2ktui.engine.producers import (
    NO_ID,
    Partition,
    Producer,
    Writers,
    Written,
    name_writers,
)
from k2ktui.kafka.admin.transaction_state import find_transactional_ids
from k2ktui.kafka.wire.cluster import NotSent
from k2ktui.log.writers import WriterWatch

PLAIN = Producer(NO_ID)
IDEMPOTENT = Producer(7, 2)
TRANSACTIONAL = Producer(9, 0, is_transactional=True, transactional_id="orders\x1b[2J")


@pytest.mark.parametrize(
    ("producer", "name"),
    [
        (PLAIN, "a producer without id"),
        (IDEMPOTENT, "producer id 7 epoch 2"),
        (Producer(9, 1, True), "producer id 9 epoch 1, transactional id unknown"),
        (TRANSACTIONAL, r"transactional id orders\x1b[2J (producer id 9 epoch 0)"),
    ],
)
def test_a_producer_has_the_best_name_that_is_known(producer: Producer, name: str) -> None:
    assert producer.name == name


def test_rates_begin_with_the_first_reading() -> None:
    writers = Writers()
    writers.add([Written(("orders", 0), IDEMPOTENT, 900, 899)], 10.0)
    assert name_writers(writers.list()) == (
        "producer id 7 epoch 2 on orders 0 (900 records, last at offset 899)"
    )
    writers.add([Written(("orders", 0), IDEMPOTENT, 30, 929)], 12.0)
    writers.add([Written(("orders", 2), IDEMPOTENT, 10, 1_041)], 14.0)
    assert name_writers(writers.list()) == (
        "producer id 7 epoch 2 on orders 0,2 "
        "(940 records, 10.0/s, last at offset 1,041 of orders-2)"
    )


def test_who_wrote_most_is_first_and_the_end_of_a_transaction_is_no_record() -> None:
    writers = Writers()
    writers.add((), 0.0)
    written = [
        Written(("orders", 0), TRANSACTIONAL, 0, 5),
        Written(("orders", 0), PLAIN, 4, 4),
        Written(("orders", 1), IDEMPOTENT, 9, 8),
    ]
    writers.add(written, 2.0)
    first, second, third = [writer.describe() for writer in writers.list()]
    assert first == "producer id 7 epoch 2 on orders 1 (9 records, 4.5/s, last at offset 8)"
    assert second.startswith("a producer without id on orders 0 (4 records, 2.0/s,")
    assert third.endswith("ended a transaction on orders 0")
    plain = writers.list()[1].as_json()
    assert plain["producer_id"] is plain["epoch"] is plain["host"] is None


def test_each_writer_is_new_once_and_of_many_only_the_first() -> None:
    writers = Writers()
    writers.add([Written(("t", 0), IDEMPOTENT, 1, 0), Written(("t", 0), PLAIN, 1, 1)], 0.0)
    assert len(writers.list_new(20)) == 2 and not writers.list_new(20)
    writers.add([Written(("t", 0), Producer(n), 1, n) for n in range(100, 130)], 1.0)
    assert len(writers.list_new(20)) == 18 and not writers.list_new(20)


def test_what_was_not_read_is_read_with_the_next_poll_and_nothing_twice() -> None:
    ends = {("t", 0): 10, ("t", 1): 20, ("t", 2): 5}
    asked: list[Mapping[Partition, int]] = []

    class Reader:
        served: Mapping[Partition, int] = {}

        def read(self, starts: Mapping[Partition, int]) -> list[Written]:
            asked.append(starts)
            return []

    watch = WriterWatch(cast(Any, SimpleNamespace(offsets=lambda *_: dict(ends))))
    reader = watch._reader = cast(Any, Reader())  # noqa: SLF001
    watch.poll(ends)
    ends |= {("t", 0): 12, ("t", 1): 24}
    reader.served = {("t", 1): 26}
    watch.poll(ends)
    ends |= {("t", 1): 26}
    watch.poll(ends)
    assert asked == [{}, {("t", 0): 10, ("t", 1): 20}, {("t", 0): 10}]
    assert watch.unread == {("t", 0)}
    ends |= {("t", 1): 30}
    reader.served = {("t", 0): 12}
    watch.poll(ends)
    assert watch.unread == set(), "each was read, if not all of it"


def test_a_broker_that_is_dead_hides_no_name_that_others_know() -> None:
    class Brokers:
        loop = SimpleNamespace(sleep=asyncio.sleep)

        def version_of(self, _: object) -> int:
            return 0

        async def brokers(self, _: float) -> list[int]:
            return [1, 2]

        async def send(self, _: object, node: int, __: float) -> object:
            if node == 1:
                raise NotSent
            known = SimpleNamespace(transactional_id="orders-app", producer_id=7)
            return SimpleNamespace(error_code=0, transaction_states=[known])

    found = asyncio.run(find_transactional_ids(cast(Any, Brokers()), [7, 8], 0.01))
    assert found == ({7: "orders-app"}, False)
