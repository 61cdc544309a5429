"""JSON records for transforms, and what is done to them: small payments are left out, cards masked.

Record number n has the amount n % 5. A transform keeps amounts above 0, which is four records of
five, and replaces the card by a constant, because MirrorMaker 2's ``MaskField`` does that.
"""

from __future__ import annotations

import json

SCHEMA = "id BIGINT, at BIGINT, amount BIGINT, card STRING, note STRING"
LEAST_AMOUNT = 1
MASK = "****"
FIELD = "card"
_AMOUNTS = 5
_MASKED = f'"{FIELD}":"{MASK}"'.encode()
# A rule of ``replication.transform``.
RULE = {
    "decode": {"value": {"json": {"schema": SCHEMA}}},
    "filter": f"value.amount >= {LEAST_AMOUNT}",
    "set": {f"value.{FIELD}": f"'{MASK}'"},
}


def kept(records: int) -> int:
    """Return how many of the first ``records`` records a transform keeps."""
    return records - -(-records // _AMOUNTS)


def payment(number: int, amount: int, at: int, size: int, text: bytes) -> bytes:
    """Return a payment in JSON.

    Args:
        number: its number.
        amount: its amount.
        at: nanoseconds since 1970.
        size: bytes of the value.
        text: fills the note; letters, digits and blanks only.
    """
    head = b'{"id":%d,"at":%d,"amount":%d,"card":"4000-%012d","note":"' % (
        number,
        at,
        amount,
        number,
    )
    return head + text[: size - len(head) - 2] + b'"}'


def amount_of(number: int) -> int:
    """Return the amount of record ``number`` of a data set."""
    return number % _AMOUNTS


def is_masked(value: bytes) -> bool:
    """Return whether the card of a payment is masked."""
    return _MASKED in value


def clock_of(value: bytes) -> tuple[int, int]:
    """Return the number and the time of a payment."""
    order = json.loads(value)
    return order["id"], order["at"]
