"""Records that cannot be changed as configured, as they are written to a dead-letter topic."""

from __future__ import annotations

from k2ktui.engine.schemas.ids import SchemaId, SchemaPart, describe_schema_id
from k2ktui.engine.transforms.model import WITH_SCHEMA, Routing, Transform

#: Name of the header with the step that failed, as the file spells it.
STEP_HEADER = "__k2k.error.step"
#: Name of the header with the reason, which has no part of the record but an unknown schema id.
CAUSE_HEADER = "__k2k.error.cause"
#: (coordinate, header name) pairs: where the record came from.
ORIGIN_HEADERS = tuple(
    (what, f"__k2k.error.{what}") for what in ("pipeline", "topic", "partition", "offset")
)
_SUFFIX = ".dead-letter"


def default_dead_letter_topic(target: str) -> str:
    """Return the dead-letter topic of a target topic if the file names none."""
    return f"{target}{_SUFFIX}"


def schema_step(part: SchemaPart) -> str:
    """Return the step that a record with an unknown schema id fails."""
    return f"schemaMapping.{part}"


def describe_unknown_schema(part: SchemaPart, schema_id: SchemaId) -> str:
    """Return why a record with an unknown schema id is a dead letter."""
    return (
        f"the {part} has the schema id {describe_schema_id(schema_id)}, which the source's "
        f"registry does not have for {part}s, or of a type that is not mapped"
    )


def describe_cause(transform: Transform, step: str) -> str:
    """Return why a record may fail a step of ``plan_steps``, without a part of the record."""
    verb, _, part = step.partition(".")
    if verb in ("decode", "encode"):
        how = transform.decode_key if part == "key" else transform.decode_value
        if verb == "encode":
            return f"the {part} cannot be encoded"
        if how.kind == "json":
            return f"the {part} is not JSON of the schema {how.schema}"
        if how.kind in WITH_SCHEMA:
            return f"the {part} is not {how.kind.capitalize()} of the schema ({how.source})"
        return f"the {part} is not UTF-8"
    if verb == "sink":
        routing = transform.routing or Routing()
        if part == "topic":
            return f"{routing.topic} fails, or is not one of the declared topics"
        return f"{routing.partition} fails, or is not a partition of the target topic"
    if step in ("filter", "sql WHERE"):
        return f"Spark SQL cannot evaluate {transform.filter}"
    kind, _, name = step.partition(" ")
    assigned = dict(transform.assignments)
    if transform.explode is not None and (kind == "explode" or name == transform.explode[0]):
        assigned[name] = transform.explode[1]
    return f"Spark SQL cannot evaluate {assigned[name]}"
