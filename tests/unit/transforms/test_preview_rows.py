"""What a preview of a transform shows of records: masked contents, and why one is left out."""

from __future__ import annotations

import json

import pytest

from k2ktui.config.transforms import TransformRule
from k2ktui.log.record import KafkaRecord
from k2ktui.replication import transform_preview
from k2ktui.replication.preview_records import mask_record


def test_letters_and_digits_are_replaced_and_names_of_fields_stay() -> None:
    value = b'{"id":8,"amount":"3.00","gone":null,"yes":true,"list":["DONE"]}'
    headers = (("h", b"a1"), ("n", None), ("b", b"\xff\x00"))
    masked = mask_record(KafkaRecord(0, b"k-7", value, headers, 0))
    assert masked.key == b"x-9"
    assert json.loads(masked.value or b"") == {
        "id": "9",
        "amount": "9.99",
        "gone": None,
        "yes": True,
        "list": ["xxxx"],
    }
    assert masked.headers == (("h", b"x9"), ("n", None), ("b", b"??"))


@pytest.mark.parametrize(
    ("rule", "steps"),
    [
        ({"filter": "offset > 3", "set": {"headers.a": "topic"}}, "filter"),
        ({"explode": {"value": "array(value)"}}, "explode value"),
        (
            {"filter": "offset > 3", "explode": {"value": "array(value)"}},
            "filter or explode value",
        ),
    ],
)
def test_the_steps_that_may_leave_a_record_out(rule: dict[str, object], steps: str) -> None:
    transform = TransformRule.model_validate(rule).transform
    assert transform is not None
    assert transform_preview._leaving_steps(transform) == steps  # noqa: SLF001
