"""The mapping topic read into columns: order, terms, repeats."""

from __future__ import annotations

from pathlib import Path

from k2ktui.engine.state import Mapping, MappingRange, SourcePartition, mapping_key, mapping_value
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.mapping_store import MappingStore
from tests.support.copied import Copied


def test_order_terms_and_what_is_new(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied, at = Copied(tmp_path, source, target), SourcePartition("s", 0)

    def put(term: int, *ranges: tuple[int, int, int]) -> None:
        made = tuple(MappingRange(*each) for each in ranges)
        mapping = Mapping(copied.name, at, "t", 0, term, made)
        copied.put_mapping(mapping_key(mapping), mapping_value(mapping))

    store = MappingStore(copied.config, copied.cluster)
    try:
        # One transaction's records come in any order: none of them cuts another.
        put(1, (246, 346, 10), (360, 460, 5))
        put(1, (182, 282, 20))
        report = store.refresh(20, {})
        assert not report.behind
        columns = store.lanes(at)["t", 0].columns()
        assert columns.source.tolist() == [182, 246, 360]
        # A later run that went back counts from there on.
        put(2, (250, 900, 3))
        store.refresh(20, {})
        columns = store.lanes(at)["t", 0].columns()
        assert list(zip(columns.source, columns.target, columns.count, strict=True)) == [
            (182, 282, 20),
            (246, 346, 4),
            (250, 900, 3),
        ]
        copied.put_mapping(b"?", b"?")
        put(2, (300, 950, 1))
        assert store.refresh(20, {}).malformed_count == 1
        assert store.holes(at) == ((253, 300),)
    finally:
        store.close()
