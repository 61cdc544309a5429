"""A pipeline that maps schema ids of random traffic, and the proof of what became of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Got, Headers, read_all, unique_name
from tests.support.clusters.registries import RegistryPair, avro_record, register
from tests.support.oracle.judge import Expected, Proof, prove
from tests.support.pipelines.pipeline import Pipeline

#: Leaves a third of the records out, and adds a header to the others; values keep their ids.
FILTERED: dict[str, Any] = {
    "filter": "value IS NULL OR length(value) % 3 <> 0",
    "set": {"headers.at": "CAST(offset AS STRING)"},
}
UNKNOWN_ID = b"\0" + (4_000_000).to_bytes(4, "big")
_PREFIX_BYTES = 5


def mapping(registries: RegistryPair, **rules: Any) -> dict[str, Any]:
    """Return the settings of a pipeline that maps the ids of all its topics."""
    return {
        "features.schemaMapping": "enabled",
        "schemaMapping": {"autoRegister": "enabled", **rules},
        "source.registry.config": {"schema.registry.url": registries.source.url},
        "target.registry.config": {"schema.registry.url": registries.target.url},
    }


class MappingPipeline(Pipeline):
    """A pipeline with schema mapping, whatever else a test sets.

    A third of its traffic has known ids, some unknown ones, and some none. Keys are random bytes
    and are not looked at.

    Args:
        registries: both registries.
        topics: names.
        on_unknown: ``passthrough`` or ``deadLetter``.
        filtered: the topics with the transform ``FILTERED``, which needs ``passthrough``.
    """

    usual_mode = "shared"

    def __init__(
        self,
        directory: Path,
        source: KafkaNode,
        target: KafkaNode,
        registries: RegistryPair,
        topics: list[str],
        settings: Mapping[str, Any] | None = None,
        on_unknown: str = "deadLetter",
        *,
        filtered: Collection[str] = (),
    ) -> None:
        self._rules = mapping(
            registries,
            onUnknownSchema=on_unknown,
            topics=[{"pattern": ".*", "key": "disabled"}],
        )
        if filtered:
            rules = [{"topics": topic, **FILTERED} for topic in filtered]
            self._rules["replication.transform"] = rules
        self._dead_letters, self._filtered = on_unknown == "deadLetter", filtered
        self._ids = _register(registries, topics)
        super().__init__(directory, source, target, topics, dict(settings or {}))
        self.prefixes = (*self._ids, UNKNOWN_ID, b"")

    def prove(self, least: int = 1) -> Proof:
        """Compare the copies, and the dead letters: each unknown id is there once, unchanged."""
        expected = [
            Expected(
                topic,
                value=self._mapped,
                copied=_is_kept if topic in self._filtered else self._is_copied,
                headers=_with_offset if topic in self._filtered else None,
            )
            for topic in self.topics
        ]
        proof = prove(self.source, self.target, self.name, *expected)
        assert proof.records >= least // 3
        if self._dead_letters:
            self._prove_dead_letters()
        return proof

    def _prove_dead_letters(self) -> None:
        count = 0
        for topic in self.topics:
            failed = [got for got in read_all(self.source, topic) if self._is_dead(got)]
            letters = read_all(self.target, f"{topic}.dead-letter")
            assert sorted(map(_origin, letters)) == sorted(map(_place, failed))
            count += len(letters)
        assert count

    def _is_copied(self, sent: Got) -> bool:
        return not (self._dead_letters and self._is_dead(sent))

    def _is_dead(self, sent: Got) -> bool:
        """Whether a value has an id that no registry has; a random value may look so, too."""
        data = sent.value or b""
        number = int.from_bytes(data[1:_PREFIX_BYTES], "big", signed=True)
        return len(data) >= _PREFIX_BYTES and data[0] == 0 and number > 0 and not self._new(data)

    def _mapped(self, sent: Got) -> bytes | None:
        data = sent.value
        return data and (self._new(data) or data[:_PREFIX_BYTES]) + data[_PREFIX_BYTES:]

    def _new(self, data: bytes) -> bytes | None:
        return self._ids.get(data[:_PREFIX_BYTES])

    def _defaults(self) -> dict[str, Any]:
        return {**super()._defaults(), **self._rules}


def _register(registries: RegistryPair, topics: list[str]) -> dict[bytes, bytes]:
    """Register two schemas on both sides; return what values begin with there."""
    prefixes = {}
    for _ in range(2):
        text = avro_record("Traffic", unique_name("field").replace("-", "_"))
        (known,) = {register(registries.source, f"{topic}-value", text) for topic in topics}
        (wanted,) = {register(registries.target, f"{topic}-value", text) for topic in topics}
        prefixes[b"\0" + known.to_bytes(4, "big")] = b"\0" + wanted.to_bytes(4, "big")
    return prefixes


def _is_kept(sent: Got) -> bool:
    return sent.value is None or len(sent.value) % 3 != 0


def _with_offset(sent: Got) -> Headers:
    others = (header for header in sent.headers if header[0] != "at")
    return (*others, ("at", b"%d" % sent.offset))


def _place(got: Got) -> tuple[int, int, bytes, bytes]:
    return got.partition, got.offset, got.key or b"", got.value or b""


def _origin(letter: Got) -> tuple[int, int, bytes, bytes]:
    """Return the place and the content of the record that became a dead letter."""
    origin = dict(letter.headers)
    partition, offset = (origin[f"__k2k.error.{name}"] for name in ("partition", "offset"))
    return int(partition or b""), int(offset or b""), letter.key or b"", letter.value or b""
