"""Protobuf in transforms: messages of a file, and what is refused before the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.transforms import TransformRule
from k2ktui.errors import ConfigError
from k2ktui.replication.spark.session import SparkRuntime
from tests.unit.transforms.test_protobuf_codec import FIELD, add, add_optional, schema

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]
pytest.importorskip("pyarrow")  # of the extra ``transform``
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")  # of ``protobuf``

PROTO = """\
syntax = "proto3";
package shop;
message Other { string x = 1; }
message Order { int64 id = 1; string item = 2; repeated string tags = 3; optional int32 count = 4; }
"""


def order_file() -> Any:
    """The descriptor of PROTO."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    add(file.message_type.add(name="Other"), "x", FIELD.TYPE_STRING)
    order = file.message_type.add(name="Order")
    add(order, "id", FIELD.TYPE_INT64)
    add(order, "item", FIELD.TYPE_STRING)
    add(order, "tags", FIELD.TYPE_STRING, repeated=True)
    add_optional(order, "count", FIELD.TYPE_INT32)
    return file


def order_class() -> Any:
    from k2ktui.replication.transforms.protobuf_types import read_message_class

    return read_message_class(schema(file=order_file()).descriptors, "shop.Order")


Order = order_class()
SOURCE = {"schemaFile": "order.desc", "message": "shop.Order"}


def order(number: int) -> Any:
    more = {"count": number} if number % 2 else {}
    return Order(id=number, item=f"item {number}", tags=["a", "b"][: number % 3], **more)


def write_descriptors(directory: Path) -> None:
    """Write the descriptors that SOURCE names beside a pipeline's file."""
    (directory / SOURCE["schemaFile"]).write_bytes(schema(file=order_file()).descriptors)


def test_an_unusable_message_is_refused(spark: SparkRuntime, tmp_path: Path) -> None:
    write_descriptors(tmp_path)
    file = str(tmp_path / SOURCE["schemaFile"])
    for source, why in (
        ({"schemaFile": file, "message": "shop.Nosuch"}, "does not have the message shop.Nosuch"),
        ({**SOURCE, "schemaFile": f"{tmp_path}/nosuch.desc"}, "nosuch.desc cannot be read"),
    ):
        rule = TransformRule.model_validate({"decode": {"value": {"protobuf": source}}})
        assert rule.transform is not None
        with pytest.raises(ConfigError) as refused:
            spark.check_transforms([("replication.transform[0]", rule.transform)])
        assert why in refused.value.message
