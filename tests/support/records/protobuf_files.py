"""Protobuf messages without a compiler: a file of several messages that imports another one."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.clusters.kafka import unique_name

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "shop"


class Shop:
    """The messages Order (with a nested one), Refund and Key; totals are of ``money``.

    Attributes:
        money: the class of the imported file's message.
    """

    def __init__(self) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        stem = unique_name("shop")
        common = descriptor_pb2.FileDescriptorProto(
            name=f"{stem}-money.proto", package="money", syntax="proto3"
        )
        money = common.message_type.add(name="Money")
        _add(money, "cents", 1, _FIELD.TYPE_INT64)
        _add(money, "currency", 2, _FIELD.TYPE_STRING)
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{stem}.proto", package=_PACKAGE, syntax="proto3", dependency=[common.name]
        )
        order, refund, key = (file.message_type.add(name=n) for n in ("Order", "Refund", "Key"))
        for message in (order, order.nested_type.add(name="Refund"), refund):
            _add(message, "id", 1, _FIELD.TYPE_INT64)
            _add(message, "total", 2, _FIELD.TYPE_MESSAGE).type_name = ".money.Money"
        _add(key, "id", 1, _FIELD.TYPE_INT64)
        for file_descriptor in (common, file):
            self._pool.Add(file_descriptor)
        self.money = self._class("money.Money")

    def message(self, name: str) -> Any:
        """Return the class of a message."""
        return self._class(f"{_PACKAGE}.{name}")

    def _class(self, name: str) -> Any:
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))


def _add(message: Any, name: str, number: int, kind: Any) -> Any:
    return message.field.add(
        name=name, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL, json_name=name
    )
