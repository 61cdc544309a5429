"""Producers by name: what is known of each kind, and how much it has written."""

from __future__ import annotations

import pytest

from k2ktui.engine.producers import NO_ID, Producer, Writers, Written, name_writers

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
