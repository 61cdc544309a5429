"""Records that a transform cannot change, as they are written to a dead-letter topic."""

from __future__ import annotations

from k2ktui.engine.transforms import Transform

#: Name of the header with the step that failed, as the file spells it.
STEP_HEADER = "__k2k.error.step"
#: Name of the header with the reason, which never has a part of the record.
CAUSE_HEADER = "__k2k.error.cause"
#: (coordinate, header name) pairs: where the record came from.
ORIGIN_HEADERS = tuple(
    (what, f"__k2k.error.{what}") for what in ("pipeline", "topic", "partition", "offset")
)
_SUFFIX = ".dead-letter"


def dead_letter_topic(transform: Transform, target: str) -> str:
    """Return the dead-letter topic for the source topic that is copied to ``target``.

    Empty unless ``onError`` is ``deadLetter``.
    """
    if transform.on_error != "deadLetter":
        return ""
    return transform.dead_letter_topic or f"{target}{_SUFFIX}"


def describe_cause(transform: Transform, step: str) -> str:
    """Return why a record may fail a step of ``plan_steps``, without a part of the record."""
    verb, _, part = step.partition(".")
    if verb in ("decode", "encode"):
        how = transform.decode_key if part == "key" else transform.decode_value
        if verb == "encode":
            return f"the {part} cannot be encoded"
        if how.kind == "json":
            return f"the {part} is not JSON of the schema {how.schema}"
        return f"the {part} is not UTF-8"
    if step in ("filter", "sql WHERE"):
        return f"Spark SQL cannot evaluate {transform.filter}"
    kind, _, name = step.partition(" ")
    assigned = dict(transform.assignments)
    if transform.explode is not None and (kind == "explode" or name == transform.explode[0]):
        assigned[name] = transform.explode[1]
    return f"Spark SQL cannot evaluate {assigned[name]}"
