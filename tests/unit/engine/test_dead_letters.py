"""Why a record may fail a step, as its dead letter says."""

from __future__ import annotations

from k2ktui.engine.transforms.dead_letters import describe_cause
from k2ktui.engine.transforms.model import Format, Routing, Transform, plan_steps


def test_every_step_has_a_cause() -> None:
    transform = Transform(
        decode_key=Format("string"),
        decode_value=Format("json", "id INT"),
        filter="value.id > 1",
        assignments=(("value.id", "1 / value.id"), ("headers.a", "topic")),
        encode_key="string",
        encode_value="json",
        routing=Routing("value.region", ("eu", "us"), "offset % 3"),
    )
    assert {step: describe_cause(transform, step) for step in plan_steps(transform)} == {
        "decode.key": "the key is not UTF-8",
        "decode.value": "the value is not JSON of the schema id INT",
        "filter": "Spark SQL cannot evaluate value.id > 1",
        "set value.id": "Spark SQL cannot evaluate 1 / value.id",
        "set headers.a": "Spark SQL cannot evaluate topic",
        "sink.topic": "value.region fails, or is not one of the declared topics",
        "sink.partition": "offset % 3 fails, or is not a partition of the target topic",
        "encode.key": "the key cannot be encoded",
        "encode.value": "the value cannot be encoded",
    }
