"""Compare the schema ids of records with their copies', by what the registries have under them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.schemas.ids import SchemaId, SchemaPart, describe_schema_id, find_schema_ids
from k2ktui.errors import K2kError, Refused
from k2ktui.log.record import KafkaRecord
from k2ktui.registry.mapper import SchemaMapper, read_mapper_settings
from k2ktui.registry.registering import SchemaNotRegistered
from k2ktui.sync.verify.changed_records import ignored_parts
from k2ktui.sync.verify.record_comparison import Comparison, ComparisonOutcome, RecordComparison
from k2ktui.text import safe_message

_SAME = Comparison(ComparisonOutcome.SAME)
_Key = tuple[str, SchemaPart, SchemaId, SchemaId]


@contextmanager
def open_record_comparison(config: PipelineConfig) -> Iterator[RecordComparison]:
    """Yield how a pipeline's records are compared, with the registries if it maps schema ids."""
    with SchemaIdComparator(config) as ids:
        yield RecordComparison(partial(ignored_parts, config), ids.compare)


class SchemaIdComparator:
    """Compares schema ids of copies with those that the pipeline writes; registers nothing.

    Another id is also right if it names the same schema: a consumer reads the same object. Connects
    when the first id is compared; a registry that does not answer is not asked again. The caller
    closes it.

    Args:
        config: the pipeline.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._mapper: SchemaMapper | None = None
        self._known: dict[_Key, Comparison] = {}
        self._trouble = ""

    def __enter__(self) -> SchemaIdComparator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to both registries."""
        if self._mapper is not None:
            self._mapper.close()

    def compare(self, topic: str, source: KafkaRecord, target: KafkaRecord) -> Comparison:
        """Compare the ids of a source record and of its copy, which is the same otherwise.

        Args:
            topic: the record's topic on the source.
            source: the record on the source.
            target: the record on the target.

        Returns:
            ``could-not-check`` if a registry does not answer, or does not know the source's id.
        """
        rule = self._config.schema_rule_for(topic)
        unclear = _SAME
        for part in rule.parts if rule is not None else ():
            for source_id, target_id in _pair_ids(part, source, target):
                comparison = self._compare(topic, part, source_id, target_id)
                if comparison.outcome is ComparisonOutcome.DIFFERENT:
                    return comparison
                if comparison.outcome is ComparisonOutcome.COULD_NOT_CHECK:
                    unclear = comparison
        return unclear

    def _compare(
        self, topic: str, part: SchemaPart, source_id: SchemaId, target_id: SchemaId
    ) -> Comparison:
        key = (topic, part, source_id, target_id)
        if key not in self._known:
            if self._trouble:
                return _could_not_check(self._trouble)
            try:
                self._known[key] = self._ask(topic, part, source_id, target_id)
            except Refused as error:
                self._known[key] = _could_not_check(error.message)
            except K2kError as error:
                self._trouble = error.message
                return _could_not_check(self._trouble)
        return self._known[key]

    def _ask(
        self, topic: str, part: SchemaPart, source_id: SchemaId, target_id: SchemaId
    ) -> Comparison:
        if self._mapper is None:
            settings = read_mapper_settings(self._config)
            self._mapper = SchemaMapper(replace(settings, auto_register=False))
        shown = describe_schema_id(source_id)
        expected = "none"
        try:
            value = self._mapper.map_id(topic, part, source_id)
        except SchemaNotRegistered:
            pass  # a conflict, or the schema was deleted
        else:
            if value is None and target_id == source_id:
                return _SAME  # onUnknownSchema: passthrough
            if value is None:
                return _could_not_check(
                    f"{part} schema id {shown}: the source's registry does not know it for "
                    f"{part}s, or its type is not mapped"
                )
            if value == target_id.value:
                return _SAME
            expected = describe_schema_id(replace(source_id, value=value))
        if self._mapper.name_same_schema(source_id, target_id):
            return _SAME
        return Comparison(
            ComparisonOutcome.DIFFERENT,
            f"{part} schema id differs ({shown} on the source, {expected} expected, "
            f"{describe_schema_id(target_id)} found)",
        )


def _pair_ids(
    part: SchemaPart, source: KafkaRecord, target: KafkaRecord
) -> list[tuple[SchemaId, SchemaId]]:
    """Return the ids of a record with those of its copy.

    Both have the same forms. A rule for headers may drop ids from the copy: those are left out.
    """
    source_ids, target_ids = (
        find_schema_ids(
            part, record.key if part is SchemaPart.KEY else record.value, record.headers
        )
        for record in (source, target)
    )
    forms = {schema_id.form: schema_id for schema_id in target_ids}
    return [
        (schema_id, forms[schema_id.form]) for schema_id in source_ids if schema_id.form in forms
    ]


def _could_not_check(why: str) -> Comparison:
    return Comparison(ComparisonOutcome.COULD_NOT_CHECK, safe_message(why))
