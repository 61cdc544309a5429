"""Protobuf schemas as registries hold them become descriptors."""

from __future__ import annotations

import pytest

from k2ktui.engine.schemas.model import AVRO, PROTOBUF, Schema, SchemaReference, SchemaVersion
from k2ktui.replication.transforms.protobuf_codec import MessageSchema, ProtobufCodec
from k2ktui.replication.transforms.protobuf_compiler import collect_files, compile_files

pytest.importorskip("pyarrow")  # of the extra ``transform``
pytest.importorskip("grpc_tools")  # of the extra ``protobuf-registry``

MONEY = 'syntax = "proto3"; package shop; message Money { int64 units = 1; }'
ORDER = """\
syntax = "proto3";
package shop;
import "types/money.proto";
import "google/protobuf/timestamp.proto";
message Other {}
message Order { Money price = 1; google.protobuf.Timestamp at = 2; message Line { int32 n = 1; } }
"""
HEAD = 'syntax = "proto3"; '


def registered(text: str, *names: str, kind: str = PROTOBUF) -> SchemaVersion:
    references = tuple(SchemaReference(name, name, 1) for name in names)
    return SchemaVersion("subject", 1, 1, Schema(kind, text, references))


def compiled(main: SchemaVersion, **others: SchemaVersion) -> bytes:
    return compile_files(*collect_files(main.schema, lambda subject, _: others.get(subject)))


def test_imports_come_from_their_subjects_and_from_google() -> None:
    money = {"types/money.proto": registered(MONEY)}
    descriptors = compiled(registered(ORDER, *money), **money)
    schema = MessageSchema("shop.Order", descriptors)
    assert schema.indexes == b"\2\2"  # the second message of its own file
    assert ProtobufCodec(schema).type.ddl == (
        "STRUCT<`price`: STRUCT<`units`: BIGINT>, `at`: STRUCT<`seconds`: BIGINT, `nanos`: INT>>"
    )
    assert MessageSchema("shop.Order.Line", descriptors).indexes == b"\4\2\0"


def test_files_import_each_other_through_one_another() -> None:
    others = {
        "a": registered(HEAD + 'import "b"; message A { B b = 1; }', "b"),
        "b": registered(HEAD + "message B { int32 n = 1; }"),
        "schema.proto": registered(HEAD + "message C { int32 n = 1; }"),
    }
    main = registered(
        HEAD + 'import "a"; import "schema.proto"; message M { A a = 1; C c = 2; }', *others
    )
    assert ProtobufCodec(MessageSchema("M", compiled(main, **others))).type.ddl == (
        "STRUCT<`a`: STRUCT<`b`: STRUCT<`n`: INT>>, `c`: STRUCT<`n`: INT>>"
    )


@pytest.mark.parametrize(
    ("main", "others", "why"),
    [
        (registered(ORDER, "money"), {}, "its import money is not in the registry"),
        (registered("", "a"), {"a": registered("{}", kind=AVRO)}, "its import a is not in the reg"),
        (registered("message {"), {}, "schema.proto:1:9: Expected message name"),
        (registered(HEAD + 'import "x.proto";'), {}, "x.proto: File not found."),
        *(
            (registered("", name), {name: registered(MONEY)}, "is not the name of a file")
            for name in ("../a.proto", "/a.proto", "a/../../b", "a\0b", "a\nb")
        ),
    ],
)
def test_what_cannot_be_compiled_is_said(
    main: SchemaVersion, others: dict[str, SchemaVersion], why: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        compiled(main, **others)
    assert why in str(refused.value) and "/tmp" not in str(refused.value)


def test_a_schema_that_refers_to_itself_ends() -> None:
    others = {"a": registered(HEAD + 'import "a";', "a")}
    with pytest.raises(ValueError, match=r"^a:1:20: File recursively imports itself"):
        compiled(others["a"], **others)
