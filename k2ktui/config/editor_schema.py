"""The JSON schema of a pipeline file, for editors, made from the model and the known spellings.

It accepts whatever ``config validate`` accepts in one of its files, and so requires no key that
another layer may have; values that depend on each other are left to ``config validate``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from k2ktui.config.clusters import ClusterConfig, Section
from k2ktui.config.key_aliases import IGNORED, SPELLINGS
from k2ktui.config.model import PipelineConfig
from k2ktui.config.scalars import SCALAR, TEMPLATE
from k2ktui.config.validate import keys_of, yaml_key

# As Python reads whole numbers; minimum and maximum apply to unquoted numbers alone.
_WHOLE_NUMBER = {"type": "string", "pattern": r"^\s*[+-]?[0-9][0-9_]*(\.0*)?\s*$|\$\{"}
# A file's table of the entries of ``replication`` is a list in the file.
_ENTRIES = "Replication"


def editor_schema() -> dict[str, Any]:
    """Return the JSON schema."""
    schema = PipelineConfig.model_json_schema(by_alias=True, mode="validation")
    sections = {kind.__name__: kind for kind in _sections(PipelineConfig)}
    tables = {PipelineConfig.__name__: schema, **schema["$defs"]}
    for name in (PipelineConfig.__name__, ClusterConfig.__name__):
        # Another layer may have them, and ``coordination`` the target's addresses.
        del tables[name]["required"]
    for name, table in tables.items():
        if name in sections:
            _set_defaults(table, sections[name])
        else:
            # An alternative, in which a key without a value counts as absent.
            table["additionalProperties"] = {"type": "null"}
            for below in table["properties"].values():
                below.pop("default", None)
                below.pop("title", None)
        table["properties"] = {
            key: _or_empty(_as_written(below), required=key in table.get("required", ()))
            for key, below in table["properties"].items()
        }
        for about in (table, *table["properties"].values()):
            if "description" in about:
                # The first paragraph of a docstring is for operators; the rest, for maintainers.
                text = about["description"].partition("\n\n")[0]
                about["description"] = " ".join(text.replace("`", "").split())
    entries = schema["$defs"][_ENTRIES]
    whole = schema["properties"]["replication"]
    schema["properties"]["replication"] = {
        **{key: text for key, text in whole.items() if key == "description"},
        "type": ["array", "null"],
        "items": {"$ref": f"#/$defs/{_ENTRIES}"},
    }
    entries["description"] = "An entry: a source, stages if any, or a sink."
    for old, new in SPELLINGS:
        key_schema = _at(schema, schema, new)
        _add(schema, old, {**key_schema, "description": f"The same as {'.'.join(new)}."})
    for path, note in IGNORED.items():
        _add(schema, path, {"description": note})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for below in keys_of(section).values():
        if below is not None:
            yield from _sections(below)


def _set_defaults(table: dict[str, Any], section: type[Section]) -> None:
    """Set the defaults as a file spells them; pydantic has seconds and Python's objects."""
    required = {name: None for name, f in section.model_fields.items() if f.is_required()}
    spelled = section.model_construct(**required).model_dump(by_alias=True, mode="json")
    for name in section.model_fields:
        key = yaml_key(section, name)
        below = table["properties"][key]
        below.pop("default", None)
        if spelled[key] not in (None, "", {}, []) and "$ref" not in below:
            below["default"] = spelled[key]


def _as_written(schema: Any) -> Any:
    """Return the schema of a value as YAML has it, from that of its text: quoted, or a template."""
    if isinstance(schema, list):
        return [_as_written(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    about = _about(schema)
    kind = schema.get("type")
    if kind == "integer":
        rest = {key: value for key, value in schema.items() if key not in about}
        return {**about, "anyOf": [rest, _WHOLE_NUMBER]}
    if kind == "string" and ("enum" in schema or "const" in schema):
        words = schema.get("enum") or [schema["const"]]
        return {**about, "anyOf": [{"enum": words}, TEMPLATE]}
    if kind == "string" and "pattern" not in schema:
        return {**schema, **SCALAR}
    inside = {key: _as_written(schema[key]) for key in ("items", "anyOf") if key in schema}
    if isinstance(schema.get("additionalProperties"), dict):
        # A key without a value counts as absent.
        inside["additionalProperties"] = _or_empty(_as_written(schema["additionalProperties"]))
    return {**schema, **inside}


def _or_empty(schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    """Return the schema of a key that may stand in the file without a value."""
    if required or {"type": "null"} in schema.get("anyOf", ()):
        return schema
    about = _about(schema)
    rest = {key: value for key, value in schema.items() if key not in about}
    if set(rest) == {"anyOf"}:
        return {**about, "anyOf": [*rest["anyOf"], {"type": "null"}]}
    return {**about, "anyOf": [rest, {"type": "null"}]}


def _about(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("title", "description", "default") if key in schema}


def _table(schema: dict[str, Any], key_schema: dict[str, Any]) -> dict[str, Any]:
    """Return the table with ``properties`` or values that a key's schema stands for."""
    for option in (key_schema, *key_schema.get("anyOf", ())):
        if "$ref" in option:
            table: dict[str, Any] = schema["$defs"][option["$ref"].rpartition("/")[2]]
            return table
        if option.get("type") == "object":
            return dict(option)
    raise LookupError("not a table")


def _at(schema: dict[str, Any], table: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    key_schema = table.get("properties", {}).get(path[0]) or table["additionalProperties"]
    return key_schema if len(path) == 1 else _at(schema, _table(schema, key_schema), path[1:])


def _add(schema: dict[str, Any], path: tuple[str, ...], new: dict[str, Any]) -> None:
    table = schema
    for step in path[:-1]:
        empty = {"type": "object", "properties": {}, "additionalProperties": False}
        properties = table["properties"]
        if step not in properties:
            name = f"Former{step.title()}"  # not that of a section
            schema["$defs"][name] = empty
            properties[step] = _or_empty({"$ref": f"#/$defs/{name}"})
        table = _table(schema, properties[step])
    table["properties"].setdefault(path[-1], new)
